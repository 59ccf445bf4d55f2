"""The record of a search on disk: a directory with `search.json`, replaced after each step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner import files
from mrtuner.errors import BadValue, MrTunerError, Refused, UsageError
from mrtuner.search.model import Search

if TYPE_CHECKING:
    from mrtuner.search.document import SearchDocument

FILE: Final = "search.json"


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
    """Return a search as it is written."""
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
