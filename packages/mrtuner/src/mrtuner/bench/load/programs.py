"""Workloads of programs other than pgbench, as a plan describes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Final

from mrtuner.described import Doc, Omissible, document_name
from mrtuner.errors import BadValue

#: Placeholders in a command, filled in for every run; there is none for a password.
PLACES: Final = (
    "seconds", "clients", "threads", "scale", "rate", "seed",
    "host", "port", "user", "database", "dsn",
)  # fmt: skip
#: Rows of sysbench's table for each scale: as many as pgbench has accounts.
ROWS_PER_SCALE: Final = 100_000
#: A row of sysbench's with its share of two indexes; 25.5 MB for 100,000 measured on 18.
_ROW_BYTES: Final = 256
#: A warehouse of the TPC-C-like scripts; a high estimate.
_WAREHOUSE_BYTES: Final = 120 * 2**20
_PLACE: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWorkload:
    """Any program that runs for a given time and prints its throughput."""

    run: Annotated[str, Doc("the command")]
    throughput: Annotated[
        str | None, Omissible("a regular expression whose group is transactions per second")
    ] = None
    throughput_key: Annotated[
        str | None, Omissible("or where that stands in the JSON it prints: `result.tps`")
    ] = None
    prepare: Annotated[str | None, Omissible("a command that fills its tables")] = None
    per_scale: Annotated[int | None, Omissible("bytes of its tables, for each unit of scale")] = (
        None
    )

    def __post_init__(self) -> None:
        check_places(text for text in (self.run, self.prepare) if text)
        if (self.throughput is None) is (self.throughput_key is None):
            raise BadValue(
                "a command needs either throughput or throughput_key",
                "Give one, to read transactions per second from its output.",
            )
        if self.throughput is not None and _groups(self.throughput) != 1:
            raise BadValue(
                f"throughput {self.throughput!r} needs one group",
                r"Write throughput = 'tps: ([\d.]+)', with the number in parentheses.",
            )
        if self.prepare is not None and self.per_scale is None:
            raise BadValue(
                "a command with prepare needs per_scale",
                'Give the disk space of its tables per unit of scale: per_scale = "20MB".',
            )


@document_name("SysbenchWorkload")
@dataclass(frozen=True, slots=True, kw_only=True)
class Sysbench:
    """A script of sysbench."""

    script: Annotated[str, Doc("its name, or a path")]
    options: Annotated[Mapping[str, str], Omissible("options, without the leading dashes")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        check_places(self.options.values())
        secret = next((name for name in self.options if "password" in name), None)
        if secret is not None:
            raise BadValue(f"{secret} is not allowed in a plan", "Use PGPASSWORD instead.")
        for name, text in self.sized(1).items():
            if name in ("tables", "table_size", "scale") and not text.isdecimal():
                raise BadValue(
                    f"{name} = {text!r} is not a whole number", "Give one of at least 1."
                )

    @property
    def own(self) -> bool:
        """Whether the script is the user's own, not one of sysbench's."""
        return "/" in self.script

    def arguments(self, scale: int) -> list[str]:
        """Its options on a command line, `{scale}` filled in."""
        return [f"--{name}={text}" for name, text in self.sized(scale).items()]

    def sized(self, scale: int) -> dict[str, str]:
        """The options at a scale, with which table_size grows for sysbench's own scripts."""
        given = {
            name.replace("-", "_"): filled(text, {"scale": scale})
            for name, text in self.options.items()
        }
        return given if self.own else {"table_size": str(scale * ROWS_PER_SCALE)} | given

    def space(self, scale: int) -> int:
        """Disk [bytes] that its tables take; an estimate."""
        given = self.sized(scale)
        tables = int(given.get("tables", 1))
        if self.own:
            return tables * int(given.get("scale", scale)) * _WAREHOUSE_BYTES
        return tables * int(given["table_size"]) * _ROW_BYTES


def filled(text: str, known: Mapping[str, object]) -> str:
    """Fill in the known placeholders of a text; leave the others.

    >>> filled("run {seconds} {host}", {"seconds": 5})
    'run 5 {host}'
    """
    return _PLACE.sub(lambda match: str(known.get(match[1], match[0])), text)


def check_places(texts: Iterable[str]) -> None:
    """BadValue for a placeholder that nothing fills."""
    for place in (match[1] for text in texts for match in _PLACE.finditer(text)):
        if place not in PLACES:
            close = get_close_matches(place, PLACES, n=1)
            meant = f"did you mean {{{close[0]}}}?" if close else f"known: {', '.join(PLACES)}"
            raise BadValue(
                f"unknown placeholder {{{place}}}, {meant}", "Put everything else into a script."
            )


def _groups(pattern: str) -> int:
    try:
        return re.compile(pattern, re.MULTILINE).groups
    except re.error as error:
        raise BadValue(
            f"{pattern!r} is not a regular expression: {error}", "Try it with Python's re module."
        ) from None
