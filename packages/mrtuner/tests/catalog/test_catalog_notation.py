"""Reading and writing values, with a running server as the judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from mrtuner.catalog import Value, parameter
from mrtuner.errors import BadValue
from mrtuner.postgres.cluster import Cluster
from mrtuner.units import GiB

ASK = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

#: For each unit a parameter that sessions may set, with no check hook beside its bounds.
INTEGERS = (
    "work_mem",  # kB
    "temp_buffers",  # 8kB
    "effective_cache_size",  # 8kB
    "lock_timeout",  # ms; a statement_timeout of 1 ms would end the test's own query
    "log_parameter_max_length",  # B
    "log_temp_files",  # kB, -1 is special
    "commit_siblings",  # no unit
    "extra_float_digits",  # no unit, negative values
)
REALS = ("vacuum_cost_delay", "random_page_cost", "geqo_seed", "jit_above_cost")

UNITS = ("", "B", "kB", "MB", "GB", "TB", "us", "ms", "s", "min", "h", "d", "KB", "mb", "sec", "%")
SPACES = st.sampled_from(("", "", "", " ", "\t ", "\n"))
NUMBERS = st.one_of(
    st.integers(-200, 5000).map(str),
    st.integers(0, 2**40).map(str),
    st.decimals(-10, 5000, places=3).map(str),
    st.floats(0, 1e6).map(repr),
    st.integers(0, 4096).map(hex),
    st.integers(0, 4096).map(lambda n: f"0{n:o}"),
    st.sampled_from((
        "", "-", "+5", "08", "09.5", "010.5", ".5", "-.5", "5.", "1e2", "1e", "0x", "1e-400",
        "1e400", "99999999999999999999", "0x1p3", "0x10.8", "inf", "nan", "--1", "1_000",
    )),
)  # fmt: skip
TEXTS = st.builds("{}{}{}{}{}".format, SPACES, NUMBERS, SPACES, st.sampled_from(UNITS), SPACES)


@pytest.fixture(scope="module")
def judge(embedded: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(embedded.dsn(), autocommit=True) as connection:
        yield connection


def read_by_server(judge: psycopg.Connection[Any], name: str, text: str) -> str | None:
    """What pg_settings.setting says after SET; None when the server refuses the text."""
    try:
        with judge.transaction(force_rollback=True):
            judge.execute("SELECT set_config(%s, %s, true)", (name, text))
            query = "SELECT setting FROM pg_settings WHERE name = %s"
            row = judge.execute(query, (name,)).fetchone()
            assert row is not None
            return str(row[0])
    except psycopg.errors.DataError:
        return None


def read_by_us(name: str, text: str) -> Value | None:
    try:
        return parameter(name, 18).parse(text)
    except BadValue:
        return None


def as_server_prints(value: Value | None) -> str | None:
    """Integers in full, reals with six digits, as ShowGUCOption prints them."""
    if isinstance(value, float):
        return f"{value:g}"
    return None if value is None else str(value)


@ASK
@given(name=st.sampled_from(INTEGERS), text=TEXTS)
@example(name="temp_buffers", text="1.5GB")
@example(name="temp_buffers", text="1.55GB")
@example(name="temp_buffers", text="12kB")
@example(name="temp_buffers", text="-.5")
@example(name="effective_cache_size", text="08.5")
@example(name="work_mem", text="2TB")
@example(name="work_mem", text="70000B")
@example(name="lock_timeout", text="1500us")
@example(name="lock_timeout", text="2500us")
@example(name="lock_timeout", text="1.0001d")
def test_an_integer_is_read_as_the_server_reads_it(
    judge: psycopg.Connection[Any], name: str, text: str
) -> None:
    assert as_server_prints(read_by_us(name, text)) == read_by_server(judge, name, text)


@ASK
@given(name=st.sampled_from(REALS), text=TEXTS)
@example(name="vacuum_cost_delay", text="1.23456ms")
@example(name="vacuum_cost_delay", text="0.05s")
@example(name="geqo_seed", text="0x0.8")
def test_a_real_is_read_as_the_server_reads_it(
    judge: psycopg.Connection[Any], name: str, text: str
) -> None:
    assert as_server_prints(read_by_us(name, text)) == read_by_server(judge, name, text)


@ASK
@given(text=st.text("onftrueyslaOFTRUEYSLA01 ", max_size=6))
@example(text="o")
@example(text="of")
@example(text="TRU")
@example(text="")
def test_a_switch_is_read_as_the_server_reads_it(judge: psycopg.Connection[Any], text: str) -> None:
    words = {True: "on", False: "off", None: None}
    ours = read_by_us("enable_seqscan", text)
    assert words[ours] == read_by_server(judge, "enable_seqscan", text)  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    ["on", "OFF", "local", "Remote_Apply", "true", "yes", "1", "0", "no", "t", "y", "tru", "", "x"],
)
def test_a_word_is_read_as_the_server_reads_it(judge: psycopg.Connection[Any], text: str) -> None:
    ours = read_by_us("synchronous_commit", text)
    assert ours == read_by_server(judge, "synchronous_commit", text)


@ASK
@given(name=st.sampled_from(INTEGERS), data=st.data())
def test_what_we_write_is_read_back_by_the_server(
    judge: psycopg.Connection[Any], name: str, data: st.DataObject
) -> None:
    known = parameter(name, 18)
    assert isinstance(known.min, int)
    assert isinstance(known.max, int)
    value = data.draw(
        st.one_of(
            st.integers(known.min, known.max),
            st.integers(0, 30).map(lambda power: 2**power),
            st.integers(1, 1000).map(lambda hours: hours * 3_600_000),
        )
    )
    assume(known.min <= value <= known.max)
    assert read_by_server(judge, name, known.show(value)) == str(value)
    assert known.parse(known.show(value)) == value


@ASK
@given(name=st.sampled_from(REALS), data=st.data())
def test_a_real_that_we_write_is_read_back_exactly(
    judge: psycopg.Connection[Any], name: str, data: st.DataObject
) -> None:
    known = parameter(name, 18)
    value = data.draw(st.floats(known.min, known.max, allow_subnormal=False))
    assert read_by_server(judge, name, known.show(value)) == f"{value:g}"
    assert known.parse(known.show(value)) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shared_buffers", "1.5GB"),
        ("shared_buffers", "30.1GB"),
        ("max_wal_size", "1.5GB"),
        ("max_wal_size", "2TB"),
        ("max_wal_size", "3000kB"),
        ("checkpoint_timeout", "30500ms"),
        ("checkpoint_timeout", "0.5h"),
        ("log_rotation_age", "90s"),
        ("log_rotation_age", "150s"),
        ("log_rotation_age", "1.01d"),
        ("log_rotation_size", "0.1MB"),
        ("unix_socket_permissions", "0700"),
        ("autovacuum_vacuum_cost_delay", "1500us"),
        ("checkpoint_completion_target", "0.85"),
        ("wal_buffers", "-1"),
    ],
)
def test_what_needs_a_reload_or_restart_is_read_as_the_server_reads_it(
    embedded: Cluster, name: str, text: str
) -> None:
    answer = embedded.run("postgres", "-D", str(embedded.data), "-C", name, "-c", f"{name}={text}")
    assert answer.returncode == 0, answer.stderr
    printed = answer.stdout.strip()
    assert as_server_prints(parameter(name, 18).parse(text)) == printed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vacuum_buffer_usage_limit", "0"),
        ("vacuum_buffer_usage_limit", "1kB"),
        ("vacuum_buffer_usage_limit", "127kB"),
        ("vacuum_buffer_usage_limit", "128kB"),
        ("io_max_concurrency", "-1"),
        ("io_max_concurrency", "0"),
        ("io_max_concurrency", "1"),
        ("transaction_buffers", "0"),
        ("transaction_buffers", "31"),
        ("transaction_buffers", "256kB"),
        ("notify_buffers", "17"),
        ("serializable_buffers", "33"),
        ("multixact_member_buffers", "33"),
        ("multixact_offset_buffers", "33"),
        ("subtransaction_buffers", "33"),
        ("commit_timestamp_buffers", "33"),
    ],
)
def test_what_a_check_hook_refuses_within_the_bounds_we_refuse_too(
    embedded: Cluster, name: str, text: str
) -> None:
    answer = embedded.run("postgres", "-D", str(embedded.data), "-C", name, "-c", f"{name}={text}")
    assert (read_by_us(name, text) is not None) == (answer.returncode == 0), answer.stderr


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("shared_buffers", 524288, "4GB"),
        ("shared_buffers", 16385, "131080kB"),
        ("work_mem", 4096, "4MB"),
        ("work_mem", 2097151, "2097151kB"),
        ("max_wal_size", 1024, "1GB"),
        ("log_parameter_max_length", 1000, "1000B"),
        ("statement_timeout", 120_000, "2min"),
        ("statement_timeout", 1001, "1001ms"),
        ("statement_timeout", 0, "0"),
        ("checkpoint_timeout", 300, "5min"),
        ("log_rotation_age", 1440, "1d"),
        ("autovacuum_work_mem", -1, "-1"),
        ("wal_buffers", -1, "-1"),
        ("max_connections", 100, "100"),
        ("checkpoint_completion_target", 0.9, "0.9"),
        ("random_page_cost", 4.0, "4"),
        ("autovacuum_vacuum_cost_delay", 2.0, "2ms"),
        ("vacuum_cost_delay", 0.0001, "0.0001"),
        ("jit", True, "on"),
        ("wal_compression", "lz4", "lz4"),
        ("log_file_mode", 0o600, "0600"),
    ],
)
def test_a_value_is_written_in_the_shortest_exact_way(name: str, value: Value, text: str) -> None:
    assert parameter(name, 18).show(value) == text
    assert parameter(name, 18).parse(text) == value


def test_a_size_is_bytes_and_a_special_value_has_none() -> None:
    assert parameter("shared_buffers", 18).size(524288) == 4 * GiB
    assert parameter("autovacuum_work_mem", 18).size(-1) is None
    assert parameter("statement_timeout", 18).size(1000) is None


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("work_mem", "4 gb", "Valid units for this parameter are TB, GB, MB, kB and B."),
        ("statement_timeout", "5 minutes", "d, h, min, s, ms and us"),
        ("max_connections", "100kB", "takes no unit"),
        ("work_mem", "1kB", "PostgreSQL 18 takes 64kB to 2147483647kB."),
        ("io_method", "aio", "sync, worker, io_uring"),
        ("jit", "maybe", "Write on or off."),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_a_hint(name: str, text: str, hint: str) -> None:
    with pytest.raises(BadValue) as refused:
        parameter(name, 18).parse(text)
    assert refused.value.hint is not None
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jit", 1),
        ("work_mem", True),
        ("work_mem", 4096.0),
        ("work_mem", "4MB"),
        ("io_method", "IO_URING"),
        ("random_page_cost", float("nan")),
        ("random_page_cost", float("inf")),
        ("application_name", 5),
    ],
)
def test_a_value_of_the_wrong_kind_does_not_pass(name: str, value: Value) -> None:
    with pytest.raises(BadValue):
        parameter(name, 18).check(value)


def test_a_word_is_read_as_every_major_reads_it(each_major: int, new_cluster: NewCluster) -> None:
    """Also the words that servers take without listing them."""
    with psycopg.connect(new_cluster(each_major).dsn(), autocommit=True) as server:
        for name, text in [
            ("synchronous_commit", "yes"),
            ("client_min_messages", "debug"),
            ("constraint_exclusion", "true"),
            ("backslash_quote", "0"),
            ("default_transaction_isolation", "READ COMMITTED"),
            ("bytea_output", "Escape"),
        ]:
            server.execute("SELECT set_config(%s, %s, false)", (name, text))
            shown = server.execute("SELECT current_setting(%s)", (name,)).fetchone()
            assert shown is not None
            assert parameter(name, each_major).parse(text) == shown[0]
