"""Record our own servers while loads run on them, all in the same way."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.answers.recorded import Tell, silent
from mrtuner.errors import MrTunerError

if TYPE_CHECKING:
    from mrtuner.bench.server.standing import Standing
    from mrtuner.history.recording.recorder import Instance
    from mrtuner.history.recording.source import Source
    from mrtuner.postgres.binaries import Binaries

#: The library that counts statements; loaded on every side, so that each pays for it.
STATEMENTS: Final = "pg_stat_statements"
#: Servers here run for minutes: what is usually sampled each minute is sampled this often [s].
_EVERY: Final = 10.0
_MINUTE: Final = 60.0
#: A recorder ends within some seconds; this is how long we wait for it at most [s].
_LAST_SAMPLE: Final = 60.0


def check_store(place: Path) -> None:
    """Check, before anything is measured, that a history can be written to this directory."""
    from mrtuner.history.store.writer import Writer

    with Writer(place, _sources()):
        pass


def has_statements(binaries: Binaries) -> bool:
    """Whether an installation has the library; no server told to load it starts without it."""
    above = binaries.directory.parent
    return any(
        (above / place / f"{STATEMENTS}{suffix}").is_file()
        for place in ("lib", "lib/postgresql", "lib64", "lib64/postgresql")
        for suffix in (".so", ".dylib")
    )


def with_statements(settings: Mapping[str, str]) -> dict[str, str]:
    """These settings, with the library that counts statements."""
    loaded = settings.get("shared_preload_libraries", "")
    names = [name for name in loaded.split(",") if name and name != STATEMENTS]
    return {**settings, "shared_preload_libraries": ",".join([*names, STATEMENTS])}


@contextmanager
def recorded(
    place: Path, servers: Mapping[str, Standing], suffix: str = "", *, statements: bool,
    tell: Tell = silent,
) -> Iterator[None]:  # fmt: skip
    """Record these servers into a store until the block ends, however it ends.

    The recorder is a thread of this process, so that its CPU time is counted as ours and nothing
    stays behind if we are killed. Its errors are told and do not stop the measurement.
    """
    from mrtuner.bench.server.scratch import in_database
    from mrtuner.bench.server.standing import DATABASE
    from mrtuner.history.recording.recorder import Instance
    from mrtuner.postgres.connect import connect, translated

    found = [
        Instance(name=f"{name}{suffix}", dsn=in_database(server.dsn, DATABASE))
        for name, server in servers.items()
    ]
    for one in found if statements else ():
        with translated(), connect(one.dsn, own_search_path=True) as session:
            session.execute(f"CREATE EXTENSION IF NOT EXISTS {STATEMENTS}")
    stop = threading.Event()
    thread = threading.Thread(
        target=_record, args=(place, found, stop, tell), name="record the loads", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_LAST_SAMPLE)


def _record(place: Path, instances: list[Instance], stop: threading.Event, tell: Tell) -> None:
    from mrtuner.history.recording.recorder import record
    from mrtuner.history.store.writer import Writer

    try:
        with Writer(place, _sources()) as writer:
            record(writer, instances, stop, tell=tell)
    except MrTunerError as error:
        tell(f"warning: the loads are not recorded any more: {error.message}")


def _sources() -> Iterator[Source]:
    """Yield the sources to record, with those of one minute sampled more often."""
    from mrtuner.history.recording.source import built_in, of_program
    from mrtuner.limits.recorded_ceilings import CEILINGS

    for source in (*built_in().values(), of_program("ceilings", CEILINGS)):
        if source.interval != _MINUTE:
            yield source
            continue
        # The store keeps the declaration, which tells charts their finest step.
        often = source.declaration.replace('interval = "1min"', f'interval = "{_EVERY:g}s"')
        yield replace(source, interval=_EVERY, declaration=often)
