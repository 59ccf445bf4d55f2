"""The cache model, compared pair by pair with the real builder; its surprises by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from image_pairs import Pair
from image_podman import Podman, Step
from machine import find
from mrtuner.errors import BadValue
from mrtuner_image.cache import Plan, State, Store, plan
from mrtuner_image.context import ContextEntry, read_context
from mrtuner_image.dockerfile import parse
from mrtuner_image.ignore import rules_for


def planned(root: Path, arguments: Mapping[str, str] | None = None) -> Plan:
    context = read_context(root, rules_for(root, root / "Dockerfile"))

    def digest(entry: ContextEntry) -> str:
        return hashlib.sha256((root / entry.path).read_bytes()).hexdigest()

    text = (root / "Dockerfile").read_text()
    return plan(parse(text, arguments), context, digest, arguments)


def told(wanted: Plan, states: list[list[State]]) -> list[tuple[str, str]]:
    """Lines and states in the order in which the builder prints them."""
    return [
        (step.instruction.original, state)
        for stage, known in zip(wanted, states, strict=True)
        if stage.needed
        for step, state in zip(stage.steps, known, strict=True)
    ]


def compare(podman: Podman, tmp_path: Path, seeds: range) -> float:
    """Predict both builds of each pair; return the share of lines left unknown."""
    lines = unknown = told_apart = 0
    for seed in seeds:
        root = tmp_path / str(seed)
        root.mkdir()
        pair, store = Pair(root, seed), Store()
        for change in ("", pair.change):
            what = change() if callable(change) else "the first build"
            wanted = planned(root, pair.arguments)
            ours = told(wanted, store.build(wanted))
            given = [f"--build-arg={name}={value}" for name, value in pair.arguments.items()]
            steps = podman.steps(root, *given)
            if steps is None:
                break
            theirs = [step for step in steps if not step.text.startswith("FROM ")]
            where = (seed, what, pair.rows)
            assert [text for text, _ in ours] == [step.text for step in theirs], where
            assert not [
                (text, state)
                for (text, state), step in zip(ours, theirs, strict=True)
                if state not in ("unknown", _said(step))
            ], where
            lines += len(ours)
            unknown += sum(state == "unknown" for _, state in ours)
        else:
            told_apart += 1
    assert told_apart > 0.8 * len(seeds)
    return unknown / lines


def _said(step: Step) -> str:
    return "cached" if step.cached else "rebuilt"


def test_random_pairs_are_predicted_as_the_builder_then_says(
    podman: Podman, tmp_path: Path
) -> None:
    assert compare(podman, tmp_path, range(5)) < 0.2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_300_random_pairs_are_predicted_as_the_builder_then_says(
    podman: Podman, tmp_path: Path
) -> None:
    assert compare(podman, tmp_path, range(1000, 1300)) < 0.1


def states_after(tmp_path: Path, text: str, change: str = "", **arguments: str) -> list[str]:
    """The states of the second build; in between, the file named by `change` is changed."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "Dockerfile").write_text(text)
    store = Store()
    store.build(planned(tmp_path))
    if change:
        (tmp_path / change).write_text("changed")
    wanted = planned(tmp_path, arguments)
    return [state for _, state in told(wanted, store.build(wanted))]


def test_what_stands_below_a_changed_copy_is_built_again(tmp_path: Path) -> None:
    found = states_after(tmp_path, "FROM debian\nCOPY b /\nCOPY a /\nRUN true\nUSER 1\n", "a")
    assert found == ["cached", "rebuilt", "rebuilt", "rebuilt"]


def test_what_a_rebuilt_stage_hands_over_is_unknown(tmp_path: Path) -> None:
    text = "FROM debian AS one\nCOPY a /\nFROM debian\nCOPY --from=one /a /\nRUN true\nCOPY a /b\n"
    assert states_after(tmp_path, text, "a") == ["rebuilt", "unknown", "unknown", "rebuilt"]


def test_a_stage_that_nothing_needs_is_skipped(tmp_path: Path) -> None:
    text = "FROM scratch AS unused\nCOPY a /\nFROM scratch\nCOPY b /\n"
    assert states_after(tmp_path, text, "a") == ["cached"]


def test_an_argument_reaches_every_later_run_but_no_env(tmp_path: Path) -> None:
    """Podman keeps `ENV` with the old value: its text is the same."""
    text = "FROM debian\nARG SHA\nENV VERSION=$SHA\nRUN unrelated\n"
    assert states_after(tmp_path, text, SHA="1") == ["rebuilt", "rebuilt", "rebuilt"]
    text = "FROM debian\nARG SHA=0\nENV VERSION=$SHA\nRUN unrelated\n"
    assert states_after(tmp_path, text, SHA="1") == ["cached", "cached", "rebuilt"]


def test_what_comes_from_an_address_is_unknown(tmp_path: Path) -> None:
    text = "FROM debian\nADD https://example.com/x /x\nRUN true\n"
    assert states_after(tmp_path, text) == ["unknown", "unknown"]


@pytest.mark.usefixtures("asks")
@pytest.mark.parametrize("source", ["missing", "*.none", "ignored", "dead", "out"])
def test_a_copy_of_nothing_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, source: str
) -> None:
    (tmp_path / "ignored").touch()
    (tmp_path / "dead").symlink_to("nowhere")
    (tmp_path / "out").symlink_to("/etc/hostname")  # looked for in the context, where there is none
    (tmp_path / ".dockerignore").write_text("ignored")
    (tmp_path / "Dockerfile").write_text(f"FROM scratch\nCOPY {source} /x\n")
    with pytest.raises(BadValue, match="line 2 of the Dockerfile copies"):
        planned(tmp_path)
    if find("podman"):
        podman: Podman = request.getfixturevalue("podman")
        assert podman.build(tmp_path).returncode != 0
