"""The size of the layer that each line makes, if it can be known before building."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner.errors import MrTunerError
from mrtuner_image.cache import Plan, Step
from mrtuner_image.context import BLOCK, ContextEntry
from mrtuner_image.dockerfile import LAYERED, Heredoc

_CHUNK: Final = 1 << 20
#: The default level of gzip and of the builder.
_LEVEL: Final = 6
_HEAD: Final = 18  # bytes around gzip's data
#: A file of this many bytes ends a run of files that are compressed together.
_LARGE: Final = 1 << 18
#: The average number of files in a run.
_RUN: Final = 64


@dataclass(frozen=True, slots=True)
class Layer:
    """What a line adds to the image [bytes]; None if that is known only after building."""

    size: int | None
    least: int  # it is not smaller than this
    compressed: int | None  # approximately: the builder compresses with other code
    why: str = ""  # it is unknown
    least_compressed: int = 0  # approximate minimum size of its blob


def layers(wanted: Plan, packing: Packing) -> list[list[Layer]]:
    """Return the layer of each line of each stage.

    Copied files are read and compressed once; those that `packing` knows are not read again.
    """
    placed: dict[int, dict[str, ContextEntry]] = {}
    found: list[list[Layer]] = []
    for index, stage in enumerate(wanted):
        files = dict(placed.get(stage.base, {})) if isinstance(stage.base, int) else {}
        found.append([_layer(step, files, packing) for step in stage.steps] if stage.needed else [])
        placed[index] = files
    return found


def shipped(wanted: Plan) -> set[int]:
    """The stages whose layers are in the image: the last one, and those it is built on."""
    stage = wanted[-1]
    found = {len(wanted) - 1}
    while isinstance(stage.base, int):
        found.add(stage.base)
        stage = wanted[stage.base]
    return found


def _layer(step: Step, files: dict[str, ContextEntry], packing: Packing) -> Layer:
    name = step.instruction.name
    if name not in LAYERED:
        return Layer(0, 0, 0)
    if name == "RUN":
        return _of_run(step, files, packing)
    if step.instruction.heredocs:
        return _of_heredocs(step, packing)
    if not step.copied:
        remote = step.instruction.flag("from") is None
        return Layer(None, 0, None, "comes from elsewhere" if remote else "comes from a stage")
    copied = dict(destinations(step))
    files |= copied
    single = [
        entry for source in step.copied if not source.is_directory for _, entry in source.entries
    ]
    if name == "ADD" and any(_is_archive(packing.root / entry.path) for entry in single):
        return Layer(None, 0, None, "an archive that is unpacked")
    return _of_files(copied, packing)


def _of_run(step: Step, files: Mapping[str, ContextEntry], packing: Packing) -> Layer:
    again = _owned_again(step, files)
    if not again:
        return Layer(None, 0, None, "depends on the command")
    least = sum(entry.archived for entry in again.values())
    return Layer(None, least, None, "chown copies what was added before", packing.compressed(again))


def _of_heredocs(step: Step, packing: Packing) -> Layer:
    texts = step.instruction.heredocs
    if step.copied or any("$" in text.text and not text.literal for text in texts):
        return Layer(None, 0, None, "a heredoc beside files, or with variables")
    return _of_files({text.name: _written(text) for text in texts}, packing)


def _of_files(files: Mapping[str, ContextEntry], packing: Packing) -> Layer:
    size = sum(entry.archived for entry in files.values()) + 2 * BLOCK
    return Layer(size, size, packed := packing.compressed(files), "", packed)


def _written(text: Heredoc) -> ContextEntry:
    content = text.text.encode("utf-8", "surrogateescape")
    return ContextEntry(text.name, "file", 0o644, len(content), content=content)


def destinations(step: Step) -> Iterator[tuple[str, ContextEntry]]:
    """Yield the paths in the image, with the entry that is copied there."""
    into = step.at.endswith("/") or len(step.copied) > 1
    for source in step.copied:
        for relative, entry in source.entries:
            if source.is_directory or into:
                yield posixpath.join(step.at, relative), entry
            else:
                yield step.at, entry


def _is_archive(path: Path) -> bool:
    try:
        return path.is_file() and tarfile.is_tarfile(path)
    except OSError:
        return False


class Packing:
    """Compresses what is copied from a directory, and remembers the sizes.

    Files are compressed in runs, so that a layer that differs in a few files is not compressed
    again as a whole. A run ends after a large file, and after names that are chosen by a checksum,
    so that they are the same in every layer.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[tuple[tuple[str, ContextEntry], ...], int] = {}

    def compressed(self, copied: Mapping[str, ContextEntry]) -> int:
        """About how many bytes a registry receives for a layer of these files, by gzip."""
        size = _HEAD + len(zlib.compress(bytes(2 * BLOCK), _LEVEL))
        run: list[tuple[str, ContextEntry]] = []
        for path, entry in copied.items():
            run.append((path, entry))
            if entry.size >= _LARGE or not zlib.crc32(os.fsencode(path)) % _RUN:
                size += self._run(tuple(run))
                run = []
        return size + (self._run(tuple(run)) if run else 0)

    def _run(self, files: tuple[tuple[str, ContextEntry], ...]) -> int:
        if (known := self._known.get(files)) is not None:
            return known
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        size = 0
        for path, entry in files:
            size += len(packer.compress(header(path, entry)))
            if entry.size:
                for chunk in _content(self.root, entry):
                    size += len(packer.compress(chunk))
                size += len(packer.compress(bytes(-entry.size % BLOCK)))
        self._known[files] = size + len(packer.flush())
        return self._known[files]


def header(path: str, entry: ContextEntry) -> bytes:
    """The header of an entry in an archive, without owner and time.

    In the usual case it is made several times as fast as by tarfile.
    """
    name = os.fsencode(path.lstrip("/"))
    if len(name) > _NAME or entry.kind != "file" or entry.size >= _OCTAL:
        return _any_header(path, entry)
    front = b"%b%07o\0%b%011o\0%011o\0" % (
        name.ljust(_NAME, b"\0"),
        entry.mode,
        _NOBODY,
        entry.size,
        0,
    )
    total = sum(front) + _REST
    return b"%b%06o\0 0%b" % (front, total, _MAGIC)


_NAME: Final = 100
_OCTAL: Final = 8**11  # a larger number has no room
_NOBODY: Final = b"0000000\0" * 2
_MAGIC: Final = (bytes(100) + b"ustar  \0").ljust(BLOCK - 157, b"\0")
#: The sum of the other bytes of a header; the bytes of the checksum itself count as blanks.
_REST: Final = sum(b" " * 8 + b"0" + _MAGIC)


def _any_header(path: str, entry: ContextEntry) -> bytes:
    information = tarfile.TarInfo(path.lstrip("/"))
    information.size, information.mode = entry.size, entry.mode
    information.type = {
        "directory": tarfile.DIRTYPE, "symlink": tarfile.SYMTYPE, "other": tarfile.FIFOTYPE,
    }.get(entry.kind, tarfile.REGTYPE)  # fmt: skip
    information.linkname = entry.target
    return information.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _content(root: Path, entry: ContextEntry) -> Iterator[bytes]:
    if entry.content is not None:
        yield entry.content
        return
    path = root / entry.path
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise MrTunerError(
            f"cannot read {path}: {error.strerror}",
            "Run as a user who may read it, or add it to the ignore file.",
        ) from error


def _owned_again(step: Step, files: Mapping[str, ContextEntry]) -> dict[str, ContextEntry]:
    """What a recursive chown copies at least: it copies even files whose owner is right.

    Measured with buildah 1.28.2 on overlay. Only files of earlier COPY lines are known.
    """
    found: set[str] = set()
    for command in re.split(r"&&|\|\||;", step.instruction.text):
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        if not words or words[0] not in {"chown", "chgrp"}:
            continue
        flags = [word for word in words[1:] if word.startswith("-")]
        if not any(re.fullmatch(r"-\w*R\w*|--recursive", flag) for flag in flags):
            continue
        for word in [word for word in words[1:] if not word.startswith("-")][1:]:
            place = posixpath.normpath(posixpath.join(step.at, word)).rstrip("/")
            found |= {path for path in files if path == place or path.startswith(place + "/")}
    return {path: entry for path, entry in files.items() if path in found}
