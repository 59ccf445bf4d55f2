"""Maliciously chosen names reach a terminal escaped, and programs unchanged."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import NewCluster
from test_cli_live import at_a_terminal

from command_line import run
from mrtuner.cli.common import terminal
from mrtuner.postgres.cluster import Cluster
from servers import sql

CLI = Path(terminal.__file__).parent
#: Sets the title, clears the screen, starts a new line, reverses the text that follows.
EVIL = "e\x1b]0;owned\x07\x1b[2J\r\nHINT: all is well\x9b1m\u202e größe"
SHOWN = r"e\x1b]0;owned\x07\x1b[2J\r\nHINT: all is well\x9b1m\u202e größe"
OURS = re.compile(r"\x1b\[\d+m")


@pytest.fixture(scope="module")
def dsn(embedded: Cluster) -> Iterator[str]:
    """A database of that name, with a table of that name for which there is advice."""
    sql(embedded.dsn(), f'CREATE DATABASE "{EVIL}"')
    where = embedded.dsn(EVIL)
    sql(where, f'CREATE TABLE "{EVIL}" (id int PRIMARY KEY) WITH (autovacuum_enabled = false)')
    yield where
    sql(embedded.dsn(), f'DROP DATABASE "{EVIL}" WITH (FORCE)')


def acts(text: str) -> bool:
    """Whether a terminal would do more than show the text, apart from line ends and our colours."""
    plain = OURS.sub("", text.replace("\r\n", "\n")).replace("\n", "")
    return bool(re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", plain))


def test_text_shows_names_escaped(dsn: str) -> None:
    done = run("vacuum", dsn)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{SHOWN}: 1 table")
    assert f"public.{SHOWN}: " in done.stdout
    assert not acts(done.output)


def test_a_terminal_shows_names_escaped(dsn: str) -> None:
    for arguments in (["vacuum", dsn], ["vacuum", dsn, "--format", "sql"], ["tune", dsn],
                      ["vacuum", dsn, "--json"], ["tune", dsn, "--json"]):  # fmt: skip
        code, shown = at_a_terminal(arguments)
        assert code == 0, shown
        assert not acts(shown), arguments


def test_a_plan_and_its_question_show_names_escaped(dsn: str, tmp_path: Path) -> None:
    arguments = ["vacuum", "apply", dsn, "--journal", str(tmp_path)]
    code, shown = at_a_terminal(arguments, answers={"[y/N]": "n\n"})
    assert code == 1, shown
    assert "autovacuum is switched off" in shown
    assert not acts(shown)


def test_a_page_shows_names_escaped(dsn: str, tmp_path: Path) -> None:
    page = tmp_path / "vacuum.html"
    assert run("vacuum", dsn, "--html", str(page)).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert r"\x1b[2J" in text
    assert not re.search(r"[\x1b\x07\x9b\u202e]", text)


def test_json_has_names_as_they_are(dsn: str) -> None:
    done = run("vacuum", dsn, "--json")
    told = json.loads(done.stdout)
    assert (told["database"], told["tables"][0]["name"]) == (EVIL, EVIL)
    assert not acts(done.stdout)


def test_sql_means_the_name_as_it_is_and_comments_keep_to_their_line(dsn: str) -> None:
    told = run("vacuum", dsn, "--format", "sql").stdout
    assert not acts(told)
    for line in told.splitlines():
        assert line.startswith(("--", "SET ", "ALTER ", "SELECT pg_reload_conf")) or not line
    sql(dsn, *(line for line in told.splitlines() if line.startswith("ALTER TABLE")))
    options = "SELECT reloptions FROM pg_class WHERE relkind = 'r' AND reloptions IS NOT NULL"
    assert sql(dsn, options) == [(["autovacuum_enabled=true"],)]
    sql(dsn, f'ALTER TABLE "{EVIL}" SET (autovacuum_enabled = false)')


def test_an_error_that_quotes_a_name_is_one_line(dsn: str) -> None:
    done = run("vacuum", dsn, "--watch", "1s", "--sample", EVIL, "--yes")
    assert done.exit_code in {1, 2}
    assert not acts(done.output)
    assert not any(line.startswith("HINT: all is well") for line in done.output.splitlines())


def test_a_prepared_transaction_is_rolled_back_by_the_command_that_is_shown(
    new_cluster: NewCluster,
) -> None:
    server = new_cluster(settings={"max_prepared_transactions": "1"})
    dsn = server.dsn()
    sql(
        dsn,
        "CREATE TABLE t (n int)",
        f"BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION '{EVIL}'",
    )
    done = run("vacuum", dsn, "--long", "1ms")
    assert f"prepared transaction: {SHOWN} of postgres in postgres" in done.stdout
    assert not acts(done.stdout)
    (command,) = re.findall(r"ROLLBACK PREPARED .*;", done.stdout)
    sql(dsn, command)
    assert sql(dsn, "SELECT gid FROM pg_prepared_xacts") == []


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_are_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with colour codes is escaped, even inside a coloured text."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    paint = terminal.look(Screen()).paint
    assert paint is not None
    forged = "\x1b[31m\x1b[1mred\x1b[0m"
    assert terminal.line(f"a {forged}") == r"a \x1b[31m\x1b[1mred\x1b[0m"
    assert terminal.line(f"{paint(forged, 'quiet')} {forged}") == (
        "\x1b[2m" + r"\x1b[31m\x1b[1mred\x1b[0m" + "\x1b[0m " + r"\x1b[31m\x1b[1mred\x1b[0m"
    )


def test_every_line_for_people_leaves_by_one_door() -> None:
    """Only texts for programs and progress bars, both with `nl`, and our own help, which has no
    names in it, bypass `terminal.print_line` and `print_note`."""
    past = [
        f"{path.relative_to(CLI)}:{call.lineno}"
        for path in CLI.rglob("*.py")
        if path.name not in {"terminal.py", "commands.py"}
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in {"click.echo", "click.secho", "print"}
        and not any(one.arg == "nl" for one in call.keywords)
    ]
    assert past == []
