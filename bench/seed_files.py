"""The seed's directory at any scale, as compressible as real files and the same in every run.

The field notes give megabytes, not files. Of the 72 MB of source, 40 are pictures here and 32 text;
of the 28 MB of gems, 22 are text and 6 libraries; assets and the pack of `.git` are compressed
already. The text is random, but gzip makes it about four times smaller, as it does MrTuner's own
source; a test compares the two.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

#: Directories of the application: megabytes, bytes of a file, ending, what is in it.
_SOURCE = (
    ("app", 8, 6_000, "rb", "text"), ("lib", 2, 6_000, "rb", "text"),
    ("config", 2, 4_000, "yml", "text"), ("db", 4, 200_000, "sql", "text"),
    ("test", 8, 6_000, "rb", "text"), ("vendor/javascript", 8, 80_000, "js", "text"),
    ("public/pictures", 40, 40_000, "jpg", "packed"),
)  # fmt: skip
_RUBBISH = (
    ("log", 500, 50_000_000, "log", "log"),
    (".git/objects/pack", 100, 100_000_000, "pack", "packed"),
)
_GEMS = (("gems/ruby", 22, 7_000, "rb", "text"), ("gems/libraries", 6, 300_000, "so", "binary"))
_ASSETS = (("assets", 15, 30_000, "gz", "packed"),)
#: Random bytes per kind; larger contents repeat them, further apart than gzip looks back (32 kB).
_DRAWN = 640_000
_LETTERS = "etaoinshrdlucmfwypvbgk"
_WORDS = 6_000
_AGAIN = 0.42  # of the lines repeat one of the last forty
#: The file of code in which a line is changed.
CHANGED = "app/models.rb"


class Files:
    """Writes directories; a megabyte of the seed has `unit` bytes."""

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self._dice = random.Random(1)
        self._drawn: dict[str, bytes] = {}

    def application(self, root: Path, recipe: str) -> None:
        """Write what is deployed, with its rubbish and its Dockerfile."""
        self._write(root, (*_SOURCE, *_RUBBISH))
        (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (root / CHANGED).write_bytes(self._content("text", min(6_000, self.unit)))
        (root / "Rakefile").write_text("task :precompile\n")
        (root / "Gemfile").write_text('gem "rails"\n')
        (root / "Gemfile.lock").write_text("GEM\n  specs:\n    rails (8.0.0)\n")
        (root / "Dockerfile").write_text(recipe)

    def stock(self, root: Path) -> None:
        """Write what the base image's stand-ins for `bundle` and `rake` install and make."""
        self._write(root, (*_GEMS, *_ASSETS))

    def _write(self, root: Path, parts: tuple[tuple[str, int, int, str, str], ...]) -> None:
        for name, megabytes, size, ending, kind in parts:
            left, number = megabytes * self.unit, 0
            while left > 0:
                path = root / name / f"{number // 100}" / f"{number}.{ending}"
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    for piece in self._pieces(kind, min(size, left)):
                        file.write(piece)
                left -= size
                number += 1

    def _pieces(self, kind: str, size: int) -> Iterator[bytes]:
        while size > 0:
            yield (piece := self._content(kind, min(size, _DRAWN // 2)))
            size -= len(piece)

    def _content(self, kind: str, size: int) -> bytes:
        """Return bytes of a kind: new ones for "packed", else a part of those generated once."""
        if kind == "packed":
            return self._dice.randbytes(size)
        if kind not in self._drawn:
            self._drawn[kind] = _KINDS[kind](self._dice)
        begin = self._dice.randrange(len(self._drawn[kind]) - size)
        return self._drawn[kind][begin : begin + size]


def _text(dice: random.Random) -> bytes:
    """Lines of a program: words, a few of them frequent, and repeated lines."""
    words = ["".join(dice.choices(_LETTERS, k=dice.randint(2, 11))) for _ in range(_WORDS)]
    often = list(accumulate(1 / (rank + 3) for rank in range(_WORDS)))

    def line() -> str:
        first, *rest = dice.choices(words, cum_weights=often, k=dice.randint(2, 9))
        indented = "  " * dice.choice((1, 1, 2, 2, 3, 4))
        return indented + first + dice.choice(("(", ".", " = ", " ")) + " ".join(rest) + "\n"

    lines: list[str] = []
    while len(lines) < _DRAWN // 40:
        lines.append(dice.choice(lines[-40:]) if lines and dice.random() < _AGAIN else line())
    return "".join(lines).encode()


def _log(dice: random.Random) -> bytes:
    """Requests as Rails logs them."""
    lines: list[bytes] = []
    for second in range(_DRAWN // 160):
        request = dice.randbytes(16).hex()
        at = f"2014-06-{1 + second // 86400:02}T{second // 3600 % 24:02}:{second // 60 % 60:02}"
        path = dice.choice(("/", "/orders", "/items", "/users", "/login"))
        said = (
            f'Started GET "{path}/{dice.randint(1, 99999)}" for 10.0.{dice.randint(0, 9)}.1',
            f"Completed 200 OK in {dice.randint(5, 400)}ms (ActiveRecord: {dice.random():.1f}ms)",
        )
        lines += [f"I, [{at}] INFO -- : [{request}] {one}\n".encode() for one in said]
    return b"".join(lines)


def _binary(dice: random.Random) -> bytes:
    """Instructions: few of them, in any order."""
    known = [dice.randbytes(dice.randint(2, 9)) for _ in range(1_500)]
    often = list(accumulate(1 / (rank + 3) for rank in range(len(known))))
    return b"".join(dice.choices(known, cum_weights=often, k=_DRAWN // 5))


_KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "text": _text, "log": _log, "binary": _binary,
}  # fmt: skip
