"""A store that stays open for some seconds, so that not every chart of a page has to open it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from queue import LifoQueue
from typing import Final

from mrtuner.history.reading import History, open_history
from mrtuner.history.remote import RemoteStore
from mrtuner.history.store.layout import DATABASE
from mrtuner.history.workspace import Workspace

#: How old the data shown may be [s]. An open store also keeps SQLite from clearing its log.
_AGE: Final = 5.0
#: The same for a store on S3, to which recorders publish once an hour.
_AGE_ON_S3: Final = 60.0
#: Requests answered at the same time, each from a history of its own; others wait.
_SLOTS: Final = 2


class SharedHistory:
    """Lends open histories, each to one request at a time, and closes them when they are old."""

    def __init__(self, store: Path | RemoteStore, *, age: float | None = None) -> None:
        """`age` is how old answers may be [s]; None for the default of the kind of store."""
        if age is None:
            age = _AGE_ON_S3 if isinstance(store, RemoteStore) else _AGE
        self._all = [_Slot(store, age) for _ in range(_SLOTS)]
        self._slots: LifoQueue[_Slot] = LifoQueue()
        for slot in self._all:
            self._slots.put(slot)

    @contextmanager
    def lent(self) -> Iterator[History]:
        """Lend a history to one request.

        Raises:
            UsageError: there is no store, or it is damaged.
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
            slot.end()


class _Slot:
    def __init__(self, store: Path | RemoteStore, age: float) -> None:
        self.lock = threading.Lock()
        self._work: Workspace | None = None
        self._of: tuple[int, int] | None = None
        self._store = store
        self._age = age
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
        return open_history(self._store, work=self._workspace(self._store))

    def _workspace(self, store: Path) -> Workspace | None:
        """Return what was read before, empty if the store was replaced; None without a store."""
        try:
            found = (store / DATABASE).stat()
        except OSError:  # said when the store is opened
            return None
        if self._work is None or self._of != (found.st_dev, found.st_ino):
            self._forget()
            self._work, self._of = Workspace(), (found.st_dev, found.st_ino)
        return self._work

    def _forget(self) -> None:
        if self._work is not None:
            self._work.close()
        self._work = None

    def close(self) -> None:
        """Close the history, but keep what was read."""
        with self.lock:
            self._history = None
            self._opened.close()

    def end(self) -> None:
        self.close()
        with self.lock:
            self._forget()
