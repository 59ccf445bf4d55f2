"""Which settings are written and which are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_tune_gather import QUIET

from mrtuner.change.settings.plan import Wanted, plan
from mrtuner.errors import BadValue
from mrtuner.formats import parse
from mrtuner.postgres.conf_file import elements, entries, same_value, with_entries, with_unit
from mrtuner.postgres.model import Origin, Override, Platform, Server, Setting
from mrtuner.units import Bytes


def setting(
    name: str,
    value: str,
    unit: str | None = None,
    *,
    vartype: str = "integer",
    context: str = "user",
    origin: Origin = "default",
    pending: bool = False,
) -> Setting:
    return Setting(
        name=name,
        setting=value,
        unit=unit,
        vartype=vartype,
        context=context,
        boot_val=value,
        reset_val=value,
        enumvals=(),
        pending_restart=pending,
        origin=origin,
        sourcefile=None,
        sourceline=None,
    )


SERVER = Server(
    version_num=180006,
    version="18.6",
    settings={
        one.name: one
        for one in (
            setting("shared_buffers", "16384", "8kB", context="postmaster"),
            setting("work_mem", "4096", "kB"),
            setting("max_connections", "200", context="postmaster"),
            setting("random_page_cost", "4", vartype="real"),
            setting("jit", "on", vartype="bool"),
            setting("maintenance_work_mem", "65536", "kB", origin="command line"),
            setting("block_size", "8192", context="internal"),
            setting("primary_conninfo", "", vartype="string", context="sighup"),
        )
    },
    overrides=(),
    file_problems=(),
    platform=Platform(name="self-managed", evidence="", alter_system=True, how="ALTER SYSTEM"),
    standby=False,
    standbys=0,
    connections=1,
    databases={"postgres": Bytes(1)},
    relations=(),
    extensions=(),
    activity=QUIET,
    data_directory="/data",
    local_pid=None,
    superuser=True,
)


def wanted(name: str, value: str) -> Wanted:
    return Wanted(name=name, value=value)


def with_setting(server: Server, changed: Setting) -> Server:
    return replace(server, settings={**server.settings, changed.name: changed})


def test_what_needs_a_restart_is_kept_apart_by_the_servers_own_context() -> None:
    made = plan(SERVER, [wanted("shared_buffers", "4GB"), wanted("work_mem", "64MB")])
    assert [step.name for step in made.restart] == ["shared_buffers"]
    assert [step.name for step in made.reload] == ["work_mem"]


def test_a_step_tells_what_is_in_force_in_words_and_in_base_units() -> None:
    (step,) = plan(SERVER, [wanted("shared_buffers", "4GB")]).steps
    assert (step.before, step.in_force) == ("128MB", "16384")


def test_values_that_are_lowered_come_first() -> None:
    made = plan(SERVER, [wanted("shared_buffers", "4GB"), wanted("work_mem", "1MB")])
    assert [step.name for step in made.steps] == ["work_mem", "shared_buffers"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shared_buffers", "131072kB"),
        ("random_page_cost", "4.0"),
        ("jit", "true"),
        ("work_mem", "0x1000"),
        ("jit", "tru"),
    ],
)
def test_what_is_in_force_already_is_left_alone(name: str, value: str) -> None:
    made = plan(SERVER, [wanted(name, value)])
    assert made.steps == ()
    assert made.left_alone[0].why == f"it is already {value}"


def test_what_is_in_force_but_will_not_be_after_a_restart_is_written() -> None:
    pending = setting("shared_buffers", "16384", "8kB", context="postmaster", pending=True)
    made = plan(with_setting(SERVER, pending), [wanted("shared_buffers", "128MB")])
    assert [step.name for step in made.steps] == ["shared_buffers"]


def test_a_command_line_parameter_is_left_alone_and_said() -> None:
    (left,) = plan(SERVER, [wanted("maintenance_work_mem", "1GB")]).left_alone
    assert left.why == "it is set on the command line, which overrides every file"


def test_a_setting_that_may_hold_a_password_is_left_to_its_owner_and_not_shown() -> None:
    server = with_setting(SERVER, setting("anon.salt", "x", vartype="string"))
    for name in ("primary_conninfo", "anon.salt"):
        (left,) = plan(server, [wanted(name, "password=hunter2")]).left_alone
        assert (left.name, left.value) == (name, "(not shown)")
        assert "may contain a password" in left.why


def test_a_parameter_that_the_server_does_not_have_is_left_alone() -> None:
    (left,) = plan(SERVER, [wanted("io_method", "worker")]).left_alone
    assert left.why == "this server has no such parameter"


def test_a_fixed_parameter_is_left_alone() -> None:
    assert plan(SERVER, [wanted("block_size", "16384")]).steps == ()


def test_an_override_is_written_all_the_same_and_said() -> None:
    overrides = (
        Override(role="app", database=None, name="work_mem", value="1MB"),
        Override(role=None, database="shop", name="work_mem", value="2MB"),
        Override(role="app", database="shop", name="jit", value="off"),
    )
    made = plan(replace(SERVER, overrides=overrides), [wanted("work_mem", "64MB")])
    assert made.steps[0].notes == (
        "ALTER ROLE app SET work_mem = '1MB' overrides it in those sessions",
        "ALTER DATABASE shop SET work_mem = '2MB' overrides it in those sessions",
    )


def test_where_an_operator_owns_the_settings_nothing_is_written() -> None:
    platform = Platform(
        name="patroni", evidence="cluster_name", alter_system=False, how="Use patronictl."
    )
    made = plan(replace(SERVER, platform=platform), [wanted("work_mem", "64MB")])
    assert made.steps == ()
    assert made.elsewhere == made.left_alone[0].why == "Use patronictl."


def test_a_standby_is_not_given_fewer_connections_than_its_primary() -> None:
    standby = replace(SERVER, standby=True)
    lower, higher = wanted("max_connections", "100"), wanted("max_connections", "300")
    assert [one.name for one in plan(standby, [lower]).refused] == ["max_connections"]
    assert plan(standby, [higher]).refused == ()
    assert plan(SERVER, [lower]).refused == ()


def test_autovacuum_workers_without_a_slot_are_said() -> None:
    """Since 18, autovacuum_max_workers takes effect only up to autovacuum_worker_slots."""
    slots = replace(SERVER.settings["max_connections"], name="autovacuum_worker_slots")
    workers = replace(slots, name="autovacuum_max_workers", setting="3", context="sighup")
    more = {one.name: one for one in (replace(slots, setting="16"), workers)}
    server = replace(SERVER, settings={**SERVER.settings, **more})
    said = "only 16 of them can run: autovacuum_worker_slots is 16"
    assert plan(server, [wanted("autovacuum_max_workers", "20")]).steps[0].notes == (said,)
    assert plan(server, [wanted("autovacuum_max_workers", "16")]).steps[0].notes == ()


def test_a_name_is_found_whatever_its_case() -> None:
    """initdb writes timezone and datestyle, which pg_settings calls TimeZone and DateStyle."""
    settings = parse("conf", "Work_Mem = 8MB\nwork_mem = 64MB\nMAX_CONNECTIONS = 300\n")
    made = plan(SERVER, [wanted(*one) for one in settings.items()])
    assert [(one.name, one.value) for one in made.steps] == [
        ("work_mem", "64MB"), ("max_connections", "300"),
    ]  # fmt: skip


def test_wanting_a_setting_twice_is_an_error() -> None:
    with pytest.raises(BadValue, match="more than once: work_mem"):
        plan(SERVER, [wanted("work_mem", "1MB"), wanted("work_mem", "2MB")])


@pytest.mark.parametrize(
    ("a", "b", "vartype", "unit"),
    [
        ("4GB", "524288", "integer", "8kB"),
        ("5min", "300", "integer", "s"),
        ("1.5GB", "1572864", "integer", "kB"),
        ("2ms", "2", "real", "ms"),
        ("500us", "0.5", "real", "ms"),
        ("1e2", "100", "integer", None),
        ("0.1", "0.10", "real", None),
        ("yes", "on", "bool", None),
        ("ZSTD", "zstd", "enum", None),
    ],
)
def test_texts_that_mean_the_same(a: str, b: str, vartype: str, unit: str | None) -> None:
    assert same_value("any", a, b, vartype, unit)


@pytest.mark.parametrize(
    ("a", "b", "vartype", "unit"),
    [
        ("4GB", "524289", "integer", "8kB"),
        ("5min", "300", "integer", None),
        ("4gb", "524288", "integer", "8kB"),
        ("on", "off", "bool", None),
        ("%m", "%M", "string", None),
    ],
)
def test_texts_that_do_not_mean_the_same(a: str, b: str, vartype: str, unit: str | None) -> None:
    assert not same_value("any", a, b, vartype, unit)


def test_a_list_is_compared_by_its_elements() -> None:
    name = "shared_preload_libraries"
    assert same_value(name, "a,b", 'a, "b"', "string", None)
    assert not same_value(name, "a,b", "b,a", "string", None)
    assert elements('"$user", "odd "" name",public') == ("$user", 'odd " name', "public")


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [("16384", "8kB", "128MB"), ("300", "s", "5min"), ("-1", "kB", "-1"), ("0", "8kB", "0"),
     ("200", "ms", "200ms"), ("3", "8kB", "24kB"), ("100", None, "100")],
)  # fmt: skip
def test_base_units_are_shown_as_people_write_them(
    value: str, unit: str | None, shown: str
) -> None:
    assert with_unit(value, "integer", unit) == shown


FILE = """\
# Do not edit this file manually!
work_mem = '4MB'
log_line_prefix = 'it''s %m \\\\ '
Jit off
work_mem = '8MB' # the last one wins
"""


def test_a_configuration_file_is_read_as_the_server_reads_it() -> None:
    assert entries(FILE) == {"work_mem": "8MB", "log_line_prefix": "it's %m \\ ", "jit": "off"}


def test_entries_are_replaced_and_removed_and_the_rest_stays() -> None:
    assert with_entries(FILE, {"work_mem": "1GB", "jit": None}) == (
        "# Do not edit this file manually!\nlog_line_prefix = 'it''s %m \\\\ '\nwork_mem = '1GB'\n"
    )


def test_only_a_newline_ends_a_line() -> None:
    kept = "a = 'x\r\v\f\x1c\x85\u2028y'\r\n"
    assert entries(kept) == {"a": "x\r\v\f\x1c\x85\u2028y"}
    assert with_entries(f"{kept}jit = off\n", {"jit": None}) == kept
    assert with_entries("", {"jit": None}) == ""
