"""What the renderings look like: small examples written by hand."""

from __future__ import annotations

import pytest
import yaml
from markdown_it import MarkdownIt

import mrtuner
from mrtuner.errors import BadValue, Refused
from mrtuner.formats import NAMES, Line, parse, render

SHARED_BUFFERS = Line(
    name="shared_buffers", value="4GB", quoted=False, comment="a quarter", restart=True
)
LIBRARIES = Line(
    name="shared_preload_libraries",
    value="pg_stat_statements, auto_explain",
    quoted=True,
    comment="query statistics",
    restart=True,
)


def line(name: str, value: str, *, quoted: bool = False, restart: bool = False) -> Line:
    return Line(name=name, value=value, quoted=quoted, comment="why", restart=restart)


def test_conf_quotes_what_the_lexer_would_split() -> None:
    rendering = render(
        "conf",
        [
            SHARED_BUFFERS,
            line("cpu_tuple_cost", "1e-05"),
            line("autovacuum_work_mem", "-1"),
            line("log_line_prefix", "it's \\ ", quoted=True),
        ],
    )
    assert "# a quarter (restart)\nshared_buffers = 4GB\n" in rendering
    assert "\ncpu_tuple_cost = '1e-05'\n" in rendering
    assert "\nautovacuum_work_mem = -1\n" in rendering
    assert "\nlog_line_prefix = 'it''s \\\\ '\n" in rendering


def test_conf_reads_what_people_write() -> None:
    written = (
        "work_mem 4MB\njit=off # slow\n\n  # note\nlog_directory = '/a\\tb\\101''s' #x\njit=on"
    )
    assert parse("conf", written) == {
        "work_mem": "4MB",
        "jit": "on",
        "log_directory": "/a\tbA's",
    }


def test_sql_gives_each_library_its_own_literal() -> None:
    rows = render("sql", [LIBRARIES, SHARED_BUFFERS]).splitlines()
    assert rows == [
        "-- query statistics (restart)",
        "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements', 'auto_explain';",
        "-- a quarter (restart)",
        "ALTER SYSTEM SET shared_buffers = '4GB';",
        "SELECT pg_reload_conf();",
        "-- Restart the server for: shared_preload_libraries, shared_buffers",
    ]


def test_sql_puts_settings_of_libraries_last() -> None:
    rendering = render("sql", [line("pg_stat_statements.max", "5000"), SHARED_BUFFERS])
    assert rendering.index("shared_buffers =") < rendering.index("pg_stat_statements.max =")


def test_sql_refuses_an_empty_list() -> None:
    with pytest.raises(BadValue, match="cannot set shared_preload_libraries to an empty list"):
        render("sql", [line("shared_preload_libraries", "", quoted=True)])


def test_markdown_shows_pipes_backslashes_and_backticks_as_they_are() -> None:
    """Judged by another reader of Markdown."""
    values = [
        "a|b",
        "a\\|b",
        "`x`",
        "*x*",
        "4GB",
        "a, b",
        "<i>",
        "&amp;",
        "x  y",
        "_a_b_",
        "[x](y)",
    ]
    given = [line(f"p{at}", each) for at, each in enumerate(values)]
    text = render("markdown", [*given, SHARED_BUFFERS], title="a | b *c*")
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inline = [token for token in tokens if token.type == "inline"]
    assert inline[0].children is not None
    assert "".join(child.content for child in inline[0].children) == "a | b *c*"
    cells = [
        "".join(
            child.content
            for child in token.children or ()
            if child.type in ("text", "text_special", "code_inline")
        )
        for token in inline[5:]
    ]
    assert cells[1::4] == [*values[:8], *values[8:], "4GB"]
    assert len(cells) == 4 * (len(values) + 1)


def test_yaml_values_stay_strings_for_every_reader() -> None:
    for format in ("patroni", "cloudnativepg", "zalando", "crunchy"):
        rendering = render(format, [line("a", "0.9"), line("b", "on"), line("c", "1e-05")])
        rows = [row.strip() for row in rendering.splitlines()]
        assert {'a: "0.9"', 'b: "on"', 'c: "1e-05"'} <= set(rows)


def test_bare_yaml_numbers_and_switches_are_read_too() -> None:
    written = "postgresql:\n  parameters:\n    max_connections: 100\n    jit: off\n    x.y: 0.5\n"
    assert parse("patroni", written) == {"max_connections": "100", "jit": "off", "x.y": "0.5"}


def test_patroni_leaves_out_what_it_controls_and_says_so() -> None:
    given = [line("listen_addresses", "*"), line("wal_log_hints", "on"), line("jit", "off")]
    rendering = render("patroni", given)
    assert parse("patroni", rendering) == {"jit": "off"}
    assert "Left out, Patroni sets them itself: listen_addresses, wal_log_hints" in rendering


def test_patroni_leaves_out_what_it_would_replace_by_a_default() -> None:
    """Patroni's minimum of max_connections is 25, of max_worker_processes 2."""
    rendering = render(
        "patroni", [line("max_connections", "24"), line("max_worker_processes", "2")]
    )
    assert parse("patroni", rendering) == {"max_worker_processes": "2"}
    assert "default: max_connections = 24; it takes 25 or\n# more." in rendering


def test_patroni_and_its_operators_tell_the_order_of_restarts() -> None:
    for format in ("patroni", "zalando", "crunchy"):
        rendering = render(format, [line("max_connections", "200")])
        assert "max_connections: stored once for the primary" in rendering
        assert "stored once for the primary" not in render(format, [line("jit", "off")])


MANAGED = ("patroni", "cloudnativepg", "crunchy", "zalando")
WITH_REPLICAS = ("cloudsql", "cloudsql-terraform", "azure", "azure-terraform")


@pytest.mark.parametrize("format", NAMES)
def test_only_where_nobody_orders_them_standbys_come_first(format: str) -> None:
    """Once, beside the title, so in every notation that has comments."""
    given = [line("max_connections", "200"), line("max_wal_senders", "20"), SHARED_BUFFERS]
    standbys = "read replicas" if format in WITH_REPLICAS else "standbys"
    note = f"If max_connections and max_wal_senders rise, change and restart {standbys} before"
    found = " ".join(render(format, given, title="16 GB").replace("\\", "").split("\n# "))
    assert found.count(note) == (format not in MANAGED)
    assert found.count("; if they fall, the primary first.") == (format not in MANAGED)
    assert f"{standbys} before" not in render(format, [SHARED_BUFFERS])


def test_a_file_for_a_container_has_one_full_stop_after_each_sentence() -> None:
    """The assumption about the volume, and the note on standbys."""
    text = mrtuner.tune(memory="16GB", cpus=4, connections=300, postgres=18).as_("docker")
    told = " ".join(text.split("\n# "))
    assert "with --wal-disk. Left out: wal_compression = lz4" in told.replace("\n", " ")
    assert "'default_toast_compression'. If max_connections rises" in told.replace("\n", " ")
    assert ".." not in told


def test_an_offer_alone_has_no_note_on_standbys() -> None:
    offer = Line(
        name="max_connections", value="9", quoted=False, comment="", restart=True, condition="if x"
    )
    assert "standbys" not in render("conf", [offer])


def test_cloudnativepg_names_libraries_in_their_own_field() -> None:
    rendering = render("cloudnativepg", [LIBRARIES, SHARED_BUFFERS, line("port", "5433")])
    assert yaml.safe_load(rendering) == {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Cluster",
        "spec": {
            "postgresql": {
                "parameters": {"shared_buffers": "4GB"},
                "shared_preload_libraries": ["pg_stat_statements", "auto_explain"],
            }
        },
    }
    assert "Left out, the operator sets them itself: port" in rendering
    assert "      # a quarter (restart)\n      shared_buffers:" in rendering


def test_zalando_keeps_the_libraries_of_its_image() -> None:
    rendering = render("zalando", [LIBRARIES, SHARED_BUFFERS])
    assert yaml.safe_load(rendering) == {
        "apiVersion": "acid.zalan.do/v1",
        "kind": "postgresql",
        "spec": {"postgresql": {"parameters": {"shared_buffers": "4GB"}}},
    }
    assert "shared_preload_libraries" in rendering


def test_crunchy_leaves_out_what_its_schema_refuses() -> None:
    refused = ["wal_level", "ssl_ca_file", "unix_socket_group", "recovery_target_name", "port"]
    rendering = render("crunchy", [*(line(name, "x") for name in refused), SHARED_BUFFERS])
    assert yaml.safe_load(rendering) == {
        "apiVersion": "postgres-operator.crunchydata.com/v1beta1",
        "kind": "PostgresCluster",
        "spec": {"config": {"parameters": {"shared_buffers": "4GB"}}},
    }
    assert ", ".join(refused) in " ".join(row.removeprefix("# ") for row in rendering.split("\n"))


def test_crunchy_refuses_more_parameters_than_its_schema_takes() -> None:
    fifty = [line(f"p{at}", "1") for at in range(50)]
    render("crunchy", [*fifty, line("port", "1")])  # left out, so not counted
    with pytest.raises(Refused, match="takes at most 50 parameters, but there are 51"):
        render("crunchy", [*fifty, line("p50", "1")])


def test_crunchy_reads_the_older_place_too() -> None:
    written = "spec: {patroni: {dynamicConfiguration: {postgresql: {parameters: {work_mem: 4MB}}}}}"
    assert parse("crunchy", written) == {"work_mem": "4MB"}


def test_compose_gets_one_argument_a_setting_and_doubled_dollars() -> None:
    rendering = render("docker", [SHARED_BUFFERS, line("log_line_prefix", "$x", quoted=True)])
    assert yaml.safe_load(rendering) == {
        "services": {
            "postgres": {
                "command": ["postgres", "-c", "shared_buffers=4GB", "-c", "log_line_prefix=$$x"]
            }
        }
    }
    assert '      # a quarter (restart)\n      - "-c"\n      - "shared_buffers=4GB"' in rendering


def test_helm_gets_a_readable_block_and_the_libraries_apart() -> None:
    rendering = render("helm", [LIBRARIES, SHARED_BUFFERS, line("a.b", "{{ x", quoted=True)])
    assert yaml.safe_load(rendering) == {
        "postgresqlSharedPreloadLibraries": "pg_stat_statements, auto_explain",
        "primary": {
            "extendedConfiguration": "# a quarter (restart)\nshared_buffers = 4GB\n\n"
            "# why\na.b = '{{ \"{{\" }} x'\n"
        },
    }
    assert "  extendedConfiguration: |\n    # a quarter (restart)\n" in rendering
