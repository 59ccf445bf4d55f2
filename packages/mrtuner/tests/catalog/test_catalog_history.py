"""Names, spans of majors, and the sentences on what changed."""

from __future__ import annotations

import pytest

from mrtuner.catalog import MAJORS, history, parameter, parameters
from mrtuner.errors import BadValue


@pytest.mark.parametrize("major", [8, 12, 20, 0, -1])
def test_an_unsupported_major_is_refused_by_name(major: int) -> None:
    with pytest.raises(BadValue) as refused:
        parameters(major)
    assert refused.value.message == f"PostgreSQL {major} is not supported"
    assert refused.value.hint == "MrTuner knows the majors 13 to 19."


@pytest.mark.parametrize(
    ("name", "major", "hint"),
    [
        ("io_workers", 19, "io_workers was removed in 19: use io_min_workers and io_max_workers."),
        ("io_method", 17, "io_method was added in 18."),
        (
            "force_parallel_mode",
            18,
            "force_parallel_mode was removed in 16: use debug_parallel_query.",
        ),
        ("vacuum_defer_cleanup_age", 16, "vacuum_defer_cleanup_age was removed in 16: use"),
        ("work_men", 18, "Did you mean work_mem"),
        ("checkpoint_segments", 18, "It was removed before 13: use max_wal_size"),
        ("wal_keep_segments", 13, "It was removed before 13: use wal_keep_size"),
        ("checkpoint_timeouts", 18, "Did you mean checkpoint_"),
        ("zzz", 18, "Use a name from pg_settings."),
    ],
)
def test_an_unknown_name_says_what_to_write_instead(name: str, major: int, hint: str) -> None:
    with pytest.raises(BadValue) as refused:
        parameter(name, major)
    assert refused.value.message == f"PostgreSQL {major} has no parameter '{name}'"
    assert refused.value.hint is not None
    assert refused.value.hint.startswith(hint)


def test_names_are_case_insensitive_as_in_the_server() -> None:
    assert parameter("timezone", 18).name == "TimeZone"
    assert parameter("WORK_MEM", 13).name == "work_mem"


def test_what_changed_from_13_to_19_stands_in_each_major() -> None:
    """By hand, from the release notes of 14 to 19."""
    defaults = {
        "checkpoint_completion_target": [0.5, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
        "hash_mem_multiplier": [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0],
        "effective_io_concurrency": [1, 1, 1, 1, 1, 16, 16],
        "maintenance_io_concurrency": [10, 10, 10, 10, 10, 16, 16],
        "vacuum_cost_page_miss": [10, 2, 2, 2, 2, 2, 2],
        "max_locks_per_transaction": [64, 64, 64, 64, 64, 64, 128],
        "jit": [True, True, True, True, True, True, False],
        "work_mem": [4096] * 7,
        "wal_compression": [False, False, "off", "off", "off", "off", "off"],
    }
    for name, expected in defaults.items():
        assert [parameter(name, major).default for major in MAJORS] == expected, name


def test_when_parameters_came_and_went() -> None:
    """By hand, from the release notes."""
    lives = {
        "idle_session_timeout": range(14, 20),
        "default_toast_compression": range(14, 20),
        "vacuum_buffer_usage_limit": range(16, 20),
        "io_combine_limit": range(17, 20),
        "io_method": range(18, 20),
        "io_workers": range(18, 19),
        "autovacuum_worker_slots": range(18, 20),
        "io_min_workers": range(19, 20),
        "old_snapshot_threshold": range(13, 17),
        "stats_temp_directory": range(13, 15),
    }
    for name, majors in lives.items():
        assert [major for major in MAJORS if name in parameters(major)] == list(majors), name


def test_restart_follows_the_context() -> None:
    assert parameter("shared_buffers", 18).restart
    assert not parameter("work_mem", 18).restart
    assert parameter("autovacuum_max_workers", 17).restart
    assert not parameter("autovacuum_max_workers", 18).restart


def test_words_that_depend_on_the_build_are_known_and_marked() -> None:
    compression = parameter("wal_compression", 17)
    assert compression.enum == ("pglz", "lz4", "zstd", "on", "off")
    assert compression.build == ("lz4", "zstd")
    assert parameter("io_method", 18).build == ("io_uring",)
    assert parameter("default_toast_compression", 18).build == ("lz4",)
    assert parameter("synchronous_commit", 18).build == ()


def test_every_major_was_read_from_a_server() -> None:
    assert {parameter("work_mem", major).certainty for major in MAJORS} == {"server"}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("checkpoint_completion_target", "14: the default changed from 0.5 to 0.9"),
        ("hash_mem_multiplier", "15: the default changed from 1 to 2"),
        ("wal_compression", "15: the type changed from bool to enum"),
        ("vacuum_buffer_usage_limit", "17: the default changed from 256kB to 2MB"),
        ("maintenance_work_mem", "17: the minimum changed from 1MB to 64kB"),
        ("io_combine_limit", "18: the maximum changed from 256kB to 1MB"),
        ("effective_io_concurrency", "18: the default changed from 1 to 16"),
        ("autovacuum_max_workers", "18: it needs only a reload; before, it needed a restart"),
        ("io_method", "18: new"),
        ("io_workers", "19: removed; use io_min_workers and io_max_workers"),
        ("jit", "19: the default changed from on to off"),
        (
            "wal_receiver_timeout",
            "19: it can be set by every session; before, it needed only a reload",
        ),
    ],
)
def test_history_tells_what_changed(name: str, sentence: str) -> None:
    assert sentence in history(name)


def test_history_tells_a_changed_meaning_with_its_source() -> None:
    assert any("zstd" in said and said.startswith("19:") for said in history("wal_compression"))
    assert any("radix tree (release notes 17)" in said for said in history("autovacuum_work_mem"))
    assert any("number of drives" in said for said in history("effective_io_concurrency"))


def test_history_is_in_order_and_empty_for_what_never_changed() -> None:
    majors = [int(said.split(":")[0]) for said in history("effective_io_concurrency")]
    assert majors == sorted(majors)
    assert history("port") == ()


def test_history_of_an_unknown_name_is_refused() -> None:
    with pytest.raises(BadValue, match="zzz"):
        history("zzz")
