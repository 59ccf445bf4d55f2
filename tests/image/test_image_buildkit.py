"""BuildKit's rules as its documentation tells them, by hand; no daemon is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mrtuner.errors import BadValue
from mrtuner.image.cache import plan
from mrtuner.image.context import read_context
from mrtuner.image.cost import Change, Cost, cost
from mrtuner.image.dockerfile import Builder, instructions, parse
from mrtuner.image.ignore import rules_for


def costed(root: Path, text: str, builder: Builder = "buildkit") -> Cost:
    for name in ("a.py", "b.py"):
        (root / name).write_text("x" * 600)
    (root / "Dockerfile").write_text(text)
    return cost(root, builder=builder)


def states(root: Path, text: str, example: str, builder: Builder = "buildkit") -> list[str]:
    """Of each line, after a change of this file or argument."""
    return [state for _, state in change(costed(root, text, builder), example).states]


def change(found: Cost, example: str) -> Change:
    return next(one for one in found.changes if one.example == example)


def test_a_linked_copy_does_not_depend_on_what_is_below(tmp_path: Path) -> None:
    text = "FROM debian\nCOPY a.py /\nCOPY --link b.py /\nRUN true\nCOPY b.py /c\n"
    assert states(tmp_path, text, "a.py") == ["rebuilt", "cached", "rebuilt", "rebuilt"]
    without = text.replace(" --link", "")
    assert states(tmp_path, without, "a.py") == ["rebuilt", "rebuilt", "rebuilt", "rebuilt"]
    with pytest.raises(BadValue, match="COPY --link, which this builder does not know") as caught:
        states(tmp_path, text, "a.py", "podman")
    assert "--builder buildkit" in str(caught.value.hint)


def test_a_linked_layer_is_not_pushed_again(tmp_path: Path) -> None:
    text = "FROM debian\nCOPY a.py /\nCOPY --link b.py /\n"
    found = costed(tmp_path, text)
    first, linked = (line.layer.compressed for line in found.lines)
    assert change(found, "a.py").pushed.bytes == first
    assert change(found, "b.py").pushed.bytes == linked


def test_a_value_of_env_reaches_later_runs_but_no_copy(tmp_path: Path) -> None:
    """With podman, ENV stays cached with the old value."""
    text = "FROM debian\nARG SHA=0\nENV VERSION=$SHA\nCOPY a.py /\nRUN true\n"
    example = "--build-arg SHA"
    assert states(tmp_path, text, example) == ["cached", "cached", "cached", "rebuilt"]
    text = "FROM debian AS one\nARG SHA=0\nENV VERSION=$SHA\nFROM one\nRUN true\n"
    assert states(tmp_path, text, example) == ["cached", "cached", "rebuilt"]
    assert states(tmp_path, text, example, "podman") == ["cached", "cached", "cached"]


def test_what_a_run_reads_by_a_bind_mount_is_compared(tmp_path: Path) -> None:
    text = "FROM debian\nRUN --mount=type=cache,target=/c --mount=source=a.py,target=/a cat /a\n"
    assert states(tmp_path, text, "a.py") == ["rebuilt"]
    assert states(tmp_path, text, "b.py") == ["cached"]
    assert states(tmp_path, text, "a.py", "podman") == ["cached"]


def test_a_mount_of_a_stage_that_is_built_again_is_unknown(tmp_path: Path) -> None:
    text = "FROM debian AS one\nCOPY a.py /\nFROM debian\nRUN --mount=from=one,target=/m true\n"
    assert states(tmp_path, text, "a.py") == ["rebuilt", "unknown"]


def test_only_what_changed_is_sent(tmp_path: Path) -> None:
    """600 bytes are two blocks, and the header is one."""
    found = costed(tmp_path, "FROM debian\nCOPY a.py /\n")
    assert change(found, "a.py").sent == 3 * 512
    assert change(found, "b.py").sent == 0
    again = costed(tmp_path, "FROM debian\nCOPY a.py /\n", "podman")
    assert change(again, "a.py").sent == again.context.sent > 3 * 512


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone may give a file away")
def test_who_owns_a_file_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    recipe = parse("FROM debian\nCOPY a /\n")

    def keys() -> list[str | None]:
        context = read_context(tmp_path, rules_for(tmp_path, tmp_path / "Dockerfile"))
        builders: tuple[Builder, ...] = ("podman", "buildkit")
        planned = [plan(recipe, context, lambda _entry: "", None, one) for one in builders]
        return [one.stages[0].steps[0].key for one in planned]

    before = keys()
    os.chown(tmp_path / "a", 1234, 1234)
    assert [old == new for old, new in zip(before, keys(), strict=True)] == [False, True]


def test_heredocs_are_part_of_their_line() -> None:
    text = (
        "FROM debian\nRUN <<EOF bash\nFOO is no instruction\nEOF\n"
        "COPY <<-'ONE' <<TWO /etc/\n\tone $A\n\tONE\ntwo\nTWO\nUSER 1\n"
    )
    found = list(instructions(text, "buildkit"))
    assert [(one.line, one.end, one.name) for one in found] == [
        (1, 1, "FROM"), (2, 4, "RUN"), (5, 9, "COPY"), (10, 10, "USER"),
    ]  # fmt: skip
    assert [(one.name, one.text, one.literal) for one in found[2].heredocs] == [
        ("ONE", "one $A\n", True), ("TWO", "two\n", False),
    ]  # fmt: skip
    assert "FOO is no instruction" in found[1].original


def test_a_heredoc_that_is_copied_has_its_size(tmp_path: Path) -> None:
    """A header, a block of content, and the end of the archive."""
    found = costed(tmp_path, "FROM debian\nCOPY <<EOF /x\nhi\nEOF\nCOPY <<EOF /y\n$A\nEOF\n")
    assert [line.layer.size for line in found.lines] == [4 * 512, None]


def test_a_value_in_a_heredoc_is_compared_unless_it_is_quoted(tmp_path: Path) -> None:
    text = "FROM debian\nARG SHA\nCOPY <<EOF /x\n$SHA\nEOF\n"
    assert states(tmp_path, text, "--build-arg SHA") == ["cached", "rebuilt"]
    quoted = text.replace("<<EOF", "<<'EOF'")
    assert states(tmp_path, quoted, "--build-arg SHA") == ["cached", "cached"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RUN <<EOF\nnever closed\n", "line 2 of the Dockerfile: the heredoc EOF is not closed"),
        ("COPY <<EOF /x\n EOF\n", "the heredoc EOF is not closed"),
        ("COPY --parents a.py /x\n", "COPY --parents, which is not modelled"),
    ],
)
def test_what_it_refuses_or_the_model_does_not_know_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(BadValue, match=said):
        costed(tmp_path, f"FROM debian\n{text}")


def test_a_repository_is_fetched_by_any_protocol(tmp_path: Path) -> None:
    found = costed(tmp_path, "FROM debian\nADD git@example.com:a/b.git /x\n")
    assert [line.layer.why for line in found.lines] == ["comes from elsewhere"]
