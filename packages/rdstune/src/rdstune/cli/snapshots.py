"""`rdstune snapshots`: copies in another region, and the Lambda function that makes them daily."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import exit_codes, options, progress, terminal
from mrtuner.cli.common.commands import CliCommand
from mrtuner.text_tables import aligned

if TYPE_CHECKING:
    from rdstune.fleet.snapshot_copy import Progress, Report


@click.group("snapshots")
def command() -> None:
    """Keep copies of the newest snapshots in another region.

    \b
    Examples:
      rdstune snapshots copy --from-region eu-west-1 --to-region eu-central-1
      rdstune snapshots template > snapshots.yaml
    """


@command.command("copy", cls=CliCommand, short_help="Copy the newest snapshot of each instance.")
@click.option(
    "--from-region", "source", required=True, metavar="REGION", help="Region of the snapshots."
)
@click.option(
    "--to-region", "destination", required=True, metavar="REGION", help="Region to copy to."
)
@click.option(
    "--kms-key", metavar="KEY",
    help="Key in the destination region that encrypts the copies: ID, ARN or alias. Required for "
    "encrypted snapshots.",
)  # fmt: skip
@click.option(
    "--keep", type=click.IntRange(1), metavar="N",
    help="Keep the newest N copies of each instance and delete the older ones made by this "
    "command.  [default: delete nothing]",
)  # fmt: skip
@click.option(
    "--instance", "instances", multiple=True, metavar="ID",
    help="Copy snapshots of this instance only; may be repeated.  [default: all]",
)  # fmt: skip
@click.option(
    "--wait/--no-wait", default=True, help="Wait until the copies are complete.  [default: wait]"
)
@options.time_option("--poll", "Time between two checks of the copies.", default="30s")
@click.option("--profile", metavar="NAME", help="AWS profile to use.  [default: AWS_PROFILE]")
@options.json_option
@click.pass_context
def copy(
    ctx: click.Context,
    /,
    source: str,
    destination: str,
    kms_key: str | None,
    keep: int | None,
    instances: tuple[str, ...],
    wait: bool,
    poll: float,
    profile: str | None,
    as_json: bool,
) -> None:
    """Copy the newest snapshot of each instance, automated or manual, to another region.

    \b
    Examples:
      rdstune snapshots copy --from-region eu-west-1 --to-region eu-central-1
      rdstune snapshots copy --from-region eu-west-1 --to-region eu-central-1 \\
          --kms-key alias/copies --keep 7
      rdstune snapshots copy --from-region eu-west-1 --to-region eu-central-1 \\
          --instance shop --no-wait

    Run it as often as you like, even concurrently: an existing copy is not made again. If one
    snapshot fails, the others are still copied, and the exit code is 1.
    """
    from rdstune.fleet.snapshot_copy import copy_snapshots
    from rdstune.fleet.snapshots import Job

    job = Job(
        source=source,
        destination=destination,
        kms_key=kms_key,
        keep=keep,
        instances=frozenset(instances),
        wait=wait,
    )
    with _shown() as tell:
        report = copy_snapshots(job, profile=profile, poll=poll, tell=tell)
    if as_json:
        terminal.document(report.to_dict())
    else:
        _print(report)
    if not report.ok:
        ctx.exit(exit_codes.FAILED)


@command.command(
    "template", cls=CliCommand, short_help="A Lambda function that copies on schedule."
)
@options.output_option
def template(output: Path | None) -> None:
    """Print the CloudFormation (SAM) template of a Lambda function that copies on a schedule.

    \b
    Examples:
      rdstune snapshots template -o snapshots.yaml
      pip install --target package ./packages/mrtuner ./packages/rdstune
      sam deploy --guided --template-file snapshots.yaml --region eu-central-1

    It calls the same function as `rdstune snapshots copy --no-wait`.
    """
    from rdstune.lambda_handler import template as text

    terminal.deliver(text(), output)


def _print(report: Report) -> None:
    terminal.print_lines(_lines(report))
    for copied in report.copies:
        if copied.error:
            terminal.print_error(f"{copied.source}: {copied.error}", copied.hint)
    for failure in report.failures:
        terminal.print_error(failure, None)
    for note in report.notes:
        terminal.print_note(f"note: {note}")


def _lines(report: Report) -> Iterator[str]:
    yield from aligned(
        (one.instance, one.outcome, f"{one.source} -> {one.copy}") for one in report.copies
    )
    for name in report.deleted:
        yield f"deleted  {name}"


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """Show how far the copies are, while the block lasts."""
    with progress.bar() as shown:

        def tell(copies: Progress) -> None:
            part = copies.done + sum(copies.moving.values()) / 100
            said = f"{copies.done} of {copies.of} done, {len(copies.moving)} under way"
            shown.move(part, copies.of or 1, said)
            shown.line(said)

        yield tell
