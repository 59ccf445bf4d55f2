"""Where history is kept: in the place that is named, or in the default directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.history.store.s3 import Place


def history_directory(given: Path | None = None) -> Path:
    """Return `given`, else MRTUNER_HISTORY_DIR, else a directory in the user's data directory.

    Raises:
        UsageError: the named place is on S3.
    """
    if given is None and (text := os.environ.get("MRTUNER_HISTORY_DIR")):
        given = Path(text)
    if given is not None and given.parts[:1] == ("s3:",):
        raise UsageError(
            "only mrtuner serve reads a history on S3",
            "Fetch a copy of it with mrtuner history fetch.",
        )
    if given is not None:
        return given
    import platformdirs

    return Path(platformdirs.user_data_dir("mrtuner")) / "history"


def history_place(given: str | None = None) -> Path | Place:
    """Return the place of a history: a directory, or for ``s3://BUCKET/PREFIX`` a place on S3.

    Raises:
        BadValue: it begins with s3:// but is not such an address.
    """
    named = given or os.environ.get("MRTUNER_HISTORY_DIR", "")
    if not named.startswith("s3://"):
        return history_directory(Path(named) if named else None)
    from mrtuner.history.store.s3 import place_of

    return place_of(named)
