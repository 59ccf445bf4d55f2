"""The pages of the documentation, and the console blocks in them."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(
    r"(?P<skip><!-- not run: (?P<why>[^>]+?) -->\n)?^```console\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block and the lines that the page shows after it."""

    page: str
    line: int
    words: str
    shown: tuple[str, ...]


def all_pages() -> list[Path]:
    """Every page that people read, README first."""
    found = sorted(DOCS.rglob("*.md"))
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted(ROOT.glob("packages/*/README.md")),
        *(page for page in found if "_build" not in page.parts),
    ]


def name_of(page: Path) -> str:
    """The page's path in the checkout."""
    return str(page.relative_to(ROOT))


def commands(page: Path) -> list[Command]:
    """The commands that are run, in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        command
        for block in _BLOCK.finditer(text)
        if not block["skip"]
        for command in _commands(name_of(page), block, text.count("\n", 0, block.start("text")))
    ]


def examples(page: Path) -> list[str]:
    """The Python examples, each a program or a part of one."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def not_run(page: Path) -> list[str]:
    """The reasons why some blocks are not run."""
    text = page.read_text(encoding="utf-8")
    return [block["why"] for block in _BLOCK.finditer(text) if block["skip"]]


def needs_the_lab(page: Path) -> bool:
    """Whether the page needs `rdstune lab start --example` first."""
    return page.read_text(encoding="utf-8").startswith("<!-- needs the example lab -->\n")


def _commands(page: str, block: re.Match[str], above: int) -> Iterator[Command]:
    rows = block["text"].splitlines()
    starts = [place for place, row in enumerate(rows) if row.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        shown = tuple(row.rstrip() for row in rows[start + 1 : end] if row.strip())
        yield Command(page, above + start + 1, rows[start].removeprefix("$ "), shown)


@cache
def generator() -> Any:
    """The module that writes the generated pages."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module("docs.generate")
