"""The trials whose predicted hangs are compared with a kernel's."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from mrtuner.documents import convert
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import Connecting, Keepalive, Unacknowledged, Waiting
from mrtuner.failover.selftest.cases import SHORT, WHOLE, Batch, SelftestTrial


@pytest.mark.parametrize("batch", [SHORT, *WHOLE])
def test_a_batch_survives_its_way_to_the_stage(batch: Batch) -> None:
    assert convert(json.loads(json.dumps(asdict(batch))), Batch) == batch


def test_the_whole_grid_has_every_setting_measured_for_the_reference() -> None:
    """Nine of case 1, fourteen of case 2, six of case 3; no two alike."""
    grid = [each for batch in WHOLE for each in batch.trials]
    assert [sum(each.case == case for each in grid) for case in (1, 2, 3)] == [9, 14, 6]
    assert len({(each.case, each.setting) for each in grid}) == 29


def test_no_hang_is_longer_than_its_batch_waits() -> None:
    """tcp_retries2=8 takes up to 108.3 s, keepalive 30/3/5 up to 47.5 s."""
    for batch in WHOLE:
        slow = batch.sysctls.get("tcp_retries2") == 8
        assert batch.limit >= (120 if slow else 50)


def test_keepalive_is_of_no_account_while_data_is_unacknowledged() -> None:
    keepalive = Keepalive(idle=5, interval=2, count=3)
    kernel, path = Kernel(), Path()
    two = SelftestTrial(case=2, setting="x", keepalive=keepalive).trace(kernel, path)
    three = SelftestTrial(case=3, setting="x", keepalive=keepalive).trace(kernel, path)
    assert isinstance(two, Unacknowledged)
    assert isinstance(three, Waiting)
    assert isinstance(SelftestTrial(case=1, setting="x").trace(kernel, path), Connecting)
