"""BuildKit's rules as its documentation and source tell them, by hand; no daemon is asked.

Pages of docs.docker.com are named by their path, files of moby/buildkit by theirs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from machine import needs
from mrtuner.errors import BadValue, UsageError
from mrtuner_image.cache import plan
from mrtuner_image.context import read_context
from mrtuner_image.cost import Change, Cost, cost
from mrtuner_image.dockerfile import Builder, instructions, parse
from mrtuner_image.ignore import rules_for, rules_of


def costed(root: Path, text: str, builder: Builder = "buildkit") -> Cost:
    for name in ("a.py", "b.py"):
        (root / name).write_text("x" * 600)
    (root / "Dockerfile").write_text(text)
    return cost(root, builder=builder)


def states(root: Path, text: str, example: str, builder: Builder = "buildkit") -> list[str]:
    """The state of each line after a change of this file or argument."""
    return [state for _, state in change(costed(root, text, builder), example).states]


def change(found: Cost, example: str) -> Change:
    return next(one for one in found.changes if one.example == example)


def test_a_linked_copy_does_not_depend_on_what_is_below(tmp_path: Path) -> None:
    text = "FROM debian\nCOPY a.py /\nCOPY --link b.py /\nRUN true\nCOPY b.py /c\n"
    assert states(tmp_path, text, "a.py") == ["rebuilt", "cached", "rebuilt", "rebuilt"]
    without = text.replace(" --link", "")
    assert states(tmp_path, without, "a.py") == ["rebuilt", "rebuilt", "rebuilt", "rebuilt"]
    with pytest.raises(
        BadValue, match="COPY --link, which this builder does not support"
    ) as caught:
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


@needs("root")
def test_who_owns_a_file_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    recipe = parse("FROM debian\nCOPY a /\n")

    def keys() -> list[str | None]:
        context = read_context(tmp_path, rules_for(tmp_path, tmp_path / "Dockerfile"))
        builders: tuple[Builder, ...] = ("podman", "buildkit")
        planned = [plan(recipe, context, lambda _entry: "", None, one) for one in builders]
        return [one[0].steps[0].key for one in planned]

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
    words = ("git@example.com:a/b.git", "me@example.com:b", "ssh://example.com/a", "git://a.b/c")
    for word in words:
        found = costed(tmp_path, f"FROM debian\nADD {word} /x\n")
        assert [line.layer.why for line in found.lines] == ["comes from elsewhere"]


def keys(root: Path, text: str, builder: Builder = "buildkit") -> list[str | None]:
    """The cache key of each line of the last stage."""
    recipe = parse(text, builder=builder)
    context = read_context(root, rules_for(root, root / "Dockerfile", builder=builder))
    planned = plan(recipe, context, lambda _entry: "", None, builder)
    return [step.key for step in planned[-1].steps]


@pytest.mark.parametrize("builder", ["podman", "buildkit"])
def test_a_stage_declares_the_platform_to_use_it(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs.docker.com, reference/dockerfile: Automatic platform ARGs; podman 4.3.1 was tried."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for name in ("linux_amd64", "linux_own"):
        (tmp_path / name).touch()
    costed(tmp_path, "FROM scratch\nARG TARGETARCH\nCOPY linux_$TARGETARCH /\n", builder)
    costed(tmp_path, "FROM scratch\nARG TARGETARCH=own\nCOPY linux_$TARGETARCH /\n", builder)
    with pytest.raises(BadValue, match="linux_"):
        costed(tmp_path, "FROM scratch\nCOPY linux_$TARGETARCH /\n", builder)


def test_a_stage_inherits_the_arguments_of_its_base(tmp_path: Path) -> None:
    """Page build/building/variables, Scoping."""
    text = "FROM debian AS one\nARG SHA=0\nFROM one\nRUN true\n"
    assert states(tmp_path, text, "--build-arg SHA") == ["cached", "rebuilt"]
    assert states(tmp_path, text, "--build-arg SHA", "podman") == ["cached", "cached"]


def test_of_arg_and_env_the_later_one_counts(tmp_path: Path) -> None:
    """dockerfile2llb/convert.go, dispatchArg: both set the variable. With podman, ENV wins."""
    text = "FROM debian\nENV A=1\nARG A=2\nRUN true\n"
    assert states(tmp_path, text, "--build-arg A") == ["cached", "cached", "rebuilt"]
    assert states(tmp_path, text, "--build-arg A", "podman") == ["cached", "cached", "cached"]
    text = "FROM debian\nARG A=2\nENV A=1\nRUN true\n"
    assert states(tmp_path, text, "--build-arg A") == ["cached", "cached", "cached"]


@pytest.mark.parametrize("line", ["USER", "SHELL", "WORKDIR", "ENV A="])
def test_what_a_run_runs_in_is_part_of_it(tmp_path: Path, line: str) -> None:
    """ops/exec.go, CacheMap: the whole process, with its user, directory and arguments."""
    one, other = (
        keys(tmp_path, f"FROM debian\n{line} {value}\nRUN true\n")[-1]
        for value in ('["/1"]', '["/2"]')
    )
    assert one != other


def test_the_root_directory_is_no_layer(tmp_path: Path) -> None:
    """dockerfile2llb/convert.go, dispatchWorkdir."""
    text = "FROM debian\nCOPY a.py /\nWORKDIR {}\nRUN true\n"
    assert states(tmp_path, text.format("/"), "a.py") == ["rebuilt", "cached", "rebuilt"]
    assert states(tmp_path, text.format("/x"), "a.py") == ["rebuilt", "rebuilt", "rebuilt"]


def test_a_link_with_chmod_is_none(tmp_path: Path) -> None:
    """dockerfile2llb/convert_copy.go, dispatchCopy."""
    text = "FROM debian\nCOPY a.py /\nCOPY --link --chmod=644 b.py /\n"
    assert states(tmp_path, text, "a.py") == ["rebuilt", "rebuilt"]
    owned = text.replace("--chmod=644", "--chown=1000:root")
    assert states(tmp_path, owned, "a.py") == ["rebuilt", "cached"]


def test_a_link_takes_no_name_of_an_owner(tmp_path: Path) -> None:
    """Issue 2987 of moby/buildkit: invalid user index; only numbers and root are known."""
    for owner in ("app", "1000:app"):
        with pytest.raises(
            BadValue, match=f"line 2 .*--chown={owner}, but an empty image has no /etc/passwd"
        ):
            costed(tmp_path, f"FROM debian\nCOPY --link --chown={owner} a.py /\n")
    assert len(costed(tmp_path, "FROM debian\nCOPY --chown=app a.py /\n").lines) == 1


def test_permissions_are_compared_even_with_chmod(tmp_path: Path) -> None:
    """contenthash/tarsum.go: the mode, not the time; --chmod is another part of the key."""
    text = "FROM debian\nCOPY --chmod=755 a /\n"
    (tmp_path / "a").touch(mode=0o644)
    builders: tuple[Builder, ...] = ("podman", "buildkit")
    before = [keys(tmp_path, text, one) for one in builders]
    os.utime(tmp_path / "a", (0, 0))
    assert [keys(tmp_path, text, one) for one in builders] == before
    (tmp_path / "a").chmod(0o600)
    after = [keys(tmp_path, text, one) for one in builders]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]
    assert keys(tmp_path, text.replace("755", "700")) != after[1]


def test_permissions_may_be_letters(tmp_path: Path) -> None:
    """Page reference/dockerfile, COPY --chmod."""
    (tmp_path / "a").touch()
    text = "FROM debian\nCOPY --chmod=u=rwX,go=rX a /\n"
    assert keys(tmp_path, text)
    with pytest.raises(BadValue, match="which is not an octal number"):
        keys(tmp_path, text, "podman")


@pytest.mark.parametrize("builder", ["podman", "buildkit"])
def test_owner_and_permissions_may_be_variables(tmp_path: Path, builder: Builder) -> None:
    text = "FROM debian\nARG M=644\nARG U=1\nCOPY --chmod=$M a.py /\nCOPY --chown=$U b.py /\n"
    after = {name: states(tmp_path, text, f"--build-arg {name}", builder) for name in "MU"}
    assert after["M"][2:] == ["rebuilt", "rebuilt"]
    assert after["U"][2:] == ["cached", "rebuilt"]


def test_a_link_may_have_a_variable_as_owner(tmp_path: Path) -> None:
    text = (
        "FROM debian\nARG U=1\nCOPY --link --chown=$U a.py /\nCOPY --chmod=644 <<EOF /x\nx\nEOF\n"
    )
    assert states(tmp_path, text, "--build-arg U") == ["cached", "rebuilt", "rebuilt"]


def test_an_owner_of_what_comes_from_a_stage_is_compared(tmp_path: Path) -> None:
    text = "FROM debian AS one\nRUN true\nFROM debian\nARG U=1\nCOPY --from=one --chown=$U /a /b\n"
    assert states(tmp_path, text, "--build-arg U") == ["cached", "cached", "rebuilt"]
    assert states(tmp_path, text, "--build-arg U", "podman") == ["cached", "cached", "cached"]


def test_every_mount_counts_a_cache_of_a_stage_too(tmp_path: Path) -> None:
    """ops/exec.go, getMountDeps: the content of each mount without an output is compared."""
    stages = "FROM debian AS one\nCOPY a.py /\nFROM debian AS two\nRUN true\nFROM debian\n"
    text = f"{stages}RUN --mount=from=two,target=/t --mount=from=one,target=/o true\n"
    assert states(tmp_path, text, "a.py") == ["rebuilt", "cached", "unknown"]
    cache = text.replace("=from=one", "=type=cache,from=one")
    assert states(tmp_path, cache, "a.py") == ["rebuilt", "cached", "unknown"]


def test_what_a_mount_with_a_variable_reads_is_unknown(tmp_path: Path) -> None:
    """instructions/commands_runmount.go, parseMount: variables are resolved, keys in any case."""
    text = "FROM debian\nARG F=a.py\nRUN --mount=SOURCE=$F,target=/a cat /a\n"
    assert states(tmp_path, text, "--build-arg F") == ["cached", "unknown"]
    assert states(tmp_path, text.replace("$F", "a.py"), "a.py") == ["cached", "rebuilt"]


def test_what_is_fetched_is_known_by_its_checksum(tmp_path: Path) -> None:
    """source/http/source.go, CacheKey: nothing is fetched to look it up."""
    text = f"FROM debian\nADD --checksum=sha256:{'0' * 64} https://example.com/x /\nCOPY a.py /\n"
    assert states(tmp_path, text, "a.py") == ["cached", "rebuilt"]
    bare = re.sub("--checksum=[^ ]* ", "", text)
    assert states(tmp_path, bare, "a.py")[0] == "unknown"


def test_a_heredoc_is_a_whole_word() -> None:
    """parser.go, heredocsFromLine and ParseHeredoc: any name, but nothing inside quotes."""
    text = (
        "FROM debian\nRUN cat 3<<end-of.txt\nx\nend-of.txt\nRUN echo '<<A b' \"<<A b\" << A a<<A\n"
    )
    found = list(instructions(text, "buildkit"))
    assert [[doc.name for doc in one.heredocs] for one in found] == [[], ["end-of.txt"], []]


def test_a_heredoc_uses_what_it_names_behind_a_dollar(tmp_path: Path) -> None:
    text = "FROM debian\nARG A\nCOPY <<EOF /x\n$AB A ${AB:-A}\nEOF\n"
    assert states(tmp_path, text, "--build-arg A") == ["cached", "cached"]
    used = text.replace("AB:-A", "A:-b")
    assert states(tmp_path, used, "--build-arg A") == ["cached", "rebuilt"]


@pytest.mark.parametrize(
    ("lines", "left_out", "kept"),
    [
        # page build/concepts/context, .dockerignore files
        (["*/temp*"], ["d/temporary.txt", "d/temp"], ["temp", "d/e/temp"]),
        (["temp?"], ["tempa", "tempb/x"], ["temp", "d/tempa"]),
        (["**/*.go"], ["a.go", "b/c/d.go"], ["a.gox"]),
        (["*.md", "!README.md"], ["a.md"], ["README.md"]),
        (["*.md", "!README*.md", "README-secret.md"], ["README-secret.md"], ["README.md"]),
        (["/foo/bar/", " x "], ["foo/bar", "foo/bar/y", "x"], ["bar", "a/x"]),
        # patternmatcher.go, compile
        (["a+b", "{a}"], ["a+b", "{a}"], ["aab", "a"]),
        (["**.log"], ["x.log", "d/x.log"], ["x.logs"]),
        (["foo**"], ["foo", "foobar/x"], ["a/foo"]),
        (["a/**/b", "[a-c]x"], ["a/b", "a/c/d/b/e", "bx"], ["ab", "dx"]),
    ],
)
def test_patterns_are_read_as_they_are_told(
    lines: list[str], left_out: list[str], kept: list[str]
) -> None:
    rules = rules_of(lines, "buildkit")
    assert [path for path in left_out + kept if rules.excludes(path)] == left_out


def test_a_directory_is_entered_for_what_comes_back_of_it_alone() -> None:
    """filter.go, Walk, onlyPrefixExcludeExceptions; podman compares characters, not names."""
    lines = ["*", "!ab/c/**"]
    places = ["a", "ab", "ab/c", "ab/d"]
    rules, podman = rules_of(lines, "buildkit"), rules_of(lines)
    assert [place for place in places if rules.enters(place)] == ["ab", "ab/c"]
    assert [place for place in places if podman.enters(place)] == ["a", "ab", "ab/c"]
    assert all(map(rules_of(["*", "!*/c"], "buildkit").enters, places))


def test_anything_may_be_brought_back(tmp_path: Path) -> None:
    """filter.go, Walk; podman does not look into d for `!*/keep`."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/keep").touch()
    (tmp_path / "Dockerfile.dockerignore").write_text("*\n!*/keep\n")
    builders: tuple[Builder, ...] = ("buildkit", "podman")
    for builder, left in zip(builders, (["d/keep"], []), strict=True):
        rules = rules_for(tmp_path, tmp_path / "Dockerfile", builder=builder)
        assert [entry.path for entry in read_context(tmp_path, rules).entries] == left


def test_a_containerignore_is_not_for_buildkit(tmp_path: Path) -> None:
    (tmp_path / ".containerignore").write_text("a.py\n")
    text = "FROM debian\nCOPY . /\n"
    assert costed(tmp_path, text).context.files == 4
    assert costed(tmp_path, text, "podman").context.files == 3


def test_a_containerfile_is_not_for_buildkit(tmp_path: Path) -> None:
    """docs.docker.com, docker build, --file: the default is Dockerfile; podman's is this one."""
    (tmp_path / "Containerfile").write_text("FROM debian\nRUN one\nRUN two\n")
    text = "FROM debian\nRUN one\n"
    assert len(costed(tmp_path, text).lines) == 1
    assert len(costed(tmp_path, text, "podman").lines) == 2
    (tmp_path / "Dockerfile").unlink()
    with pytest.raises(UsageError, match="there is no Dockerfile in"):
        cost(tmp_path, builder="buildkit")
