"""Waiting for what others do in their own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(true: Callable[[], Any], what: str = "what was expected", seconds: float = 90) -> Any:
    """Ask until the answer is true, and return it; long enough for a busy machine by default."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
    return found
