"""`rdstune lint`: what is wrong with a parameter group, in a file or in AWS."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mrtuner.cli.common import check_option, options, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.errors import UsageError
from mrtuner.facts import Missing
from mrtuner.wording import enumerated, plural

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.present.text import Look
    from rdstune.group.read import WrittenGroup
    from rdstune.lint.check import Finding

FORMATS: Final = ("text", "json", "sarif")
_STYLES: Final = {"error": "error", "warning": "warning", "info": "quiet"}


@options.command("lint")
@click.argument("targets", nargs=-1, required=True, metavar="GROUP|FILE...")
@click.option(
    "--family",
    metavar="FAMILY",
    help="Parameter group family, if the file does not name it, such as postgres17.",
)
@click.option(
    "--class", "class_names", multiple=True, metavar="CLASS",
    help="Check the values on this class only; may be repeated.  [default: every class]",
)  # fmt: skip
@click.option("--smallest", metavar="CLASS", help="Check the values on this class and larger ones.")
@click.option("--cluster", is_flag=True, help="Treat GROUP as a DB cluster parameter group.")
@check_option.checks("there is an error or a warning")
@account_options
@options.format_option(FORMATS)
@options.json_option
def command(
    targets: tuple[str, ...],
    family: str | None,
    class_names: tuple[str, ...],
    smallest: str | None,
    cluster: bool,
    check: check_option.Check,
    account: Account,
    form: str | None,
    as_json: bool,
) -> None:
    """Look for mistakes in a parameter group: units, formulas, bounds, methods, memory.

    \b
    Examples:
      rdstune lint --check *.tf                      in a pipeline
      rdstune lint main.tf                           aws_db_parameter_group in Terraform
      rdstune lint template.yaml                     AWS::RDS::DBParameterGroup
      rdstune lint app-pg17                          a group in AWS
      rdstune lint app-pg17 --class db.r6g.xlarge    on the class that uses it
      aws rds describe-db-parameters --db-parameter-group-name app-pg17 \\
          | rdstune lint - --family postgres17

    With --format sarif, code review tools show each finding beside its line. With --check, a
    Terraform file need not have a parameter group.

    Every value is checked on the classes of the instances in the file, else on every class of the
    family's engine. --check exits with 3 if there is an error or a warning, for use in a pipeline.
    """
    wanted = options.one_format(form, as_json)
    groups = [
        group
        for target in targets
        for group in _groups(target, cluster=cluster, account=account, many=check.wanted)
    ]
    found = [(group, _findings(group, family, class_names, smallest)) for group in groups]
    if wanted == "json":
        from rdstune.lint.document import lint_document

        terminal.document(lint_document(found))
    elif wanted == "sarif":
        from rdstune.lint.sarif import sarif

        terminal.document(sarif(found))
    else:
        _print(found)
    every = [one for _, findings in found for one in findings]
    check.conclude(
        found=any(one.to_be_mended for one in every),
        unjudged=[
            Missing(one.location, one.what, hint=one.remedy) for one in every if not one.judged
        ],
    )


def _groups(target: str, *, cluster: bool, account: Account, many: bool) -> Sequence[WrittenGroup]:
    """Return a target's groups. Of `many` files in a pipeline, Terraform's need not have one."""
    from mrtuner.aws.session import client
    from mrtuner.files import read_stream
    from rdstune.group import read

    if target == "-":
        text = read_stream(sys.stdin.buffer, "standard input")
        return read.read_text(text, suffix=_suffix(text), source="standard input")
    if read.is_file(target):
        found = read.read(Path(target), may_be_empty=many)
        if not found:
            terminal.print_note(f"no parameter group in {target}")
        return found
    return [read.read_live(client("rds", account), target, cluster=cluster)]


def _suffix(text: str) -> str:
    """Guess the format of a text by its look: standard input has no name."""
    if not text.strip():
        raise UsageError("standard input is empty", "Name a file or a group instead of -.")
    if text.lstrip()[0] in "{[":
        return ".json"
    return ".tf" if 'resource "' in text or 'module "' in text else ".yaml"


def _findings(
    group: WrittenGroup, family: str | None, class_names: Sequence[str], smallest: str | None
) -> tuple[Finding, ...]:
    from mrtuner.catalog.classes import instance_class
    from rdstune.lint.check import lint

    return lint(
        group,
        family=family,
        classes=[instance_class(name) for name in class_names] or None,
        smallest=instance_class(smallest) if smallest else None,
    )


def _print(found: Sequence[tuple[WrittenGroup, tuple[Finding, ...]]]) -> None:
    look = terminal.look(sys.stdout)
    every = [finding for _, findings in found for finding in findings]
    for finding in sorted(every, key=lambda one: one.judged):
        terminal.print_lines(_lines(finding, look))
    parameters = sum(len(group.entries) for group, _ in found)
    terminal.print_note(f"{_counted(every)} in {plural(parameters, 'parameter')}")


def _lines(finding: Finding, look: Look) -> Iterator[str]:
    """``main.tf:12: error: shared_buffers: …`` and below it why and what to write."""
    paint = look.paint or (lambda text, _style: text)
    kind = finding.severity if finding.judged else "not checked"
    severity = paint(f"{kind}:", _STYLES[finding.severity])
    yield f"{finding.location}: {severity} {finding.told}"
    if finding.why:
        yield f"    why: {finding.why}"
    if finding.remedy:
        yield f"    remedy: {finding.remedy}"


def _counted(findings: Sequence[Finding]) -> str:
    """``1 error and 2 warnings``; nothing to fix only where everything was checked."""
    counts = Counter(one.severity if one.judged else "not checked" for one in findings)
    words = [plural(counts[kind], kind) for kind in ("error", "warning") if counts[kind]]
    if counts["not checked"]:
        words.append(f"{counts['not checked']:,} not checked")
    return enumerated(words) or "nothing to fix"
