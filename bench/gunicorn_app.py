"""What bench/gunicorn_waiting.py lets gunicorn serve: a request says how long it takes, and how."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any


def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Sleep, or use so much CPU time."""
    seconds = float(environ.get("HTTP_X_TAKE", "0"))
    if environ.get("HTTP_X_BURN"):
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
    else:
        time.sleep(seconds)
    start("200 OK", [("Content-Length", "3"), ("Content-Type", "text/plain")])
    return [b"ok\n"]
