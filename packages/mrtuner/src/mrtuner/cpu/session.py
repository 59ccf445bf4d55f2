"""Make a plan, carry it out and return the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from mrtuner.cpu import pairs, trials
from mrtuner.cpu.model import CpuPair, CpuPlace, CpuPlan, CpuTopology, Mode, Record, Usable
from mrtuner.cpu.topology import known_count, place, topology, usable
from mrtuner.cpu.trials import CpuSite, Here
from mrtuner.errors import Refused, UsageError
from mrtuner.host.tree import Tree

PIECES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where to measure, and what is known about it in advance."""

    site: CpuSite
    mode: Mode
    usable: Usable
    topology: CpuTopology
    place: CpuPlace
    notes: tuple[str, ...] = ()


def here(mode: Mode) -> Setup:
    """Return the setup for measuring with processes on this machine."""
    tree = Tree()
    found = usable(tree)
    return Setup(
        site=Here(mode, tree, found),
        mode=mode,
        usable=found,
        topology=topology(tree, found.cpus),
        place=place(tree),
    )


def server(dsn: str, cpus: int | None) -> Setup:
    """Return the setup for sessions of a server.

    Raises UsageError for a remote one without `cpus`, and for one on this machine with them.
    """
    from mrtuner.cpu.sql import Sessions
    from mrtuner.postgres.connect import connect
    from mrtuner.postgres.read_server import read

    with connect(dsn) as conn:
        told = read(conn)
    tree = Tree(pid=told.local_pid)
    local = told.local_pid is not None
    if cpus is None and not local:
        raise UsageError(
            "the number of vCPUs of a server cannot be read over SQL", "Give it with --cpus."
        )
    if cpus is not None and local:
        raise UsageError(
            "--cpus is for a server on another machine, and this one runs here",
            "Leave out --cpus; --up-to limits the workers.",
        )
    found = usable(tree) if cpus is None else known_count(cpus, "--cpus")
    seen = topology(tree, found.cpus) if local else CpuTopology(cores=(), threads=None, source=_FAR)
    where = place(tree) if local else CpuPlace(
        platform="linux", model=None, architecture=None, evidence=_FAR
    )  # fmt: skip
    if told.platform.name != "self-managed":
        where = replace(where, platform=told.platform.name, evidence=told.platform.evidence)
    return Setup(
        site=Sessions(dsn, found, told.local_pid),
        mode=Mode.SQL,
        usable=found,
        topology=seen,
        place=where,
        notes=() if local else (_ELAPSED_ONLY,),
    )


_FAR: Final = "the server runs on another machine"
_ELAPSED_ONLY: Final = (
    "the server runs on another machine: only elapsed time is known, so CPU time and run delay "
    "cannot show the cause"
)


def most_workers(text: str | None, setup: Setup) -> int:
    """Return the most workers: a number, or ``2x`` the CPUs; by default 1x on a server, else 2x.

    Raises UsageError for anything else.
    """
    text = text or ("1x" if setup.mode is Mode.SQL else "2x")
    try:
        if text.endswith("x"):
            most = round(float(text[:-1]) * setup.usable.may_run_on)
        else:
            most = int(text)
    except (ValueError, OverflowError):
        most = 0
    if not 1 <= most <= _MOST:
        raise UsageError(
            f"{text!r} is not a number of workers",
            "Give a number such as 12, or 2x for twice the CPUs.",
        )
    return most


_MOST: Final = 4096


def planned(
    setup: Setup, *, up_to: str | None, repeats: int, seconds: float, seed: int,
    try_pairs: bool, forced: bool,
) -> CpuPlan:  # fmt: skip
    cores = len(setup.topology.cores) or None
    most = most_workers(up_to, setup)
    return CpuPlan(
        mode=setup.mode,
        counts=trials.counts(most, setup.usable.may_run_on, cores),
        repeats=repeats,
        seconds=seconds,
        pieces=PIECES,
        seed=seed,
        pairs=try_pairs and setup.mode is not Mode.SQL and len(setup.usable.cpus) > 1,
        forced=forced,
    )


def measure(setup: Setup, plan: CpuPlan, *, tell: Callable[[str], None]) -> Record:
    """Carry out the plan. Raises Refused on a busy machine unless the plan is forced."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    busy = trials.check_quiet(setup.site)
    if busy and not plan.forced:
        raise Refused(
            f"the machine is busy: {busy}",
            "Stop other programs (see top), or use --force, which the record will mention.",
        )
    solo: float | None = None
    tried: tuple[CpuPair, ...] = ()
    if plan.pairs and isinstance(setup.site, Here):
        solo, tried = pairs.tried(Mode.INTEGER, setup.usable.cpus, tell=tell)
    done = trials.run(setup.site, plan, tell=tell)
    return Record(
        began=began,
        plan=plan,
        usable=setup.usable,
        topology=setup.topology,
        place=setup.place,
        kernel=setup.site.tree.peek("/proc/sys/kernel/osrelease") if setup.site.cpus else None,
        solo=solo,
        pairs=tried,
        trials=done,
        notes=(*setup.notes, *_notes(setup, busy)),
    )


def _notes(setup: Setup, busy: str | None) -> list[str]:
    notes = []
    if busy:
        notes.append(f"forced on a busy machine: {busy} when the test began")
    if not setup.site.cpus:
        notes.append("other work, steal and throttling cannot be seen from this machine")
    elif setup.site.tree.peek("/proc/self/schedstat") is None:
        notes.append("this kernel does not report run delay, so the cause cannot be named")
    return notes
