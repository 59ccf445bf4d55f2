"""Probes distinguish the old primary from the new: schedules of one attempt a second."""

from __future__ import annotations

from datetime import UTC, datetime

from mrtuner.failover.lab.document import ProbedKind
from mrtuner.failover.lab.probe_view import first_by_new, seen, stale
from mrtuner.rehearsal.observation import Attempt, Observation, ProbeKind, ServerIdentity

#: Both are behind one address, as after a move: only the start times differ.
OLD = ServerIdentity(datetime(2026, 1, 1, tzinfo=UTC), False, "10.77.9.9")
NEW = ServerIdentity(datetime(2026, 1, 2, tzinfo=UTC), False, "10.77.9.9")


def asked(due: float, server: ServerIdentity | None, took: float = 0.0) -> Attempt:
    error = None if server else "refused"
    return Attempt(
        kind=ProbeKind.READ, due=due, sent=due, ended=due + took, error=error, server=server
    )  # fmt: skip


def observed(*attempts: Attempt) -> Observation:
    return Observation(
        began=datetime(2026, 1, 3, tzinfo=UTC), seconds=10.0, interval=1.0, timeout=10.0,
        kinds=(ProbeKind.READ,), attempts=attempts, skipped=0,
    )  # fmt: skip


def test_an_outage_lasts_from_the_last_answer_to_the_next() -> None:
    probes = observed(asked(0, OLD), asked(1, None), asked(2, None), asked(3, NEW), asked(4, NEW))
    assert seen(probes, ProbeKind.READ, takeover=2.5) == ProbedKind(
        kind="new connection, read", outage=3.0, failed=2, late=0, stale=0
    )


def test_an_answer_after_more_than_a_second_is_late() -> None:
    probes = observed(asked(0, OLD), asked(1, NEW, took=2.0), asked(2, NEW))
    assert seen(probes, ProbeKind.READ, takeover=0.5).late == 1


def test_an_outage_that_does_not_end_has_no_length() -> None:
    assert (
        seen(observed(asked(0, OLD), asked(1, None)), ProbeKind.READ, takeover=0.5).outage is None
    )


def test_only_the_old_primarys_answers_after_the_takeover_are_stale() -> None:
    probes = observed(asked(0, OLD), asked(1, OLD), asked(2, OLD), asked(3, NEW), asked(4, None))
    assert [each.due for each in stale(probes, takeover=1.5)] == [2]
    assert seen(probes, ProbeKind.READ, takeover=1.5).stale == 1


def test_the_new_primarys_first_answer_is_the_earliest_to_come() -> None:
    probes = observed(asked(0, OLD), asked(1, NEW, took=3.0), asked(2, NEW, took=0.5))
    assert first_by_new(probes) == 2.5
    assert first_by_new(observed(asked(0, OLD), asked(1, OLD))) is None
