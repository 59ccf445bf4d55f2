"""Storage parameters for one table and its TOAST table, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isinf
from typing import Final

from mrtuner.units import pretty_duration
from mrtuner.vacuum.classify import lifetime
from mrtuner.vacuum.model import Rates, StorageParameter, Table, TableKind, ToastTable, Work
from mrtuner.vacuum.pace import (
    heap_of_toast,
    insert_trigger,
    toast_options,
    trigger,
    unfrozen_rows,
    work,
    work_of,
)

SCALE: Final = "autovacuum_vacuum_scale_factor"
THRESHOLD: Final = "autovacuum_vacuum_threshold"
_DELAY: Final = "autovacuum_vacuum_cost_delay"
_INSERT_SCALE: Final = "autovacuum_vacuum_insert_scale_factor"
_INSERT_THRESHOLD: Final = "autovacuum_vacuum_insert_threshold"
_FREEZE: Final = "autovacuum_freeze_min_age"
ENABLED: Final = "autovacuum_enabled"
#: A storage parameter keeps the spelling it was given. Source: parse_bool_with_len, bool.c.
_OFF: Final = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})

_NOTES: Final = "field notes on vacuum by table (2021)"
_OURS: Final = "our judgement"

#: If this few dead rows start a vacuum anyway, the defaults are soon enough.
_SOON: Final = 1000
#: A table may keep one worker busy for this share of the time; else vacuum comes less often.
BUSY: Final = 0.25
#: Pages of 8 kB: a table of this size is vacuumed in a moment.
_SMALL: Final = 8192
#: From this many rows on, a fifth of them dead is too much to wait for.
_LARGE: Final = 1_000_000
#: The greatest threshold. Source: reloptions.c.
_INT_MAX: Final = 2**31 - 1
#: What a TOAST table may inherit begins so. Source: AutoVacOpts, rel.h.
_INHERITED: Final = (
    "autovacuum_vacuum_",
    "autovacuum_freeze_",
    "autovacuum_multixact_",
    "log_autovacuum_min_duration",
)
#: Bounds for the inserts between two vacuums of a table that only grows: within them, an hour's.
_FEWEST, _MOST = 10_000, 10_000_000
#: A table's own value stays up to this many times what is wanted: rates differ from day to day.
_ABOUT: Final = 2

Pair = tuple[float, int]
#: From tight to loose: the first with which vacuum keeps up is used.
_LONG_LIVED: Final[Sequence[Pair]] = ((0.01, 50), (0.02, 50), (0.05, 50), (0.1, 50), (0.2, 50))
_SHORT_LIVED: Final[Sequence[Pair]] = tuple((0.0, 5000 * 2**step) for step in range(10))
_QUEUE: Final[Sequence[Pair]] = tuple((0.0, 1000 * 2**step) for step in range(12))
_MIXED: Final[Sequence[Pair]] = ((0.05, 50), (0.1, 50), (0.2, 50))
_LADDERS: Final[Mapping[TableKind, tuple[Sequence[Pair], str]]] = {
    TableKind.LONG_LIVED: (_LONG_LIVED, _NOTES),
    TableKind.SHORT_LIVED: (_SHORT_LIVED, _NOTES),
    TableKind.QUEUE: (_QUEUE, _OURS),
    TableKind.MIXED: (_MIXED, _OURS),
}


def is_off(options: Mapping[str, str], name: str) -> bool:
    """Whether the storage parameters of a table switch this one off."""
    return options.get(name, "on").lower() in _OFF


def advise(
    table: Table, rates: Rates, kind: TableKind, settings: Mapping[str, str], *, dead: bool = True
) -> tuple[StorageParameter, ...]:
    """What to set, only where it differs from what the table has.

    Without `dead`, nothing that follows from the number of dead rows.
    """
    off = tuple(_switched_off(table))
    if any(one.name == ENABLED for one in off):
        return off
    if kind is TableKind.APPEND_ONLY:
        main = tuple(_growing(table, rates, settings))
        toast = () if off else tuple(_growing_toast(table, rates, settings, main))
    else:
        main = tuple(_main(table, rates, kind, settings)) if dead else ()
        toast = () if off or not dead else tuple(_toast(table, rates, kind, settings, main))
    found = [*off, *main, *toast, *_inherited(table, toast)]
    return tuple(one for one in found if not _same(one))


def options_after(table: Table, advice: Sequence[StorageParameter]) -> dict[str, str]:
    """The main table's storage parameters with the advice in force."""
    own = {one.name: one.value for one in advice if not one.name.startswith("toast.")}
    return {**table.options, **own}


def toast_options_after(table: Table, advice: Sequence[StorageParameter]) -> dict[str, str]:
    """The TOAST table's parameters: the main table's if it has none of its own."""
    kept = table.toast.options if table.toast else {}
    own = {
        one.name.removeprefix("toast."): one.value
        for one in advice
        if one.name.startswith("toast.")
    }
    return {**kept, **own} or options_after(table, advice)


def _switched_off(table: Table) -> Iterator[StorageParameter]:
    """Advice to switch autovacuum on again, as a separate line with its consequence."""
    toast = table.toast.options if table.toast else {}
    for name, options in ((ENABLED, table.options), (f"toast.{ENABLED}", toast)):
        if is_off(options, ENABLED):
            what = "TOAST table" if name.startswith("toast.") else "table"
            yield _advice(
                table,
                name,
                "true",
                f"autovacuum is switched off for this {what}, so it is vacuumed only to prevent "
                "wraparound; if that is intended, leave this line out (--format sql)",
                "documentation: Automatic Vacuuming",
            )


def _same(one: StorageParameter) -> bool:
    try:
        return one.now is not None and float(one.now) == float(one.value)
    except ValueError:
        return one.now == one.value


def _main(
    table: Table, rates: Rates, kind: TableKind, settings: Mapping[str, str]
) -> Iterator[StorageParameter]:
    if kind not in _LADDERS or trigger(table.rows, settings, {}) <= _SOON:
        return
    if kind is TableKind.MIXED and table.live < _LARGE:
        return
    ladder, source = _LADDERS[kind]

    def worked(pair: Pair) -> Work:
        return work_of(table, rates, settings, _with(table.options, pair))

    found = _tightest(ladder, trigger(table.rows, settings, table.options), worked)
    if found is not None:
        because = _because(table, rates, kind, worked(found))
        yield from _pair(table, "", f"{found[0]:g}", str(found[1]), because, source)
    if kind is TableKind.QUEUE and table.pages + table.index_pages <= _SMALL:
        why = (
            "it is small: without cost delay its vacuum takes a moment, and dead rows slow every "
            "scan"
        )
        yield _advice(table, _DELAY, "0", why, _OURS)


def _tightest(ladder: Sequence[Pair], now: float, worked: Callable[[Pair], Work]) -> Pair | None:
    """The tightest pair that fits; None if vacuum should not come before `now` [dead rows]."""
    return next((pair for pair in ladder if _fits(worked(pair), now)), None)


def _fits(done: Work, now: float) -> bool:
    """Whether vacuum comes before `now` [dead rows], and one worker is not too busy with it."""
    return done.trigger < now and (done.busy is None or done.busy <= BUSY)


def _pair(
    table: Table, prefix: str, scale: str, threshold: str, because: str, source: str
) -> Iterator[StorageParameter]:
    yield _advice(table, f"{prefix}{SCALE}", scale, because, source)
    yield _advice(table, f"{prefix}{THRESHOLD}", threshold, because, source)


def _with(options: Mapping[str, str], pair: Pair) -> dict[str, str]:
    return {**options, SCALE: str(pair[0]), THRESHOLD: str(pair[1])}


def _because(table: Table, rates: Rates, kind: TableKind, done: Work) -> str:
    every = "" if done.produce is None else f", so a vacuum every {pretty_duration(done.produce)}"
    if kind in {TableKind.QUEUE, TableKind.SHORT_LIVED}:
        life = lifetime(table, rates) or 0.0
        return (
            f"rows live {pretty_duration(life)}, so the number of dead rows matters, not their "
            f"share; {rates.dead:,.3g} per second{every}"
        )
    return f"{rates.dead:,.3g} dead rows per second in {table.rows:,} rows{every}"


def _growing(table: Table, rates: Rates, settings: Mapping[str, str]) -> Iterator[StorageParameter]:
    """Vacuum every hour's inserts: the visibility map stays fresh, and there is less to freeze."""
    wanted = _hourly(rates.inserts)
    waits = insert_trigger(unfrozen_rows(table), settings, table.options)
    own = table.options.keys() & {_INSERT_SCALE, _INSERT_THRESHOLD}
    if waits <= wanted * (_ABOUT if own else 1):
        return
    until = (
        f"no number of inserts starts a vacuum ({_INSERT_THRESHOLD} is -1)"
        if isinf(waits)
        else f"vacuum waits for {waits:,.0f} inserts, {pretty_duration(waits / rates.inserts)}"
    )
    because = f"{until}; then many rows must be frozen at once"
    yield _advice(table, _INSERT_SCALE, "0", because, _OURS)
    yield _advice(table, _INSERT_THRESHOLD, str(wanted), because, _OURS)
    why = "rows never change: frozen at their first vacuum, they are never visited again"
    yield _advice(table, _FREEZE, "0", why, "documentation: Preventing Transaction ID Wraparound")


def _hourly(inserts: float) -> int:
    """An hour's inserts at so many a second, within bounds."""
    return min(_MOST, max(_FEWEST, round(inserts * 3600)))


def _growing_toast(
    table: Table,
    rates: Rates,
    settings: Mapping[str, str],
    main: Sequence[StorageParameter],
) -> Iterator[StorageParameter]:
    """The same for a TOAST table, which would inherit the number of rows as one of chunks."""
    toast = table.toast
    if toast is None or toast.options:
        return
    now = insert_trigger(toast.live, settings, table.options)
    wanted = min(_hourly(rates.toast_inserts), now)
    if any(one.name == _INSERT_THRESHOLD and int(one.value) == wanted for one in main):
        return
    for one in main:
        value = f"{wanted:.0f}" if one.name == _INSERT_THRESHOLD else one.value
        yield replace(one, name=f"toast.{one.name}", now=None, value=value)


def _toast(
    table: Table,
    rates: Rates,
    kind: TableKind,
    settings: Mapping[str, str],
    main: Sequence[StorageParameter],
) -> Iterator[StorageParameter]:
    """Advice for the TOAST table; what it would inherit of `main` is for rows, not chunks."""
    toast = table.toast
    if toast is None or kind not in _LADDERS or rates.toast_deletes <= 0:
        return
    own, heap, each = toast_options(table), heap_of_toast(toast), _chunks(table, toast)
    now = trigger(toast.live, settings, own)

    def worked(options: Mapping[str, str]) -> Work:
        return work(heap, rates.toast_deletes, settings, options)

    because = f"{rates.toast_deletes:,.3g} chunks die per second, {each} per row on average"
    ladder, source = _LADDERS[kind]
    scaled = [(scale, floor if scale else min(floor * each, _INT_MAX)) for scale, floor in ladder]
    found = _tightest(scaled, now, lambda pair: worked(_with(own, pair))) if now > _SOON else None
    if found is not None:
        yield from _pair(table, "toast.", f"{found[0]:g}", str(found[1]), because, source)
        return
    inherits = worked(toast_options_after(table, main))
    if inherits.trigger != now and not _fits(inherits, now):
        kept = {SCALE: "0.2", THRESHOLD: "50", **settings, **own}
        as_now = f"as now, since its table's new values are for rows: {because}"
        yield from _pair(table, "toast.", kept[SCALE], kept[THRESHOLD], as_now, _OURS)


def _chunks(table: Table, toast: ToastTable) -> int:
    """Chunks of a row on average, at least one."""
    return max(1, round(toast.live / table.live)) if table.live else 1


def _inherited(table: Table, advice: Sequence[StorageParameter]) -> Iterator[StorageParameter]:
    """What the TOAST table has from its table, and would lose with the `advice` for it."""
    if not advice or table.toast is None or table.toast.options:
        return
    named = {one.name for one in advice}
    because = "as now: once it has a parameter of its own, the TOAST table inherits none"
    for name, value in table.options.items():
        if name.startswith(_INHERITED) and f"toast.{name}" not in named:
            yield _advice(table, f"toast.{name}", value, because, "autovacuum.c")


def _advice(table: Table, name: str, value: str, because: str, source: str) -> StorageParameter:
    if name.startswith("toast."):
        now = table.toast.options.get(name.removeprefix("toast.")) if table.toast else None
    else:
        now = table.options.get(name)
    return StorageParameter(name=name, now=now, value=value, because=because, source=source)
