"""What bound a load, judged by what was observed while it ran."""

from __future__ import annotations

from mrtuner.bench.verdict.bound import bound
from mrtuner.bench.verdict.meanwhile import SeenMeanwhile, WaitEvent


def seen(cpus: float | None, **events: float) -> SeenMeanwhile:
    return SeenMeanwhile(
        variant="advised", cpus=cpus, voluntary=None, forced=None, waiting={},
        throttled=None, written=None, wal=0.0, canary=(0.03, 0.03),
        events=tuple(
            WaitEvent(event=name.replace("__", ":"), share=share) for name, share in events.items()
        ),
    )  # fmt: skip


def test_full_cpus_bind_whatever_the_sessions_wait_for() -> None:
    found = bound(seen(1.9, running=0.3, IO__WalSync=0.5), 2, rated=False)
    assert (found.kind, found.words) == ("cpu", "CPU: 95% of 2 busy")


def test_one_session_that_always_runs_is_bound_by_its_cpu() -> None:
    assert bound(seen(1.1, running=0.9, IO__DataFileRead=0.1), 2, rated=False).kind == "cpu"


def test_waits_for_the_disk_add_up_whatever_they_are_for() -> None:
    """0.2 + 0.2 + 0.1: half of the sessions, though no single event accounts for so many."""
    found = bound(
        seen(0.5, running=0.3, IO__WalSync=0.2, LWLock__WALWrite=0.2, IO__DataFileRead=0.1),
        2, rated=True,
    )  # fmt: skip
    assert found.kind == "storage"
    assert found.words == "storage: 50% of active sessions waited for it, 0.5 of 2 CPUs busy"


def test_sessions_that_wait_for_each_other_are_bound_by_locks() -> None:
    assert bound(seen(0.9, running=0.3, Lock__transactionid=0.6), 2, rated=False).kind == "locks"


def test_with_nothing_short_a_rate_is_what_binds() -> None:
    quiet = seen(0.4, running=0.3, Client__ClientRead=0.3, IO__WalSync=0.1)
    assert bound(quiet, 2, rated=True).kind == "rate"
    assert bound(quiet, 2, rated=False).kind == "nothing"


def test_without_a_look_at_the_machine_wait_events_have_to_do() -> None:
    assert bound(seen(None, running=0.9), 2, rated=False).words == "CPU: 90% of active sessions ran"
