"""The record of a search on disk: a directory with `search.json`, replaced after each step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner import files
from mrtuner.change.journal import journal_directory
from mrtuner.errors import BadValue, MrTunerError, Refused, UsageError
from mrtuner.search.model import Earlier, Search, SearchedLoad

if TYPE_CHECKING:
    from mrtuner.search.document import SearchDocument

FILE: Final = "search.json"
#: What must be the same in an earlier search, besides the load.
_ALIKE: Final = ("postgres", "machine", "cpus", "memory", "goal")
#: Scales that differ by no more than this are about the same.
_ABOUT: Final = 1.25
#: Each costs the time of a trial.
_MOST_EARLIER: Final = 2


def file_of(place: Path) -> Path:
    """Return the record of a search, which is named by its directory or by itself."""
    return place / FILE if place.is_dir() else place


def require_new(directory: Path) -> None:
    """Refuse a directory that has a search already."""
    if (directory / FILE).exists():
        raise Refused(
            f"there is a search in {directory}",
            f"Continue it with --resume {directory}, or give another directory with --dir.",
        )


def document(search: Search) -> SearchDocument:
    from mrtuner.documents import convert
    from mrtuner.search.document import SearchDocument

    return convert(search, SearchDocument)


def save(search: Search, directory: Path) -> None:
    """Replace the record; a reader, and a crash, find either the old one or the new one."""
    import json

    from mrtuner.documents import as_builtins

    plain = as_builtins(document(search))
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        files.replace(directory / FILE, text)
    except OSError as error:
        raise MrTunerError(
            f"cannot write the search in {directory}: {error.strerror}",
            "Make room there, then continue with --resume.",
        ) from error


def remember(search: Search) -> None:
    """Keep a finished search among those of this user, on this machine, for later ones."""
    if search.result is not None and search.result.found:
        place = _remembered() / "".join(one for one in search.started if one.isalnum())
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise MrTunerError(
                f"cannot keep the search for later ones in {place}: {error.strerror}",
                "Name another directory with MRTUNER_STATE_DIR.",
            ) from error
        save(search, place)


def earlier(search: Search) -> list[Earlier]:
    """Return what earlier searches of the same load, version and machine confirmed, newest first.

    What cannot be read is told in `unknown` of the search.
    """
    found: list[Earlier] = []
    for place in sorted(_remembered().glob("*"), reverse=True):
        try:
            one = load(place)
        except MrTunerError as error:
            search.unknown.append(f"an earlier search: {error.message}")
            continue
        unlike = any(getattr(one, name) != getattr(search, name) for name in _ALIKE)
        if one.result is None or unlike or not _same_load(one.load, search.load):
            continue
        settings = {each.name: each.value for each in one.result.differences}
        if settings not in [each.settings for each in found]:
            found.append(Earlier(started=one.started, settings=settings))
    return found[:_MOST_EARLIER]


def _same_load(one: SearchedLoad, other: SearchedLoad) -> bool:
    """Whether loads are alike: however often statements were called, at about the same scale.

    Without --scale, the scale may follow the free disk.
    """
    scales = sorted((one.scale or 1, other.scale or 1))
    if scales[1] > _ABOUT * scales[0] or _texts(one) != _texts(other):
        return False
    plain, theirs = (replace(each, scale=None, statements=()) for each in (one, other))
    return plain == theirs


def _texts(load: SearchedLoad) -> set[str]:
    return {one.text for one in load.statements if one.left_out is None}


def _remembered() -> Path:
    return journal_directory() / "searches"


def load(place: Path) -> Search:
    """Return the search in a directory, or in its file, finished or not.

    Raises UsageError if there is none, BadValue if it is damaged.
    """
    from mrtuner.documents import convert, read
    from mrtuner.search.document import SearchDocument

    path = file_of(place)
    if not path.exists():
        raise UsageError(
            f"there is no search in {place}", "Give the directory that mrtuner search wrote."
        )
    text = files.read_file(path, hint="Give the directory that mrtuner search wrote.")
    try:
        return convert(read(text, SearchDocument), Search)
    except BadValue as error:
        raise BadValue(f"{path}: {error.message}", error.hint) from None
