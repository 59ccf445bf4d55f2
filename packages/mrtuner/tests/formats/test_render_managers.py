"""Puppet, Ansible and NixOS: what they write into postgresql.conf from our files.

These tests redo by hand what the modules and roles write, from their source; docs/how-to/
write-for-other-tools.md says which of the tools themselves were run.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from conftest import NewCluster

from mrtuner.errors import BadValue
from mrtuner.formats import Line, parse, render
from mrtuner.formats.nixos import OWNED as OF_NIXOS

PREFIX = '%m [%p] it\'s \\ "x" #1 ${u} {{ v }} %{w} '


def line(name: str, value: str, *, restart: bool = False) -> Line:
    return Line(name=name, value=value, quoted=False, comment="why", restart=restart)


#: The line, and what SHOW answers.
SETTINGS = {
    line("shared_buffers", "48MB", restart=True): "48MB",
    line("work_mem", "8192kB"): "8MB",
    line("max_connections", "50", restart=True): "50",
    line("max_parallel_workers_per_gather", "3"): "3",
    line("max_parallel_workers", "5"): "5",
    line("checkpoint_timeout", "900s"): "15min",
    line("random_page_cost", "1.1"): "1.1",
    line("autovacuum_work_mem", "-1"): "-1",
    line("jit", "off"): "off",
    line("strange.prefix", PREFIX): PREFIX,
    line("shared_preload_libraries", "plpgsql, dict_snowball"): "plpgsql, dict_snowball",
}
LINES = list(SETTINGS)
SHOWN = {each.name: answer for each, answer in SETTINGS.items()}


def by_puppet() -> list[str]:
    """The rows that postgresql_conf's to_line writes; Hiera replaces literal()."""
    entries = yaml.safe_load(render("puppet", LINES))["postgresql::server::config_entries"]
    rows = []
    for name, text in entries.items():
        value = text.replace("%{literal('%')}", "%")
        bare = re.fullmatch(r"\d+.?\d+|\w+", value)
        rows.append(f"{name} = {value}" if bare else f"{name} = '{value}'")
    return rows


def by_role() -> list[str]:
    """The rows that the role's template writes, rendered by Jinja itself."""
    jinja = pytest.importorskip("jinja2", reason="the package jinja2 is not installed")
    options = yaml.safe_load(render("ansible", LINES))["postgresql_global_config_options"]
    return [
        f"{item['option']} = '{jinja.Template(item['value']).render()}'"
        for item in options
        if item["option"] != "unix_socket_directories"
    ]


def by_nixos() -> list[str]:
    """The rows that the module's toStr writes; Nix literals are read by the manual's rules."""
    rows = []
    for row in render("nixos", LINES).split("\n"):
        if match := re.fullmatch(r'    "?([\w.]+)"? = "(.*)";', row):
            value = re.sub(r"\\(.)", r"\1", match[2])
            rows.append(f"{match[1]} = '{value.replace(chr(39), chr(39) * 2)}'")
    return rows


@pytest.mark.parametrize("rows", [by_puppet, by_role, by_nixos], ids=lambda each: each.__name__)
def test_a_server_reads_what_these_make_of_it(rows: Any, new_cluster: NewCluster) -> None:
    import psycopg

    cluster = new_cluster()
    written = rows()
    assert len(written) == len(LINES)
    (cluster.data / "made.conf").write_text("\n".join(written) + "\n", encoding="utf-8")
    cluster.configure({"include": "made.conf"})
    cluster.restart()
    with psycopg.connect(cluster.dsn()) as connection:
        for name, answer in SHOWN.items():
            row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            assert row == (answer,)


def statements(text: str) -> list[str]:
    """What postgresql_alter_system sends for each item of the loops."""
    jinja = pytest.importorskip("jinja2", reason="the package jinja2 is not installed")
    made = []
    for task in yaml.safe_load(text)[0]["tasks"]:
        for item in task["loop"]:
            value = jinja.Template(item["value"]).render()
            listed = "," in value and not item["param"].endswith(("_command", "_prefix"))
            parts = [part.strip() for part in value.split(",")] if listed else [value]
            arguments = ",".join(f"'{part}'" for part in parts)
            made.append(f"ALTER SYSTEM SET {item['param']} = {arguments}")
    return made


def test_the_tasks_make_statements_that_a_server_takes(new_cluster: NewCluster) -> None:
    import psycopg

    cluster = new_cluster()
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        for statement in statements(render("ansible-tasks", LINES)):
            connection.execute(statement.encode())
    cluster.restart()
    with psycopg.connect(cluster.dsn()) as connection:
        for name, answer in SHOWN.items():
            row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            assert row == (answer,)


def test_the_play_restarts_for_what_needs_it_and_only_if_told_to() -> None:
    [play] = yaml.safe_load(render("ansible-tasks", LINES))
    reload, restart = play["tasks"]
    assert "notify" not in reload
    assert {item["param"] for item in restart["loop"]} == {"shared_buffers", "max_connections"}
    [handler] = play["handlers"]
    assert restart["notify"] == handler["name"]
    assert handler["when"] == "restart_postgresql | default(false) | bool"
    [calm] = yaml.safe_load(render("ansible-tasks", [line("work_mem", "64MB")]))
    assert "handlers" not in calm


def test_the_role_keeps_its_own_entry_and_never_overwrites_a_longer_name() -> None:
    """Its pattern for max_parallel_workers matches max_parallel_workers_per_gather too."""
    given = [line("max_parallel_workers_per_gather", "2"), line("max_parallel_workers", "8")]
    options = yaml.safe_load(render("ansible", given))["postgresql_global_config_options"]
    assert [item["option"] for item in options] == [
        "unix_socket_directories", "max_parallel_workers", "max_parallel_workers_per_gather",
    ]  # fmt: skip
    assert options[0]["value"] == '{{ postgresql_unix_socket_directories | join(",") }}'


@pytest.mark.parametrize(
    ("format", "name", "owner"),
    [
        ("puppet", "port", "the module"),
        ("nixos", "listen_addresses", "the module"),
        ("ansible", "unix_socket_directories", "the role"),
    ],
)
def test_what_the_module_sets_itself_is_left_out(format: str, name: str, owner: str) -> None:
    text = render(format, [line(name, "x"), line("jit", "off")])
    assert parse(format, text) == {"jit": "off"}
    assert f"# Left out, {owner} sets them itself: {name}" in text


def test_puppet_says_what_it_will_restart_for() -> None:
    text = " ".join(render("puppet", LINES).split("\n# "))
    assert "service_restart_on_change is false: shared_buffers, max_connections" in text
    assert "service_restart_on_change" not in render("puppet", [line("jit", "off")])


def test_nixos_needs_a_build_with_llvm_for_jit() -> None:
    assert "enableJIT = true" in render("nixos", [line("jit", "on")])
    assert "enableJIT" not in render("nixos", [line("jit", "off")])
    assert "jit" not in OF_NIXOS  # set with mkDefault: ours wins


def test_modules_of_other_hands_are_read_too() -> None:
    text = """
    { config, pkgs, ... }: {
      services.postgresql = { enable = true; };
      services.postgresql.settings = {
        jit = false; max_connections = 200;  # "quoted" = comment;
        "pg_stat_statements.max" = 5000; random_page_cost = 1.1;
        log_line_prefix = "a # \\${b} $ c";
      };
    }
    """
    assert parse("nixos", text) == {
        "jit": "off",
        "max_connections": "200",
        "pg_stat_statements.max": "5000",
        "random_page_cost": "1.1",
        "log_line_prefix": "a # ${b} $ c",
    }


def test_tasks_of_other_hands_are_read_too() -> None:
    text = """
    - hosts: all
      tasks:
        - name: something else
          ansible.builtin.debug: {msg: x}
        - community.postgresql.postgresql_set: {name: work_mem, value: 64MB}
        - community.postgresql.postgresql_alter_system: {param: jit, value: false}
    """
    assert parse("ansible-tasks", text) == {"work_mem": "64MB", "jit": "off"}


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        ("puppet", "a: 1\n", "no mapping at postgresql::server::config_entries"),
        ("ansible", "a: 1\n", "no list postgresql_global_config_options"),
        ("ansible", "postgresql_global_config_options: [x]\n", "cannot read the option 'x'"),
        ("ansible-tasks", "a: 1\n", "no list of plays"),
        (
            "ansible-tasks",
            "- tasks:\n    - community.postgresql.postgresql_set: {name: a}\n",
            "cannot read the setting {'name': 'a'}",
        ),
        ("nixos", "{ }", "no literal services.postgresql.settings"),
        ("nixos", "services.postgresql.settings = { a = lib.mkForce 1; };", "cannot read the"),
        ("nixos", 'services.postgresql.settings = { a = "${b}"; };', "no literal services"),
    ],
)
def test_what_cannot_be_read_is_named(format: str, text: str, message: str) -> None:
    with pytest.raises(BadValue) as error:
        parse(format, text)
    assert message in error.value.message
    assert error.value.hint or message.startswith("no mapping")
