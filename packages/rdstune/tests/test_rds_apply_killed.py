"""Killed at any step: the next run leaves the start or the target, in AWS and in force."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from killed import was_killed

import killed_preload
from mrtuner.change.journal import Journal
from mrtuner.change.transaction import Observer
from mrtuner.errors import ApplyError, Refused
from rds_flows import MANY, everything, new_group, new_instance, wanted
from rdstune.lab import Lab
from rdstune.live.apply import RdsPlan, apply, finish_or_revert_group, make
from rdstune.live.plan import Wanted
from rdstune.live.target import read_target
from rdstune.live.undo import undo
from rdstune.live.wait import Pace

pytestmark = pytest.mark.timed

if sys.platform == "win32":
    pytest.skip("needs SIGKILL", allow_module_level=True)

#: The lab here is twenty times as fast as elsewhere, so we poll more often.
PACE = Pace(first=0.005, most=0.01, grace=0.3, patience=30.0)
SPEED = 1200


def applied(endpoint: str, state: Path, plan: RdsPlan, at: Observer) -> None:
    with Journal(state) as journal, suppress(ApplyError):
        apply(killed_preload.client(endpoint), plan, journal, reboot="now", pace=PACE, at=at)


@pytest.fixture(scope="module")
def _lab() -> Iterator[Lab]:
    with Lab(speed=SPEED) as lab:
        yield lab


def now(client: Any, lab: Lab) -> dict[str, Any]:
    """All that AWS shows, and what the instance runs."""
    return {**everything(client), "running": dict(lab.instance("db1").running)}


def begin(client: Any, lab: Lab, custom: bool) -> dict[str, Any]:
    """Reset the lab and create an instance; its state before any change."""
    lab.reset()
    if custom:
        new_group(client, work_mem="8192", log_temp_files="0", max_connections="120")
    new_instance(client, lab, group="shop" if custom else None)
    return now(client, lab)


def planned(client: Any, settings: Sequence[Wanted]) -> RdsPlan:
    return make(client, read_target(client, "db1"), settings)


def test_killed_on_the_way_back_the_next_run_goes_on(lab: Lab, client: Any, tmp_path: Path) -> None:
    """The instance does not start, so the change is rolled back; the rollback is killed, too."""
    too_much = wanted(shared_buffers="33554432", work_mem="4096")
    for killed_at in count(14):
        start = begin(client, lab, custom=False)
        state = tmp_path / str(killed_at)
        plan = planned(client, too_much)
        killed = was_killed(partial(applied, lab.endpoint_url, state, plan), killed_at)
        with Journal(state) as journal:
            with suppress(ApplyError):  # finishing fails: the instance does not start
                finish_or_revert_group(client, "db1", journal, reboot="now", pace=PACE)
            assert [one.state for one in journal.changes()] == ["reverted"]
        assert now(client, lab) == start, killed_at
        if not killed:
            break
    assert killed_at > 16


def test_what_recover_leaves_can_be_applied_and_undone_again(
    lab: Lab, client: Any, tmp_path: Path
) -> None:
    """The interrupted change is tidied up by the next apply itself."""
    start = begin(client, lab, custom=True)
    plan = planned(client, MANY)
    assert was_killed(partial(applied, lab.endpoint_url, tmp_path, plan), killed_at=4)
    with Journal(tmp_path) as journal:
        with pytest.raises(Refused, match="changed since the plan was made"):
            apply(client, planned(client, MANY), journal, pace=PACE)
        apply(client, plan, journal, reboot="now", pace=PACE)
        undo(client, "db1", journal, reboot="now", pace=PACE)
        assert now(client, lab) == start
        assert [one.state for one in journal.changes()] == ["reverted", "reverted", "verified"]
