"""Timers of the kernel and of drivers: complete, with their source, and the kernel's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrtuner.catalog.timers import EVIDENCE, driver, drivers, kernel_defaults, tcp_timers
from mrtuner.errors import BadValue
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.settings.stacks import STACKS


def test_every_fact_names_its_source_and_on_what_it_rests() -> None:
    facts = [(each.name, each.source, each.evidence) for each in tcp_timers()]
    facts += [(each.name, each.source, each.evidence) for each in drivers().values()]
    for name, source, evidence in facts:
        assert source, name
        assert evidence in EVIDENCE, name


def test_the_kernels_defaults_are_those_of_the_model() -> None:
    """924.6 s for tcp_retries2 = 15 and 127 s for six SYNs rest on them."""
    model = Kernel()
    assert kernel_defaults() == {name: getattr(model, name) for name in kernel_defaults()}
    assert model.tcp_retries2 == 15
    assert model.tcp_syn_retries == 6


def test_every_sysctl_is_one_of_this_kernels_or_newer_than_it() -> None:
    known = {path.name for path in Path("/proc/sys/net/ipv4").iterdir()}
    older = {timer.name for timer in tcp_timers() if float(timer.since) < 6}
    assert older <= known


def test_drivers_measured_without_keepalive_have_none() -> None:
    """Measured with ss -to on fresh connections."""
    off = {name for name, each in drivers().items() if not each.keepalives}
    assert {"pgjdbc", "node-postgres", "asyncpg"} <= off
    assert not off & {"libpq", "psycopg", "pg8000", "pgx", "lib/pq"}


def test_every_stack_with_settings_is_a_known_client() -> None:
    assert set(STACKS) <= set(drivers())


def test_an_unknown_client_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BadValue, match="unknown client 'jdbc'"):
        driver("jdbc")
