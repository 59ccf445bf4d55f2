"""`mrtuner bench compare`: two variants, one cell, no plan to write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli import options, proving
from mrtuner.cli.bench import running

if TYPE_CHECKING:
    from mrtuner.bench.grid.plan import GridPlan, Variant, Workload

_BUILTIN: Final = ("tpcb", "select", "simple-update")


@options.command("compare")
@click.option("--a", "first", required=True, metavar="FILE", help="Settings of the one to beat.")
@click.option("--b", "second", required=True, metavar="FILE", help="Settings of the other.")
@click.option(
    "--workload", default="tpcb", show_default=True, metavar="NAME",
    help=f"One of {', '.join(_BUILTIN)}, or a file of SQL for pgbench.",
)  # fmt: skip
@click.option("--scale", type=int, default=100, show_default=True, help="pgbench's: 15 MB each.")
@click.option("--clients", type=int, default=8, show_default=True, help="Sessions at once.")
@click.option("--rate", default="", metavar="TPS", help="Transactions a second.  [default: all]")
@click.option("--seconds", type=int, default=60, show_default=True, help="Length of each run.")
@click.option("--warmup", type=int, help="Seconds.  [default: 15, or a tenth of a run]")
@click.option("--blocks", type=int, default=10, show_default=True, help="Pairs of runs.")
@click.option(
    "--calibrate", type=int, default=0, show_default=True,
    help="Further pairs that measure A twice.",
)  # fmt: skip
@click.option(
    "--delta", type=options.Share(), default="3%", show_default=True, metavar="SHARE",
    help="The smallest difference that matters.",
)  # fmt: skip
@click.option("--seed", type=int, help="Repeat the order of an earlier run.")
@running.output_option
@options.server_bin_option
@running.force_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    output: Path | None,
    server_bin: Path | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare two sets of settings on a server of our own.

    \b
    Examples:
      mrtuner bench compare --a a.conf --b b.conf
      mrtuner bench compare --a default --b b.conf --workload select --scale 50
      mrtuner bench compare --a a.conf --b b.conf --workload report.sql --delta 5%

    A file holds settings as postgresql.conf does; `default` stands for none. Where the server
    lies and listens is not taken from it.
    """
    running.begin(ctx, _plan(given), output, server_bin, force, as_json)


def _plan(given: dict[str, Any]) -> GridPlan:
    from mrtuner.bench.grid.plan import GridPlan

    same = ("blocks", "calibrate", "seconds", "warmup", "delta")
    seed = {} if given["seed"] is None else {"seed": given["seed"]}
    return GridPlan(
        name="compare",
        workloads=(_workload(given["workload"]),),
        variants=(_variant("a", given["first"]), _variant("b", given["second"])),
        scales=(given["scale"],),
        clients=(given["clients"],),
        rates=(given["rate"],),
        threads=proving.threads(given["clients"]),
        **{name: given[name] for name in same},
        **seed,
    )


def _workload(name: str) -> Workload:
    from mrtuner.bench.grid.plan import Script, Workload
    from mrtuner.bench.grid.toml import text_of

    if name in _BUILTIN:
        return Workload(name=name, builtin=name)
    path = Path(name)
    return Workload(name="script", scripts=(Script(name=path.name, text=text_of(path)),))


def _variant(name: str, file: str) -> Variant:
    from mrtuner.bench.grid.plan import Variant
    from mrtuner.bench.grid.toml import text_of

    return Variant(name=name, conf=None if file == "default" else text_of(Path(file)))
