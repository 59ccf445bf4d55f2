"""What managed platforms accept: the file, and the tool that rewrites it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from refresh_platforms import with_list, written

from mrtuner import catalog
from mrtuner.catalog.load import table
from mrtuner.catalog.platforms import FILE, newest, platform
from mrtuner.errors import BadValue

#: Rows of Microsoft's and Google's tables, copied by eye.
PUBLISHED = [
    ("azure", "work_mem", "integer", "4096-2097151", True),
    ("azure", "max_wal_size", "integer", "32-65536", True),
    ("azure", "max_connections", "integer", "25-5000", True),
    ("azure", "wal_compression", "string", "pglz,lz4,zstd,on,off", True),
    ("azure", "synchronous_commit", "string", "on", False),
    ("azure", "max_slot_wal_keep_size", "integer", "-1", False),
    ("cloudsql", "work_mem", "integer", "64-2147483647", True),
    ("cloudsql", "max_worker_processes", "integer", "8-2147483647", True),
    ("cloudsql", "checkpoint_timeout", "integer", "30-86400", True),
]  # fmt: skip

#: As the Cloud SQL Admin API's flags.list answers (its type Flag).
FLAGS: list[dict[str, Any]] = [
    {"name": "work_mem", "type": "INTEGER", "minValue": "64", "maxValue": "2147483647",
     "appliesTo": ["POSTGRES_17"], "requiresRestart": False, "kind": "sql#flag"},
    {"name": "random_page_cost", "type": "FLOAT", "minValue": "0", "maxValue": "2147483647"},
    {"name": "jit", "type": "BOOLEAN", "kind": "sql#flag"},
    {"name": "huge_pages", "type": "STRING", "allowedStringValues": ["try", "off"]},
    {"name": "shared_buffers", "type": "INTEGER", "minValue": "1"},
    {"name": "cloudsql.iam_authentication", "type": "BOOLEAN"},
]  # fmt: skip

#: As az prints configurations of a flexible server.
PARAMETERS: list[dict[str, Any]] = [
    {"name": "work_mem", "dataType": "Integer", "allowedValues": "4096-2097151",
     "isReadOnly": False, "isDynamicConfig": True, "value": "4096"},
    {"name": "fsync", "dataType": "Boolean", "allowedValues": "on", "isReadOnly": True},
    {"name": "shared_preload_libraries", "dataType": "Set", "allowedValues": "age,pg_cron",
     "isReadOnly": False},
    {"name": "log_line_prefix", "dataType": "String", "allowedValues": "[^']*",
     "isReadOnly": False},
    {"name": "pgbouncer.enabled", "dataType": "Boolean", "allowedValues": "true,false",
     "isReadOnly": False},
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameter", "kind", "allowed", "modifiable"), PUBLISHED)
def test_published_rows_are_in_the_file(
    name: str, parameter: str, kind: str, allowed: str, modifiable: bool
) -> None:
    found = platform(name).parameters[parameter]
    assert (found.data_type, found.allowed, found.modifiable) == (kind, allowed, modifiable)


@pytest.mark.parametrize("name", ["azure", "cloudsql"])
def test_every_platform_says_where_it_comes_from_and_when_it_was_seen(name: str) -> None:
    known = platform(name)
    assert known.source
    assert re.search(r"20[0-9]{2}", known.seen)
    assert all(newest(each) is not None for each in known.parameters)


def test_an_unknown_platform_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadValue) as error:
        platform("heroku")
    assert error.value.hint == "MrTuner knows azure, cloudsql."


def test_a_list_of_gcloud_becomes_rows() -> None:
    made = with_list(table(FILE), "cloudsql", FLAGS, "2026-11-22")["platforms"]["cloudsql"]
    assert made["seen"] == "2026-11-22"
    assert made["parameters"] == {
        "huge_pages": {"type": "string", "allowed": "try,off"},
        "jit": {"type": "string", "allowed": "on,off"},
        "random_page_cost": {"type": "float", "allowed": "0-2147483647"},
        "shared_buffers": {"type": "integer"},
        "work_mem": {"type": "integer", "allowed": "64-2147483647"},
    }


def test_a_list_of_az_becomes_rows_and_leaves_the_other_platform_alone() -> None:
    made = with_list(table(FILE), "azure", PARAMETERS, "2026-11-22")["platforms"]
    assert made["cloudsql"] == table(FILE)["platforms"]["cloudsql"]
    assert made["azure"]["parameters"] == {
        "fsync": {"type": "string", "allowed": "on", "fixed": True},
        "log_line_prefix": {"type": "string"},
        "shared_preload_libraries": {"type": "list", "allowed": "age,pg_cron"},
        "work_mem": {"type": "integer", "allowed": "4096-2097151"},
    }


@pytest.mark.parametrize("listed", [{"items": 1}, [], [{"x": 1}], 3])
def test_a_list_of_another_kind_is_refused_with_the_command_that_writes_it(listed: Any) -> None:
    with pytest.raises(BadValue) as error:
        with_list(table(FILE), "cloudsql", listed, "2026-11-22")
    assert "gcloud sql flags list" in (error.value.hint or "")


def test_the_file_is_as_the_tool_writes_it() -> None:
    text = (Path(catalog.__file__).parent / FILE).read_text(encoding="utf-8")
    assert written(json.loads(text)) == text
