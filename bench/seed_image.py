"""The seed's image at full scale: five forms of it built, one line of code changed, and pushed.

    python bench/seed_image.py                         # half an hour, 10 GB of disk
    python bench/seed_image.py --unit 4096 --forms 2   # whether it works, at a small scale
    python bench/seed_image.py --write docs            # and keep it; then python -m docs.generate

The field notes (section 5) have megabytes: 72 of source, 28 of gems, 15 of assets, 600 of logs and
`.git`. The files are made from a fixed seed (seed_files.py); the Dockerfile is that of
tests/image/image_seed.py, which gives the layers that the notes describe. What our own registry
received is compared with what `mrtuner image cost` predicts, and each push is repeated through
lines of several speeds (uplink.py). Builds have no network: stand-ins install the gems and make the
assets.
Needs root, podman, docker-registry, busybox-static, iproute2 and
PYTHONPATH=tools:tests:tests/image.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))  # for docs.generate_image, which has the tables

from image_builder import OUR_BASE, recipe, store_with
from image_seed import BASE, RECIPE, base
from seed_files import CHANGED, Files
from uplink import Line

from docs import generate_image
from mrtuner.image.advice.advise import advise
from mrtuner.image.builder import OURS, Builder, short_directory
from mrtuner.image.cost import Change, cost
from mrtuner.image.proof import contexts
from mrtuner.image.proof.tree import (
    Tree,
    Trees,
    configuration_differences,
    differences,
    without,
)
from mrtuner.image.registry import PROGRAM, Received, Registry
from mrtuner.image.stored import StoredImage, read_image
from mrtuner.image.uplink import parse_uplink
from mrtuner.units import pretty_bytes

#: A megabyte of the seed [bytes].
UNIT = 1 << 20
RATES = ("10Mbit/s", "20Mbit/s", "50Mbit/s")
#: A push that takes longer than this on a line is not repeated there [s].
LONGEST = 150
RUBBISH = "log\n.git\n"
#: The solution of 2014, as far as the notes describe it: gems first, assets made beforehand and
#: added before the source, an ignore file, and the owner set at each start of a container.
END = """FROM localhost/ruby
ENV LANG=C.UTF-8
RUN useradd app
WORKDIR /srv/app
ADD application/Gemfile application/Gemfile.lock /srv/app/
RUN bundle install --path vendor/bundle
ADD assets /srv/app/public/assets/all
ADD application /srv/app
CMD ["sh", "-c", "chown -R app:app /srv/app && exec su app -c 'bundle exec puma'"]
"""
#: What an ignore file leaves out on purpose.
LEFT_OUT = tuple(
    f"/srv/app/{name}" for name in ("log", ".git", "Dockerfile", ".dockerignore")
)  # fmt: skip
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A directory that is built; `source` is where the application is in it."""

    name: str
    directory: Path
    source: str = ""
    options: Sequence[str] = ()

    @property
    def changed(self) -> Path:
        return self.directory / self.source / CHANGED

    @property
    def recipe(self) -> str:
        return (self.directory / "Dockerfile").read_text()

    def code(self) -> Change:
        """Return what a changed line of code is predicted to cost, before anything is built."""
        return self._of_code(cost(self.directory).changes)

    def known_code(self, image: StoredImage) -> Change:
        """Return what it is predicted to cost with the sizes of the last build."""
        return self._of_code(cost(self.directory, image=image).changes)

    def _of_code(self, changes: Sequence[Change]) -> Change:
        above = str(Path(self.source, CHANGED).parent)
        (found,) = [one for one in changes if one.kind == "code" and one.example.startswith(above)]
        return found


# The forms


def begin(place: Path, unit: int) -> None:
    """Make the directories of the base image and of the whole application."""
    files = Files(unit)
    base(place / "base", files.stock)
    files.application(place / "first", RECIPE.replace(BASE, OUR_BASE))


def forms(place: Path) -> Iterator[Form]:
    """Make the directory of each form when its turn comes; the most expensive form is the last."""
    first = place / "first"
    yield Form(name="with an ignore file", directory=_ignoring(first, place / "ignoring"))
    yield Form(name="the 2014 solution", directory=_end(place), source="application")
    ours = _advised(first, place / "ours")
    yield Form(name="as advised", directory=ours)
    yield Form(name="with fixed timestamps", directory=ours, options=("--timestamp", "0"))
    yield Form(name="original", directory=first)


def _ignoring(first: Path, target: Path) -> Path:
    contexts.copy_tree(first, target)
    (target / ".dockerignore").write_text(RUBBISH)
    return target


def _end(place: Path) -> Path:
    target = place / "end"
    contexts.copy_tree(place / "first", target / "application")
    (target / "application/Dockerfile").unlink()
    contexts.copy_tree(place / "base/files/lib/assets", target / "assets")
    (target / "Dockerfile").write_text(END.replace(BASE, OUR_BASE))
    (target / ".dockerignore").write_text(
        "".join(f"application/{name}\n" for name in RUBBISH.split())
    )
    return target


def _advised(first: Path, target: Path) -> Path:
    patch = target.with_suffix(".patch")
    patch.write_text(advise(first).together.patch)
    contexts.patched(first, patch, target)
    return target


# What each costs


@dataclass
class Bench:
    """Measures one form after the other."""

    line: Line
    rates: Sequence[str]
    tell: Tell
    images: Path  # a store with the base image
    first: tuple[StoredImage, Tree] | None = None

    def measured(self, form: Form) -> dict[str, Any]:
        """Build and push a form, change a line and do it again, then push through slower lines."""
        with (
            short_directory() as work,
            Registry(work / "r") as registry,
            Builder("podman", work / "b", options=form.options, image_store=self.images) as builder,
        ):
            one = _One(form, registry, builder, self.tell)
            began = time.monotonic()
            before = form.code()
            predicted_s = round(time.monotonic() - began, 1)
            image, received, _ = one.deployed("first")
            told = {
                "name": form.name, "recipe": form.recipe, "options": list(form.options),
                "sent": before.sent, "predicted": _predicted(before), "predicted_s": predicted_s,
                "known": _predicted(form.known_code(image)),
                "first": {"received": received.blobs + received.manifests, "size": image.size},
                "differs": self._differs(image),
            }  # fmt: skip
            if "chown" in form.recipe.splitlines()[-1]:
                told["start"] = one.started(work / "start")
            with form_changed(form):
                told["changed"] = one.changed(image)
                told["pushes"] = list(one.pushes(self.line, self.rates, told["changed"]))
            return told

    def _differs(self, image: StoredImage) -> dict[str, int]:
        """Count differences from the first form's files and configuration, by kind; {} if none."""
        tree = Trees().of(image)
        if self.first is None:
            self.first = (image, tree)
            return {}
        found = without(differences(self.first[1], tree), {}, LEFT_OUT)
        run = configuration_differences(self.first[0], image)
        return dict(Counter([*(what for each in found.values() for what in each), *run]))


@dataclass
class _One:
    """A form with its own builder and registry."""

    form: Form
    registry: Registry
    builder: Builder
    tell: Tell
    known: set[Path] = field(default_factory=set)  # what the registry had before the change

    def deployed(self, tag: str) -> tuple[StoredImage, Received, dict[str, Any]]:
        """Build and push the directory; return the image, what the registry received, figures."""
        self.tell(f"{self.form.name}: build {tag}")
        began = time.monotonic()
        built = self.builder.build(recipe(self.form.directory), tag)
        done = time.monotonic()
        self.tell(f"{self.form.name}: push {tag}")
        image, received, push_s = self.pushed(tag)
        return image, received, {
            "lines": sum(not one.cached for one in built.lines), "built": sum(built.layers),
            "build_s": round(done - began, 1), "push_s": push_s,
        }  # fmt: skip

    def pushed(self, tag: str) -> tuple[StoredImage, Received, float]:
        """Push; return the image, what the registry received, and the seconds."""
        reference = f"{self.registry.address}/app:{tag}"
        self.registry.take()
        began = time.monotonic()
        self.builder.push(tag, reference)
        seconds = time.monotonic() - began
        return read_image(reference), self.registry.take(), round(seconds, 2)

    def changed(self, parent: StoredImage) -> dict[str, Any]:
        """Deploy the changed line; return what was built, pushed and fetched."""
        self.known = self.registry.files()
        image, received, told = self.deployed("changed")
        had = {layer.digest for layer in parent.layers}
        return told | {
            "pushed": received.blobs, "manifests": received.manifests,
            "fetched": image.fetched_after(parent),
            "layers": [one for one in layers(image) if one.pop("digest") not in had],
        }  # fmt: skip

    def pushes(
        self, line: Line, rates: Sequence[str], told: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Repeat the push through lines of these speeds, unless one takes longer than LONGEST."""
        size = told["pushed"] + told["manifests"]
        for text in rates:
            rate = parse_uplink(text)
            if size / rate > LONGEST:
                continue
            self.registry.forget(self.known)
            self.tell(f"{self.form.name}: {pretty_bytes(size)} at {text}, {size / rate:.0f} s")
            with line.limited(rate):
                _, received, seconds = self.pushed("changed")
            yield {
                "rate": text,
                "received": received.blobs + received.manifests,
                "seconds": seconds,
            }

    def started(self, directory: Path) -> dict[str, Any]:
        """Return what `chown` writes at each start, measured as a RUN that does the same."""
        directory.mkdir()
        text = f"FROM {OURS}first\nRUN chown -R app:app /srv/app\n"
        (directory / "Dockerfile").write_text(text)
        began = time.monotonic()
        built = self.builder.build(recipe(directory), "start")
        return {"written": sum(built.layers), "seconds": round(time.monotonic() - began, 1)}


def _predicted(change: Change) -> dict[str, Any]:
    return {
        "rebuilt": change.rebuilt.bytes, "pushed": change.pushed.bytes,
        "unknown": len(change.pushed.unknown),
    }  # fmt: skip


@contextmanager
def form_changed(form: Form) -> Iterator[None]:
    """One more line of code, for as long as the block runs."""
    text = form.changed.read_bytes()
    form.changed.write_bytes(text + b"# one line more\n")
    try:
        yield
    finally:
        form.changed.write_bytes(text)


def layers(image: StoredImage) -> Iterator[dict[str, Any]]:
    """Yield each layer: its instruction, its bytes, and those of files that lower layers have."""
    history: Any = image.configuration["history"]
    made = [one["created_by"] for one in history if not one.get("empty_layer")]
    below: dict[str, tuple[int, str]] = {}
    for by, layer in zip(made, image.layers, strict=True):
        with image.archive(layer) as stream:
            counted = _Counted(stream)
            files = dict(_files(counted))
        again = sum(file[0] for path, file in files.items() if below.get(path) == file)
        below |= files
        yield {
            "digest": layer.digest, "by": _instruction(by), "archive": counted.read_so_far,
            "blob": layer.size, "again": again,
        }  # fmt: skip


@dataclass
class _Counted:
    """A stream that counts what is read of it."""

    stream: IO[bytes]
    read_so_far: int = 0

    def read(self, size: int) -> bytes:
        piece = self.stream.read(size)
        self.read_so_far += len(piece)
        return piece


def _files(stream: _Counted) -> Iterator[tuple[str, tuple[int, str]]]:
    """Each file's size and digest, by its path; the stream is read to its end."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                digest = hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
                yield member.name, (member.size, digest)
    while stream.read(1 << 20):
        """What follows the last file."""


def _instruction(by: str) -> str:
    """Return `ADD /srv/app` for `/bin/sh -c #(nop) ADD dir:0a in /srv/app`."""
    text = re.sub(r"^/bin/sh -c (#\(nop\) )?", "", by).strip()
    return re.sub(r"(dir|file|multi):[0-9a-f]+ in ", "", text)


# All of it


def main(given: argparse.Namespace) -> None:
    line = Line()
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", file=sys.stderr, flush=True)

    with TemporaryDirectory() as name, short_directory() as storage:
        place = Path(name)
        tell("make the directories")
        begin(place, given.unit)
        with store_with(place / "base", storage / "m") as images:
            bench = Bench(line, given.rates.split(","), tell, images)
            told = _about(place, given.unit) | {"forms": []}
            for form in islice(forms(place), given.forms):
                told["forms"].append(bench.measured(form))
                if given.write is not None:  # after each form, because the next takes minutes
                    (given.write / "image-seed.json").write_text(json.dumps(told, indent=1) + "\n")
    print("\n".join(generate_image.sections(told)))


def _about(place: Path, unit: int) -> dict[str, Any]:
    """Return what was built, and with what."""
    first, stock = place / "first", place / "base/files/lib"
    parts = {
        "source": [one for one in first.iterdir() if one.name not in {"log", ".git"}],
        "gems": [stock / "gems"], "assets": [stock / "assets"],
        "logs": [first / "log"], ".git": [first / ".git"],
    }  # fmt: skip
    return {
        "unit": unit, "parts": {name: _part(paths) for name, paths in parts.items()},
        "builder": _said("podman", "--version"), "registry": _said(PROGRAM, "--version"),
        "linux": platform.release().partition("-")[0], "cpus": os.cpu_count(),
    }  # fmt: skip


def _part(paths: Sequence[Path]) -> dict[str, int]:
    files = [one for path in paths for one in (path, *path.rglob("*")) if one.is_file()]
    return {"files": len(files), "bytes": sum(one.stat().st_size for one in files)}


def _said(*words: str) -> str:
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return re.sub(r"\S*/distribution ", "", said.strip().splitlines()[0])


if __name__ == "__main__":
    if shutil.which("podman") is None or os.geteuid() != 0:
        raise SystemExit("error: this needs root, podman and docker-registry")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--unit", type=int, default=UNIT, help="bytes of a megabyte of the seed")
    parser.add_argument("--forms", type=int, help="the first so many of the five")
    parser.add_argument(
        "--rates", default=",".join(RATES), help="of the lines; one twice is measured twice"
    )
    parser.add_argument("--write", type=Path, metavar="DIR")
    main(parser.parse_args())
