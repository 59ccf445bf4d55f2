"""`mrtuner image prove`: both forms of an image built, pushed and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.common import exit_codes, options, progress, terminal
from mrtuner.cli.common.image_options import arguments_option, file_option, named
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.image.proof.run import Task


class _Uplink(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    name = "uplink"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> float:
        from mrtuner.image.uplink import parse_uplink

        return value if isinstance(value, float) else parse_uplink(str(value))


_DIRECTORY = click.Path(path_type=Path, file_okay=False, exists=True)


@options.command("prove")
@click.argument("directory", type=_DIRECTORY, metavar="DIR")
@click.argument("second", type=_DIRECTORY, metavar="DIR2", required=False)
@click.option(
    "--patch", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
    help="Compare DIR with DIR after this patch.",
)  # fmt: skip
@file_option
@arguments_option
@click.option(
    "--commits", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N",
    help="Number of commits to replay, or of edits of each kind if there is no repository.",
)  # fmt: skip
@click.option(
    "--builder", "program", type=click.Choice(("podman", "buildah")), default="podman",
    show_default=True, help="Program to build with.",
)  # fmt: skip
@click.option(
    "--network", is_flag=True,
    help="Let builds use the network, and fetch base images.  [default: no network]",
)  # fmt: skip
@click.option(
    "--except", "excepted", multiple=True, metavar="PATH",
    help="Path in the image that may differ, with everything below it; may be repeated.",
)  # fmt: skip
@click.option(
    "--uplink", type=_Uplink(), metavar="RATE",
    help="Also show how many seconds the bytes take on this uplink, such as 20Mbit/s.",
)  # fmt: skip
@click.option("--seed", type=int, help="Seed of the random order, to repeat an earlier proof.")
@options.json_option
def command(
    directory: Path,
    second: Path | None,
    patch: Path | None,
    uplink: float | None,
    seed: int | None,
    as_json: bool,
    **rest: Any,
) -> None:
    """Prove what another Dockerfile saves: build both, replay changes, count what is pushed.

    \b
    Examples:
      mrtuner image prove app better
      mrtuner image prove app --patch advice.patch --commits 20
      mrtuner image prove app better --except /srv/app/log --uplink 20Mbit/s
      mrtuner image prove app better --network

    Each version is built in temporary storage and pushed to a temporary registry on this machine;
    all are removed at the end. Versions that do not give the same files and configuration are
    refused. The last commits that touch DIR are replayed in random order, or generated edits if it
    is not in a repository. Needs root, podman or buildah, runc or crun, and docker-registry.

    Builds have no network unless you allow it, and use base images that podman already has.
    """
    if (second is None) is (patch is None):
        raise UsageError("prove needs two versions", "Name a second directory, or --patch FILE.")
    from mrtuner.documents import as_builtins
    from mrtuner.image.proof.document import proof_document
    from mrtuner.image.proof.run import prove
    from mrtuner.present.image_proof import lines

    with (
        terminal.sigterm_as_interrupt(),
        _task(directory, second, patch, seed, rest) as task,
        _bar() as tell,
    ):
        found = prove(task, tell)
    told = as_builtins(proof_document(found, uplink))
    terminal.answer(told, lines(told), as_json)
    if told["verdict"] == "worse":
        click.get_current_context().exit(exit_codes.WORSE)


@contextmanager
def _task(
    directory: Path, second: Path | None, patch: Path | None, seed: int | None, rest: dict[str, Any]
) -> Iterator[Task]:
    """Yield the task, in a directory that is removed even if we are killed."""
    import random

    from mrtuner.bench.server import guard
    from mrtuner.image import builder, registry
    from mrtuner.image.proof import contexts, replay
    from mrtuner.image.proof.run import Task, directories

    builder.require(rest["program"])
    registry.require()
    with ExitStack() as stack:
        work = stack.enter_context(builder.short_directory())
        stack.enter_context(guard.directory_removed(work))
        # A builder that is killed leaves its storage mounted.
        mounts = [str(builder.mounted(side)) for side in directories(work)]
        stack.enter_context(guard.command_run(["umount", "--lazy", *mounts]))
        if patch is not None:
            replay.require_git("--patch")
            contexts.patched(directory, patch, work / "patched")
        yield Task(
            old=directory.resolve(), new=(second or work / "patched").resolve(), work=work,
            file=rest["file"], arguments=named(rest["arguments"]), program=rest["program"],
            network="host" if rest["network"] else "none",
            changes=rest["commits"], excepted=rest["excepted"],
            seed=random.randrange(1 << 31) if seed is None else seed,  # noqa: S311
        )  # fmt: skip


@contextmanager
def _bar() -> Iterator[Callable[[float, float, str], None]]:
    with progress.bar() as shown:

        def tell(done: float, of: float, text: str) -> None:
            shown.move(done, of, text)
            shown.line(f"build {done + 1:.0f} of {of:.0f}")

        yield tell
