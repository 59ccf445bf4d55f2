"""Advice: each rule by hand, patches that apply, and savings that are those of the patched tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from image_seed import HISTORY, LOGS, SOURCE, UNIT, seed

from machine import needs, program
from mrtuner.errors import BadValue, UsageError
from mrtuner.image.advice.advise import Advised, Saving, advise
from mrtuner.image.advice.package_managers import PACKAGE_CACHES, PACKAGE_MANAGERS
from mrtuner.image.advice.rules import RULES
from mrtuner.image.cost import cost
from mrtuner.image.deploys import expected
from mrtuner.image.model import model_of
from mrtuner.image.tree import tree_of

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


def rules_found(root: Path) -> list[str]:
    return [one.rule for one in advise(root).advice]


# Each rule

MOVED = [
    (
        "copy-chown",
        "FROM debian\nCOPY src /srv/app\n# why\nRUN chown -R 7:8 /srv/app\nCMD x\n",
        "FROM debian\nCOPY --chown=7:8 src /srv/app\nCMD x\n",
    ),
    (  # an owner or group that is not named stays root
        "copy-chown",
        "FROM debian\nCOPY src /srv/app\nRUN chown -R 7 /srv/app\n",
        "FROM debian\nCOPY --chown=7:0 src /srv/app\n",
    ),
    (  # or what --chown set
        "copy-chown",
        "FROM debian\nCOPY --chown=1:2 src /srv/app\nRUN chown -R 7 /srv/app\n",
        "FROM debian\nCOPY --chown=7:2 src /srv/app\n",
    ),
    (
        "copy-chown",
        "FROM debian\nCOPY --chown=1 src /srv/app\nRUN chown -R 7 /srv/app\n",
        "FROM debian\nCOPY --chown=7:1 src /srv/app\n",
    ),
    (  # a directory that another line made is not root's afterwards either
        "copy-chown",
        "FROM debian\nWORKDIR /srv/app\nCOPY src .\nRUN chown -R 7:8 /srv/app && echo\n",
        "FROM debian\nWORKDIR /srv/app\nCOPY --chown=7:8 src .\n"
        "RUN find /srv/app \\( ! -user 7 -o ! -group 8 \\) -exec chown -h 7:8 {} + && echo\n",
    ),
    (  # the user has to be there first
        "copy-chown",
        "FROM debian\nCOPY src /app\nRUN useradd app && chown -R app: /app\n",
        "FROM debian\nRUN useradd app\nCOPY --chown=app src /app\n",
    ),
    (
        "copy-chown",
        "FROM debian\nCOPY src /code\nRUN chgrp -R 8 /code && \\\n    make\n",
        "FROM debian\nCOPY --chown=0:8 src /code\nRUN make\n",
    ),
    (  # the base image has this directory, and COPY does not change its owner
        "copy-chown",
        "FROM debian\nCOPY src /srv\nRUN chown -R 7 /srv\n",
        "FROM debian\nCOPY --chown=7:0 src /srv\n"
        "RUN find /srv ! -user 7 -exec chown -h 7 {} +\n",
    ),
    (
        "manifests-first",
        "FROM python\n# all\nCOPY . /srv/\nENV A=1\nRUN pip install -r /srv/requirements.txt\n",
        "FROM python\nCOPY requirements.txt /srv/\nENV A=1\n"
        "RUN pip install -r /srv/requirements.txt\n# all\nCOPY . /srv/\n",
    ),
    (  # what needs the source stays below it
        "manifests-first",
        "FROM node\nWORKDIR /app\nCOPY --chown=7 . .\nRUN npm ci && npm run build\n",
        "FROM node\nWORKDIR /app\nCOPY --chown=7 package.json ./\nRUN npm ci\n"
        "COPY --chown=7 . .\nRUN npm run build\n",
    ),
    (
        "manifests-first",
        "FROM node\nCOPY . /app\nRUN cd /app && npm ci && npm run build\n",
        "FROM node\nCOPY package.json /app/\nRUN cd /app && npm ci\nCOPY . /app\n"
        "RUN cd /app && npm run build\n",
    ),
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
    (
        "removed-where-made",
        "FROM debian\nCOPY src /src\nRUN make\n\n# tidy\nRUN rm -rf /src/build\n",
        "FROM debian\nCOPY src /src\nRUN make && rm -rf /src/build\n\n",
    ),
    (
        "copied-twice",
        "FROM debian\nCOPY src /src\nCOPY src/main.py /src/main.py\n",
        "FROM debian\nCOPY src /src\n",
    ),
    (
        "asset-stage",
        "FROM ruby\nWORKDIR /app\nCOPY . .\nUSER app\nRUN bundle exec rake assets:precompile\n",
        "FROM ruby AS prepared\nWORKDIR /app\n\nFROM prepared AS assets\nCOPY . .\nUSER app\n"
        "RUN bundle exec rake assets:precompile\n\nFROM prepared\nCOPY . .\n"
        "COPY --from=assets --chown=app /app/public/assets /app/public/assets\nUSER app\n",
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
        ("copy-chown", "FROM debian\nCOPY src /srv\nRUN chown -R $USER /srv\n"),
        ("copy-chown", "FROM debian\nCOPY src /srv\nRUN chown 7 /srv\n"),
        ("copy-chown", "FROM debian\nCOPY src /srv\nRUN chown -R 7 /other\n"),
        # the group is unknown: that of a named user, or of files from a stage
        ("copy-chown", "FROM debian\nCOPY --chown=app src /a\nRUN chown -R 7 /a\n"),
        (
            "copy-chown",
            "FROM debian AS one\nFROM debian\nCOPY --from=one /a /a\nRUN chown -R 7 /a\n",
        ),
        # the user is made by a line that needs the source
        ("copy-chown", "FROM debian\nCOPY src /s\nRUN make && useradd a && chown -R a /s\n"),
        ("manifests-first", "FROM python\nCOPY . /srv\nRUN pip install /srv\n"),
        ("manifests-first", "FROM python\nCOPY . .\nRUN pip install -r requirements.txt -e .\n"),
        ("manifests-first", "FROM node\nCOPY . /a\nWORKDIR /a\nRUN make && npm ci\n"),
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
        ("removed-where-made", "FROM debian\nCOPY src /s\nRUN make ;\nRUN rm -rf /s/x\n"),
        # moved below WORKDIR, the source would be copied elsewhere
        ("manifests-first", "FROM node\nWORKDIR /a\nCOPY . b\nWORKDIR /a/b\nRUN npm ci\n"),
        ("manifests-first", "FROM node\nCOPY package.json /a/\nWORKDIR /a\nRUN npm ci\nCOPY . ."),
        ("late-argument", "FROM debian\nARG GIT_SHA\nRUN echo $GIT_SHA\n"),
        ("late-argument", "FROM debian\nARG FEATURE\nRUN make\n"),
        ("package-caches", "FROM debian\nRUN apt-get update && rm -rf /var/lib/apt/lists/*\n"),
        ("package-caches", "FROM python\nENV PIP_NO_CACHE_DIR=1\nRUN pip install x\n"),
        (
            "package-caches",
            "FROM python AS a\nRUN pip install x\nFROM scratch\nCOPY --from=a / /\n",
        ),
        ("removed-where-made", "FROM debian\nRUN make\nUSER a\nRUN rm -rf /x\n"),
        # deleted here, but copied again, or to another place
        ("deleted-copies", "FROM debian\nCOPY . /a\nRUN rm -f /a/src/main.py\nCOPY . /a\n"),
        ("deleted-copies", "FROM debian\nCOPY . /b\nCOPY . /a\nRUN rm -f /a/src/main.py\n"),
        ("copied-twice", "FROM debian\nCOPY src /src\nCOPY --chown=7 src /src\n"),
        ("copied-twice", "FROM debian\nCOPY src /src\nRUN rm src/main.py\nCOPY src /src\n"),
        ("asset-stage", "FROM ruby\nARG X\nWORKDIR /a\nCOPY . .\nRUN rake assets:precompile\n"),
        ("copy-link", "FROM debian\nRUN make\nCOPY src /src\n"),  # podman refuses --link
    ],
)
def test_a_rule_is_silent_where_it_could_change_the_image(
    tmp_path: Path, rule: str, text: str
) -> None:
    assert rule not in rules_found(make(tmp_path, text))


def test_manifests_may_name_others_that_are_copied_too(tmp_path: Path) -> None:
    text = "FROM python\nCOPY . /srv\nRUN pip install -r /srv/requirements.txt\n"
    make(tmp_path, text)
    (tmp_path / "requirements.txt").write_text("-r requirements-base.txt\n-c constraints.txt\n")
    assert "manifests-first" in rules_found(tmp_path)
    (tmp_path / "requirements.txt").write_text("-r deps/other.in\n")
    assert "manifests-first" not in rules_found(tmp_path)


def test_a_manifest_that_needs_the_source_stays_with_it(tmp_path: Path) -> None:
    text = "FROM node\nCOPY . /a\nWORKDIR /a\nRUN npm ci\n"
    assert "manifests-first" in rules_found(make(tmp_path, text))
    (tmp_path / "package.json").write_text('{"scripts": {"postinstall": "node build.js"}}')
    assert "manifests-first" not in rules_found(tmp_path)
    (tmp_path / "package.json").write_bytes(b"\xff")
    assert "manifests-first" not in rules_found(tmp_path)


@pytest.mark.parametrize(
    ("name", "command", "installs"),
    [
        ("pip", "pip install -r requirements.txt", True), ("pip", "pip install -r r.txt .", False),
        ("pipenv", "pipenv sync", True), ("poetry", "poetry install --no-root", True),
        ("poetry", "poetry install", False), ("uv", "uv sync --no-install-project", True),
        ("npm", "npm ci --omit=dev", True), ("npm", "npm install left-pad", False),
        ("npm", "npm install-test", False), ("yarn", "yarn install --frozen-lockfile", True),
        ("yarn", "yarn build", False), ("pnpm", "pnpm fetch", True),
        ("bundler", "bundle install --jobs 4", True), ("bundler", "bundle exec rake", False),
        ("go", "go mod download", True), ("go", "go build ./...", False),
        ("composer", "composer install --no-scripts --no-autoloader", True),
        ("composer", "composer install", False), ("maven", "mvn -B dependency:go-offline", True),
        ("mix", "mix deps.get --only prod", True), ("nuget", "dotnet restore", True),
    ],
)  # fmt: skip
def test_package_managers_are_known_by_their_commands(
    name: str, command: str, installs: bool
) -> None:
    (manager,) = [one for one in PACKAGE_MANAGERS if one.name == name]
    assert (manager.installs.match(command) is not None) == installs


def test_every_cache_can_be_left_out_one_way() -> None:
    assert all(bool(one.removal) != bool(one.option) for one in PACKAGE_CACHES)


def test_link_is_for_the_builder_that_has_it_and_not_proven(tmp_path: Path) -> None:
    make(tmp_path, "FROM debian\nRUN make\nCOPY src /src\n")
    (one,) = [one for one in advise(tmp_path, builder="buildkit").advice if one.rule == "copy-link"]
    assert not one.proven
    assert "+COPY --link src /src" in one.patch
    assert one.saved.pushed == Saving(0, more=True, less=True)


@pytest.mark.parametrize("flag", ["--chown=app", "--chown=1:app", "--chmod=644"])
def test_link_is_not_for_what_it_would_break_or_not_help(tmp_path: Path, flag: str) -> None:
    make(tmp_path, f"FROM debian\nRUN make\nCOPY {flag} src /src\n")
    assert "copy-link" not in {one.rule for one in advise(tmp_path, builder="buildkit").advice}


def test_the_last_of_several_owners_wins(tmp_path: Path) -> None:
    """Only the first chown may move into COPY: without the second, the first would win."""
    make(tmp_path, "FROM debian\nCOPY src /a\nRUN chown -R 7:7 /a\nRUN chown -R 9:9 /a\n")
    assert recipe_after(tmp_path, "copy-chown") == (
        "FROM debian\nCOPY --chown=7:7 src /a\nRUN chown -R 9:9 /a\n"
    )


def test_timestamps_are_fixed_where_the_build_is_started(tmp_path: Path) -> None:
    make(tmp_path, "FROM debian\nCOPY src /src\nRUN make\n")
    (tmp_path / "Makefile").write_text("image:\n\tpodman build -t app .\n\tbuildah bud .\n")
    (one,) = [one for one in advise(tmp_path).advice if one.rule == "fixed-timestamps"]
    applied(tmp_path, one.patch)
    assert (tmp_path / "Makefile").read_text() == (
        "image:\n\tpodman build --timestamp 0 -t app .\n\tbuildah bud --timestamp 0 .\n"
    )


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


def test_a_large_directory_that_no_line_copies_is_left_out(tmp_path: Path) -> None:
    make(tmp_path, "FROM debian\nCOPY src /src\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/all").write_bytes(bytes(2_000_000))
    (one,) = advise(tmp_path).advice
    assert one.rule == "ignore-uncopied"
    assert one.saved.sent.bytes == 2_000_384 + 1024  # whole blocks and two headers
    make(tmp_path, "FROM debian\nCOPY src /src\nRUN --mount=type=bind,target=/all true\n")
    assert rules_found(tmp_path) == []


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


def test_a_name_that_is_no_utf8_does_no_harm(tmp_path: Path) -> None:
    make(tmp_path, "FROM debian\nCOPY . /srv\n")
    (tmp_path / os.fsdecode(b"\xff.log")).touch()
    assert rules_found(tmp_path) == []


def test_no_more_directories_are_copied_apart_than_one_keeps_up(tmp_path: Path) -> None:
    """By hand: 9 directories, src and a line of files leave no room to split one of them in 4."""
    names = [f"{top}/{below}/data" for top in "abcdefghi" for below in "1234"]
    make(tmp_path, "FROM python\nCOPY . /srv\n", *names)
    for name in names:
        (tmp_path / name).write_bytes(os.urandom(60_000))
    applied(tmp_path, advise(tmp_path).together.patch)
    copies = (tmp_path / "Dockerfile").read_text().count("COPY")
    assert copies == 11  # src among them


def test_files_are_not_listed_without_end(tmp_path: Path) -> None:
    for number in range(13):
        make(tmp_path, "FROM python\nCOPY . /srv\n", "a/data", f"note{number}")
    (tmp_path / "a/data").write_bytes(os.urandom(200_000))
    assert "source-last" not in rules_found(tmp_path)
    (tmp_path / "note0").unlink()
    (tmp_path / "note1").unlink()
    (tmp_path / "note2").unlink()
    assert "source-last" in rules_found(tmp_path)


# Patches and savings


def seeded(root: Path) -> Advised:
    return advise(seed(root))


def test_the_seed_has_its_three_layers_its_doubled_chown_and_its_rubbish(tmp_path: Path) -> None:
    """By hand: 72 + 600 are added, and copied again by chown; only a build tells the rest."""
    found = seeded(tmp_path)
    rules = {one.rule: one for one in found.advice}
    assert {"ignore", "copy-chown", "manifests-first"} <= set(rules)
    pushed = {line.text.split()[0]: line for line in found.before.lines if line.pushed}
    whole = SOURCE + LOGS + HISTORY
    assert pushed["ADD"].pushed == pytest.approx(whole, rel=0.01)
    assert pushed["RUN"].pushed == pytest.approx(whole, rel=0.01)
    assert pushed["RUN"].unknown  # the gems
    assert any(line.unknown and "rake" in line.text for line in found.before.lines)  # the assets
    assert rules["copy-chown"].saved.pushed.bytes == pytest.approx(whole, rel=0.01)
    titles = " ".join(one.title for one in found.advice)
    assert "log" in titles
    assert ".git" in titles


END_STATE = """FROM localhost/ruby
ENV LANG=C.UTF-8
RUN useradd app
COPY --chown=app:app Gemfile Gemfile.lock /srv/app/
WORKDIR /srv/app
RUN bundle install --path vendor/bundle && find /srv/app \\( ! -user app -o ! -group app \\) \
-exec chown -h app:app {} +
ADD --chown=app:app . /srv/app
USER app
RUN rake assets:precompile
CMD ["bundle", "exec", "puma"]
"""


def test_patches_one_after_the_other_bring_the_seed_to_its_end_state_and_beyond(
    tmp_path: Path,
) -> None:
    """The reference's end state pushes the source once; all patches push only what changed."""
    seed(tmp_path)
    for rules in ({"ignore", "ignore-recipe"}, {"copy-chown"}, {"manifests-first"}):
        while of_rules := [one for one in advise(tmp_path).advice if one.rule in rules]:
            applied(tmp_path, of_rules[0].patch)
    assert (tmp_path / "Dockerfile").read_text() == END_STATE
    now = expected(model_of(tree_of(tmp_path)), advise(tmp_path).deploys)
    assert now.pushed.bytes == pytest.approx(SOURCE, rel=0.02)
    assert now.sent == pytest.approx(SOURCE, rel=0.05)  # and headers
    found = advise(tmp_path)
    applied(tmp_path, found.together.patch)
    better = expected(model_of(tree_of(tmp_path)), found.deploys)
    assert better.pushed.bytes < SOURCE / 8
    (code,) = [one for one in cost(tmp_path).changes if one.example == "app/models.rb"]
    assert code.pushed.bytes == pytest.approx(2 * UNIT, rel=0.06)  # the two files of its directory


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
    (chosen,) = [one for one in found.advice if one.rule == "copy-chown"]
    alone = advise(tmp_path, only=[chosen.number]).together
    assert (alone.patch, alone.saved) == (chosen.patch, chosen.saved)
    with pytest.raises(UsageError, match="there is no advice with number 99"):
        advise(tmp_path, only=[99])


def test_a_dockerfile_outside_is_patched_from_where_both_are_below(tmp_path: Path) -> None:
    make(tmp_path / "app", "", "x.log")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/Dockerfile").write_text("FROM debian\nCOPY src /a\nRUN chown -R 7 /a\n")
    found = advise(tmp_path / "app", tmp_path / "deploy/Dockerfile")
    assert found.place.resolve() == tmp_path.resolve()
    applied(tmp_path, found.together.patch)
    assert "--chown=7:0" in (tmp_path / "deploy/Dockerfile").read_text()
    assert "x.log" in (tmp_path / "app/.dockerignore").read_text()


def test_line_ends_and_a_missing_last_one_are_kept(tmp_path: Path) -> None:
    make(tmp_path, "")
    text = b"FROM debian\r\nCOPY src /a\r\nRUN chown -R 7:8 /a"
    (tmp_path / "Dockerfile").write_bytes(text)
    (one,) = advise(tmp_path).advice
    applied(tmp_path, one.patch, "git", "apply", "--whitespace=nowarn")
    after = (tmp_path / "Dockerfile").read_bytes()
    assert after == b"FROM debian\r\nCOPY --chown=7:8 src /a\r"  # as much as patches can say


# Known and unknown


def test_a_chown_saves_at_least_what_was_copied(tmp_path: Path) -> None:
    """By hand: one file of one block, and its header."""
    make(tmp_path, "FROM debian\nCOPY src /a\nRUN make && chown -R 7:8 /a\n")
    (one,) = advise(tmp_path).advice
    assert one.saved.rebuilt == Saving(1024, more=True)  # and what make produced
    assert one.saved.sent == Saving(0)


def test_an_installation_that_stays_cached_saves_what_only_a_build_tells(tmp_path: Path) -> None:
    make(tmp_path, "FROM node\nCOPY . /a\nWORKDIR /a\nRUN npm ci --ignore-scripts\n")
    (one,) = [one for one in advise(tmp_path).advice if one.rule == "manifests-first"]
    assert (one.saved.pushed.more, one.saved.pushed.less) == (True, False)


def test_a_cache_left_out_saves_something_unknown(tmp_path: Path) -> None:
    make(tmp_path, "FROM python\nCOPY src /a\nRUN pip install flask\n")
    (one,) = advise(tmp_path).advice
    assert one.rule == "package-caches"
    assert (one.saved.pushed.more, one.saved.pushed.less) == (True, False)
    assert one.saved.image.more


# Public cases


def test_dive_684_a_chown_layer_is_counted_once(tmp_path: Path) -> None:
    """wagoodman/dive#684: a chown of an installed tree made a layer as large as the installation,
    and the waste was reported as the sum of both copies. One copy is needed: the other is waste."""
    make(tmp_path, "FROM node\nCOPY dist /app\nRUN chown -R node:node /app\n")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/bundle").write_bytes(os.urandom(970_000))
    (one,) = [one for one in advise(tmp_path).advice if one.rule == "copy-chown"]
    assert one.saved.image.bytes == pytest.approx(970_000, rel=0.01)
    assert one.saved.pushed.bytes == pytest.approx(970_000, rel=0.01)


def test_dive_715_a_file_made_and_deleted_hides_no_duplicate(tmp_path: Path) -> None:
    """wagoodman/dive#715: a whiteout without a file below ended the search of a layer, so a file
    of 4 kB in two layers passed the gate as no waste at all."""
    text = "FROM debian\nCOPY app /app\nRUN touch /x && rm /x\nCOPY app/data.bin /app/data.bin\n"
    make(tmp_path, text)
    (tmp_path / "app").mkdir()
    (tmp_path / "app/data.bin").write_bytes(os.urandom(4096))
    (one,) = [one for one in advise(tmp_path).advice if one.rule == "copied-twice"]
    assert one.saved.image.bytes == pytest.approx(4096, rel=0.05)


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
