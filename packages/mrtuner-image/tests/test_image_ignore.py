"""Ignore rules: by hand, and tree by tree compared with the real builder."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from image_podman import Podman
from mrtuner.errors import BadValue
from mrtuner_image.context import read_context
from mrtuner_image.ignore import rules_for, rules_of

NAMES = ["a", "b", "ab", "a b", "log", "x.log", "y.txt", "A", ".git", ".env", "a+b", "é", "{a}"]
PIECES = [
    "a", "b", "ab", "*", "?", "**", "*.log", "x.*", "[ab]", "[^a]", "[!a]", "[a-c]*", "log", "A",
    ".git", ".", "..", "a+b", "é", "{a}", "a|b", "(a)", "$", "\\*", "a\\.b", "??", "*b", " a",
]  # fmt: skip


def a_tree(root: Path, dice: random.Random) -> list[str]:
    """Make a random tree of at most three levels and an ignore file; return its lines."""
    for _ in range(dice.randint(4, 14)):
        path = root.joinpath(*dice.choices(NAMES, k=dice.randint(1, 3)))
        if os.path.lexists(path) or any(
            above.is_file() or above.is_symlink() for above in path.parents
        ):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if dice.random() < 0.1:
            path.symlink_to(dice.choice(["a", "nowhere", "/etc/passwd"]))
        elif dice.random() < 0.15:
            path.mkdir()
        else:
            path.write_text("content")
    lines = [_line(dice) for _ in range(dice.randint(1, 6))]
    (root / dice.choice([".dockerignore", ".containerignore"])).write_text("\n".join(lines))
    return lines


def _line(dice: random.Random) -> str:
    if dice.random() < 0.05:
        return dice.choice(["# a", "", "  ", "!", "[", "a[", "!!a", "/", "*\\"])
    path = "/".join(dice.choices(PIECES, k=dice.randint(1, 3)))
    before = dice.choice(["", "", "", "!", "!", "/", "!/", "./", " "])
    return before + path + dice.choice(["", "", "", "/", " ", "\r"])


def ours(root: Path) -> set[str] | None:
    """The paths that are left, with the directories that lead to them."""
    try:
        rules = rules_for(root, root / "Dockerfile")
    except BadValue:
        return None
    left: set[str] = set()
    for entry in read_context(root, rules).entries:
        parts = entry.path.split("/")
        left |= {"/".join(parts[:number]) for number in range(1, len(parts) + 1)}
    return left


def compare(podman: Podman, tmp_path: Path, seeds: range) -> None:
    refused = 0
    for seed in seeds:
        root = tmp_path / str(seed)
        root.mkdir()
        lines = a_tree(root, random.Random(seed))
        theirs = podman.tree(root)
        refused += theirs is None
        assert ours(root) == theirs, (seed, lines)
        shutil.rmtree(root)
    assert refused < len(seeds) / 2  # most trees test the rules


def test_random_trees_are_read_as_the_builder_reads_them(podman: Podman, tmp_path: Path) -> None:
    compare(podman, tmp_path, range(15))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_random_trees_are_read_as_the_builder_reads_them(
    podman: Podman, tmp_path: Path
) -> None:
    compare(podman, tmp_path, range(1000, 2000))


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["*.log"], {"a", "a/b.log", "a/c"}),  # unlike in .gitignore, only at the top
        (["**/*.log"], {"a", "a/c"}),
        (["a", "!a/c"], {"top.log", "a", "a/c"}),
        (["a/", "!*/c"], {"top.log"}),  # a is not entered: no pattern begins with its name
        (["!a", "a/c"], {"top.log", "a", "a/b.log"}),
        (["# a", "", "./a/../top.log"], {"a", "a/b.log", "a/c"}),
        (["A", "TOP.LOG"], {"top.log", "a", "a/b.log", "a/c"}),  # letter case counts
    ],
)
def test_the_last_pattern_that_matches_decides(
    tmp_path: Path, lines: list[str], left: set[str]
) -> None:
    (tmp_path / "a").mkdir()
    for name in ("top.log", "a/b.log", "a/c"):
        (tmp_path / name).touch()
    (tmp_path / ".dockerignore").write_text("\n".join([*lines, ".dockerignore"]))
    assert ours(tmp_path) == left


def test_the_file_named_after_the_dockerfile_wins(tmp_path: Path) -> None:
    for name in (".dockerignore", ".containerignore", "Two.containerignore", "Two.dockerignore"):
        (tmp_path / name).write_text(f"{name}.pattern")

    def used(dockerfile: str) -> str:
        return rules_for(tmp_path, tmp_path / dockerfile).patterns[0].text

    assert used("Two") == "Two.dockerignore.pattern"
    (tmp_path / "Two.dockerignore").unlink()
    assert used("Two") == "Two.containerignore.pattern"
    assert used("Dockerfile") == ".containerignore.pattern"
    (tmp_path / ".containerignore").unlink()
    assert used("Dockerfile") == ".dockerignore.pattern"
    (tmp_path / ".dockerignore").unlink()
    assert rules_for(tmp_path, tmp_path / "Dockerfile").file is None


@pytest.mark.parametrize("line", ["!", "[", "a[", "a[]", "[b-", "[z-a]", "a(", "a**+", "\\"])
def test_patterns_at_which_the_builder_fails_are_refused(line: str) -> None:
    with pytest.raises(BadValue, match="the ignore file"):
        rules_of([line])


def test_a_pattern_that_only_go_understands_is_refused_not_guessed() -> None:
    with pytest.raises(BadValue, match="backslash before a letter"):
        rules_of(["\\d"])
