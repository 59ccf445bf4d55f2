"""Images brought to their best form step by step, and what a deploy costs after each.

    python bench/image_steps.py seed       # the Dockerfile of the field notes, at a small scale
    python bench/image_steps.py clone      # MrTuner's image from a clone, and its last commits
    python bench/image_steps.py wheel      # the recipe of `mrtuner record --unit container`

Each step is proved as `mrtuner image prove` does it: it is refused unless files and configuration
equal those of the step before, except for the paths named below. Prints the table of bytes that the
docs show. Needs root, podman and docker-registry. For `clone` and `wheel`, pip downloads wheels
beforehand, and the base image is made from this machine's Python (python_base.py). Builds have no
network.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from image_builder import OUR_BASE, store_with
from image_seed import BASE, RECIPE, UNIT, base, seed
from python_base import python_base

from mrtuner.documents import as_builtins
from mrtuner.history.service import written
from mrtuner.image.advice.advise import advise
from mrtuner.image.builder import Builder, Recipe, short_directory
from mrtuner.image.cost import cost
from mrtuner.image.document import cost_document
from mrtuner.image.proof import contexts
from mrtuner.image.proof.document import proof_document
from mrtuner.image.proof.run import Deployed, Proof, Task, prove
from mrtuner.image.registry import Registry
from mrtuner.image.stored import read_image
from mrtuner.present import image as presented
from mrtuner.present import image_proof as proved
from mrtuner.requirements import required
from mrtuner.tables import aligned
from mrtuner.units import pretty_bytes

ROOT = Path(__file__).parents[1]
_HISTORY = 200
THEIR_BASE = "docker.io/library/python:3.12-slim"
#: pip writes the source's time into compiled files, and what was requested into its metadata.
PIP_NOTES = ("*.pyc", "*.dist-info/REQUESTED", "*.dist-info/RECORD")
#: A Dockerfile as many people would first write it.
FIRST = f"""FROM {OUR_BASE}
COPY . /src
RUN pip install '/src[history]'
RUN useradd --uid 10001 --user-group --create-home mrtuner && chown -R mrtuner:mrtuner /src
USER mrtuner
ENTRYPOINT ["mrtuner"]
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A form, and the paths in which its image may differ from the one before."""

    title: str
    directory: Path
    excepted: tuple[str, ...] = ()


def main(arguments: argparse.Namespace) -> None:
    """Prove every step, and print the table."""
    with TemporaryDirectory() as place, short_directory() as work:
        (Path(place) / "forms").mkdir()
        steps = SUBJECTS[arguments.subject](Path(place) / "forms")
        for step in steps:
            print(f"{step.title}:\n{_recipe(step.directory)}", file=sys.stderr)
        with image_store(Path(place), work, arguments.subject) as images:
            proofs = list(_proofs(steps, work, images, arguments.commits))
            print(*table(steps, proofs), sep="\n")
            if arguments.subject == "clone":
                for step in (steps[0], steps[-1]):
                    print(
                        f"\n{step.title}:",
                        *_history(step, work, images, arguments.history),
                        sep="\n",
                    )


@contextmanager
def image_store(place: Path, work: Path, subject: str) -> Iterator[Path]:
    """Yield a store with the base image, for use instead of the machine's own store."""
    root = place / "base"
    if subject == "seed":
        base(root)
    else:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        wanted = required(_told(project), ["history"]) or []
        python_base(root, [*wanted, *project["build-system"]["requires"]])
    with store_with(root, work / "m") as images:
        yield images


def _told(project: dict[str, dict[str, dict[str, list[str]]]]) -> list[str]:
    listed = project["project"]["optional-dependencies"]["history"]
    return [*project["project"]["dependencies"], *(f"{one}; extra == 'history'" for one in listed)]


# What is golfed


def of_seed(place: Path) -> list[Step]:
    """The seed, then with one patch of the advice after the other."""
    first = place / "0/app"  # in a repository whose .git is outside the context
    seed(first)
    shutil.rmtree(first / ".git")
    (first / "Dockerfile").write_text(RECIPE.replace(BASE, OUR_BASE))
    _committed(first.parent, "the application")
    (first / "app/models.rb").write_bytes(os.urandom(UNIT))
    _committed(first.parent, "another model")
    return list(_advised(first, "as many begin", ("/srv/app/log",)))


def of_clone(place: Path) -> list[Step]:
    """A clone with a first Dockerfile, with all of the advice, and with the repository's own."""
    first, advised, own = (place / name for name in ("first", "advised", "own"))
    _clone(first)
    for name in ("Dockerfile", ".dockerignore"):
        (first / name).unlink()
    (first / "Dockerfile").write_text(FIRST)
    _patched(first, advised, history=_HISTORY)
    _clone(own)
    text = (own / "Dockerfile").read_text()
    (own / "Dockerfile").write_text(text.replace(THEIR_BASE, OUR_BASE))
    return [
        Step("as many begin", first),
        Step("all of the advice", advised, ("/src", *PIP_NOTES)),
        Step("the repository's own", own, ("/src", *PIP_NOTES)),
    ]


def of_wheel(place: Path) -> list[Step]:
    """The recorder's recipe without and with its line of requirements; two commits of a wheel."""
    first, advised = place / "first", place / "advised"
    first.mkdir(parents=True)
    text = written("container", ["service=shop"], None, None)
    text = text.replace(THEIR_BASE, OUR_BASE)
    rows = [row for row in text.splitlines() if "'duckdb" not in row]
    (first / "Containerfile").write_text("\n".join(rows) + "\n")
    for commit in ("HEAD~20", "HEAD"):
        for old in first.glob("*.whl"):
            old.unlink()
        _wheel(commit, first)
        _committed(first, f"the wheel of {commit}")
    _patched(first, advised)
    if (advised / "Containerfile").read_text() != text:
        raise SystemExit("the advised recipe is not the one that is written")
    return [Step("without", first), Step("as it is written", advised, PIP_NOTES)]


SUBJECTS = {"seed": of_seed, "clone": of_clone, "wheel": of_wheel}


def _advised(first: Path, title: str, excepted: Sequence[str]) -> Iterator[Step]:
    """One patch at a time, in the order in which they are combined."""
    yield Step(title, first)
    now = first
    for number in range(1, 20):
        found = advise(now)
        if not found.together.applied:
            return
        title = found.together.applied[0]
        (chosen, *_) = [one.number for one in found.advice if one.title == title]
        following = first.parents[1] / f"{number}/{first.name}"
        following.parent.mkdir()
        _patched(now, following, only=[chosen])
        ignored = (following / ".dockerignore").read_text() != _text(now / ".dockerignore")
        yield Step(title, following, (*excepted, *_RECIPES) if ignored else ())
        now = following


#: What an ignore file leaves out on purpose.
_RECIPES = ("/srv/app/Dockerfile", "/srv/app/.dockerignore")


def _recipe(directory: Path) -> str:
    return _text(directory / "Dockerfile") or _text(directory / "Containerfile")


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _patched(old: Path, new: Path, only: Iterable[int] = (), history: int | None = None) -> None:
    patch = new.with_suffix(".patch")
    patch.write_text(advise(old, only=list(only), history=history).together.patch)
    contexts.patched(old, patch, new)
    of = 0 if (old / ".git").exists() else 1
    shutil.copytree([old, old.parent][of] / ".git", [new, new.parent][of] / ".git", symlinks=True)


def _clone(target: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)


def _committed(root: Path, subject: str) -> None:
    git = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.com")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", subject)):
        subprocess.run([*git, *words], cwd=root, check=True)


def _wheel(commit: str, into: Path) -> None:
    with TemporaryDirectory() as place:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x"], cwd=place, check=True, input=archive.stdout)
        subprocess.run(
            [
                sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir",
                str(into), place,
            ],
            check=True,
        )  # fmt: skip


# What it costs


def _proofs(steps: Sequence[Step], work: Path, images: Path, commits: int) -> Iterator[Proof]:
    for number, (old, new) in enumerate(pairwise(steps), 1):
        print(f"{number} of {len(steps) - 1}: {new.title}", file=sys.stderr)
        place = work / str(number)
        proof = prove(
            Task(
                old=old.directory, new=new.directory, work=place, changes=commits, seed=1,
                excepted=new.excepted, image_store=images,
            )
        )  # fmt: skip
        print(*proved.lines(as_builtins(proof_document(proof))), sep="\n", file=sys.stderr)
        yield proof
        shutil.rmtree(place, ignore_errors=True)


def table(steps: Sequence[Step], proofs: Sequence[Proof]) -> Iterator[str]:
    """Yield a row for each form, summed over the replayed commits."""
    first = proofs[0]
    rows = [("step", "sent", "lines", "built", "pushed", "fetched", "first pull")]
    rows.append(_row(steps[0].title, first.kinds[-1].before, first.image_before))
    for step, proof in zip(steps[1:], proofs, strict=True):
        rows.append(_row(step.title, proof.kinds[-1].after, proof.image_after))
    yield from aligned(rows, right={1, 2, 3, 4, 5, 6})
    for one in first.replayed:
        yield f"replayed: {one.name}"
    yield f"{first.builder}, network {first.network}"


def _row(title: str, form: Deployed, image: int) -> tuple[str, ...]:
    return (
        title, pretty_bytes(form.sent), str(form.lines), pretty_bytes(form.built),
        pretty_bytes(form.received), pretty_bytes(form.fetched), pretty_bytes(image),
    )  # fmt: skip


def _history(step: Step, work: Path, images: Path, number: int) -> Iterator[str]:
    """Yield what each of the last commits costs a form, with the sizes of its last build."""
    with ExitStack() as stack:
        registry = stack.enter_context(Registry(work / "hr"))
        builder = stack.enter_context(Builder("podman", work / "h", image_store=images))
        builder.build(Recipe(step.directory, step.directory / "Dockerfile"), "history")
        builder.push("history", f"{registry.address}/app:history")
        image = read_image(f"{registry.address}/app:history")
        found = cost(step.directory, history=number, image=image)
    told = as_builtins(cost_document(found))
    yield from presented.lines(told)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("subject", choices=sorted(SUBJECTS))
    parser.add_argument("--commits", type=int, default=1)
    parser.add_argument("--history", type=int, default=_HISTORY)
    main(parser.parse_args())
