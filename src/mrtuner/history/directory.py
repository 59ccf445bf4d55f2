"""Where history is kept unless another directory is named."""

from __future__ import annotations

import os
from pathlib import Path


def history_directory(given: Path | None = None) -> Path:
    """The directory: `given`, else MRTUNER_HISTORY_DIR, else one of the user's data directory."""
    if given is not None:
        return given
    if named := os.environ.get("MRTUNER_HISTORY_DIR"):
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("mrtuner")) / "history"
