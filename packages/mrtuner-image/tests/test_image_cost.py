"""What a change costs: by hand, and its bytes compared with what the builder makes."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_podman import Podman
from mrtuner.errors import UsageError
from mrtuner_image.context import ContextEntry, Kind
from mrtuner_image.cost import Change, Cost, cost
from mrtuner_image.kinds import kind_of
from mrtuner_image.layers import header


def an_app(root: Path, text: str) -> Cost:
    """The cost of an application of code, a manifest, an asset and a note, one block each."""
    for name in ("app/main.py", "app/more.py", "requirements.txt", "app/logo.png", "NOTES"):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x" * 100)
    (root / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    (root / "Dockerfile").write_text(text)
    return cost(root)


def of_kind(found: Cost, kind: str) -> Change:
    (one,) = [change for change in found.changes if change.kind == kind]
    return one


MANIFESTS_FIRST = """FROM python:3.13
COPY requirements.txt /srv/
RUN pip install -r /srv/requirements.txt
COPY --chown=7 app /srv/app
RUN python -m compileall /srv/app
"""


def test_each_kind_of_change_costs_what_stands_below_its_line(tmp_path: Path) -> None:
    """By hand: app is three files, each a header and a block, and two blocks at the end."""
    found = an_app(tmp_path, MANIFESTS_FIRST)
    code = of_kind(found, "code")
    assert (code.files, code.example, code.first) == (2, "app/main.py", 4)
    assert (code.rebuilt.bytes, code.rebuilt.unknown) == (3 * 1024 + 1024, (5,))
    manifests = of_kind(found, "dependencies")
    assert manifests.first == 2
    assert (manifests.rebuilt.bytes, manifests.rebuilt.unknown) == (2048 + 4096, (3, 5))
    nowhere = of_kind(found, "other")  # NOTES is copied by no line
    assert (nowhere.first, nowhere.rebuilt.bytes, nowhere.rebuilt.unknown) == (None, 0, ())
    assert {change.sent for change in found.changes} == {found.context.sent}


def test_files_of_a_kind_that_different_lines_copy_are_apart(tmp_path: Path) -> None:
    found = an_app(tmp_path, "FROM debian\nCOPY app/more.py /\nCOPY app /app\n")
    code = [change for change in found.changes if change.kind == "code"]
    assert [(change.example, change.first) for change in code] == [
        ("app/main.py", 3), ("app/more.py", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "at_least"),
    [
        ("chown -R app /srv/app", 3 * 1024),
        ("useradd app && chown --recursive app:app app/", 3 * 1024),
        ("chgrp -hR app .", 3 * 1024 + 1024),
        ("chown -R app /srv/ap", 0),
        ("chown app /srv/app", 0),  # the directory alone
        ("echo chown -R app /srv/app", 0),
    ],
)
def test_a_recursive_chown_copies_what_was_added(
    tmp_path: Path, command: str, at_least: int
) -> None:
    text = f"FROM debian\nWORKDIR /srv\nCOPY requirements.txt ./\nCOPY app app\nRUN {command}\n"
    layer = an_app(tmp_path, text).lines[-1].layer
    assert (layer.size, layer.least) == (None, at_least)


def test_what_a_relative_chown_reaches_in_an_unknown_directory_is_not_guessed(
    tmp_path: Path,
) -> None:
    found = an_app(tmp_path, "FROM debian\nCOPY app /srv/app\nRUN chown -R app .\n")
    assert found.lines[-1].layer.least == 0


def test_layers_of_a_stage_that_is_only_copied_from_are_not_pushed(tmp_path: Path) -> None:
    text = "FROM debian AS build\nCOPY app /app\nFROM debian\nCOPY --from=build /app /app\n"
    code = of_kind(an_app(tmp_path, text), "code")
    assert code.states == ((2, "rebuilt"), (4, "unknown"))
    assert (code.rebuilt.bytes, code.rebuilt.unknown) == (4096, (4,))
    assert (code.pushed.bytes, code.pushed.unknown) == (0, (4,))


def test_a_build_argument_costs_every_later_run(tmp_path: Path) -> None:
    found = an_app(tmp_path, "FROM debian\nARG SHA\nCOPY app /app\nRUN true\n")
    passed = of_kind(found, "build argument")
    assert (passed.example, passed.files, passed.first) == ("--build-arg SHA", 0, 4)


def test_an_argument_that_names_what_is_copied_does_not_change(tmp_path: Path) -> None:
    """Another value than app names nothing: that build fails."""
    found = an_app(tmp_path, "FROM scratch\nARG DIR=app\nARG SHA\nCOPY $DIR /app\n")
    passed = [one.example for one in found.changes if one.kind == "build argument"]
    assert passed == ["--build-arg SHA"]
    assert of_kind(found, "code").states[-1] == (4, "rebuilt")


def test_words_of_a_quoted_value_are_no_build_arguments(tmp_path: Path) -> None:
    found = an_app(tmp_path, 'FROM debian\nARG NOTE="built on a date" SHA\nRUN true\n')
    passed = [one.example for one in found.changes if one.kind == "build argument"]
    assert passed == ["--build-arg NOTE", "--build-arg SHA"]


def test_an_archive_that_add_unpacks_has_no_size_yet(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with tarfile.open(tmp_path / "some.tar", "w") as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nADD some.tar /a\nADD a.txt /b\n")
    assert [line.layer.size for line in cost(tmp_path).lines] == [None, 512 + 512 + 1024]


def test_a_secret_in_the_context_is_found(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    found = an_app(tmp_path, "FROM scratch\n")
    assert [(one.what, one.path) for one in found.missed] == [("secret", ".env")]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("requirements-dev.txt", "dependencies"), ("web/package.json", "dependencies"),
        ("Cargo.lock", "dependencies"), ("x/settings.json", "configuration"),
        ("a/b.PY", "code"), ("font.woff2", "asset"), ("Makefile", "other"),
        (".env", "configuration"),
    ],
)  # fmt: skip
def test_kinds_follow_names(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_without_a_dockerfile_there_is_nothing_to_ask(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Containerfile or Dockerfile"):
        cost(tmp_path)
    with pytest.raises(UsageError, match="is not a directory"):
        cost(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="there is no Other"):
        cost(tmp_path, Path("Other"))


def test_bytes_are_those_that_the_builder_makes(podman: Podman, tmp_path: Path) -> None:
    """For text: the layer within 0.5 %, its blob within 10 %, since other code compresses it."""
    app = tmp_path / "app"
    sources = Path(json.__file__).parent.rglob("*.py")
    for number, source in enumerate(sorted(sources) * 8):
        path = app / f"code/{number}/{source.name}"
        path.parent.mkdir(parents=True)
        path.write_text(f"# {number}\n{source.read_text()}")
    (app / "Dockerfile").write_text("FROM scratch\nCOPY code /srv/code\n")
    (line,) = cost(app).lines
    assert line.layer.size is not None
    assert line.layer.compressed is not None
    image, blob = built(podman, app, tmp_path / "out")
    assert image == pytest.approx(line.layer.size, rel=0.005)
    assert blob == pytest.approx(line.layer.compressed, rel=0.1)


def built(podman: Podman, directory: Path, out: Path) -> tuple[int, int]:
    """The bytes of the only layer and of its blob, as the builder hands them over."""
    done = podman.build(directory, "--layers", "--tag=localhost/measured")
    assert done.returncode == 0, done.stderr
    pushed = podman.push("localhost/measured", out)
    assert pushed.returncode == 0, pushed.stderr
    manifest = json.loads((out / "manifest.json").read_text())
    (layer,) = manifest["layers"]
    blob = (out / layer["digest"].partition(":")[2]).read_bytes()
    return len(gzip.decompress(blob)), len(blob)


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
    st.integers(0, 0o7777),
    st.integers(0, 8**11 + 5),
    st.sampled_from(["file", "directory", "symlink", "other"]),
)
def test_a_header_is_that_of_tarfile(path: str, mode: int, size: int, kind: Kind) -> None:
    content = size if kind == "file" else 0
    entry = ContextEntry(path, kind, mode, content, target="elsewhere" if kind == "symlink" else "")
    made = tarfile.TarInfo(path.lstrip("/"))
    made.size, made.mode, made.linkname = content, mode, entry.target
    made.type = {
        "directory": tarfile.DIRTYPE, "symlink": tarfile.SYMTYPE, "other": tarfile.FIFOTYPE,
    }.get(kind, tarfile.REGTYPE)  # fmt: skip
    assert header(path, entry) == made.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
