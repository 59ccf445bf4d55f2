"""A store that stays open for some seconds, so that the charts of a page need not open it each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from queue import LifoQueue
from typing import Final

from mrtuner.history.reading import History, open_history
from mrtuner.history.remote import RemoteStore

#: What is shown may be so old [s]. An open store also keeps SQLite from clearing its log.
_AGE: Final = 5.0
#: On S3, to which recorders publish once an hour.
_AGE_ON_S3: Final = 60.0
#: Requests that are answered at once, each from a history of its own; others wait.
_SLOTS: Final = 2


class SharedHistory:
    """Lends an open history to one request at a time, and closes it when it is old."""

    def __init__(self, store: Path | RemoteStore) -> None:
        self._all = [_Slot(store) for _ in range(_SLOTS)]
        self._slots: LifoQueue[_Slot] = LifoQueue()
        for slot in self._all:
            self._slots.put(slot)

    @contextmanager
    def lent(self) -> Iterator[History]:
        """The history, for one request.

        Raises:
            UsageError: there is none, or it is damaged.
            Refused: it is of a newer version.
            AwsError: S3 does not answer.
        """
        slot = self._slots.get()
        try:
            with slot.lock:
                yield slot.open()
        finally:
            self._slots.put(slot)

    def close(self) -> None:
        """Close what is open, once no request is under way."""
        for slot in self._all:
            slot.close()


class _Slot:
    def __init__(self, store: Path | RemoteStore) -> None:
        self.lock = threading.Lock()
        self._store = store
        self._age = _AGE_ON_S3 if isinstance(store, RemoteStore) else _AGE
        self._history: History | None = None
        self._opened = ExitStack()

    def open(self) -> History:
        if self._history is None:
            self._history = self._opened.enter_context(self._open())
            timer = threading.Timer(self._age, self.close)
            timer.daemon = True
            timer.start()
        return self._history

    def _open(self) -> AbstractContextManager[History]:
        if isinstance(self._store, RemoteStore):
            return self._store.opened()
        return open_history(self._store)

    def close(self) -> None:
        with self.lock:
            self._history = None
            self._opened.close()
