"""Advice beside the real builder: patched trees make the same image, cached as predicted."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from image_podman import Podman
from image_seed import BASE, base, seed
from test_image_advise import applied
from test_image_cache import planned, told

from mrtuner.image.advice.advise import advise
from mrtuner.image.cache import Store

pytestmark = pytest.mark.usefixtures("asks")

#: What an image is made of: by path its type, mode, owner, group, target and content.
Files = dict[str, tuple[object, ...]]


def files(podman: Podman, root: Path) -> Files:
    """Build without a cache, and read what comes out."""
    out = podman.storage / "image.tar"
    out.unlink(missing_ok=True)
    done = podman.build(root, "--no-cache", f"--output=type=tar,dest={out}")
    assert done.returncode == 0, done.stderr
    with tarfile.open(out) as archive:
        return dict(_files(archive))


def _files(archive: tarfile.TarFile) -> Iterator[tuple[str, tuple[object, ...]]]:
    for one in archive:
        content = archive.extractfile(one) if one.isreg() else None
        digest = hashlib.sha256(content.read()).hexdigest() if content else ""
        yield one.name, (one.type, one.mode, one.uid, one.gid, one.linkname, digest)


@pytest.fixture(scope="module")
def builder(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Podman:
    """Podman with the seed's base image."""
    done = podman.build(base(tmp_path_factory.mktemp("base")), f"--tag={BASE}")
    assert done.returncode == 0, done.stderr
    return podman


def states(podman: Podman, root: Path, change: str) -> tuple[list[str], list[str]]:
    """States predicted after a change of this file, and the builder's, with the same unknown."""
    store = Store()
    store.build(planned(root))
    assert podman.steps(root) is not None
    with (root / change).open("ab") as file:
        file.write(b"changed")
    wanted = planned(root)
    predicted = [state for _, state in told(wanted, store.build(wanted))]
    steps = podman.steps(root)
    assert steps is not None
    came = [
        "cached" if one.cached else "rebuilt" for one in steps if not one.text.startswith("FROM ")
    ]
    return predicted, [
        state if state == "unknown" else said for state, said in zip(predicted, came, strict=True)
    ]


def test_the_advised_seed_makes_the_same_image(builder: Podman, tmp_path: Path) -> None:
    root = seed(tmp_path, rubbish=False)
    before = files(builder, root)
    assert before["srv/app/vendor/bundle/gems"][2:4] == (1000, 1000)
    applied(root, advise(root).together.patch)
    after = files(builder, root)
    assert before.keys() - after.keys() == {"srv/app/Dockerfile"}  # because it is ignored now
    assert after.items() <= before.items()


def test_the_advised_seed_is_cached_as_predicted(builder: Podman, tmp_path: Path) -> None:
    """Its stages overtake one another, so the test counts cached lines without naming them."""
    root = seed(tmp_path, rubbish=False)
    applied(root, advise(root).together.patch)
    store = Store()
    store.build(planned(root))
    assert builder.build(root, "--layers").returncode == 0
    (root / "app/models.rb").write_text("changed")
    wanted = planned(root)
    predicted = [state for _, state in told(wanted, store.build(wanted))]
    done = builder.build(root, "--layers")
    assert done.returncode == 0, done.stderr
    cached = done.stdout.count("--> Using cache")
    assert predicted.count("rebuilt") >= 4
    assert predicted.count("cached") >= 8
    assert 0 <= cached - predicted.count("cached") <= predicted.count("unknown")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_patch_of_the_seed_makes_the_same_image(builder: Podman, tmp_path: Path) -> None:
    """After each patch the image has the same files, with the same owners and modes."""
    root = seed(tmp_path, rubbish=False)
    (root / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    before = files(builder, root)
    done = []
    while (found := advise(root)).together.applied:
        first = found.together.applied[0]
        (number, *_) = [one.number for one in found.advice if one.title == first]
        applied(root, advise(root, only=[number]).together.patch)
        done.append(first)
        assert files(builder, root) == before, first
    assert len(done) >= 4


def test_the_seed_is_cached_as_predicted_before_any_advice(builder: Podman, tmp_path: Path) -> None:
    predicted, came = states(builder, seed(tmp_path, rubbish=False), "app/models.rb")
    assert predicted == came
    assert predicted.count("rebuilt") == 6  # ADD and all lines below it


OTHERS = {
    "a user that is made in the same line as the chown": (
        f"FROM {BASE}\nCOPY app /srv/app\nRUN useradd web && chown -R web:web /srv/app\n"
    ),
    "a directory below the one that is owned": (
        f"FROM {BASE}\nWORKDIR /srv\nCOPY app app/deep\nCOPY lib app/lib\nRUN mkdir /srv/app/tmp\n"
        "RUN chown -R 7:8 /srv/app\n"
    ),
    "chgrp alone": f"FROM {BASE}\nCOPY . /srv\nRUN chgrp -R 8 /srv\n",
    "the revision first": (
        f"FROM {BASE}\nARG GIT_SHA=1\nLABEL sha=$GIT_SHA\nRUN echo one > /one\nCOPY lib /lib/two\n"
    ),
    "removed in the next line": f"FROM {BASE}\nRUN echo x > /tmp/x\nRUN rm -rf /tmp/x\n",
    "copied twice": f"FROM {BASE}\nCOPY app /app\nCOPY app/models.rb /app/models.rb\n",
    "the source in parts": f"FROM {BASE}\nWORKDIR /srv\nCOPY --chown=7:8 . app\n",
    "deleted again": f"FROM {BASE}\nCOPY app /app\nRUN rm -f /app/views.rb\n",
}


#: The others take too long for every run.
_USUAL = ("a user that is made in the same line as the chown", "chgrp alone")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=() if name in _USUAL else pytest.mark.slow)
        for name, text in OTHERS.items()
    ],
)
def test_other_patches_change_no_file_either(builder: Podman, tmp_path: Path, text: str) -> None:
    root = seed(tmp_path, rubbish=False)
    (root / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    (root / "Dockerfile").write_text(text)
    before = files(builder, root)
    found = advise(root)
    assert found.together.applied
    applied(root, found.together.patch)
    assert files(builder, root) == before
    predicted, came = states(builder, root, "app/models.rb")
    assert predicted == came
