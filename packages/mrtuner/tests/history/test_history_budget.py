"""Recording keeps within its share of a session's time."""

from __future__ import annotations

from mrtuner.history.recording.budget import Budget


def test_the_most_expensive_source_yields() -> None:
    """By hand: 20 ms of each second and 30 ms of each minute are 2.05 %, above 1 %."""
    budget = Budget.of([("sessions", 1.0), ("statements", 60.0)], share=0.01)
    budget.took("sessions", 0.020)
    budget.took("statements", 0.030)
    assert budget.adjust() == "sessions"
    assert budget.paces["sessions"].actual == 2.0
    assert budget.paces["statements"].actual == 60.0


def test_it_yields_until_it_fits_and_then_stays() -> None:
    """By hand: 50 ms fit into 1 % at an interval of 8 s (0.63 %), not of 4 s (1.25 %)."""
    budget = Budget.of([("sessions", 1.0)], share=0.01)
    budget.took("sessions", 0.050)
    assert [budget.adjust() for _ in range(4)] == ["sessions", "sessions", "sessions", None]
    assert budget.paces["sessions"].actual == 8.0


def test_a_calm_server_is_sampled_more_often_again() -> None:
    budget = Budget.of([("sessions", 1.0)], share=0.01)
    budget.took("sessions", 0.050)
    for _ in range(3):
        budget.adjust()
    for _ in range(60):
        budget.took("sessions", 0.0005)
    for _ in range(10):
        budget.adjust()
    assert budget.paces["sessions"].actual == 1.0


def test_within_the_budget_nothing_changes() -> None:
    budget = Budget.of([("sessions", 1.0)], share=0.01)
    budget.took("sessions", 0.005)
    assert budget.adjust() is None


def test_a_sample_that_waits_for_a_cpu_slows_nothing_down() -> None:
    """On a server that is overloaded each second matters; the query itself takes as little."""
    budget = Budget.of([("sessions", 1.0)], share=0.01)
    for seconds in (0.300, 0.0005, 0.180, 0.240, 0.310, 0.270):
        budget.took("sessions", seconds)
        assert seconds == 0.300 or budget.adjust() is None
    budget.took("sessions", 0.200)  # none of the last five was short
    assert budget.adjust() == "sessions"
