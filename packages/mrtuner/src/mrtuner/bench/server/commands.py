"""The system's programs that prepare a place for a server: mount, losetup, mkfs."""

from __future__ import annotations

import subprocess

from mrtuner.errors import MrTunerError


def run(*command: str, hint: str) -> str:
    """Return what a program printed; MrTunerError with its own words, and `hint`, if it fails."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        raise MrTunerError(f"{command[0]} failed: {detail.strip()}", hint) from error
    return done.stdout.strip()
