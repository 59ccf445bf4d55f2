"""Two forms built and pushed for real: what the registry received, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from image_builder import OUR_BASE, a_directory, recipe, skip_unless_it_builds, store_with
from image_seed import BASE, RECIPE, UNIT, base, seed

from machine import program
from mrtuner.cli import main
from mrtuner.errors import MrTunerError, Refused
from mrtuner.image.advice.advise import advise
from mrtuner.image.builder import PROGRAMS, Builder, Program, short_directory
from mrtuner.image.cost import cost
from mrtuner.image.proof import contexts
from mrtuner.image.proof.run import Task, prove
from mrtuner.image.registry import Registry
from mrtuner.image.stored import read_image

pytestmark = pytest.mark.usefixtures("asks")

DATA = os.urandom(300_000)  # which no compressor makes smaller
MAIN = {"main.py": b"1\n"}
FILES = {"data": DATA, **MAIN}
SHELL = "FROM scratch\nCOPY busybox /bin/sh\n"
RUN = "RUN head -c 8 /dev/urandom > /noise\n"
SLOPPY = f"{SHELL}COPY . /srv/\n{RUN}"
TIDY = f"{SHELL}{RUN}COPY busybox data /srv/\nCOPY main.py /srv/\n"


@pytest.fixture
def work() -> Iterator[Path]:
    """A short directory; the test is skipped where there is no builder or no registry."""
    with short_directory() as directory:
        skip_unless_it_builds("podman", directory)
        yield directory


def task(work: Path, old: Path, new: Path) -> Task:
    return Task(old=old, new=new, work=work, changes=1, seed=1)


def gzipped(path: Path) -> int:
    return len(subprocess.run(["gzip", "-c", path], check=True, capture_output=True).stdout)


def committed(root: Path, subject: str) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", subject)):
        subprocess.run([*git, *words], cwd=root, check=True)


def test_a_commit_pushes_what_stands_behind_it(work: Path, tmp_path: Path) -> None:
    """By hand: for each line of code, the sloppy form pushes data and busybox again, and the RUN
    behind them; the tidy form pushes the layer of one line."""
    old = a_directory(tmp_path / "old", SLOPPY, FILES)
    new = a_directory(tmp_path / "new", TIDY, FILES)
    committed(old, "one")
    for root in (old, new):
        (root / "main.py").write_text("2\n")
    committed(old, "two")

    ran = CliRunner().invoke(
        main, ["image", "prove", str(old), str(new), "--commits", "1", "--json"]
    )
    assert ran.exit_code == 0, ran.output
    told: dict[str, Any] = json.loads(ran.stdout)
    assert told["verdict"] == "better"
    assert told["network"] == "none"
    (one,) = told["changes"]
    assert one["name"].endswith(" two")
    assert one["kind"] == "code"
    before, after = one["before"], one["after"]
    assert before["pushed"] == pytest.approx(300_000 + gzipped(Path(program("busybox"))), rel=0.05)
    assert 0 < after["pushed"] < 5_000
    assert (before["lines"], after["lines"]) == (2, 1)
    assert (before["layers"], after["layers"]) == (2, 1)
    assert before["fetched"] == pytest.approx(before["pushed"], rel=0.01)
    assert told["noise"] == [{"path": "/noise", "what": ["content"]}]
    assert told["left_out"] == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("RUN chmod 600 /srv/main.py\n", r"different files: /srv/main\.py \(mode\)"),
        ("ENV A=1\n", r"run differently: Env \(none and \['A=1'\]\)"),
    ],
)
def test_another_image_is_refused(work: Path, tmp_path: Path, more: str, said: str) -> None:
    first = f"{SHELL}COPY main.py /srv/\nRUN true\n"
    old = a_directory(tmp_path / "old", first, MAIN)
    new = a_directory(tmp_path / "new", first + more, MAIN)
    with pytest.raises(Refused, match=said):
        prove(task(work, old, new))
    assert not list(work.glob("[ab]/root"))  # the builders removed their storage


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_may_differ_is_named_and_the_worse_form_is_said_so(tmp_path: Path, work: Path) -> None:
    old = a_directory(tmp_path / "old", TIDY, FILES)
    new = a_directory(tmp_path / "new", f"{SLOPPY}RUN chmod 600 /srv/data\n", FILES)
    found = prove(replace(task(work, old, new), excepted=("/srv/data",)))
    assert found.verdict == "worse"
    assert "main.py, edit 1" in {one.name for one in found.replayed}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_advised_seed_is_proven(work: Path, tmp_path: Path) -> None:
    """By hand, in the seed's megabytes: a line of code pushed 72 of source, 100 of gems and source
    that chown copied, 15 of assets. With all patches it pushes 2 of code, and 15 of assets, which
    come out the same except for their times; and some kilobytes for the configuration."""
    root = seed(tmp_path / "app", rubbish=False)
    (root / "Dockerfile").write_text(RECIPE.replace(BASE, OUR_BASE))
    committed(root, "one")
    (root / "app/models.rb").write_bytes(os.urandom(UNIT))
    committed(root, "another model")
    patch = tmp_path / "advice.patch"
    patch.write_text(advise(root).together.patch)
    contexts.patched(root, patch, tmp_path / "new")
    with store_with(base(tmp_path / "base"), work / "m") as images:
        found = prove(
            replace(
                task(work, root, tmp_path / "new"),
                image_store=images,
                excepted=("/srv/app/Dockerfile", "/srv/app/.dockerignore"),
            )
        )
    (one,) = found.replayed
    assert one.kind == "code"
    assert one.before.pushed == pytest.approx(187 * UNIT, rel=0.05)
    assert one.after.pushed == pytest.approx(17 * UNIT, rel=0.15)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_build_has_neither_the_network_nor_the_devices_of_the_machine(
    tmp_path: Path, program: Program
) -> None:
    trial = Path("/dev/mrtuner-trial")
    root = a_directory(
        tmp_path / "app",
        f"{SHELL}RUN touch {trial} && test $(grep -c : /proc/net/dev) = 1\n",
    )
    with short_directory() as work:
        skip_unless_it_builds(program, work)
        with Builder(program, work / "b") as builder:
            try:
                builder.build(recipe(root), "one")
                assert not trial.exists()
            finally:
                trial.unlink(missing_ok=True)


def test_an_image_that_the_machine_has_is_built_from(work: Path, tmp_path: Path) -> None:
    """Another storage stands in for the machine's; nothing is written to it."""
    base = a_directory(tmp_path / "base", f"{SHELL}ENV A=1\n")
    root = a_directory(tmp_path / "app", f"FROM {OUR_BASE}\nRUN test $A = 1\n")
    with store_with(base, work / "a") as images:
        kept = images / "overlay-images/images.json"
        before = kept.read_bytes()
        with Builder("podman", work / "b", image_store=images) as builder:
            assert [line.text for line in builder.build(recipe(root), "one").lines] == [
                "RUN test $A = 1"
            ]
        assert kept.read_bytes() == before


def test_what_a_build_fetches_needs_a_network(work: Path, tmp_path: Path) -> None:
    """ADD is done by the builder itself, which has no network either."""
    with Registry(work / "r") as registry, Builder("podman", work / "b") as builder:
        root = a_directory(tmp_path, f"FROM scratch\nADD http://{registry.address}/v2/ /x\n")
        with pytest.raises(MrTunerError, match="podman could not build") as failed:
            builder.build(recipe(root), "one")
        assert "--network" in str(failed.value.hint)
        builder.network = "host"
        builder.build(recipe(root), "two")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_last_build_tells_what_the_next_pushes(tmp_path: Path, program: Program) -> None:
    """Within 2 % of what the registry then received, including a RUN's bytes."""
    made = "RUN head -c 200000 /dev/urandom > /made\n"
    root = a_directory(tmp_path, f"{SHELL}COPY . /srv/\n{made}", FILES)
    with short_directory() as work:
        skip_unless_it_builds(program, work)
        with Registry(work / "r") as registry, Builder(program, work / "b") as builder:
            builder.build(recipe(root), "one")
            builder.push("one", f"{registry.address}/app:one")
            found = cost(root, image=read_image(f"{registry.address}/app:one"))
            (told,) = [one for one in found.changes if one.kind == "code"]
            assert told.pushed.unknown == ()
            (root / "main.py").write_text("2\n")
            built = builder.build(recipe(root), "two")
            registry.take()
            builder.push("two", f"{registry.address}/app:two")
            received = registry.take()
    assert told.pushed.bytes == pytest.approx(received.blobs, rel=0.02)
    assert told.rebuilt.bytes == pytest.approx(sum(built.layers), rel=0.005)
    assert [line.cached for line in built.lines] == [True, False, False]
