"""Patroni's own validator takes our values as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import yaml

from mrtuner.formats import Line, patroni, render

VALUES = {
    "shared_buffers": "4GB",
    "work_mem": "8192kB",
    "max_connections": "200",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "random_page_cost": "1.1",
    "autovacuum_work_mem": "-1",
    "autovacuum_vacuum_cost_delay": "2ms",
    "jit": "off",
    "track_io_timing": "on",
    "huge_pages": "try",
    "shared_preload_libraries": "pg_stat_statements, auto_explain",
}


@pytest.fixture(autouse=True)
def same_umask() -> Iterator[None]:
    """Patroni sets the process's umask when it is imported; later tests must not inherit it."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def test_patronis_validator_keeps_every_value() -> None:
    validator = pytest.importorskip(
        "patroni.postgresql.validator", reason="the package patroni is not installed"
    )
    no_others = pytest.importorskip("patroni.collections").CaseInsensitiveSet()
    lines = [
        Line(name=name, value=value, quoted=False, comment="", restart=False)
        for name, value in VALUES.items()
    ]
    written = yaml.safe_load(render("patroni", lines))["postgresql"]["parameters"]
    for version in (130000, 140000, 150000, 160000, 170000, 180000):
        taken = {
            name: validator.transform_postgresql_parameter_value(version, name, value, no_others)
            for name, value in written.items()
        }
        assert taken == VALUES


def test_the_table_of_minima_is_patronis() -> None:
    config = pytest.importorskip(
        "patroni.postgresql.config", reason="the package patroni is not installed"
    )
    options = config.ConfigHandler.CMDLINE_OPTIONS
    for name, least in patroni.LEAST.items():
        takes = options[name][1]
        assert takes(str(least))
        assert not takes(str(least - 1))
    refused = {name for name, option in options.items() if not option[1]("off")}
    assert {"listen_addresses", "port", "cluster_name", "hot_standby"} <= refused
    assert {"listen_addresses", "port", "cluster_name", "hot_standby"} <= patroni.OWNED
    assert set(patroni.SHARED) <= set(options)
