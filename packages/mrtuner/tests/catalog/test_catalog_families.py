"""Parameter group families: what was published of them, and what is inferred from it.

Rows under "published" are copied by eye from the sources that families.json names: the dump of
aurora-postgresql14, the copied list and the scripts of postgres14, the RDS User Guide's tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import refresh_families as refresh

from labs import lead_to
from mrtuner import catalog
from mrtuner.aws.rows import GroupParameter
from mrtuner.aws.session import Account
from mrtuner.catalog.families import families, family, sources
from mrtuner.errors import BadValue
from mrtuner.tuning.verdict import RULES
from rdstune.lab import Lab

RDS = tuple(name for name in families() if name.startswith("postgres"))
AURORA = tuple(name for name in families() if name.startswith("aurora"))
FILES = Path(catalog.__file__).parent

# name, data type, apply type, modifiable, allowed, default, level
DUMP_AURORA_14 = [
    ("autovacuum", "boolean", "dynamic", True, "0,1", None, "cluster"),
    ("max_wal_senders", "integer", "static", True, "5-262143", "10", "cluster"),
    ("autovacuum_naptime", "integer", "dynamic", True, "1-2147483", "5", "cluster"),
    ("compute_query_id", "string", "dynamic", True, "auto,on", "auto", "cluster"),
    ("effective_io_concurrency", "integer", "dynamic", False, "0-256", None, "instance"),
    ("huge_pages", "string", "static", False, "on,off", "on", "cluster"),
    ("log_line_prefix", "string", "dynamic", False, None, "%t:%r:%u@%d:[%p]:", "instance"),
    ("maintenance_io_concurrency", "integer", "dynamic", False, "0-256", "1", "instance"),
    ("max_standby_streaming_delay", "integer", "dynamic", True, "1000-30000", "14000", "instance"),
    ("pg_stat_statements.track", "string", "dynamic", True, "NONE,TOP,ALL", None, "instance"),
    ("port", "integer", "static", False, "1-65535", "{EndPointPort}", "cluster"),
    ("random_page_cost", "float", "dynamic", True, "0-1.79769e+308", None, "instance"),
    ("rds.logical_replication", "boolean", "static", True, "0,1", "0", "cluster"),
    ("recovery_init_sync_method", "string", "static", False, "fsync,syncfs", "syncfs", "cluster"),
    ("synchronous_commit", "string", "dynamic", True, "local,on,off", "on", "cluster"),
    ("temp_file_limit", "integer", "dynamic", True, "-1-2147483647", "-1", "instance"),
    ("vacuum_cost_delay", "integer", "dynamic", True, "0-100", None, "cluster"),
    ("wal_buffers", "integer", "static", True, "-1-262143", None, "cluster"),
]  # fmt: skip

DEFAULT_FORMULAS = {
    "aurora-postgresql14": {
        "autovacuum_max_workers": "GREATEST({DBInstanceClassMemory/64371566592},3)",
        "autovacuum_work_mem": "GREATEST({DBInstanceClassMemory/32768},131072)",
        "effective_cache_size": "SUM({DBInstanceClassMemory/12038},-50003)",
        "maintenance_work_mem": "GREATEST({DBInstanceClassMemory/63963136*1024},65536)",
        "max_connections": "LEAST({DBInstanceClassMemory/9531392},5000)",
        "max_parallel_workers": "GREATEST(${DBInstanceVCPU/2},8)",
        "max_worker_processes": "GREATEST(${DBInstanceVCPU*2},8)",
        "shared_buffers": "SUM({DBInstanceClassMemory/12038},-50003)",
    },
    "postgres16": {  # a benchmark of RDS PostgreSQL 16.1 lists the default group's
        "autovacuum_max_workers": "GREATEST({DBInstanceClassMemory/64371566592},3)",
        "autovacuum_work_mem": "GREATEST({DBInstanceClassMemory/32768},65536)",
        "effective_cache_size": "{DBInstanceClassMemory/16384}",
        "maintenance_work_mem": "GREATEST({DBInstanceClassMemory*1024/63963136},65536)",
        "max_connections": "LEAST({DBInstanceClassMemory/9531392},5000)",
        "max_parallel_workers": "GREATEST(${DBInstanceVCPU/2},8)",
        "max_worker_processes": "GREATEST(${DBInstanceVCPU*2},8)",
        "shared_buffers": "{DBInstanceClassMemory/32768}",
        "max_wal_size": "2048",
        "min_wal_size": "192",
    },
}  # fmt: skip

#: The RDS User Guide's table of parameters: Apply_Type.
GUIDE = {
    "static": [
        "autovacuum_max_workers", "max_connections", "max_locks_per_transaction",
        "max_prepared_transactions", "rds.restrict_password_commands", "shared_buffers",
        "shared_preload_libraries", "track_activity_query_size", "wal_buffers",
    ],
    "dynamic": [
        "autovacuum_naptime", "checkpoint_completion_target", "checkpoint_timeout",
        "effective_cache_size", "maintenance_work_mem", "max_wal_size", "min_wal_size",
        "random_page_cost", "rds.adaptive_autovacuum", "temp_file_limit", "work_mem",
    ],
}  # fmt: skip

#: What a published script for a postgres14 group leaves out because it cannot be modified.
NOT_MODIFIABLE_14 = [
    "archive_command", "archive_timeout", "config_file", "data_directory", "fsync",
    "full_page_writes", "hba_file", "ident_file", "listen_addresses", "log_line_prefix",
    "logging_collector", "port", "rds.max_tcp_buffers", "rds.rds_reserved_connections", "ssl",
    "superuser_reserved_connections", "unix_socket_directories", "update_process_title",
]  # fmt: skip

#: Aurora's storage has none of this; the dump of 14 lists none of it.
NOT_ON_AURORA = [
    "bgwriter_delay", "checkpoint_completion_target", "checkpoint_timeout", "commit_delay", "fsync",
    "full_page_writes", "jit", "max_wal_size", "min_wal_size", "wal_compression", "wal_keep_size",
]  # fmt: skip


def test_there_are_six_families_of_each_engine() -> None:
    majors = (13, 14, 15, 16, 17, 18)
    assert families() == (
        *(f"postgres{major}" for major in majors),
        *(f"aurora-postgresql{major}" for major in majors),
    )


@pytest.mark.parametrize("name", families())
def test_every_family_loads_whole(name: str) -> None:
    found = family(name)
    assert (found.name, f"{found.engine}{found.major}") == (name, name)
    assert len(found.parameters) > 350
    for parameter in found.parameters.values():
        assert parameter.data_type in {"boolean", "integer", "float", "string", "list"}
        assert parameter.apply_type in {"static", "dynamic"}
        assert parameter.level in {"cluster", "instance"}


@pytest.mark.parametrize("row", DUMP_AURORA_14, ids=lambda row: str(row[0]))
def test_aurora_14_is_as_the_api_answered(row: tuple[Any, ...]) -> None:
    found = family("aurora-postgresql14").parameter(row[0])
    seen = (
        found.name, found.data_type, found.apply_type, found.modifiable, found.allowed,
        found.default, found.level,
    )  # fmt: skip
    assert seen == row
    assert found.evidence == "dump aurora-postgresql14"
    assert not found.inferred


@pytest.mark.parametrize("name", DEFAULT_FORMULAS)
def test_defaults_are_the_published_formulas(name: str) -> None:
    parameters = family(name).parameters
    published = DEFAULT_FORMULAS[name]
    assert {one: parameters[one].default for one in published} == published


@pytest.mark.parametrize("name", RDS)
def test_apply_types_are_those_of_the_user_guide(name: str) -> None:
    for apply_type, names in GUIDE.items():
        assert {family(name).parameter(one).apply_type for one in names} == {apply_type}


def test_what_rds_keeps_to_itself_is_not_modifiable() -> None:
    group = family("postgres14")
    assert [one for one in NOT_MODIFIABLE_14 if group.refusal(one) is None] == []
    why = "copy postgres14; apply UG; fixed list postgres14"
    assert group.refusal("fsync") == f"postgres14 lists fsync as not modifiable ({why})"


@pytest.mark.parametrize("name", AURORA)
def test_aurora_lists_no_checkpoints_and_no_wal_files(name: str) -> None:
    assert [one for one in NOT_ON_AURORA if one in family(name).parameters] == []
    assert family(name).refusal("max_wal_size") == f"{name} does not list max_wal_size"


@pytest.mark.parametrize("name", families())
def test_wal_level_is_rds_logical_replication_everywhere(name: str) -> None:
    group = family(name)
    assert group.refusal("wal_level") is not None
    assert group.refusal("rds.logical_replication") is None
    assert group.parameter("rds.logical_replication").apply_type == "static"


def test_cluster_and_instance_level_are_told_apart() -> None:
    aurora = family("aurora-postgresql16")
    assert aurora.parameter("autovacuum_naptime").level == "cluster"
    assert aurora.parameter("wal_buffers").level == "cluster"
    assert aurora.parameter("shared_buffers").level != "cluster"
    assert aurora.parameter("work_mem").level != "cluster"
    assert not any(one.level == "cluster" for one in family("postgres16").parameters.values())


@pytest.mark.parametrize("name", families())
def test_every_rule_has_an_answer_in_every_family(name: str) -> None:
    group = family(name)
    for rule in RULES:
        why = group.refusal(rule)
        assert why is None or rule in why


def test_rules_that_cannot_be_followed_are_known() -> None:
    def refused(name: str) -> set[str]:
        return {rule for rule in RULES if family(name).refusal(rule)}

    not_in_17 = {"io_max_workers", "io_method", "io_min_workers", "io_workers"}
    not_in_17 |= {"io_max_combine_limit", "idle_replication_slot_timeout", "lock_timeout"}
    not_in_17 |= {"autovacuum_max_parallel_workers"}
    assert refused("postgres17") == {"fsync", "full_page_writes", "wal_level"} | not_in_17
    assert refused("aurora-postgresql17") == {
        "bgwriter_delay", "bgwriter_lru_maxpages", "bgwriter_lru_multiplier",
        "checkpoint_completion_target", "checkpoint_timeout", "commit_delay",
        "effective_io_concurrency", "fsync", "full_page_writes", "huge_pages", "io_combine_limit",
        "jit", "maintenance_io_concurrency", "max_wal_size", "min_wal_size", "wal_compression",
        "wal_level", "commit_timestamp_buffers", "log_checkpoints", "multixact_member_buffers",
        "multixact_offset_buffers", "notify_buffers", "serializable_buffers",
        "subtransaction_buffers", "transaction_buffers", "hot_standby_feedback",
        "max_standby_archive_delay",
    } | not_in_17  # fmt: skip


def test_a_family_has_the_parameters_of_its_major() -> None:
    def having(parameter: str) -> list[int]:
        return [family(name).major for name in RDS if parameter in family(name).parameters]

    assert having("operator_precedence_warning") == [13]
    assert having("default_toast_compression") == [14, 15, 16, 17, 18]
    assert having("stats_temp_directory") == [13, 14]
    assert having("force_parallel_mode") == [13, 14, 15]
    assert having("vacuum_buffer_usage_limit") == [16, 17, 18]
    assert having("io_method") == [18]


def test_a_type_that_postgresql_changed_is_changed() -> None:
    before, after = (
        family(name).parameter("wal_compression") for name in ("postgres14", "postgres15")
    )
    assert (before.data_type, before.allowed) == ("boolean", "0,1")
    assert (after.data_type, after.allowed) == ("string", "pglz,lz4,zstd,on,off")
    assert after.inferred


def test_evidence_says_what_was_seen_and_what_was_not() -> None:
    seen = family("postgres18").parameter("io_method")
    assert (seen.allowed, seen.evidence, seen.inferred) == ("sync,worker", "read postgres18", False)
    carried = family("postgres17").parameter("work_mem")
    assert carried.evidence == "inferred from postgres14: copy postgres14; apply UG"
    guessed = family("postgres17").parameter("transaction_timeout")
    assert guessed.evidence == "guessed from pg_settings"
    assert carried.inferred
    assert guessed.inferred


def test_a_list_that_only_postgresql_itself_shows_is_guessed() -> None:
    """RDS 17 was not seen; 14 lists the values of synchronous_commit, but not of newer enums."""
    found = family("postgres17").parameters
    assert not found["synchronous_commit"].values_guessed
    assert found["wal_compression"].values_guessed
    assert found["debug_parallel_query"].values_guessed


def evidence_tags() -> Iterator[str]:
    for name in families():
        for parameter in family(name).parameters.values():
            bare = re.sub(r"^(inferred from \S+: |guessed from )", "", parameter.evidence)
            for part in bare.split("; "):
                tag = re.sub(r"^(allowed|apply|default|fixed|type) ", "", part)
                yield tag.partition(":")[0]


def test_every_evidence_is_explained() -> None:
    assert set(evidence_tags()) <= set(sources())


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("work_mem", "64"),
        ("work_mem", "2147483647"),
        ("auto_explain.log_min_duration", "-1"),
        ("max_pred_locks_per_relation", "-2147483648"),
        ("checkpoint_completion_target", "0.95"),
        ("geqo_selection_bias", "1.5"),
        ("random_page_cost", "1e3"),
        ("autovacuum", "0"),
        ("log_duration", "off"),
        ("synchronous_commit", "off"),
        ("pg_stat_statements.track", "ALL"),
        ("shared_preload_libraries", "pg_stat_statements,auto_explain"),
        ("pgaudit.log", "all,-misc"),
        ("default_transaction_isolation", "read committed"),
        ("search_path", "anything at all"),
    ],
)
def test_values_within_the_list_are_taken(parameter: str, value: str) -> None:
    family("postgres14").parameter(parameter).check(value)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("work_mem", "63"),
        ("work_mem", "64MB"),
        ("work_mem", "64.5"),
        ("work_mem", ""),
        ("max_wal_size", "127"),
        ("checkpoint_timeout", "3601"),
        ("checkpoint_completion_target", "1.5"),
        ("checkpoint_completion_target", "nan"),
        ("autovacuum", "2"),
        ("synchronous_commit", "remote_apply"),
        ("shared_preload_libraries", "pg_stat_statements,timescaledb"),
    ],
)
def test_values_outside_are_refused_with_the_list(parameter: str, value: str) -> None:
    known = family("postgres14").parameter(parameter)
    with pytest.raises(BadValue) as refusal:
        known.check(value)
    assert str(known.allowed) in refusal.value.message
    assert known.evidence in str(refusal.value.hint)


def test_literals_are_spelled_as_rds_spells_them() -> None:
    group = family("postgres17")
    assert group.parameter("autovacuum").literal(True) == "1"
    assert group.parameter("wal_compression").literal(False) == "off"
    assert group.parameter("random_page_cost").literal(1.1) == "1.1"
    assert group.parameter("autovacuum_vacuum_cost_delay").literal(2.0) == "2"
    assert group.parameter("work_mem").literal(65536) == "65536"


def test_booleans_come_back_as_one_and_zero() -> None:
    group = family("postgres16")
    assert group.parameter("log_duration").stored("off") == "0"
    assert group.parameter("log_connections").stored(" On ") == "1"
    assert group.parameter("synchronous_commit").stored("off") == "off"


def test_only_integers_and_booleans_take_formulas() -> None:
    group = family("postgres14")
    assert group.parameter("shared_buffers").is_formula_allowed
    assert group.parameter("wal_compression").is_formula_allowed
    assert not group.parameter("random_page_cost").is_formula_allowed
    assert not group.parameter("huge_pages").is_formula_allowed


def test_names_are_those_of_postgresql_whatever_their_case() -> None:
    assert family("postgres14").parameter("DateStyle").name == "datestyle"
    assert family("postgres14").refusal("TimeZone") is None


def test_an_unknown_name_is_refused_with_what_it_may_have_been() -> None:
    with pytest.raises(BadValue, match="postgres17 does not list shared_bufers") as refusal:
        family("postgres17").parameter("shared_bufers")
    assert "shared_buffers" in str(refusal.value.hint)
    with pytest.raises(BadValue, match="unknown parameter group family 'postgres12'"):
        family("postgres12")


def test_the_file_is_what_the_facts_give() -> None:
    text = (FILES / "family_facts.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    assert refresh.facts_text(facts) == text
    assert refresh.rebuilt(facts) == (FILES / "families.json").read_text(encoding="utf-8")


def test_the_nearest_list_is_taken_and_the_older_of_two() -> None:
    lists = ("aurora-postgresql14", "postgres14", "postgres18")
    assert refresh.nearest("postgres", 17, lists) == 18
    assert refresh.nearest("postgres", 16, lists) == 14
    assert refresh.nearest("aurora-postgresql", 18, lists) == 14


def test_the_api_overrules_everything_for_its_family() -> None:
    facts = json.loads((FILES / "family_facts.json").read_text(encoding="utf-8"))
    answer = [
        GroupParameter(
            name="work_mem", value=None, apply_type="dynamic", data_type="integer", allowed="64-99"
        ),
        GroupParameter(name="fsync", value="1", data_type="boolean", modifiable=False),
    ]
    listed = {"source": "DescribeEngineDefaultParameters 2026-11-21"}
    facts["lists"]["postgres17"] = listed | {"parameters": refresh.rows_from_api(answer)}
    rows = refresh.family_rows("postgres", 17, facts)
    assert set(rows) == {"work_mem", "fsync"}
    assert rows["work_mem"] == {
        "type": "integer", "apply": "dynamic", "allowed": "64-99", "seen": 17,
        "source": "DescribeEngineDefaultParameters 2026-11-21",
    }  # fmt: skip
    assert rows["fsync"]["fixed"] is True
    assert refresh.family_rows("postgres", 16, facts)["work_mem"]["seen"] == 17


def test_what_only_the_cluster_group_lists_is_cluster_level() -> None:
    instance = [GroupParameter(name="work_mem", value=None)]
    cluster = [*instance, GroupParameter(name="wal_buffers", value=None)]
    rows = refresh.rows_from_api(instance, cluster)
    assert "level" not in rows["work_mem"]
    assert rows["wal_buffers"]["level"] == "cluster"


@pytest.mark.parametrize("name", ["postgres16", "aurora-postgresql16"])
def test_asking_the_api_gives_the_family_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab answers from families.json, page by page: every parameter must be read."""
    facts = json.loads((FILES / "family_facts.json").read_text(encoding="utf-8"))
    with Lab() as lab:
        lead_to(lab, monkeypatch)
        facts = refresh.with_answers(facts, [name], Account(region=lab.region))
    known = family(name)
    rows = refresh.family_rows(known.engine, known.major, facts)
    assert set(rows) == set(known.parameters)
    for row in rows:
        asked, parameter = rows[row], known.parameters[row]
        assert asked["source"].startswith("DescribeEngineDefaultParameters 20")
        assert (asked["type"], asked["apply"]) == (parameter.data_type, parameter.apply_type)
        assert (asked.get("allowed"), asked.get("default")) == (
            parameter.allowed,
            parameter.default,
        )
        assert asked.get("fixed", False) is not parameter.modifiable
        assert asked.get("level", "instance") == parameter.level
