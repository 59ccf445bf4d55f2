"""The protocol of every Python client: see failover_clients.py."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

#: A query that is in flight when the fault happens.
ENDLESS = "SELECT pg_sleep(60)"
#: `print` writes a line in pieces, and two cases may end at the same time.
_SPEAKING = threading.Lock()


def converse(**cases: Callable[[], object]) -> None:
    """Print `ready`, then run the case named on each line of stdin, each in its own thread."""
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        threading.Thread(target=_tell, args=(name, cases[name]), daemon=True).start()


def _tell(name: str, case: Callable[[], object]) -> None:
    try:
        case()
    except Exception as error:
        said = f"failed {type(error).__name__}: {error}".splitlines()[0]
    else:
        said = "answered"
    with _SPEAKING:
        print(name, said, flush=True)
