"""`mrtuner bench compare`: two variants, one cell, no plan to write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.answers.proof.loads import threads
from mrtuner.cli.bench import running
from mrtuner.cli.common import options
from mrtuner.cli.prove import SCRIPTS

if TYPE_CHECKING:
    from mrtuner.bench.plan.model import Plan, Variant, Workload

#: Sides that need no file.
_WORDS: Final[dict[str, dict[str, str]]] = {
    "default": {},
    "bare": {},
    "tcp": {"connect": "tcp"},
    "container": {"network": "host"},
    "bridge": {"network": "bridge", "connect": "tcp"},
    "published": {"network": "published", "connect": "tcp"},
    "slirp": {"network": "slirp", "connect": "tcp"},
    "overlay": {"storage": "overlay"},
    "layer": {"storage": "layer"},
}


@options.command("compare")
@click.option("--a", "first", required=True, metavar="SIDE", help="Baseline variant.")
@click.option("--b", "second", required=True, metavar="SIDE", help="Candidate variant.")
@click.option(
    "--load", "workload", default="tpcb", show_default=True, metavar="NAME",
    help=f"One of {', '.join(SCRIPTS)}, or a file of SQL for pgbench.",
)  # fmt: skip
@click.option(
    "--scale", type=int, default=100, show_default=True, help="pgbench scale factor, 15 MB each."
)
@click.option(
    "--clients", type=int, default=8, show_default=True, help="Number of concurrent sessions."
)
@click.option(
    "--rate",
    default="",
    metavar="TPS",
    help="Transactions per second.  [default: as many as possible]",
)
@click.option(
    "--seconds", type=int, default=60, show_default=True, help="Length of each run in seconds."
)
@click.option(
    "--warmup",
    type=int,
    help="Warm-up before each run, in seconds.  [default: 15, or a tenth of a run]",
)
@click.option("--blocks", type=int, default=10, show_default=True, help="Number of pairs of runs.")
@click.option(
    "--calibrate", type=int, default=0, show_default=True,
    help="Number of further pairs that measure A twice.",
)  # fmt: skip
@options.share_option("--delta", "Smallest difference that matters.", default="3%")
@click.option("--seed", type=int, help="Seed of the random order, to repeat an earlier run.")
@running.output_option
@running.server_options
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
    """Compare two configurations on temporary servers.

    \b
    Examples:
      mrtuner bench compare --a a.conf --b b.conf
      mrtuner bench compare --a default --b b.conf --load select --scale 50
      mrtuner bench compare --a a.conf --b b.conf --load report.sql --delta 5%
      mrtuner bench compare --a bare --b container

    A side is a file of settings in the form of postgresql.conf (data directory, addresses,
    archive, standbys and log are ignored), or a word: default or bare for none, tcp, container (the
    host's network), bridge, published, slirp, overlay, layer. They are explained in the reference
    of benchmark plans.
    """
    running.begin(ctx, _plan(given), output, server_bin, force, as_json)


def _plan(given: dict[str, Any]) -> Plan:
    from mrtuner.bench.plan.model import Plan

    same = ("blocks", "calibrate", "seconds", "warmup", "delta")
    seed = {} if given["seed"] is None else {"seed": given["seed"]}
    return Plan(
        name="compare",
        workloads=(_workload(given["workload"]),),
        variants=sides(given["first"], given["second"]),
        scales=(given["scale"],),
        clients=(given["clients"],),
        rates=(given["rate"],),
        threads=threads(given["clients"]),
        **{name: given[name] for name in same},
        **seed,
    )


def _workload(name: str) -> Workload:
    from mrtuner.bench.plan.model import Script, Workload
    from mrtuner.bench.plan.toml import text_of

    builtin = next((one for one in SCRIPTS if one == name), None)
    if builtin is not None:
        return Workload(name=name, builtin=builtin)
    path = Path(name)
    return Workload(name="script", scripts=(Script(name=path.name, text=text_of(path)),))


def sides(first: str, second: str) -> tuple[Variant, Variant]:
    """Return both variants. Both use TCP if one must, so that connections are not compared too."""
    words = [_WORDS.get(side, {}) for side in (first, second)]
    apart = any(word.get("network") and "connect" in word for word in words)
    over = {"connect": "tcp"} if apart else {}
    return _variant("a", first, over), _variant("b", second, over)


def _variant(name: str, side: str, over: dict[str, Any]) -> Variant:
    from mrtuner.bench.plan.model import Variant
    from mrtuner.bench.plan.toml import text_of

    known: dict[str, Any] | None = _WORDS.get(side)
    if known is None:
        return Variant(name=name, conf=text_of(Path(side)), **over)
    return Variant(name=name if side == "default" else side, **known | over)
