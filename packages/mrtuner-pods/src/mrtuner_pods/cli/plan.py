"""`mrtuner pods plan`: from a load to pods, workers, connections, CPU and memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.common import options, prerequisites, targets, terminal
from mrtuner.errors import UsageError
from mrtuner_pods.cli import manifest, observing
from mrtuner_pods.formats import NAMES
from mrtuner_pods.planning.inputs import PLAN_INPUTS

if TYPE_CHECKING:
    from mrtuner_pods.planning.document import PodsPlanDocument
    from mrtuner_pods.planning.running_now import Present

_FORMATS = ("text", "json", *NAMES)


@options.command("plan")
@click.argument("manifests", nargs=-1, metavar="[MANIFEST]...")
@click.option(
    "--deployment",
    metavar="NAME",
    help="Workload of the manifest to plan, if there are several.",
)
@options.stacked(*(options.input_option(name, PLAN_INPUTS[name]) for name in PLAN_INPUTS))
@options.path_option(
    "--samples",
    "FILE",
    "File of measured service times, one per line with its unit, instead of a mean.",
)
@click.option(
    "--measure-logins",
    type=targets.ServerArgument(),
    metavar="DSN",
    help="Measure for two seconds how many logins this server can take, instead of --logins.",
)
@observing.observing_options
@options.html_option("Write the plan as one HTML page with its picture.")
@options.path_option(
    "--picture", "FILE", "Draw the p95 wait by density and routing: FILE.svg or FILE.png."
)
@options.format_option(_FORMATS)
@options.json_option
def command(
    manifests: tuple[str, ...], deployment: str | None, samples: Path | None,
    measure_logins: str | None, html: Path | None, picture: Path | None, form: str | None,
    as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Plan pods, workers, threads, pools, CPU and memory for a load, with the binding stage.

    \b
    Examples:
      mrtuner pods plan --rate 400/s --service-time 27ms --wait-p95 20ms
      mrtuner pods plan --rate 24000/min --service-time 27ms --now 4x4 --html plan.html
      mrtuner pods plan --rate 400/s --samples times.txt --routing least-connections
      mrtuner pods plan --rate 400/s --service-time 27ms --server puma --cpu-time 9ms \\
          --database-time 12ms --database-cpus 8 --logins 200/s
      mrtuner pods plan --rate 400/s --service-time 27ms --format kubernetes > patch.yaml
      mrtuner pods plan web.yaml hpa.yaml --rate 400/s --service-time 27ms
      mrtuner pods plan web.yaml --prometheus http://prometheus:9090 --metric 'NAME{job="web"}'
      mrtuner pods plan --prometheus http://web:9090/metrics --rate 400/s --over 60s
      mrtuner pods plan --rate 400/s --service-time 27ms --pgbouncer postgresql://stats@db:6432
      mrtuner pods plan web.yaml --rate 400/s --samples times.txt --request-start access.log

    MANIFEST is a file of Kubernetes objects, or - for standard input: the current deployment, which
    is compared with the plan and which --format kubernetes patches. Options override figures from
    the manifest, Prometheus and the other sources; the output names the source of each figure.

    The simulation covers waiting for a worker, the global lock, CPU quota, the pool, the pooler and
    the database. Requests arrive whether or not earlier ones have been answered. Times need a unit
    (27ms, 2min), rates a period (400/s). If a stage cannot carry the load, the command refuses and
    says what it needs. Nothing is changed; only servers that options name are contacted.
    """
    form = options.one_format(form, as_json)
    prerequisites.require(*(["matplotlib"] if picture else []), page=html)
    from mrtuner_pods.planning import plan
    from mrtuner_pods.planning.document import plan_document
    from mrtuner_pods.planning.samples import read

    seen = observing.observed({name: given.pop(name) for name in observing.NAMES}, given["rate"])
    now = _present(manifests, deployment, given["server"])
    if measure_logins is not None:
        given["logins"] = _logins(measure_logins, given["logins"])
    times = () if samples is None else read(samples)
    made = plan(times, observed=seen, present=now, **given)
    told = plan_document(made)
    if html is not None:
        from mrtuner_pods.planning.page import page

        terminal.save_and_tell(html, page(told))
    if picture is not None:
        _draw(picture, told)
    if form in NAMES:
        click.echo(made.render(form), nl=False)
        return
    from mrtuner_pods.planning.text import lines

    terminal.answer(told, lines(told), form == "json")


def _present(
    manifests: tuple[str, ...], deployment: str | None, server: str | None
) -> Present | None:
    """The workload as the manifests describe it; None without manifests."""
    if not manifests:
        if deployment is not None:
            raise UsageError("--deployment is for a manifest", "Give the manifest as well.")
        return None
    from mrtuner_pods.connections.formats import resources
    from mrtuner_pods.planning.running_now import present
    from mrtuner_pods.planning.servers import Server

    read = [one for each in manifest.read_all(manifests) for one in resources(each.text, each.name)]
    return present(read, deployment, None if server is None else Server(server))


def _logins(dsn: str, given: float | None) -> float:
    from mrtuner_pods.planning.logins import SECONDS, measured

    if given is not None:
        raise UsageError("--logins and --measure-logins are both given", "Omit one of them.")
    options.warn_of_password(dsn)
    terminal.print_note(f"counting logins for {SECONDS:g} s")
    return measured(dsn)


def _draw(path: Path, told: PodsPlanDocument) -> None:
    """Write the picture in the format that the file's name ends with."""
    from mrtuner_pods.planning import page

    if path.suffix not in {".svg", ".png"}:
        raise UsageError(f"cannot draw {path.name}", "Name a file that ends in .svg or .png.")
    page.save(told, path)
    terminal.print_note(f"written: {path}")
