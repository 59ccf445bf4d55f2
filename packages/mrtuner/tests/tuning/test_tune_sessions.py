"""Sessions and the memory they hold: reserves, page tables, active ones, what stays cached."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from test_tune_gather import HOUR, QUIET, host, server, setting
from test_tune_rules_live import live

import mrtuner
from mrtuner.errors import BadValue, DoesNotFit
from mrtuner.facts import Fact
from mrtuner.host.model import HugePages as Reserved
from mrtuner.host.model import VirtualMemory
from mrtuner.inputs import Workload
from mrtuner.tuning import gather, tune_server
from mrtuner.tuning.feasibility import refuse_overflow, solve, what_must_give
from mrtuner.tuning.situation import Connections, HugePages, Memory, Seen
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from mrtuner.host.model import Host
    from mrtuner.postgres.model import Server
    from mrtuner.tuning import Tuning

MIB, GIB = 2**20, 2**30
LARGE: dict[str, Any] = {
    "memory": "256GB", "cpus": 64, "storage": "ssd", "workload": "oltp", "postgres": 18,
}  # fmt: skip


def texts(tuning: Tuning) -> str:
    return "\n".join(notice.text for notice in tuning.notices)


# --- the sessions asked for


@pytest.mark.parametrize("wanted", [1, 2, 3, 5, 200])
def test_what_is_asked_for_are_sessions_of_applications_and_the_reserves_come_on_top(
    wanted: int,
) -> None:
    tuning = mrtuner.tune(memory="8GB", cpus=2, connections=wanted, postgres=18)
    assert tuning["max_connections"].target == wanted + 3
    assert "3 that the server reserves" in tuning["max_connections"].reason


def test_a_servers_own_reserves_are_counted_and_not_the_defaults() -> None:
    own = {"superuser_reserved_connections": "5", "reserved_connections": "2"}
    advice = solve(live(own, connections=Connections(50))).advice
    assert advice["max_connections"].target == 50 + 5 + 2
    before_16 = {"superuser_reserved_connections": "5"}
    advice = solve(live(before_16, major=15, connections=Connections(50))).advice
    assert advice["max_connections"].target == 50 + 5


def test_a_servers_max_connections_stay_where_nobody_said_a_number() -> None:
    item = solve(live({"max_connections": "123"})).advice["max_connections"]
    assert (item.target, item.changes) == (123, False)


def test_a_value_that_is_the_default_is_no_change_and_is_written_all_the_same() -> None:
    """The file may go to a server with another value, and the budget assumes this one."""
    tuning = mrtuner.tune(memory="8GB", cpus=2)
    item = tuning["max_connections"]
    assert (item.value, item.current, item.changes) == ("100", "100", False)
    assert item not in tuning.changes
    assert "as asked for" not in item.reason
    assert "max_connections = 100" in tuning.as_conf()


def test_more_sessions_than_were_asked_for_are_open_now_and_that_is_said() -> None:
    refused = "7 sessions were open at once: --connections 6 would refuse some of them"
    for connections, told in ((6, True), (7, False)):
        gathered = gather.live(gather.flags(connections=connections), server(), None)  # it has 7
        assert (refused in [notice.text for notice in gathered.notices]) == told


# --- page tables


def test_page_tables_of_every_session_are_in_the_budget() -> None:
    """256 GB with 500 sessions: a tuning that "fit" was once 62 GB over, 500/512 of 64 GB."""
    tuning = mrtuner.tune(**LARGE, connections=500)
    budget = tuning.budget
    assert budget is not None
    (tables,) = [part.size for part in budget.parts if part.name == "page tables"]
    assert tuning["shared_buffers"].value == "64GB"
    assert tables >= 500 * 64 * GIB // 512
    assert budget.total <= 0.9 * 256 * GIB


def test_page_tables_count_no_more_where_somebody_says_that_huge_pages_are_reserved() -> None:
    crowd: dict[str, Any] = {"memory": "8GB", "cpus": 2, "connections": 500, "postgres": 18}
    without, reserved = mrtuner.tune(**crowd), mrtuner.tune(**crowd, huge_pages=True)
    assert reserved.budget is not None
    assert reserved.budget.page_tables == 0
    assert reserved["work_mem"].target > without["work_mem"].target  # type: ignore[operator]
    assert "huge pages" in {given.name for given in reserved.given}


def test_huge_pages_and_fewer_sessions_are_both_named_with_their_numbers_and_both_work() -> None:
    """2,000 sessions limit shared_buffers; either remedy restores a quarter of memory."""
    held = mrtuner.tune(**LARGE, connections=2000)
    assert held["shared_buffers"].target < 64 * GIB // 8192  # type: ignore[operator]
    said = texts(held)
    pages = int(said.split("reserve ")[1].split(" huge pages")[0])
    fewer = int(said.split("at most ")[1].split(" --connections")[0])
    assert 64 * GIB / 2 / MIB < pages < 70 * GIB / 2 / MIB
    reserved = mrtuner.tune(**LARGE, connections=2000, huge_pages=True)
    assert reserved["shared_buffers"].value == "64GB"
    assert mrtuner.tune(**LARGE, connections=fewer)["shared_buffers"].value == "64GB"
    assert mrtuner.tune(**LARGE, connections=fewer + 1)["shared_buffers"].value != "64GB"


def test_where_the_sum_no_longer_holds_the_hint_names_huge_pages_and_fewer_sessions() -> None:
    """20,000 sessions of 2.5 MB are 49 GB of 256; with an eighth of the wanted buffers, 8 GB,
    their page tables are 40 times that.
    """
    with pytest.raises(DoesNotFit) as caught:
        mrtuner.tune(**LARGE, connections=20_000)
    hint = caught.value.hint or ""
    assert "huge pages and use --huge-pages" in hint
    fewer = int(hint.split("--connections to ")[1].split()[0])
    assert mrtuner.tune(**LARGE, connections=20_000, huge_pages=True)
    assert mrtuner.tune(**LARGE, connections=fewer)
    with pytest.raises(DoesNotFit):
        mrtuner.tune(**LARGE, connections=fewer + 1)


def test_buffers_that_are_fixed_leave_huge_pages_as_the_way_out() -> None:
    fixed = {"shared_buffers": "set on the command line"}
    running = {"shared_buffers": str(64 * GIB // 8192), "max_connections": "2000"}
    large: dict[str, Any] = {"memory": Memory(Bytes(256 * GIB)), "fixed": fixed}
    situation = live(running, **large)
    assert "huge pages and use --huge-pages" in what_must_give(situation, 2000)
    asked = replace(situation, connections=Connections(1997))
    with pytest.raises(DoesNotFit):
        refuse_overflow(asked, solve(asked))
    proved = live(running, **large, huge_pages=HugePages(None, "test"))
    assert solve(proved).holds


# --- huge pages: what proves them

BUFFERS = 4 * GIB


def running(status: str | None, huge_pages: str = "try") -> Server:
    """A server with 4 GB of buffers and 100 connections; `status` came in 17."""
    settings = [
        setting("shared_buffers", str(BUFFERS // 8192), "8kB"),
        setting("wal_buffers", "2048", "8kB"),
        setting("max_connections", "100"),
        setting("max_worker_processes", "8"),
        setting("huge_pages", huge_pages),
    ]
    if status is not None:
        settings.append(setting("huge_pages_status", status))
    return server(*settings)


def machine(total: int, free: int, committed: int = 0) -> Host:
    pages = Reserved(
        size=Bytes(2 * MIB), reserved=total, free=free, committed=committed, transparent=None
    )
    return host(memory=Fact(Bytes(64 * GIB), "test"), huge_pages=Fact(pages, "/proc/meminfo"))


#: By hand: 4096 MB * 1.03 + 16 + (100 + 8) * 112 kB + 20 = 4266.69 MB.
NOW = 4266


@pytest.mark.parametrize(
    ("status", "huge_pages", "where", "covers"),
    [
        ("on", "try", None, NOW),
        ("off", "try", None, None),
        ("off", "try", machine(10_000, 10_000), None),  # reserved, and for some reason not used
        ("on", "try", machine(3000, 800), NOW + 1600),  # 800 pages are unclaimed
        ("on", "try", machine(3000, 800, 300), NOW + 1000),
        (None, "try", None, None),
        (None, "on", None, NOW),  # with on, a server that lacks them does not start
        (None, "try", machine(3000, 952), NOW + 1904),  # 2048 in use: the buffers
        (None, "try", machine(3000, 953), None),  # one page short: somebody else's
        (None, "try", machine(3000, 3000, 2048), NOW + 1904),  # committed, not touched yet
        (None, "off", machine(3000, 952), None),
    ],
)
def test_huge_pages_are_proved_by_their_status_or_by_the_hosts_counters(
    status: str | None, huge_pages: str, where: Host | None, covers: int | None
) -> None:
    found = gather.live(gather.Flags(), running(status, huge_pages), where).situation.huge_pages
    if covers is None:
        assert found is None
        return
    assert found is not None
    assert found.covers is not None
    assert found.covers // MIB == covers


def test_pages_that_hold_the_buffers_of_today_prove_nothing_for_larger_ones() -> None:
    """64 GB of memory need 16 GB of buffers: with try, the server would start without the pages."""
    fits, short = Bytes(17 * GIB), Bytes(16 * GIB)
    situation = live(memory=Memory(Bytes(64 * GIB)), huge_pages=HugePages(fits, "test"))
    budget = solve(situation).budget
    assert budget is not None
    assert budget.page_tables == 0
    budget = solve(replace(situation, huge_pages=HugePages(short, "test"))).budget
    assert budget is not None
    assert budget.page_tables > 0


def test_reserved_pages_that_hold_no_shared_memory_are_lost_for_sorts() -> None:
    """12 GB of 16 are reserved, and shared memory takes a third of them; 1 GB is too little for it,
    so that the server starts without.
    """
    sixteen: dict[str, Any] = {"memory": Memory(Bytes(16 * GIB))}
    for reserved, held in ((12 * GIB, True), (GIB, False)):
        pages = HugePages(Bytes(reserved), "test", Bytes(reserved))
        solution = solve(live(**sixteen, huge_pages=pages))
        assert solution.budget is not None
        (lost,) = [part for part in solution.budget.parts if part.name == "huge pages"]
        assert lost.size == reserved - (solution.budget.shared if held else 0)
        assert solution.budget.fits
    enough = solve(live(**sixteen, huge_pages=HugePages(Bytes(12 * GIB), "test"))).budget
    assert enough is not None
    assert "huge pages" not in {part.name for part in enough.parts}


@pytest.mark.parametrize(
    ("status", "ram", "memory"),
    [
        ("off", 64, 64 * GIB - 6000 * MIB),  # no page is ours
        ("on", 64, 64 * GIB),  # 2,100 are ours, and 900 unclaimed
        ("off", 128, 64 * GIB),  # a cgroup allows 64 GB beside them
    ],
)
def test_memory_in_pages_that_are_not_ours_does_not_count(
    status: str, ram: int, memory: int
) -> None:
    where = replace(
        machine(3000, 900), vm=Fact(VirtualMemory(ram=Bytes(ram * GIB)), "/proc/sys/vm")
    )
    gathered = gather.live(gather.Flags(), running(status), where)
    assert gathered.situation.memory == Memory(Bytes(memory))
    (given,) = [one for one in gathered.given if one.name == "memory"]
    assert ("5.86 GB of huge pages" in given.source) == (memory < 64 * GIB)


def test_free_huge_pages_of_this_machine_count_for_a_server_to_come() -> None:
    found = gather.this_machine(gather.Flags(), machine(3000, 2500, 500)).situation.huge_pages
    assert found == HugePages(Bytes(4000 * MIB), "/proc/meminfo", Bytes(4000 * MIB))
    assert gather.this_machine(gather.Flags(), machine(0, 0)).situation.huge_pages is None


# --- active sessions


def test_500_sessions_on_2_cpus_never_sort_together_if_somebody_says_so() -> None:
    crowd: dict[str, Any] = {"memory": "8GB", "cpus": 2, "connections": 500, "postgres": 18}
    every, some = mrtuner.tune(**crowd), mrtuner.tune(**crowd, active=20)
    assert some["work_mem"].value == "8MB"
    assert some["work_mem"].target > 3 * every["work_mem"].target  # type: ignore[operator]
    assert some.budget is not None
    assert some.budget.fits
    assert "if all 503 sessions sorted at the same time" in texts(some)
    assert "same moment" not in texts(every)


def test_what_is_said_of_active_sessions_leaves_their_processes_and_page_tables() -> None:
    """Idle sessions keep both: only sorts are fewer."""
    crowd: dict[str, Any] = {"memory": "32GB", "cpus": 2, "connections": 500, "postgres": 18}
    every, some = mrtuner.tune(**crowd).budget, mrtuner.tune(**crowd, active=20).budget
    assert every is not None
    assert some is not None
    kept = [part for part in every.parts if part.name != "sorts and hashes"]
    assert kept == [part for part in some.parts if part.name != "sorts and hashes"]


def test_more_active_sessions_than_connections_are_refused() -> None:
    with pytest.raises(BadValue, match="active 11 is more than the 10 connections") as caught:
        mrtuner.tune(memory="8GB", connections=10, active=11)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("spent", "window", "how", "now", "seen"),
    [
        # 5 hours of statements in 10 are half a session on average, taken as 1.5 at peak.
        (5 * HOUR, 10 * HOUR, Seen.RESET, 0, 2),
        (5 * HOUR, 10 * HOUR, Seen.RESET, 9, 9),
        (120.0, 60.0, Seen.WATCHED, 0, 2),
        (120.0, 60.0, Seen.RESET, 9, None),  # too short to say anything of a usual load
    ],
)
def test_sessions_seen_active_come_from_the_time_that_statements_took(
    spent: float, window: float, how: Seen, now: int, seen: int | None
) -> None:
    activity = replace(QUIET, window=window, active_ms=round(spent * 1000))
    said = gather.Flags(seen=how)
    found = gather.live(said, server(activity=activity, active=now), None).situation.connections
    assert found.seen_active == seen


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (Seen.RESET, "2 sessions active at peaks, judged by the average in 10 h since"),
        (Seen.WATCHED, "at most 1 session was seen active at the same time"),
    ],
)
def test_an_average_is_not_called_the_most_that_was_seen(how: Seen, words: str) -> None:
    """Half a session on average is taken as two at peaks; watched, one at a time was the most."""
    activity = replace(QUIET, window=10 * HOUR, active_ms=round(5 * HOUR * 1000))
    settings = (setting(name, text) for name, text in live().running.items())
    known = server(*settings, activity=activity)
    said: dict[str, Any] = {"memory": Bytes(2 * GIB), "workload": Workload.OLTP, "seen": how}
    tuning = tune_server(known, gather.Flags(**said))
    assert words in texts(tuning)
    told = tune_server(known, gather.Flags(**said, active=1))
    assert ("--active is 1, but 2 sessions are active at peaks" in texts(told)) == (
        how is Seen.RESET
    )


def test_a_server_that_counts_no_active_time_says_nothing_of_it() -> None:
    found = gather.live(gather.Flags(), server(active=3), None).situation.connections
    assert found.seen_active is None


def test_active_sessions_that_were_seen_are_offered_and_not_taken_for_a_bound() -> None:
    seen = live({"max_connections": "200"}, connections=Connections(None, 50, seen_active=5))
    unseen = live({"max_connections": "200"}, connections=Connections(None, 50))
    assert solve(seen).advice["work_mem"].target == solve(unseen).advice["work_mem"].target
    assert "5 active sessions (as observed)" in solve(seen).advice["effective_cache_size"].reason


# --- what stays cached


def test_effective_cache_size_rests_on_what_is_expected_to_be_in_use() -> None:
    """32 GB with 2,000 sessions: below 24 GB, and lower still if more sessions are active."""
    crowd: dict[str, Any] = {**LARGE, "memory": "32GB", "cpus": 8, "connections": 2000}
    usual = mrtuner.tune(**crowd)["effective_cache_size"]
    many = mrtuner.tune(**crowd, active=1000)["effective_cache_size"]
    assert many.target < usual.target < 24 * GIB // 8192  # type: ignore[operator]
    assert "1000 active sessions (as given)" in many.reason
    assert "16 active sessions (2 per CPU" in usual.reason


def test_effective_cache_size_is_never_below_shared_buffers() -> None:
    """work_mem of 4 GB that cannot be changed, in 100 sessions: nothing is left for a cache."""
    fixed = {"work_mem": "set on the command line"}
    advice = solve(live({"work_mem": str(4 * 1024 * 1024)}, fixed=fixed)).advice
    assert advice["effective_cache_size"].target == advice["shared_buffers"].target
    assert "no less than shared_buffers" in advice["effective_cache_size"].reason


# --- the basis of shared_buffers

#: Two fifths were measured on such a machine: docs/measured-results.md, row-two-fifths.
MEASURED: dict[str, Any] = {
    "workload": "oltp", "memory": "2GB", "cpus": 2, "storage": "ssd", "data": "6GB",
    "iops": 3000, "throughput": "125MB", "postgres": 18,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "basis"),
    [
        ({"workload": "web"}, "convention"),
        ({"workload": "oltp"}, "convention"),  # a quarter of a large machine
        (MEASURED, "measured"),
        (MEASURED | {"cpus": 8}, "convention"),
        ({"workload": "oltp", "memory": "2GB"}, "convention"),  # the volume may be any
        ({"workload": "oltp", "memory": "2GB", "iops": 16000}, "convention"),
        ({"workload": "oltp", "data": "20GB", "iops": 3000}, "convention"),  # 64 GB
        ({"workload": "web", "connections": 2000}, "arithmetic"),
    ],
    ids=str,
)
def test_shared_buffers_are_called_measured_only_where_they_were(
    changes: dict[str, Any], basis: str
) -> None:
    usual: dict[str, Any] = {"memory": "64GB", "cpus": 8, "connections": 50}
    assert mrtuner.tune(**(usual | changes))["shared_buffers"].basis == basis
