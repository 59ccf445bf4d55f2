"""The demo names its loads before it runs, and what it cannot measure here."""

from __future__ import annotations

import os

import pytest

import mrtuner
from mrtuner.bench.plan import demo
from mrtuner.bench.plan.demo import ADVISED, DEFAULT, in_memory, scale_for, small_volume
from mrtuner.cli.demo import _announce, _why_no_volume
from mrtuner.host import Host, probe
from mrtuner.units import GiB

SIDES = {DEFAULT: {}, ADVISED: {"work_mem": "8MB"}}


@pytest.fixture
def host() -> Host:
    return probe()


def test_measuring_takes_six_minutes_at_most() -> None:
    tasks = [*in_memory(50, 2, 1, SIDES), *small_volume(1, SIDES)]
    assert sum(task.measuring for task in tasks) <= 360


def test_every_load_is_named_with_its_reason_before_it_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tasks = [*in_memory(50, 2, 1, SIDES), *small_volume(1, SIDES)]
    _announce(tasks, [])
    said = capsys.readouterr().err
    assert all(f"  {task.title}: {task.why}" in said for task in tasks)


def test_data_lie_far_above_the_default_buffers_and_far_below_memory() -> None:
    """Each unit of scale is 15 MB; shared_buffers is 128 MB."""
    for memory in (8 * GiB, 16 * GiB, 256 * GiB):
        data = scale_for(memory) * 15
        assert data >= 3 * 128
        assert data <= memory / 2**20 / 8


def test_without_root_the_volume_is_named_with_the_command_that_would(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    left_out = _why_no_volume(host)
    assert left_out is not None
    assert left_out.remedy.startswith("As root: sudo ")
    assert left_out.remedy.endswith(" demo")


def test_the_advice_for_the_small_machine_fits_it() -> None:
    tuning = mrtuner.tune(
        memory=demo.VOLUME_MEMORY, cpus=2, storage="network", disk=demo.VOLUME_SIZE,
        workload="oltp", connections=demo.VOLUME_SESSIONS, postgres=18,
    )  # fmt: skip
    assert tuning.budget is not None
    assert tuning.budget.fits
    assert demo.VOLUME_CLIENTS < demo.VOLUME_SESSIONS
