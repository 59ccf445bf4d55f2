"""Which files go: those past their retention, and the oldest where the store may not grow.

How long is declared by each source: its `keep` and `keep_rollup`, in `history/sources`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from mrtuner.history.store import layout, summaries
from mrtuner.history.store.compaction import LONG, retire, sources_of
from mrtuner.history.store.layout import MICRO
from mrtuner.history.store.parquet import File
from mrtuner.history.store.writer import Writer


def delete_past_retention(writer: Writer, now: int, largest: int | None = None) -> int:
    """Take files off the list that are older than they are kept, and return how many.

    If the others and the database together are larger than `largest` [bytes], the oldest rows as
    sampled go first, then the oldest summaries, and last what is stored only when it changes, such
    as settings: there are no other rows of it. If the database alone is larger, none goes: it has
    what could not be moved into files, and to delete these would not make it smaller.
    """
    known = sources_of(writer)
    keep = {source.name: source.keep for source in known}
    keep |= {layout.rollup_view(source): source.keep_rollup for source in known}
    keep |= {one.view: one.keep for one in summaries.SUMMARIES}
    files = writer.files()
    old = [
        file for file in files
        if file.view in keep and file.last < now - keep[file.view] * MICRO
    ]  # fmt: skip
    if largest is not None and (room := largest - recent_bytes(writer.directory)) > 0:
        last = {source.name for source in known if source.interval and source.keep > LONG}
        old += _beyond(room, [file for file in files if file not in old], last)
    if old:
        with writer.transaction():
            retire(writer, old)
    return len(old)


def recent_bytes(directory: Path) -> int:
    """Return the size of a store's database: rows in no file yet, and the texts of statements."""
    return sum(
        path.stat().st_size for path in directory.glob(f"{layout.DATABASE}*") if path.is_file()
    )


def _beyond(room: int, files: Sequence[File], last: Container[str]) -> Iterator[File]:
    """Yield the files that have to go so that the others fit into `room` bytes."""
    total = sum(file.bytes for file in files)

    def order(one: File) -> tuple[bool, bool, int]:
        return one.view in last, layout.is_rollup(one.view), one.last

    for file in sorted(files, key=order):
        if total <= room:
            return
        total -= file.bytes
        yield file
