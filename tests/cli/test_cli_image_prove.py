"""`mrtuner image prove`, the parts that need no builder, and `cost --image`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from image_stored import entry, layer, write_image

from json_schemas import assert_valid
from mrtuner.cli import main
from mrtuner.documents import as_builtins
from mrtuner.image.proof.document import proof_document
from mrtuner.image.proof.run import Deployed, LeftOut, Proof, Replayed
from mrtuner.present.image_proof import lines

RECIPE = "FROM base\nCOPY main.py /srv/\nRUN make\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["image", *map(str, arguments)])


@pytest.fixture
def app(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    root.mkdir()
    (root / "main.py").write_text("x")
    (root / "Dockerfile").write_text(RECIPE)
    return root


def test_help_leads_with_examples() -> None:
    shown = run("prove", "--help").output
    assert "  mrtuner image prove app better" in shown
    assert shown.index("Examples:") < shown.index("Options:")


@pytest.mark.parametrize("second", [(), ("DIR", "--patch", "FILE")])
def test_one_second_form_is_needed(app: Path, second: tuple[str, ...]) -> None:
    named = [str(app) if word == "DIR" else word for word in second]
    named = [str(app / "Dockerfile") if word == "FILE" else word for word in named]
    done = run("prove", app, *named)
    assert done.exit_code == 2
    assert "prove needs two versions\nHINT: " in done.output


def test_an_uplink_without_a_unit_is_refused(app: Path) -> None:
    done = run("prove", app, app, "--uplink", "20")
    assert done.exit_code == 2
    assert "HINT: Give bits per second, such as 20Mbit/s." in done.output


def deployed(kilobytes: int) -> Deployed:
    pushed = kilobytes * 1024 - 500
    return Deployed(
        sent=10_000, lines=2, built=3 * pushed, pushed=pushed, manifest=500, layers=1,
        fetched=pushed,
    )  # fmt: skip


PROOF = Proof(
    builder="podman version 4.3.1", network="none", what="3 commits that touched app, the latest",
    seed=7, noise={"/noise": frozenset({"content"})}, excepted=("/srv/log",),
    image_before=9_000_000, image_after=8_000_000,
    replayed=(
        Replayed("a one", "code", deployed(1024), deployed(100)),
        Replayed("b two", "code", deployed(3072), deployed(100)),
        Replayed("c three", "asset", deployed(1), deployed(824)),
    ),
    left_out=(LeftOut("d four", "podman could not build app: no make"),),
)  # fmt: skip


def test_sums_and_the_verdict_are_those_of_all_changes() -> None:
    """By hand: 1 + 3 MB of code before, 0.1 + 0.1 after; an asset 1 kB before, 824 after."""
    told = as_builtins(proof_document(PROOF, uplink=1_000_000))
    assert_valid(json.loads(json.dumps(told)), "mrtuner.image.proof/1")
    shown = "\n".join(lines(told))
    assert shown.startswith(
        "The second form is better: 3 changes pushed 1 MB instead of 4 MB, -75 %.\n"
    )
    rows = [row.split() for row in shown.splitlines()]
    assert ["code", "2", "4", "MB", "200", "kB", "-95", "%", "2", "0"] in rows
    assert ["asset", "1", "1", "kB", "824", "kB", "+82,300", "%", "0", "1"] in rows
    assert "equal, but for what differs from build to build (1 path) and /srv/log." in shown
    assert "At 8 Mbit/s the bytes alone take 4.2 s before, 1.05 s after" in shown
    assert "d four: podman could not build app: no make" in shown


def previous(root: Path, *instructions: str) -> Path:
    """Write an image whose layers come from these instructions, the first from its base."""
    root.mkdir()
    layers = [layer(entry(f"x{number}", "x" * 3000)) for number in range(len(instructions))]
    history = [{"created_by": f"/bin/sh -c #(nop) {one} x"} for one in instructions]
    write_image(root, layers, {"history": history})
    return root


def test_the_last_build_tells_the_bytes_of_a_run(app: Path, tmp_path: Path) -> None:
    """By hand: tarfile's archive of 3,000 bytes is a record of 20 blocks, 10,240 bytes."""
    image = previous(tmp_path / "image", "ADD", "COPY", "RUN")
    done = run("cost", app, "--image", image, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert_valid(told, "mrtuner.image.cost/1")
    (made,) = [one for one in told["lines"] if one["text"] == "RUN make"]
    blob = len(layer(entry("x2", "x" * 3000)))
    assert (made["bytes"], made["compressed"], made["why_unknown"]) == (10_240, blob, "")
    (code,) = [one for one in told["changes"] if one["kind"] == "code"]
    assert code["pushed"]["unknown_lines"] == []
    assert (told["image"]["layers"], told["image"]["base_layers"]) == (3, 1)
    assert "1 layer of its base" in run("cost", app, "--image", image).output


def test_another_dockerfiles_image_is_refused(app: Path, tmp_path: Path) -> None:
    done = run("cost", app, "--image", previous(tmp_path / "image", "RUN", "COPY"))
    assert done.exit_code == 2
    assert "is line 3, RUN\nHINT: Name an image from the last build." in done.output


def test_a_platform_without_an_image_is_refused(app: Path) -> None:
    done = run("cost", app, "--platform", "linux/arm64")
    assert done.exit_code == 2
    assert "HINT: Name the image with --image." in done.output
