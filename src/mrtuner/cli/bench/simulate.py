"""`mrtuner bench simulate`: how often each way of benchmarking would be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.stats.simulation import MethodResult


@options.command("simulate")
@click.option(
    "--pairs", default="3,5,7,10,20", show_default=True, metavar="N,N…",
    help="Number of runs of each variant.",
)  # fmt: skip
@options.share_option("--noise", "Standard deviation of a single run.", default="2%")
@options.share_option(
    "--drift", "Standard deviation of the machine's drift from run to run.", default="5%"
)
@options.share_option(
    "--effect", "Difference to simulate, to see how often it is detected.", default="0%"
)
@click.option(
    "--repeats", type=int, default=1500, show_default=True, help="Number of simulated benchmarks."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random numbers.")
@options.json_option
def command(
    pairs: str, noise: float, drift: float, effect: float, repeats: int, seed: int, as_json: bool
) -> None:
    """Simulate a machine that drifts: how often is a false difference reported?

    \b
    Examples:
      mrtuner bench simulate
      mrtuner bench simulate --drift 0%
      mrtuner bench simulate --pairs 10 --effect 5%

    Nothing is measured. The result shows why `bench` and `prove` run in blocks and use a paired
    t-test.
    """
    from mrtuner.stats.simulation import SimulatedMachine, simulate

    prerequisites.require("scipy")
    machine = SimulatedMachine(noise=noise, drift=drift)
    found = [
        outcome
        for number in _numbers(pairs)
        for outcome in simulate(number, machine, effect=effect, repeats=repeats, seed=seed)
    ]
    if as_json:
        from mrtuner.bench.document import SimulatedWay, SimulationDocument
        from mrtuner.documents import convert

        outcomes = [convert(outcome, SimulatedWay) for outcome in found]
        terminal.document(
            SimulationDocument(
                noise=noise, drift=drift, effect=effect, repeats=repeats, seed=seed,
                outcomes=outcomes,
            )
        )  # fmt: skip
        return
    _tell(found, effect)


def _tell(found: list[MethodResult], effect: float) -> None:
    what = f"a simulated difference of {effect * 100:g} %" if effect else "no difference"
    terminal.print_line(
        f"{what}: share of benchmarks that report one, and the interval's half width"
    )
    for number in dict.fromkeys(outcome.pairs for outcome in found):
        terminal.print_line()
        terminal.print_line(f"{number} pairs")
        for one in found:
            if one.pairs == number:
                terminal.print_line(
                    f"  {one.way:<30} {one.called:>4.0%}   ± {one.half_width * 100:.1f} %"
                )


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--pairs {text!r} is not a list of numbers", "Write them as 3,5,10."
        ) from None
