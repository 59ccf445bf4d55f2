"""tune, apply and undo on real servers; in real processes where a terminal matters."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import PASSWORD, NewCluster

from command_line import run
from mrtuner.change.journal import Journal
from mrtuner.change.roles import RoleSettings
from mrtuner.cli import main
from mrtuner.errors import Refused
from mrtuner.postgres.cluster import Cluster
from servers import pg_ctl, sql

pytestmark = pytest.mark.timed

#: What is typed, or what happens first and returns it.
Answer = str | Callable[[], str]
MACHINE = ("--memory", "2GB", "--cpus", "2", "--storage", "ssd")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of this test's own."""
    return tmp_path / "journal"


def value(dsn: str, name: str) -> str:
    """What a new session sees."""
    return str(sql(dsn, f"SHOW {name}")[0][0])


def test_a_live_server_is_shown_with_the_origin_of_every_value(new_cluster: NewCluster) -> None:
    cluster = new_cluster(settings={"shared_buffers": "32MB"})
    sql(cluster.dsn(), "ALTER SYSTEM SET random_page_cost = 3", "SELECT pg_reload_conf()")
    shown = run("tune", cluster.dsn(), *MACHINE, "--all").stdout.splitlines()
    assert next(line for line in shown if "shared_buffers" in line).split()[1:3] == ["32MB", "file"]
    cost = next(line for line in shown if "random_page_cost" in line)
    assert cost.split()[1:4] == ["3", "auto.conf", "keep"]


def test_a_live_server_can_be_watched_and_checked(embedded: Cluster) -> None:
    done = run("tune", embedded.dsn(), *MACHINE, "--watch", "1s", "--json", "--check")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["live"] is True
    assert done.stderr == "watching the server's counters for 1 s; keep it under load\n"


def shop(cluster: Cluster) -> str:
    """Run a statement whose plan depends on work_mem, as a role with a large work_mem; the DSN."""
    sql(
        cluster.dsn(),
        "CREATE EXTENSION pg_stat_statements",
        "CREATE TABLE sale AS SELECT g AS id, repeat('x', 70) AS text"
        " FROM generate_series(1, 300000) AS g",
        "ANALYZE sale",
        "SELECT id FROM sale ORDER BY text, id",
        "ALTER ROLE postgres SET work_mem = '1GB'",
    )
    return cluster.dsn()


LOADED = {"shared_preload_libraries": "pg_stat_statements"}


def test_plans_are_shown_beside_the_advice_and_in_its_document(new_cluster: NewCluster) -> None:
    dsn = shop(new_cluster(settings=LOADED))
    text = run("tune", dsn, *MACHINE, "--plans").stdout
    assert "worse: 1 calls by postgres" in text
    assert "SELECT id FROM sale ORDER BY text, id" in text
    assert "with equal cost settings" in text
    found = json.loads(run("tune", dsn, *MACHINE, "--plans", "5", "--json").stdout)["plans"]
    assert found["asked"] == 5
    assert [one["verdict"] for one in found["changed"] if "ORDER BY" in one["text"]] == ["worse"]


def test_a_plan_that_gets_worse_stops_apply_unless_it_is_accepted(
    new_cluster: NewCluster, journal: Path
) -> None:
    """The default plan, without --plans: work_mem falls from the 1 GB of the role."""
    dsn = shop(new_cluster(settings=LOADED))
    keep = ["--journal", str(journal), "--yes"]
    refused = run("apply", dsn, *MACHINE, *keep)
    assert refused.exit_code == 4
    assert "its plan costs" in refused.stderr
    assert "error: 1 statement would get a worse plan\n" in refused.stderr
    assert sql(dsn, "SELECT count(*) FROM pg_file_settings WHERE sourcefile ~ 'auto'") == [(0,)]
    done = run("apply", dsn, *MACHINE, "--accept-worse-plans", "--json", *keep)
    assert json.loads(done.stdout)["plans"]["changed"]


def test_plans_that_cannot_be_compared_are_one_line(new_cluster: NewCluster, journal: Path) -> None:
    dsn = new_cluster().dsn()
    keep = ["--journal", str(journal), "--yes"]
    done = run("apply", dsn, *MACHINE, *keep)
    assert done.exit_code == 0
    said = "plans of statements were not compared: pg_stat_statements is not installed"
    assert said in done.stderr
    assert run("undo", dsn, *keep).exit_code == 0
    assert said not in run("apply", dsn, *MACHINE, "--no-plans", *keep).stderr


def test_a_statement_cannot_act_on_the_terminal(new_cluster: NewCluster) -> None:
    dsn = shop(new_cluster(settings=LOADED))
    sql(dsn, 'SELECT -id AS "\x1b[2J\x9b\u202eevil" FROM sale ORDER BY text, id')
    shown = run("tune", dsn, *MACHINE, "--plans").stdout
    assert "\\x1b[2J\\x9b\\u202eevil" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--memory", "2GB", "--plans"], "--plans needs a running server"),
        (["DSN", "--plans", "--format", "conf"], "--format conf cannot show plans"),
        (["DSN", "--plans"], "pg_stat_statements is not installed in the database postgres"),
    ],
)
def test_plans_that_cannot_be_had_are_refused(
    embedded: Cluster, arguments: list[str], error: str
) -> None:
    done = run("tune", *(embedded.dsn() if word == "DSN" else word for word in arguments))
    assert done.exit_code in {1, 2}
    assert f"error: {error}" in done.stderr
    assert "HINT: " in done.stderr


def test_a_version_that_is_not_the_servers_is_a_contradiction(embedded: Cluster) -> None:
    done = run("tune", embedded.dsn(), "--pg", "15")
    assert done.exit_code == 2
    assert "not 15\nHINT: Omit --pg" in done.stderr


def test_more_memory_than_the_host_has_is_refused(embedded: Cluster) -> None:
    done = run("tune", embedded.dsn(), "--memory", "900TB")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --memory 900 TB is more than the ")


@pytest.mark.parametrize("command", ["tune", "apply", "undo", "prove"])
def test_a_password_is_never_echoed(command: str, journal: Path) -> None:
    dsn = "postgresql://app:hunter2@127.0.0.1:1/app"
    keep = [] if command == "tune" else ["--journal", str(journal)]
    done = run(command, dsn, *keep)
    assert done.exit_code == 1
    assert "hunter2" not in done.output
    assert done.stderr.startswith("warning: the password on the command line can be read by")
    assert "error: nothing is listening there" in done.stderr


def test_a_wrong_password_is_one_clear_error(new_cluster: NewCluster) -> None:
    cluster = new_cluster(listen=True)
    wrong = f"postgresql://postgres:wrong@127.0.0.1:{cluster.port}/postgres"
    done = run("tune", wrong)
    assert done.exit_code == 1
    assert "error: the password was not accepted" in done.stderr
    assert "HINT: Set PGPASSWORD" in done.stderr
    assert "wrong@" not in done.stderr


def test_the_undo_that_is_printed_names_no_password(new_cluster: NewCluster, journal: Path) -> None:
    cluster = new_cluster(listen=True)
    dsn = f"{cluster.dsn(tcp=True)} password='{PASSWORD}'"
    done = run("apply", dsn, *MACHINE, "--yes", "--journal", str(journal))
    assert done.exit_code == 0
    undo = next(line for line in done.stderr.splitlines() if line.startswith("to undo: "))
    words = shlex.split(undo.removeprefix("to undo: "))
    assert words[:2] == ["mrtuner", "undo"]
    assert words[-2:] == ["--journal", str(journal)]
    assert PASSWORD not in done.output
    back = CliRunner(env={"PGPASSWORD": PASSWORD}).invoke(main, [*words[1:], "--yes"])
    assert back.stdout.endswith(" undone and verified\n")


def test_apply_without_a_terminal_refuses_and_names_yes(
    new_cluster: NewCluster, journal: Path
) -> None:
    cluster = new_cluster()
    done = run("apply", cluster.dsn(), *MACHINE, "--journal", str(journal))
    assert done.exit_code == 4
    assert done.stdout == ""
    assert "the plan\n" in done.stderr
    assert "--yes" in done.stderr.splitlines()[-1]
    assert value(cluster.dsn(), "random_page_cost") == "4"


def test_apply_and_undo_go_there_and_back(new_cluster: NewCluster, journal: Path) -> None:
    cluster = new_cluster(settings={"work_mem": "1MB"})
    dsn, keep = cluster.dsn(), ("--yes", "--json", "--journal", str(journal))
    there = json.loads(run("apply", dsn, *MACHINE, *keep).stdout)
    assert there["schema"] == "mrtuner.apply/1"
    assert there["outcome"]["result"] == "applied"
    assert "shared_buffers" in there["outcome"]["waiting"]
    assert value(dsn, "random_page_cost") == "1.1"
    assert value(dsn, "shared_buffers") == "128MB"
    back = json.loads(run("undo", dsn, *keep).stdout)
    assert back["outcome"]["result"] == "undone"
    assert value(dsn, "random_page_cost") == "4"
    assert value(dsn, "work_mem") == "1MB"
    auto = (cluster.data / "postgresql.auto.conf").read_text()
    assert "random_page_cost" not in auto


def test_the_owners_command_restarts_the_server(new_cluster: NewCluster, journal: Path) -> None:
    cluster = new_cluster()
    before = cluster.pid
    done = run(
        "apply", cluster.dsn(), *MACHINE, "--yes",
        "--journal", str(journal), "--restart", pg_ctl(cluster, "restart"),
    )  # fmt: skip
    assert done.exit_code == 0
    assert "next restart" not in done.stderr
    assert cluster.pid != before
    assert value(cluster.dsn(), "shared_buffers") == "512MB"  # a quarter of 2 GB


def test_what_was_saved_can_be_applied_later(
    new_cluster: NewCluster, journal: Path, tmp_path: Path
) -> None:
    cluster = new_cluster()
    for form in ("conf", "json"):
        saved = tmp_path / f"advice.{form}"
        run("tune", cluster.dsn(), *MACHINE, "--format", form, "-o", str(saved))
        keep = ("--yes", "--journal", str(journal))
        assert run("apply", cluster.dsn(), "--from", str(saved), *keep).exit_code == 0
        assert value(cluster.dsn(), "random_page_cost") == "1.1"
        assert run("undo", cluster.dsn(), *keep).exit_code == 0
        assert value(cluster.dsn(), "random_page_cost") == "4"


def test_an_undo_of_nothing_is_a_usage_error(embedded: Cluster, journal: Path) -> None:
    done = run("undo", embedded.dsn(), "--yes", "--journal", str(journal))
    assert done.exit_code == 2
    assert done.stderr.startswith("error: nothing to undo")


def test_an_answer_of_no_changes_nothing(new_cluster: NewCluster, journal: Path) -> None:
    cluster = new_cluster()
    arguments = ["apply", cluster.dsn(), *MACHINE, "--journal", str(journal)]
    code, shown = at_a_terminal(arguments, answers={"settings? [y/N]": "n\n"})
    assert code == 1
    assert "not confirmed, so nothing was done" in shown
    assert value(cluster.dsn(), "random_page_cost") == "4"


def test_a_terminal_may_agree_and_name_no_restart(new_cluster: NewCluster, journal: Path) -> None:
    cluster = new_cluster()
    arguments = ["apply", cluster.dsn(), *MACHINE, "--journal", str(journal), "--restart", "ask"]
    answers = {"settings? [y/N]": "y\n", "do not restart now)": "\n"}
    code, shown = at_a_terminal(arguments, answers)
    assert code == 0, shown
    assert "takes effect at the next restart: " in shown
    assert value(cluster.dsn(), "random_page_cost") == "1.1"


def test_undo_takes_back_what_it_showed_or_nothing(new_cluster: NewCluster, journal: Path) -> None:
    dsn, keep = new_cluster().dsn(), ["--journal", str(journal)]
    wanted = journal.parent / "wanted.conf"

    def applied(line: str) -> None:
        wanted.write_text(line)
        done = run("apply", dsn, "--from", str(wanted), "--no-plans", "--yes", *keep)
        assert done.exit_code == 0, done.output

    def another_meanwhile() -> str:
        applied("maintenance_work_mem = 99MB\n")
        return "y\n"

    applied("work_mem = 8MB\n")
    code, shown = at_a_terminal(["undo", dsn, *keep], {"setting? [y/N]": another_meanwhile})
    assert code == 4
    assert "another change was made or undone since the question was asked" in shown
    assert value(dsn, "maintenance_work_mem") == "99MB"


def test_the_same_holds_for_the_roles(new_cluster: NewCluster, journal: Path) -> None:
    dsn = new_cluster().dsn()
    sql(dsn, "CREATE ROLE web")
    with Journal(journal) as book:
        for now in ("8MB", "9MB"):
            entries = RoleSettings.planned(dsn, {"web work_mem": (now, "it spills")})
            RoleSettings.apply(dsn, entries, book)
        with pytest.raises(Refused, match="another change was made or undone since"):
            RoleSettings.undo(dsn, book, only=1)
    assert sql(dsn, "SELECT setconfig FROM pg_db_role_setting") == [(["work_mem=9MB"],)]


def test_colour_is_for_terminals_that_want_it() -> None:
    arguments = ["tune", "--memory", "2GB", "--cpus", "2"]
    assert "\x1b[" in at_a_terminal(arguments)[1]
    assert "\x1b[" not in at_a_terminal(arguments, environment={"NO_COLOR": "1"})[1]
    assert "\x1b[" not in at_a_terminal(arguments, environment={"TERM": "dumb"})[1]


def test_an_interrupt_at_the_question_ends_with_130(new_cluster: NewCluster, journal: Path) -> None:
    cluster = new_cluster()
    arguments = ["apply", cluster.dsn(), *MACHINE, "--journal", str(journal)]
    code, shown = at_a_terminal(arguments, answers={"settings? [y/N]": "\x03"})
    assert code == 130
    assert "Traceback" not in shown
    assert value(cluster.dsn(), "random_page_cost") == "4"


def at_a_terminal(
    arguments: list[str],
    answers: Mapping[str, Answer] | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Run the program on its own terminal and answer its questions; exit code and screen."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm", **(environment or {})})
        if "NO_COLOR" not in (environment or {}):
            os.environ.pop("NO_COLOR", None)
        program = "from mrtuner.cli import main; main()"
        os.execv(sys.executable, [sys.executable, "-c", program, *arguments])
    shown = _talked(terminal, dict(answers or {}))
    os.close(terminal)  # a program that still waits gets SIGHUP and ends
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown


def _talked(terminal: int, answers: dict[str, Answer]) -> str:
    shown, until, interrupted = "", time.monotonic() + 60, False
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 2)[0]:
            if interrupted:  # Python notices a Ctrl-C between prompt and wait only at the next
                os.write(terminal, b"\x03")
            continue
        try:
            read = os.read(terminal, 65536)
        except OSError:  # Linux: the other side has closed
            break
        if not read:
            break
        shown += read.decode(errors="replace")
        for question in [question for question in answers if question in shown]:
            given = answers.pop(question)
            answer = given if isinstance(given, str) else given()
            interrupted = answer == "\x03"
            os.write(terminal, answer.encode())
    return shown


@pytest.mark.quiet
def test_help_starts_within_eight_bare_interpreters() -> None:
    """The best of five runs each is the least disturbed one."""
    bare = min(_seconds("pass") for _ in range(5))
    shown = min(_seconds("from mrtuner.cli import main; main(['--help'])") for _ in range(5))
    assert shown < 8 * bare


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return time.perf_counter() - began


def test_an_interrupted_change_is_cleaned_up_first_and_said(
    new_cluster: NewCluster, journal: Path
) -> None:
    cluster = new_cluster()
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_WHILE_WRITING, cluster.dsn(), str(journal)], check=False
    )
    assert killed.returncode == -9
    done = run("undo", cluster.dsn(), "--yes", "--journal", str(journal))
    assert done.exit_code == 0, done.stderr
    assert "an interrupted change was found and reverted: " in done.stderr
    assert "work_mem" not in (cluster.data / "postgresql.auto.conf").read_text()


_KILLED_WHILE_WRITING = """
import os, signal, sys
from mrtuner.cli import main
from mrtuner.cli.common import change

def killed(step):
    if step == "write work_mem":
        os.kill(os.getpid(), signal.SIGKILL)

change.observed = killed
main(["apply", sys.argv[1], "--journal", sys.argv[2], "--yes", "--memory", "2GB"])
"""
