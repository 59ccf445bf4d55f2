"""`mrtuner demo`: the main job from start to end on a server of our own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli import change, needs, options, proving, terminal

if TYPE_CHECKING:
    from mrtuner.bench.record import Plan
    from mrtuner.postgres.cluster import Cluster

_YOURS: Final = "postgresql://USER@HOST/DATABASE"
#: The whole demo takes 4 to 5 minutes on two busy CPUs: 2 x (3 + 7) runs of 2 + 7 s, with some
#: 4 s each to restart, to copy 300 MB and to checkpoint.
_SCALE: Final = 20
_BLOCKS: Final = 7
_CALIBRATE: Final = 3
_SECONDS: Final = 7
_WARMUP: Final = 2
_CLIENTS: Final = 8


@options.command("demo")
@options.server_bin_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    default=Path(), help="Put report.html and report.json there.  [default: here]",
)  # fmt: skip
@click.option("--seed", type=int, help="Repeat the order of an earlier demo.")
@options.json_option
def command(server_bin: Path | None, output: Path, seed: int | None, as_json: bool) -> None:
    """Tune a fresh PostgreSQL of our own, measure the gain, leave a report; about 5 minutes.

    \b
    Examples:
      mrtuner demo
      mrtuner demo -o /tmp/demo
      mrtuner demo --server-bin /usr/lib/postgresql/17/bin

    Nothing of yours is touched: the server lives in a scratch directory and goes at the end.
    """
    needs.packages("scipy", "jinja2", "matplotlib")
    terminal.make_directory(output)
    with (
        terminal.gentle_end(),
        proving.own_server(server_bin) as cluster,
        TemporaryDirectory(prefix="mrtuner-journal-") as journal,
    ):
        proof = _measured(cluster, Path(journal), _plan(seed))
    if as_json:
        terminal.document(proof.document())
    else:
        for line in proof.words():
            click.echo(line)
    _save(proof, output)
    if not as_json:
        _what_next(output)


def _plan(seed: int | None) -> Plan:
    """A short proof. Nothing is repeated on a busy machine: the report tells how busy it was."""
    from mrtuner.bench.pgbench import Load
    from mrtuner.bench.record import Plan

    load = Load(scale=_SCALE, clients=_CLIENTS, threads=proving.threads(_CLIENTS), seconds=_SECONDS)
    order: dict[str, Any] = {} if seed is None else {"seed": seed}
    return Plan(
        load=load, warmup=_WARMUP, blocks=_BLOCKS, calibrate=_CALIBRATE,
        steal_limit=1.0, foreign_limit=1.0, **order,
    )  # fmt: skip


def _measured(cluster: Cluster, journal: Path, plan: Plan) -> proving.Proof:
    """Read, advise, apply, restart, verify, measure both sides, put back."""
    from mrtuner.bench.proof import seconds_expected
    from mrtuner.journal.store import Journal
    from mrtuner.tuning import tune
    from mrtuner.tuning.apply import Restart

    tuning = tune(cluster.dsn(), workload="oltp")
    terminal.talk(tuning.title)
    terminal.talk(f"{len(tuning.changes)} settings to change; the report says why")
    terminal.talk(
        f"measuring both in {plan.blocks} pairs and {plan.calibrate} for calibration: "
        f"about {proving.minutes(seconds_expected(2, plan))}"
    )
    with Journal(journal) as book:
        return proving.measure(
            cluster.dsn(),
            tuning,
            change.wanted(tuning),
            plan,
            book=book,
            restart=Restart(run=cluster.restart, start=cluster.start),
            program=cluster.binaries.program("pgbench"),
        )


def _save(proof: proving.Proof, output: Path) -> None:
    terminal.save(output / "report.json", terminal.as_json(proof.document()))
    terminal.save(output / "report.html", proof.page(change.next_commands(_YOURS, "never")))


def _what_next(output: Path) -> None:
    click.echo(f"\nwritten: {output / 'report.html'}, {output / 'report.json'}")
    click.echo("\nthe same on a server of yours:")
    for purpose, line in change.next_commands(_YOURS, "never"):
        click.echo(f"  {line}  # {purpose}")
