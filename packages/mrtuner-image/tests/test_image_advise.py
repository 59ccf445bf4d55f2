"""Advice: each rule by hand, patches that apply, and savings that are those of the patched tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from image_seed import seed
from machine import needs, program
from mrtuner.errors import BadValue, UsageError
from mrtuner_image.advice.ranking import Advised, advise
from mrtuner_image.advice.rules import RULES
from mrtuner_image.advice.rules.package_caches import PACKAGE_CACHES
from mrtuner_image.deploys import expected
from mrtuner_image.dockerfile import Builder
from mrtuner_image.model import model_of
from mrtuner_image.tree import tree_of

pytestmark = pytest.mark.usefixtures("asks")


def make(root: Path, text: str, *names: str) -> Path:
    """A context of small files with a Dockerfile that it leaves out."""
    for name in ("src/main.py", "requirements.txt", "package.json", *names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n" * 20)
    (root / "package.json").write_text("{}\n")
    (root / "requirements.txt").write_text("flask==3.1\n")
    if not (root / ".dockerignore").exists():
        (root / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    (root / "Dockerfile").write_text(text)
    return root


def applied(root: Path, patch: str, *command: str) -> None:
    """Apply a patch as its reader would; both programs refuse one that does not fit."""
    done = subprocess.run(
        command or (program("patch"), "-p1", "--fuzz=0"), input=patch.encode(), cwd=root,
        capture_output=True, check=False, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert b"offset" not in done.stdout


def recipe_after(root: Path, rule: str) -> str:
    """The Dockerfile after the patch of the only advice of a rule."""
    (one,) = [one for one in advise(root).advice if one.rule == rule]
    applied(root, one.patch)
    return (root / "Dockerfile").read_text()


def rules_found(root: Path, builder: Builder = "podman") -> list[str]:
    return [one.rule for one in advise(root, builder=builder).advice]


# Each rule

MOVED = [
    (
        "late-argument",
        "FROM debian\nARG GIT_SHA\nLABEL sha=$GIT_SHA\nRUN make\nCMD x\n",
        "FROM debian\nRUN make\nCMD x\nARG GIT_SHA\nLABEL sha=$GIT_SHA\n",
    ),
    (
        "late-argument",
        "FROM debian\nARG BUILD_DATE=0\nRUN make\nRUN echo ${BUILD_DATE} > /date\n",
        "FROM debian\nRUN make\nARG BUILD_DATE=0\nRUN echo ${BUILD_DATE} > /date\n",
    ),
    (
        "late-argument",
        "FROM debian\nARG GIT_SHA='of no commit'\nRUN make\n"
        "COPY --from=reg.io/assets:$GIT_SHA /a /a\nCMD x\n",
        "FROM debian\nRUN make\nARG GIT_SHA='of no commit'\n"
        "COPY --from=reg.io/assets:$GIT_SHA /a /a\nCMD x\n",
    ),
    (
        "package-caches",
        "FROM debian\nCOPY src /src\nRUN apt-get update \\\n    && apt-get install -y gcc\n",
        "FROM debian\nCOPY src /src\nRUN apt-get update \\\n    && apt-get install -y gcc \\\n"
        "    && apt-get clean && rm -rf /var/lib/apt/lists/*\n",
    ),
    (
        "package-caches",
        "FROM alpine\nCOPY src /src\nRUN apk add gcc\n",
        "FROM alpine\nCOPY src /src\nRUN apk add --no-cache gcc\n",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "before", "after"), MOVED)
def test_a_rule_changes_what_it_means_and_nothing_else(
    tmp_path: Path, rule: str, before: str, after: str
) -> None:
    assert recipe_after(make(tmp_path, before), rule) == after


@pytest.mark.parametrize(("rule", "_before", "after"), MOVED)
def test_no_rule_finds_its_own_result(tmp_path: Path, rule: str, _before: str, after: str) -> None:
    assert rule not in rules_found(make(tmp_path, after))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        # another line installs with these lists
        ("package-caches", "FROM debian\nRUN apt-get update\nRUN apt-get install -y gcc\n"),
        (
            "package-caches",
            "FROM debian\nRUN apt-get update && apt-get install -y gcc\n"
            "RUN apt-get install -y make && rm -rf /var/lib/apt/lists/*\n",
        ),
        # no command can follow a comment or an operator
        ("package-caches", "FROM debian\nCOPY src /s\nRUN apt-get install -y gcc # why\n"),
        ("package-caches", "FROM debian\nCOPY src /s\nRUN apt-get install -y gcc;\n"),
        ("late-argument", "FROM debian\nARG GIT_SHA\nRUN echo $GIT_SHA\n"),
        ("late-argument", "FROM debian\nARG FEATURE\nRUN make\n"),
        # what passes its value on is needed by a flag
        (
            "late-argument",
            "FROM debian\nARG GIT_SHA\nENV V=$GIT_SHA\nRUN make\nCOPY --from=a/b:$V /a /a\n",
        ),
        ("package-caches", "FROM debian\nRUN apt-get update && rm -rf /var/lib/apt/lists/*\n"),
        ("package-caches", "FROM python\nENV PIP_NO_CACHE_DIR=1\nRUN pip install x\n"),
        (
            "package-caches",
            "FROM python AS a\nRUN pip install x\nFROM scratch\nCOPY --from=a / /\n",
        ),
    ],
)
def test_a_rule_is_silent_where_it_could_change_the_image(
    tmp_path: Path, rule: str, text: str
) -> None:
    assert rule not in rules_found(make(tmp_path, text))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (
            "late-argument",
            "FROM debian\nARG GIT_SHA\nRUN <<EOF\necho $GIT_SHA\nEOF\nRUN make\n",
        ),
        (
            "late-argument",
            "FROM debian\nARG GIT_SHA\nADD --checksum=sha256:$GIT_SHA https://a.io/b /b\n"
            "RUN make\n",
        ),
        # docs.docker.com, reference/dockerfile: the example of RUN --mount=type=cache
        (
            "package-caches",
            "FROM ubuntu\nRUN --mount=type=cache,target=/var/cache/apt,sharing=locked "
            "--mount=type=cache,target=/var/lib/apt,sharing=locked "
            "apt-get update && apt-get install -y gcc\n",
        ),
        (
            "package-caches",
            "FROM python\nRUN --mount=target=/src --mount=type=cache,target=/var/cache/pip "
            "pip install /src\n",
        ),
    ],
)
def test_a_rule_is_silent_where_buildkit_would_build_something_else(
    tmp_path: Path, rule: str, text: str
) -> None:
    assert rule not in rules_found(make(tmp_path, text), "buildkit")


def test_every_cache_can_be_left_out_one_way() -> None:
    assert all(bool(one.removal) != bool(one.option) for one in PACKAGE_CACHES)


@pytest.mark.parametrize("name", [".yarnrc.yml", ".pnp.cjs", "web/.pnp.js"])
def test_yarn_that_runs_packages_from_its_cache_keeps_it(tmp_path: Path, name: str) -> None:
    make(tmp_path, "FROM node\nCOPY . /a\nRUN cd /a && yarn install\n")
    assert "package-caches" in rules_found(tmp_path)
    make(tmp_path, "FROM node\nCOPY . /a\nRUN cd /a && yarn install\n", name)
    assert "package-caches" not in rules_found(tmp_path)


# The ignore file


def test_a_secret_comes_first_and_stays_here(tmp_path: Path) -> None:
    make(tmp_path, "FROM debian\nCOPY . /srv\n", ".env", "log/big.log")
    first = advise(tmp_path).advice[0]
    assert (first.rule, ".env" in first.title) == ("secrets", True)
    applied(tmp_path, first.patch)
    assert ".env" in (tmp_path / ".dockerignore").read_text().splitlines()
    assert "secrets" not in rules_found(tmp_path)


def test_what_a_line_names_is_there_on_purpose(tmp_path: Path) -> None:
    make(
        tmp_path, "FROM debian\nCOPY certs/tls.key /etc/\nCOPY log /log\n", "certs/tls.key", "log/a"
    )
    assert rules_found(tmp_path) == []


def test_dependencies_are_left_out_only_where_the_image_installs_them(tmp_path: Path) -> None:
    make(tmp_path, "FROM node\nCOPY . /a\n", "node_modules/left-pad/index.js")
    assert "ignore" not in rules_found(tmp_path)
    make(tmp_path, "FROM node\nCOPY . /a\nRUN cd /a && npm ci\n")
    assert "ignore" in rules_found(tmp_path)


def test_logs_beside_packages_called_log_are_left_out_one_by_one(tmp_path: Path) -> None:
    """Four directories of logs share a pattern, unless it would hit a package in Go."""
    logs = [f"{name}/log/a.txt" for name in "abcd"]
    make(tmp_path, "FROM golang\nCOPY . /srv\n", *logs)
    (one,) = [one for one in advise(tmp_path).advice if one.rule == "ignore"]
    assert "+**/log/*" in one.patch.splitlines()
    make(tmp_path, "FROM golang\nCOPY . /srv\n", "internal/log/log.go")
    (one,) = [one for one in advise(tmp_path).advice if one.rule == "ignore"]
    applied(tmp_path, one.patch)
    found = model_of(tree_of(tmp_path)).context.entries
    kept = [entry.path for entry in found if entry.kind == "file"]
    assert "internal/log/log.go" in kept
    assert not set(logs) & set(kept)


def test_a_large_directory_that_no_line_copies_is_left_out(tmp_path: Path) -> None:
    make(tmp_path, "FROM debian\nCOPY src /src\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/all").write_bytes(bytes(2_000_000))
    (one,) = advise(tmp_path).advice
    assert one.rule == "ignore-uncopied"
    assert one.saved.sent.bytes == 2_000_384 + 1024  # whole blocks and two headers
    make(tmp_path, "FROM debian\nCOPY src /src\nRUN --mount=type=bind,target=/all true\n")
    assert rules_found(tmp_path) == []


def test_what_a_mount_of_no_type_shows_is_not_left_out(tmp_path: Path) -> None:
    """docs.docker.com, reference/dockerfile: a mount without a type is a bind mount."""
    make(tmp_path, "FROM debian\nCOPY src /src\nRUN --mount=target=. go build ./...\n")
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor/all").write_bytes(bytes(2_000_000))
    assert "ignore-uncopied" not in rules_found(tmp_path, "buildkit")


@pytest.mark.parametrize("old", ["", "Dockerfile", "Dockerfile\n", "# a\r\nDockerfile\r\n"])
def test_entries_come_behind_those_that_are_there(tmp_path: Path, old: str) -> None:
    make(tmp_path, "FROM debian\nCOPY . /srv\n", "x.log")
    (tmp_path / ".dockerignore").write_bytes(old.encode())
    (one,) = [one for one in advise(tmp_path).advice if one.rule == "ignore"]
    applied(tmp_path, one.patch, "git", "apply", "--whitespace=nowarn")
    text = (tmp_path / ".dockerignore").read_bytes().decode()
    itself = [] if old else [".dockerignore"]  # an empty file is as good as none
    assert text.split() == [*old.split(), "x.log", *itself]
    assert ("\r\n" in text) == ("\r\n" in old)


@pytest.mark.parametrize(
    "name", ["odd [1].log", "!x.log", "#x.log", " x.log", "a\nb.log", "é.log", "\\x.log"]
)
def test_names_that_the_ignore_file_reads_otherwise_are_not_guessed(
    tmp_path: Path, name: str
) -> None:
    make(tmp_path, "FROM debian\nCOPY . /srv\n", name)
    for one in advise(tmp_path).advice:
        applied(tmp_path, one.patch)
        assert not model_of(tree_of(tmp_path)).copying.get(name)


def test_many_of_a_name_that_is_no_pattern_do_no_harm(tmp_path: Path) -> None:
    """A class without its end is a syntax error, of each alone as well."""
    make(tmp_path, "FROM debian\nCOPY . /srv\n", *(f"{each}/x[.sqlite3" for each in "abcd"))
    assert rules_found(tmp_path) == []


def test_a_name_that_is_no_utf8_does_no_harm(tmp_path: Path) -> None:
    make(tmp_path, "FROM debian\nCOPY . /srv\n")
    (tmp_path / os.fsdecode(b"\xff.log")).touch()
    assert rules_found(tmp_path) == []


# Patches and savings


def seeded(root: Path) -> Advised:
    return advise(seed(root))


@pytest.mark.parametrize(
    "program",
    [pytest.param(("patch", "-p1", "--fuzz=0"), marks=needs("patch")), ("git", "apply")],
)
def test_what_is_computed_is_what_the_patched_directory_costs(
    tmp_path: Path, program: tuple[str, ...]
) -> None:
    """Each patch alone, and all together, applied by either program."""
    found = seeded(tmp_path / "seed")
    for number, patch in enumerate([*(one.patch for one in found.advice), found.together.patch]):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "seed", root, symlinks=True)
        applied(root, patch, *program)
        after = expected(model_of(tree_of(root)), found.deploys)
        if number < len(found.advice):
            saved = found.advice[number].saved
            assert saved.sent.bytes == found.before.sent - after.sent
            assert saved.pushed.bytes == round(found.before.pushed.bytes - after.pushed.bytes)
        else:
            assert after == found.together.after


def test_with_everything_applied_nothing_is_left_to_say(tmp_path: Path) -> None:
    applied(tmp_path, seeded(tmp_path).together.patch)
    assert advise(tmp_path).together.applied == ()


def test_chosen_pieces_are_combined_alone(tmp_path: Path) -> None:
    found = seeded(tmp_path)
    (chosen, *_) = [one for one in found.advice if one.rule == "ignore"]
    alone = advise(tmp_path, only=[chosen.number]).together
    assert (alone.patch, alone.saved) == (chosen.patch, chosen.saved)
    with pytest.raises(UsageError, match="there is no advice with number 99"):
        advise(tmp_path, only=[99])


def test_a_dockerfile_outside_is_patched_from_where_both_are_below(tmp_path: Path) -> None:
    make(tmp_path / "app", "", "x.log")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/Dockerfile").write_text("FROM debian\nARG GIT_SHA\nRUN make\nCOPY src /a\n")
    found = advise(tmp_path / "app", tmp_path / "deploy/Dockerfile")
    assert found.place.resolve() == tmp_path.resolve()
    applied(tmp_path, found.together.patch)
    assert (tmp_path / "deploy/Dockerfile").read_text().endswith("ARG GIT_SHA\n")
    assert "x.log" in (tmp_path / "app/.dockerignore").read_text()


def test_line_ends_and_a_missing_last_one_are_kept(tmp_path: Path) -> None:
    make(tmp_path, "")
    text = b"FROM debian\r\nARG GIT_SHA\r\nRUN make\r\nRUN echo $GIT_SHA"
    (tmp_path / "Dockerfile").write_bytes(text)
    (one,) = advise(tmp_path).advice
    applied(tmp_path, one.patch, "git", "apply", "--whitespace=nowarn")
    after = (tmp_path / "Dockerfile").read_bytes()
    assert after == b"FROM debian\r\nRUN make\r\nARG GIT_SHA\r\nRUN echo $GIT_SHA"


# Known and unknown


def test_a_cache_left_out_saves_something_unknown(tmp_path: Path) -> None:
    make(tmp_path, "FROM python\nCOPY src /a\nRUN pip install flask\n")
    (one,) = advise(tmp_path).advice
    assert one.rule == "package-caches"
    assert (one.saved.pushed.more, one.saved.pushed.less) == (True, False)
    assert one.saved.image.more


def test_a_smaller_image_counts_where_no_deploy_builds_the_line(tmp_path: Path) -> None:
    """The Dockerfile is copied: a longer one costs a few bytes, which hide no cache of apt."""
    make(tmp_path, "FROM debian\nRUN apt-get update && apt-get install -y nginx\nCOPY . /srv\n")
    (tmp_path / ".dockerignore").write_text("log\n")
    found = advise(tmp_path)
    assert [one.rule for one in found.advice] == ["package-caches"]
    assert found.together.needless == ()
    assert (
        "+RUN apt-get update && apt-get install -y nginx && apt-get clean" in found.together.patch
    )


# Bad input


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no FROM"),
        ("FROM a\nNONSENSE\n", "unknown instruction"),
        ("FROM a\nCOPY x /\n", "copies x"),
    ],
)
def test_what_the_builder_refuses_gets_no_advice(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        advise(make(tmp_path, text))


def test_there_is_no_advice_without_a_dockerfile(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no Containerfile or Dockerfile"):
        advise(tmp_path)


def test_a_dockerfile_that_is_no_text_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "")
    (tmp_path / "Dockerfile").write_bytes(b"FROM \xff\n")
    with pytest.raises(BadValue, match="is not text"):
        advise(tmp_path)


def test_every_rule_has_a_docstring_for_whoever_adds_the_next() -> None:
    assert all(rule.__doc__ for rule in RULES.values())
