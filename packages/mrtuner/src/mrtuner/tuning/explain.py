"""What a parameter is and how its value is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from mrtuner.catalog import MAJORS, Parameter, history, parameter, parameters
from mrtuner.errors import BadValue
from mrtuner.tuning import engine  # noqa: F401 - registers the rules
from mrtuner.tuning.gather import NEWEST
from mrtuner.tuning.verdict import RULES, Rule

if TYPE_CHECKING:
    from mrtuner.tuning.document import ExplainDocument


def known_parameter(name: str, major: int | None = None) -> Parameter:
    """The parameter in the version asked for; else in the one advised for, else the newest.

    BadValue, with close matches, if there is none.
    """
    if major is not None:
        return parameter(name, major)
    for candidate in (NEWEST, *reversed(MAJORS)):
        try:
            return parameter(name, candidate)
        except BadValue:
            continue
    return parameter(name, NEWEST)


def listed(major: int) -> Iterator[tuple[Rule, str]]:
    """Every rule for a parameter of this version, with one line about the parameter."""
    known = parameters(major)
    yield from ((rule, known[name].summary) for name, rule in RULES.items() if name in known)


def list_document(major: int) -> ExplainDocument:
    """Return every parameter with a rule."""
    from mrtuner.tuning.document import ExplainDocument, ListedParameter

    return ExplainDocument(
        postgres=major,
        parameters=[
            ListedParameter(name=rule.name, area=rule.area, summary=summary)
            for rule, summary in listed(major)
        ],
    )


def explain_document(parameter: Parameter) -> ExplainDocument:
    """Return what is known of a parameter in one version."""
    from mrtuner.documents import convert
    from mrtuner.tuning.document import DefaultOfVersions, ExplainDocument, ExplainedRule

    rule = RULES.get(parameter.name)
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
        "default": default(parameter),
        "certainty": parameter.certainty,
        "rule": convert(rule, ExplainedRule) if rule else None,
        "defaults": [
            DefaultOfVersions(since=first, until=last, default=text)
            for first, last, text in defaults(parameter.name)
        ],
        "history": history(parameter.name),
    }
    return convert(found, ExplainDocument)


def default(parameter: Parameter) -> str | None:
    """The default as configuration text; None if the server, initdb or the build determines it."""
    return None if parameter.default is None else parameter.show(parameter.default)


def defaults(name: str) -> Iterator[tuple[int, int, str | None]]:
    """The default in each run of versions that share it: first, last, text."""
    known = [
        (major, default(parameters(major)[name])) for major in MAJORS if name in parameters(major)
    ]
    for text, run in groupby(known, key=lambda pair: pair[1]):
        majors = [major for major, _ in run]
        yield majors[0], majors[-1], text
