"""Fixed timestamps: a layer that is rebuilt with the same content is not pushed again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mrtuner.image.advice.situation import Proposal, Situation

#: Files that may start builds: scripts, makefiles and CI configurations.
_SCRIPTS: Final = (
    "Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "*.sh", "bin/*.sh",
    "scripts/*.sh", "script/*", ".gitlab-ci.yml", ".github/workflows/*.yml",
    ".github/workflows/*.yaml", ".circleci/config.yml",
)  # fmt: skip
_BUILD: Final = re.compile(r"\b(podman build|buildah (?:bud|build))\b(?![^\n]*--timestamp)")


def fixed_timestamps(now: Situation) -> Iterator[Proposal]:
    """One proposal for the scripts that build with podman or buildah."""
    edits: dict[Path, str] = {}
    for path in _scripts(now.tree.root):
        text = now.read(path)
        if text and _BUILD.search(text):
            edits[path] = _BUILD.sub(r"\1 --timestamp 0", text)
    if edits:
        names = ", ".join(sorted(path.relative_to(now.tree.root).as_posix() for path in edits))
        yield Proposal(
            "scripts", f"build with --timestamp 0 in {names}",
            "Every file of the image is dated 1970: this affects whatever compares times, such "
            "as make or a web server's Last-Modified.",
            edits, unseen=True,
        )  # fmt: skip


def _scripts(root: Path) -> Iterator[Path]:
    for pattern in _SCRIPTS:
        yield from sorted(path for path in root.glob(pattern) if path.is_file())
