"""How long `mrtuner image cost` and `advise` take on a large context.

`python bench/image.py 1000` makes a smaller one. Nothing is asserted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from mrtuner_image.advice.ranking import advise
from mrtuner_image.context import read_context
from mrtuner_image.cost import cost
from mrtuner_image.ignore import rules_for

FILES = 100_000
PER_DIRECTORY = 100
IGNORED = ["**/*.log", "**/.git", "node_modules", "!node_modules/kept", "**/__pycache__", "*.md"]
RECIPE = "FROM debian\nCOPY tree/0 /first\nCOPY . /srv\nRUN chown -R 1 /srv\n"


def main(files: int) -> None:
    """Make the context, then time reading it, the cost and the advice."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        _make(root, files)
        began = time.perf_counter()
        context = read_context(root, rules_for(root, root / "Dockerfile"))
        read = time.perf_counter()
        cost(root)
        answered = time.perf_counter()
        found = advise(root)
        advised = time.perf_counter()
    print(f"{context.files:,} files, {len(IGNORED)} patterns")
    print(f"context  {read - began:6.2f} s")
    print(f"cost     {answered - read:6.2f} s")
    print(f"advise   {advised - answered:6.2f} s, {len(found.advice)} pieces")


def _make(root: Path, files: int) -> None:
    for number in range(files):
        directory = root / "tree" / str(number // PER_DIRECTORY // 10) / str(number // 100)
        if number % PER_DIRECTORY == 0:
            directory.mkdir(parents=True)
        (directory / f"{number}.py").write_text(f"value = {number}\n" * 20)
    (root / ".dockerignore").write_text("\n".join(IGNORED))
    (root / "Dockerfile").write_text(RECIPE)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else FILES)
