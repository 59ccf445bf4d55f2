"""A run on disk: one directory, written line by line, resumable, sealed at the end.

    run.json      the plan, the texts of its scripts and settings, host, kernel, versions
    lines.jsonl   samples, failures, rejections, finished blocks, notes, in order of time
    seal.json     checksums of both; nothing is written after it

A line that a crash cut off is dropped when the run is resumed. Everything else is kept, including
rejected samples. Schema "mrtuner.bench.run/2".
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mrtuner.bench.record import document as of
from mrtuner.bench.record.document import AnyLine, RunDocument
from mrtuner.bench.record.model import Record, assembled
from mrtuner.documents import as_builtins, read
from mrtuner.errors import BadValue, MrTunerError, Refused, UsageError

_HEAD, _LINES, _SEAL, _LOCK = "run.json", "lines.jsonl", "seal.json", "lock"
#: Lines that cost a run of the load; failed ones are worth keeping, too.
_MEASURED = frozenset({"sample", "failure"})


class Archive:
    """A run being written. Every line is on disk before the next run begins."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def create(cls, directory: Path, head: RunDocument) -> Archive:
        """Begin in an empty or missing directory; Refused when something is there."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if any(path.name != _LOCK for path in directory.iterdir()):
                raise Refused(
                    f"{directory} is not empty",
                    "Give another with --dir, or continue with --resume.",
                )
            _write(directory / _HEAD, as_builtins(head))
            (directory / _LINES).touch()
        except OSError as error:
            raise _unwritable(directory, error) from error
        return cls(directory)

    @classmethod
    def resume(cls, directory: Path) -> tuple[Archive, Record]:
        """Continue an unfinished run; Refused for a sealed one."""
        record = load(directory)
        if record.sealed:
            raise Refused(f"the run in {directory} is already finished", "Start another one.")
        _drop_torn_line(directory / _LINES)
        return cls(directory), record

    def seal(self, at: str) -> None:
        """End the run: write the checksums and make the files read-only."""
        self.append(of.EndLine(at=at))
        files = (_HEAD, _LINES)
        _write(self.directory / _SEAL, {name: _checksum(self.directory / name) for name in files})
        for name in (*files, _SEAL):
            (self.directory / name).chmod(0o444)
        (self.directory / _LOCK).unlink(missing_ok=True)

    def append(self, line: AnyLine) -> None:
        text = json.dumps(
            as_builtins(line), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        try:
            with (self.directory / _LINES).open("a", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(self.directory, error) from error


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock this directory against other runs; Refused when one uses it.

    A new run that ends with an error before anything was measured leaves nothing behind, so that
    the error's hint can be followed with the same directory.
    """
    made = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        begins = all(path.name == _LOCK for path in directory.iterdir())
        file = (directory / _LOCK).open("w")
    except OSError as error:
        raise _unwritable(directory, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"another process is running in {directory}",
                "Wait for it, or give another directory with --dir.",
            ) from None
        try:
            yield
        except MrTunerError:
            if begins and not _anything_measured(directory):
                _take_back(directory, made)
            raise


def _anything_measured(directory: Path) -> bool:
    lines = _whole_lines(directory / _LINES)
    return any(json.loads(line)["kind"] in _MEASURED for line in lines)


def _take_back(directory: Path, made: bool) -> None:
    for name in (_HEAD, _LINES, _LOCK):
        (directory / name).unlink(missing_ok=True)
    if made and not any(directory.iterdir()):
        directory.rmdir()


def load(directory: Path) -> Record:
    """The run in a directory, finished or not.

    Raises UsageError when there is none, BadValue when it is damaged or was changed later.
    """
    sealed = _check_seal(directory)
    return assembled(*contents(directory), sealed=sealed)


def contents(directory: Path) -> tuple[RunDocument, list[AnyLine]]:
    """Head and lines of the run in a directory, for a document that holds several."""
    head = _read_head(directory)
    try:
        return head, [of.read_line(line) for line in _whole_lines(directory / _LINES)]
    except ValueError as error:
        raise BadValue(
            f"the run in {directory} is damaged: {error}", "Use the files unchanged."
        ) from error


def _read_head(directory: Path) -> RunDocument:
    try:
        text = (directory / _HEAD).read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"no run in {directory}", "Give the directory that mrtuner bench run wrote."
        ) from None
    except OSError as error:
        raise BadValue(f"cannot read {directory / _HEAD}: {error}") from error
    try:
        return read(text, of.RunDocument)
    except BadValue as error:
        raise BadValue(f"{directory / _HEAD}: {error.message}", error.hint) from None


def _check_seal(directory: Path) -> bool:
    """Whether there is a seal; BadValue when it is broken."""
    try:
        seal = json.loads((directory / _SEAL).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    changed = [name for name, known in seal.items() if _checksum(directory / name) != known]
    if changed:
        raise BadValue(
            f"{', '.join(changed)} in {directory} was changed after the run",
            "Only an unchanged record can be reported.",
        )
    return True


def _whole_lines(path: Path) -> list[bytes]:
    """All lines but one that a crash cut off."""
    text = path.read_bytes() if path.exists() else b""
    return text[: text.rfind(b"\n") + 1].splitlines()


def _drop_torn_line(path: Path) -> None:
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _unwritable(path: Path, error: OSError) -> MrTunerError:
    return MrTunerError(
        f"cannot write the run in {path}: {error.strerror}",
        "Make room or give another directory, then continue with --resume.",
    )
