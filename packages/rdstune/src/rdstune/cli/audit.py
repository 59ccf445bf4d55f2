"""`rdstune audit`: every instance of one region, several or all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from mrtuner.cli.common import check_option, exit_codes, options, prerequisites, progress, terminal
from mrtuner.errors import UsageError
from mrtuner.text_tables import aligned
from mrtuner.wording import not_judged, plural

if TYPE_CHECKING:
    from mrtuner.facts import Missing
    from rdstune.fleet.audit import AuditRow, Event, Failure, Surveyed

_HEADER: Final = ("region", "instance", "class", "group", "memory", "drift", "findings")


@options.command("audit")
@click.option("--all-regions", is_flag=True, help="Audit every region that the account may use.")
@click.option(
    "--region", "regions", multiple=True, metavar="REGION",
    help="Audit this region; may be repeated.  [default: from AWS's configuration]",
)  # fmt: skip
@options.declared_option(
    "workload",
    default="mixed",
    help="Workload of the servers; drift is measured against the advice for it.  [default: mixed]",
)
@check_option.checks("something needs attention")
@click.option("--profile", metavar="NAME", help="AWS profile to use.  [default: AWS_PROFILE]")
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    all_regions: bool,
    regions: tuple[str, ...],
    workload: str,
    check: check_option.Check,
    profile: str | None,
    as_json: bool,
) -> None:
    """List every PostgreSQL instance: class, group, pending changes, drift from advice, memory.

    \b
    Examples:
      rdstune audit                                  the region from AWS's configuration
      rdstune audit --all-regions
      rdstune audit --region eu-west-1 --region eu-central-1 --workload oltp
      rdstune audit --all-regions --check --json > fleet.json

    Nothing is changed, and no connection is made to any instance. A region that fails is reported,
    the others are still listed, and the exit code is 1. Memory is the worst case, with all
    connections active, as a share of the class's memory, which is estimated.
    """
    from mrtuner.inputs import Workload
    from rdstune.fleet.audit import audit

    prerequisites.require("boto3")
    asked = _regions(all_regions, regions, profile)
    found = Fleet()
    with _shown(len(asked)) as tell:
        for event in audit(asked, profile=profile, workload=Workload(workload)):
            found.add(event)
            tell(event)
    found.refuse_if_nothing_answered()
    if as_json:
        from rdstune.fleet.document import audit_document

        terminal.document(audit_document(found.ordered, found.surveyed, found.failures))
    else:
        _print(found)
    if found.failures:
        ctx.exit(exit_codes.FAILED)
    check.conclude(found=any(row.pressing for row in found.rows), unjudged=found.unjudged)


@dataclass(slots=True)
class Fleet:
    """The results of an audit: one row per instance, the regions surveyed, and failures."""

    rows: list[AuditRow] = field(default_factory=list)
    surveyed: list[Surveyed] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Add an event to the rows, to the regions surveyed or to the failures."""
        from rdstune.fleet.audit import AuditRow, Surveyed

        if isinstance(event, AuditRow):
            self.rows.append(event)
        elif isinstance(event, Surveyed):
            self.surveyed.append(event)
        else:
            self.failures.append(event)

    def refuse_if_nothing_answered(self) -> None:
        """Raise the first error if every region failed."""
        if self.failures and not self.surveyed and not self.rows:
            raise self.failures[0].error

    @property
    def ordered(self) -> list[AuditRow]:
        return sorted(self.rows, key=lambda row: (row.region, row.instance))

    @property
    def unjudged(self) -> tuple[Missing, ...]:
        """The instances that could not be judged, by region and name."""
        return tuple(one for row in self.ordered for one in row.unjudged)

    @property
    def others(self) -> int:
        return sum(done.others for done in self.surveyed)


def _regions(all_regions: bool, regions: Sequence[str], profile: str | None) -> tuple[str, ...]:
    from mrtuner.aws.regions import default_region, enabled_regions

    if all_regions and regions:
        raise UsageError("--all-regions and --region cannot be used together", "Use one of them.")
    if all_regions:
        return enabled_regions(profile)
    return tuple(dict.fromkeys(regions)) or (default_region(profile),)


def _print(found: Fleet) -> None:
    for one in found.unjudged:
        terminal.print_line(not_judged(one.name, one.why, one.supply))
    if found.ordered:
        terminal.print_lines(aligned([_HEADER, *map(_cells, found.ordered)]))
    terminal.print_lines(_summary(found))
    for failure in found.failures:
        message = failure.error.message
        said = message if failure.region in message else f"{failure.region}: {message}"
        terminal.print_error(said, failure.error.hint)


def _cells(row: AuditRow) -> tuple[str, ...]:
    judged = row.assessment
    return (
        row.region,
        row.instance,
        row.class_name,
        row.group,
        "?" if judged.share is None else f"{judged.share:.0%}",
        "?" if judged.unknown else str(len(judged.drift)),
        ", ".join(finding for finding in row.findings if finding not in _SHOWN_ELSEWHERE),
    )


#: Findings that have their own columns.
_SHOWN_ELSEWHERE: Final = frozenset({"drift", "default-group"})


def _summary(found: Fleet) -> Iterator[str]:
    yield ""
    regions = len({row.region for row in found.rows} | {done.region for done in found.surveyed})
    others = f"; {found.others} of other engines omitted" if found.others else ""
    yield f"{plural(len(found.rows), 'instance')} in {plural(regions, 'region')}{others}"
    counts = Counter[str](finding for row in found.rows for finding in row.findings)
    for finding, text in _MEANING.items():
        if counts[finding]:
            yield f"{counts[finding]:>7}  {finding}: {text}"
    reasons = Counter(row.assessment.unknown or row.note for row in found.rows)
    for reason, count in reasons.most_common():
        if reason:
            yield f"         {count} x {reason}"


#: In the order of AuditFinding, the worst first.
_MEANING: Final = {
    "incompatible-parameters": "does not start with its group",
    "memory": "the worst case exceeds 90% of memory",
    "out-of-range": "a value that the server would reject on this class",
    "failed-to-apply": "AWS could not apply the group",
    "pending-reboot": "runs values that differ from its group's until a reboot",
    "pending-changes": "changes to the instance wait for the maintenance window",
    "unknown": "could not be assessed",
    "drift": "our advice is very different: rdstune diff INSTANCE",
    "default-group": "AWS's own group, which cannot be changed",
}


@contextmanager
def _shown(regions: int) -> Iterator[Callable[[Event], None]]:
    """Show how many regions have answered, while the block lasts."""
    from rdstune.fleet.audit import AuditRow

    with progress.bar() as shown:
        done = instances = 0

        def tell(event: Event) -> None:
            nonlocal done, instances
            if isinstance(event, AuditRow):
                instances += 1
            else:
                done += 1
                told = f"{event.region}; {plural(instances, 'instance')} so far"
                shown.line(f"[{done}/{regions}] {told}")
            shown.move(done, regions, plural(instances, "instance"))

        yield tell
