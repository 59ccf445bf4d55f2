"""`mrtuner explain`: what a parameter is, how its value is chosen, and what is known about it."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from mrtuner.cli.common import options, terminal
from mrtuner.errors import BadValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mrtuner.catalog import Parameter
    from mrtuner.cli.common.document import ExplainDocument
    from mrtuner.present.text import Look
    from mrtuner.tuning.verdict import Rule

_NO_RULE: Final = "MrTuner has no rule for it and never changes it."


@options.command("explain")
@click.argument("name", metavar="[PARAMETER]", required=False)
@click.option(
    "--pg", "major", type=int, metavar="MAJOR",
    help="PostgreSQL version.  [default: as tune assumes, or the newest that has it]",
)  # fmt: skip
@options.json_option
def command(name: str | None, major: int | None, as_json: bool) -> None:
    """Explain a parameter: what it is, how MrTuner chooses it, on what basis, at what risk.

    \b
    Examples:
      mrtuner explain                     every parameter with a rule, by area
      mrtuner explain work_mem
      mrtuner explain io_method --pg 18
      mrtuner explain work_mem --json
    """
    parameter = None if name is None else _find(name, major)
    major = major or _default_major()
    if as_json:
        terminal.document(_list_document(major) if parameter is None else _document(parameter))
        return
    look = terminal.look(sys.stdout)
    for line in _contents(major, look) if parameter is None else _page(parameter, look):
        terminal.print_line(line)


def _rules() -> dict[str, Rule]:
    from mrtuner.tuning import engine  # noqa: F401 - registers the rules
    from mrtuner.tuning.verdict import RULES

    return RULES


def _default_major() -> int:
    from mrtuner.tuning.gather import NEWEST

    return NEWEST


def _find(name: str, major: int | None) -> Parameter:
    """The parameter in the version asked for; else in the one advised for, else the newest."""
    from mrtuner.catalog import MAJORS, parameter

    if major is not None:
        return parameter(name, major)
    for candidate in (_default_major(), *reversed(MAJORS)):
        try:
            return parameter(name, candidate)
        except BadValue:
            continue
    return parameter(name, _default_major())  # raises, naming close matches


def _listed(major: int) -> Iterator[tuple[Rule, str]]:
    """Every rule for a parameter of this version, with one line about the parameter."""
    from mrtuner.catalog import parameters

    known = parameters(major)
    yield from ((rule, known[name].summary) for name, rule in _rules().items() if name in known)


def _list_document(major: int) -> ExplainDocument:
    from mrtuner.cli.common.document import ExplainDocument, ListedParameter

    return ExplainDocument(
        postgres=major,
        parameters=[
            ListedParameter(name=rule.name, area=rule.area, summary=summary)
            for rule, summary in _listed(major)
        ],
    )


def _contents(major: int, look: Look) -> Iterator[str]:
    from mrtuner.present.text import sections

    areas = groupby(_listed(major), key=lambda pair: pair[0].area)
    yield from sections(
        [(area, [(rule.name, summary) for rule, summary in pairs]) for area, pairs in areas], look
    )


def _document(parameter: Parameter) -> ExplainDocument:
    from mrtuner.catalog import history
    from mrtuner.cli.common.document import DefaultOfVersions, ExplainDocument, ExplainedRule
    from mrtuner.documents import convert

    rule = _rules().get(parameter.name)
    found = {
        "postgres": parameter.major,
        "name": parameter.name,
        "summary": parameter.summary,
        "type": parameter.vartype,
        "unit": parameter.unit,
        "min": parameter.min,
        "max": parameter.max,
        "values": parameter.enum,
        "context": parameter.context,
        "restart": parameter.restart,
        "default": _default(parameter),
        "certainty": parameter.certainty,
        "rule": convert(rule, ExplainedRule) if rule else None,
        "defaults": [
            DefaultOfVersions(since=first, until=last, default=text)
            for first, last, text in _defaults(parameter.name)
        ],
        "history": history(parameter.name),
    }
    return convert(found, ExplainDocument)


def _page(parameter: Parameter, look: Look) -> Iterator[str]:
    from mrtuner.catalog import history
    from mrtuner.present.text import entries

    rule = _rules().get(parameter.name)
    yield look.painted(f"{parameter.name} (PostgreSQL {parameter.major})", "heading")
    yield from entries(
        [
            ("what", parameter.summary or "see PostgreSQL's documentation"),
            *(_chosen(rule) if rule else [("how", _NO_RULE)]),
            ("change", _when(parameter)),
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


def _when(parameter: Parameter) -> str:
    return f"{_CONTEXTS[parameter.context]} ({parameter.context})"


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


def _default(parameter: Parameter) -> str | None:
    return None if parameter.default is None else parameter.show(parameter.default)


def _default_lines(name: str) -> Iterator[tuple[str, str]]:
    for first, last, text in _defaults(name):
        span = f"{first}" if first == last else f"{first} to {last}"
        shown = "set by the server, by initdb or by the build" if text is None else text
        yield "default", f"{span}: {shown or 'empty'}"


def _defaults(name: str) -> Iterator[tuple[int, int, str | None]]:
    """The default in each run of versions that share it: first, last, text."""
    from mrtuner.catalog import MAJORS, parameters

    known = [
        (major, _default(parameters(major)[name])) for major in MAJORS if name in parameters(major)
    ]
    for text, run in groupby(known, key=lambda pair: pair[1]):
        majors = [major for major, _ in run]
        yield majors[0], majors[-1], text
