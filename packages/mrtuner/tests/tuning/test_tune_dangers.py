"""What can go wrong with the settings in force: said first, with numbers, and never passed over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from test_tune_gather import host, server, setting
from test_tune_rules_live import live

import mrtuner
from mrtuner.facts import Fact
from mrtuner.host.model import HugePages as Reserved
from mrtuner.host.model import VirtualMemory
from mrtuner.postgres.platform import managed
from mrtuner.tuning import gather
from mrtuner.tuning.dangers import dangers
from mrtuner.tuning.feasibility import in_force, servers_own, solve
from mrtuner.tuning.situation import Connections, Disk, HugePages, Memory, Situation
from mrtuner.units import Bytes
from servers import sql

if TYPE_CHECKING:
    from conftest import NewCluster

    from mrtuner.host.model import Host

MIB, GIB = 2**20, 2**30


def told(situation: Situation, machine: Host | None = None) -> list[str]:
    now = in_force(situation) if servers_own(situation) else None
    found = list(dangers(situation, server(), machine, now))
    assert all(one.severity == "danger" for one in found)
    return [one.sentence for one in found]


def test_five_hundred_sessions_of_128_mb_are_eightfold_16_gb() -> None:
    """By hand, in MB: sorts 508 * 128 * 2 = 130048; shared memory 4096 * 1.03 + 16 + 508 * 112 kB
    + 20 = 4310.44; page tables of 500 + 8 + 3 + 10 processes 521 / 512 of it: 4386.2; processes
    511 * 2.5 + 16 = 1293.5; autovacuum 3 * 64, maintenance 64. 140294 are 8.6 times 16 GB.
    """
    own = {"max_connections": "500", "work_mem": str(128 * 1024), "shared_buffers": "524288"}
    (text,) = told(live(own, memory=Memory(Bytes(16 * GIB)), connections=Connections(None)))
    assert "can ask for 137 GB, 8.6 times the 16 GB of memory" in text
    assert "508 at once, work_mem * 2 each" in text
    assert "--lower work_mem sets work_mem to " in text


def test_a_server_whose_worst_case_fits_is_told_nothing() -> None:
    assert told(live()) == []


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "autovacuum", "track_counts"])
def test_what_must_be_on_is_a_danger_while_it_is_off(name: str) -> None:
    (text,) = told(live({name: "off"}))
    assert text.startswith(f"{name} is off: ")
    assert f"ALTER SYSTEM SET {name} = on" in text


def test_a_compute_that_keeps_no_data_needs_no_fsync() -> None:
    neon = server(platform=managed("neon", "setting neon.timeline_id"))
    switched = live({"fsync": "off", "full_page_writes": "off", "zero_damaged_pages": "on"})
    (one,) = dangers(switched, neon, None, None)
    assert one.text == "zero_damaged_pages is on"


def test_a_file_system_that_tears_no_page_needs_no_copies_of_them() -> None:
    """Without the copies ZFS is safe; btrfs is not known to be. Unknown: it depends."""
    off = {"full_page_writes": "off"}
    assert told(live(off, filesystem="zfs")) == []
    kept = solve(live(off, filesystem="zfs")).advice["full_page_writes"]
    assert (kept.value, kept.suggested, "ZFS" in kept.reason) == ("off", False, True)
    (text,) = told(live(off, filesystem="btrfs"))
    assert "ZFS" not in text
    (unknown,) = told(live(off))
    assert "unless the data are on ZFS with a recordsize of 8 kB or more" in unknown
    assert told(live({"fsync": "off"}, filesystem="zfs")) != []


def test_more_workers_than_slots_are_told() -> None:
    (text,) = told(live({"autovacuum_max_workers": "20", "autovacuum_worker_slots": "16"}))
    assert "only 16 run" in text
    assert told(live({"autovacuum_max_workers": "16", "autovacuum_worker_slots": "16"})) == []


def pages(reserved: int, free: int = 0) -> Host:
    found = Reserved(
        size=Bytes(2 * MIB), reserved=reserved, free=free, committed=0, transparent="never"
    )
    return replace(host(), huge_pages=Fact(found, "/proc/meminfo"))


def test_huge_pages_that_are_required_and_no_longer_reserved_prevent_the_next_start() -> None:
    running = {"huge_pages": "on", "shared_memory_size_in_huge_pages": "75"}
    (text,) = told(live(running), pages(74))
    assert "needs 75 huge pages, but 74 are reserved" in text
    assert told(live(running), pages(75)) == []


@pytest.mark.parametrize("gigantic", [None, 131, 132])
def test_pages_of_the_servers_own_size_are_counted(gigantic: int | None) -> None:
    """132 pages of 1 GB are enough, however few of 2 MB there are; unknown, nothing is said."""
    own = {"huge_pages": "on", "huge_page_size": str(MIB)}  # in kB: 1 GB
    asked = live(own | {"shared_memory_size_in_huge_pages": "132"})
    vm = Fact(VirtualMemory(gigantic=gigantic), "/proc/sys/vm")
    found = told(asked, replace(pages(0), vm=vm))
    assert len(found) == (gigantic == 131)
    if found:
        assert "needs 132 huge pages of 1 GB, but 131 are reserved" in found[0]
        assert "nr_hugepages" not in found[0]


def test_wal_that_can_fill_its_volume_is_a_danger() -> None:
    small = live({"max_wal_size": "1024"}, disk=Disk(Bytes(GIB), None))
    (text,) = told(small)
    assert "max_wal_size is 1 GB on a volume of 1 GB" in text
    assert told(replace(small, disk=Disk(Bytes(2 * GIB), None))) == []


def test_our_sessions_own_work_mem_is_not_taken_for_the_servers() -> None:
    """ALTER ROLE … SET hides the server's value: no sum can be given."""
    own = live({"work_mem": str(1024 * 1024)})
    hidden = replace(own, origins={**own.origins, "work_mem": "role"})
    assert told(own)
    assert told(hidden) == []


# --- --huge-pages is checked where the machine can be read


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        (0, None),
        (100, HugePages(Bytes(200 * MIB), "/proc/meminfo: free huge pages", Bytes(200 * MIB))),
    ],
)
def test_huge_pages_are_believed_only_as_far_as_they_are_free(
    free: int, expected: HugePages | None
) -> None:
    said = gather.flags(huge_pages=True)
    known = server(setting("huge_pages", "try"), setting("huge_pages_status", "off"))
    gathered = gather.live(said, known, pages(100, free))
    assert gathered.situation.huge_pages == expected
    (text,) = [notice.text for notice in gathered.notices if "--huge-pages" in notice.text]
    assert "huge_pages_status is off" in text


def test_huge_pages_of_a_machine_that_cannot_be_read_are_taken_on_trust_and_it_says_so() -> None:
    gathered = gather.live(gather.flags(huge_pages=True), server(), None)
    assert gathered.situation.huge_pages == HugePages(None, "--huge-pages")
    assert any("taken on trust" in notice.text for notice in gathered.notices)


# --- real servers


def test_a_real_server_in_trouble_is_told_so_first(new_cluster: NewCluster) -> None:
    """autovacuum off, a library that waits for the restart and does not exist, work_mem by hand."""
    cluster = new_cluster(settings={"autovacuum": "off", "work_mem": "1GB"})
    sql(cluster.dsn(), "ALTER SYSTEM SET shared_preload_libraries = 'no_such_library'")
    given: dict[str, Any] = {"memory": "4GB", "cpus": 2, "storage": "ssd"}
    tuning = mrtuner.tune(cluster.dsn(), **given)
    texts = [notice.text for notice in tuning.dangers]
    assert [notice.text for notice in tuning.notices[: len(texts)]] == texts
    assert len(texts) == 3
    assert "can ask for" in texts[0]
    assert "no_such_library" in texts[1]
    assert "will not start again" in texts[1]
    assert texts[2].startswith("autovacuum is off")
    assert not tuning["work_mem"].changes
    assert not tuning["shared_buffers"].changes
    lowered = mrtuner.tune(cluster.dsn(), **given, lower=["work_mem"])
    assert lowered["work_mem"].changes
    assert lowered["shared_buffers"].changes


def test_a_fresh_server_has_no_danger(embedded: Any) -> None:
    assert mrtuner.tune(embedded.dsn()).dangers == []
