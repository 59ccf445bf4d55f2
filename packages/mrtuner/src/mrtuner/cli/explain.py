"""`mrtuner explain`: what a parameter is, how its value is chosen, and what is known about it."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from mrtuner.cli.common import options, terminal
from mrtuner.errors import BadValue
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mrtuner.catalog import Parameter
    from mrtuner.checks.catalogue import Check
    from mrtuner.present.text import Look
    from mrtuner.tuning.verdict import Rule

_NO_RULE: Final = "MrTuner has no rule for it and never changes it."


@options.command("explain")
@click.argument("name", metavar="[PARAMETER|CHECK]", required=False)
@click.option(
    "--pg", "major", type=int, metavar="MAJOR",
    help="PostgreSQL version.  [default: as tune assumes, or the newest that has it]",
)  # fmt: skip
@options.json_option
def command(name: str | None, major: int | None, as_json: bool) -> None:
    """Explain a parameter, and how its value is chosen; or a check, and how it judges.

    \b
    Examples:
      mrtuner explain                     every parameter with a rule and every check, by area
      mrtuner explain work_mem
      mrtuner explain io_method --pg 18
      mrtuner explain work_mem --json
      mrtuner explain lock-queue          a check of mrtuner check
    """
    if name is not None and (check := _checks().get(name)) is not None:
        _explain_check(check, as_json)
        return
    from mrtuner.tuning import explain
    from mrtuner.tuning.gather import NEWEST

    try:
        parameter = None if name is None else explain.known_parameter(name, major)
    except BadValue as error:
        alike = enumerated(get_close_matches(name or "", _checks(), n=2), "or")
        hint = f"Did you mean the check {alike}?" if alike else error.hint
        raise BadValue(error.message, hint) from None
    major = major or NEWEST
    if as_json:
        terminal.document(
            explain.list_document(major)
            if parameter is None
            else explain.explain_document(parameter)
        )
        return
    look = terminal.look(sys.stdout)
    terminal.print_lines(_contents(major, look) if parameter is None else _page(parameter, look))


def _checks() -> dict[str, Check]:
    from mrtuner.checks.catalogue import checks

    return checks()


def _explain_check(check: Check, as_json: bool) -> None:
    if as_json:
        from mrtuner.checks.document import checks_document

        terminal.document(checks_document(check.id))
        return
    from mrtuner.present.text import entries

    look = terminal.look(sys.stdout)
    terminal.print_line(look.painted(f"{check.id} (check of {check.area})", "heading"))
    pairs = [
        ("what", check.meaning), ("judged", check.judged), ("source", check.source),
        ("remedy", check.remedy),
    ]  # fmt: skip
    terminal.print_lines(entries(pairs, look))


def _contents(major: int, look: Look) -> Iterator[str]:
    from mrtuner.present.text import sections
    from mrtuner.tuning.explain import listed

    areas = groupby(listed(major), key=lambda pair: pair[0].area)
    shown = [(area, [(rule.name, summary) for rule, summary in pairs]) for area, pairs in areas]
    grouped = groupby(_checks().values(), key=lambda check: check.area)
    shown += [
        (f"check: {area}", [(one.id, f"{one.meaning.partition('.')[0]}.") for one in found])
        for area, found in grouped
    ]
    yield from sections(shown, look)


def _page(parameter: Parameter, look: Look) -> Iterator[str]:
    from mrtuner.catalog import history
    from mrtuner.present.text import entries
    from mrtuner.tuning.verdict import RULES

    rule = RULES.get(parameter.name)
    yield look.painted(f"{parameter.name} (PostgreSQL {parameter.major})", "heading")
    yield from entries(
        [
            ("what", parameter.summary or "see PostgreSQL's documentation"),
            *(_chosen(rule) if rule else [("how", _NO_RULE)]),
            ("change", f"{_CONTEXTS[parameter.context]} ({parameter.context})"),
            ("type", _type(parameter)),
            ("range", _range(parameter)),
            *_default_lines(parameter.name),
            *(("history", text) for text in history(parameter.name)),
        ],
        look,
    )


def _chosen(rule: Rule) -> list[tuple[str, str]]:
    applied = "; a suggestion, never applied" if rule.suggestion else ""
    return [
        ("how", rule.method),
        ("basis", f"{rule.basis}{applied}"),
        ("source", rule.source),
        ("risk", rule.risk),
    ]


_CONTEXTS: Final = {
    "internal": "cannot be changed",
    "postmaster": "needs a restart",
    "sighup": "needs a reload",
    "superuser-backend": "needs a reload; affects new sessions only",
    "backend": "needs a reload; affects new sessions only",
    "superuser": "needs a reload; a superuser's session can set it too",
    "user": "needs a reload; every session can set it too",
}


def _type(parameter: Parameter) -> str:
    unit = f", counted in {parameter.unit}" if parameter.unit else ""
    return parameter.vartype + unit


def _range(parameter: Parameter) -> str:
    if parameter.enum:
        absent = f"; some builds lack {', '.join(parameter.build)}" if parameter.build else ""
        return ", ".join(parameter.enum) + absent
    if parameter.min is None or parameter.max is None:
        return "on, off" if parameter.vartype == "bool" else "any text"
    return f"{parameter.show(parameter.min)} to {parameter.show(parameter.max)}"


def _default_lines(name: str) -> Iterator[tuple[str, str]]:
    from mrtuner.tuning.explain import defaults

    for first, last, text in defaults(name):
        span = f"{first}" if first == last else f"{first} to {last}"
        shown = "set by the server, by initdb or by the build" if text is None else text
        yield "default", f"{span}: {shown or 'empty'}"
