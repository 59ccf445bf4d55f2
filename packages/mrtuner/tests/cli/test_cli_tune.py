"""`mrtuner tune` through the real command line, for described machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from command_line import run
from mrtuner.formats import NAMES, parse
from mrtuner.inputs import Share, Time

GOLDEN = Path(__file__).with_name("tune_screen.txt")
MACHINE = (
    "--memory", "16GB", "--cpus", "4", "--storage", "ssd", "--disk", "200GB",
    "--workload", "oltp", "--connections", "200", "--pg", "18",
)  # fmt: skip


def tune(*arguments: str) -> Result:
    return run("tune", *arguments)


def test_the_screen_of_a_described_machine() -> None:
    """After a change to a rule, look at the new screen, then replace the old file by it."""
    shown = tune(*MACHINE)
    assert shown.exit_code == 0
    assert shown.stderr == ""
    assert shown.stdout == GOLDEN.read_text(encoding="utf-8")


def test_one_cpu_is_told_in_the_singular() -> None:
    shown = tune("--memory", "1Gi", "--cpus", "1", "--pg", "18").stdout
    assert shown.startswith("PostgreSQL 18, 1 GB memory, 1 CPU, storage ?")


def test_the_screen_with_all_lists_what_stays() -> None:
    short, long = tune(*MACHINE).stdout, tune(*MACHINE, "--all").stdout
    assert "  full_page_writes" not in short
    assert "  full_page_writes" in long
    assert "--all lists them" not in long


def test_json_is_one_document_and_nothing_else() -> None:
    shown = tune(*MACHINE, "--json")
    document = json.loads(shown.stdout)
    assert document["schema"] == "mrtuner.tune/1"
    advice = {item["name"]: item for item in document["advice"]}
    assert advice["shared_buffers"]["value"] == "4GB"  # a quarter of 16 GB
    assert advice["max_connections"]["value"] == "203"
    assert shown.stderr == ""
    assert tune(*MACHINE, "--format", "json").stdout == shown.stdout


@pytest.mark.parametrize("form", sorted(NAMES))
def test_every_format_comes_out_whole(form: str) -> None:
    values = parse(form, tune(*MACHINE, "--format", form).stdout)
    assert values["shared_buffers"] == "4GB"
    assert values["random_page_cost"] == "1.1"
    assert "statement_timeout" not in values  # a suggestion


def test_the_choices_are_the_formats_that_can_be_written() -> None:
    from mrtuner.cli.tune import FORMATS as offered

    assert set(offered) == {"text", "json", *NAMES}


def test_help_lists_the_words_of_a_choice_and_the_default() -> None:
    shown = " ".join(tune("--help").stdout.split())
    assert "one of hdd, ssd, nvme, ebs, network, overlay." in shown
    assert "one of web, oltp, olap, mixed, desktop. [default: mixed]" in shown
    assert "the worst case may use. [default: 90%]" in shown


def test_a_file_gets_what_stdout_would_have_got(tmp_path: Path) -> None:
    target = tmp_path / "mrtuner.conf"
    done = tune(*MACHINE, "--format", "conf", "-o", str(target))
    assert done.stdout == ""
    assert done.stderr == f"written: {target}\n"
    assert target.read_text(encoding="utf-8") == tune(*MACHINE, "--format", "conf").stdout
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    done = tune(*MACHINE, "-o", str(tmp_path / "absent" / "x"))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: cannot write {tmp_path}/absent/x: No such file")


def test_check_tells_by_its_exit_code_that_there_is_something_to_change() -> None:
    done = tune(*MACHINE, "--check")
    assert done.exit_code == 3
    assert done.stdout == tune(*MACHINE).stdout


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--memory", "16"], "no unit in size '16'", "Use kB, MB, GB or TB (powers of 1024)."),
        (["--memory", "0GB"], "size '0GB' is not above zero", "Give a size such as 16GB."),
        (["--memory", "-4GB"], "cannot read '-4GB' as a size", "Give a size such as 16GB or"),
        (["--cpus", "0"], "cpus 0 is out of range", "Give a number from 1 to"),
        (["--cpus", "many"], "--cpus 'many' is not a whole number", "Give one from 1 to 4096."),
        (["--cpus", "-2"], "cpus -2 is out of range", "Give a number from 1 to"),
        (["--connections", "0"], "connections 0 is out of range", "Give a number from 1 to"),
        (["--pg", "8"], "PostgreSQL 8 is not supported", "MrTuner knows the majors 13 to 19"),
        (["--storage", "floppy"], "--storage cannot be 'floppy'", "Use one of hdd, ssd,"),
        (["--workload", "games"], "--workload cannot be 'games'", "Use one of web, oltp,"),
        (["--ceiling", "190%"], "ceiling 1.9 is not a share", "Give a share from 0.1 to 1."),
        (["--json", "--format", "sql"], "--json and --format sql cannot be", "Omit one of them."),
        (["--watch", "30s"], "--watch needs a running server", "Give its connection string."),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line_and_a_hint(
    arguments: list[str], message: str, hint: str
) -> None:
    done = tune("--memory", "8GB", *arguments) if arguments[0] != "--memory" else tune(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    error, advice = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert advice.startswith(f"HINT: {hint}")


def test_connections_that_do_not_fit_are_refused_with_4() -> None:
    done = tune("--memory", "512MB", "--cpus", "1", "--connections", "5000")
    assert done.exit_code == 4
    assert done.stderr.startswith("error: 5000 connections do not fit into 512 MB")
    assert "HINT: Lower --connections to " in done.stderr


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5min", 300), ("2", 2), ("1h", 3600)])
def test_a_duration_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert Time(help="").check("--watch", text) == seconds


def test_tune_watch_takes_15m_as_vacuum_watch_does() -> None:
    """One kind of duration for all commands: both get as far as connecting."""
    done = tune("--watch", "15m", "host=127.0.0.1 port=1 dbname=none")
    assert "127.0.0.1" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", "duration '0' is not above zero"),
        ("-5s", "cannot read '-5s' as a duration"),
        ("5 parsecs", "unknown unit 'parsecs' in duration '5 parsecs'"),
        ("s", "cannot read 's' as a duration"),
        ("", "cannot read '' as a duration"),
        ("900h", "--watch '900h' is too long"),
    ],
)
def test_a_duration_that_means_nothing_is_refused(text: str, why: str) -> None:
    done = tune("--watch", text, "postgresql://nowhere")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --watch")
    assert f"{why}\nHINT: Give " in done.stderr


@pytest.mark.parametrize(("text", "share"), [("3%", 0.03), ("0.03", 0.03), ("90 %", 0.9)])
def test_a_share_is_read_with_and_without_a_per_cent_sign(text: str, share: float) -> None:
    declared = Share(help="", least=0)
    assert declared.check("--delta", declared.parse("--delta", text)) == pytest.approx(share)


def test_conf_has_lz4_as_a_comment_with_its_condition_where_the_build_is_not_known() -> None:
    """A server built without lz4 does not start with it; reading the file back leaves it out."""
    text = tune(*MACHINE, "--format", "conf").stdout
    rows = text.splitlines()
    at = rows.index("#wal_compression = lz4")
    assert rows[at + 1] == "#default_toast_compression = lz4"
    assert "pg_settings" in rows[at - 1]
    assert rows[at - 1].startswith("# ")
    assert not {"wal_compression", "default_toast_compression"} & set(parse("conf", text))
    old = tune(*MACHINE[:-1], "14", "--format", "conf").stdout  # wal_compression = lz4 came with 15
    assert "#wal_compression" not in old
    assert "#default_toast_compression = lz4" in old


@pytest.mark.parametrize("form", ["sql", "markdown", "ansible", "docker", "cloudsql"])
def test_other_formats_leave_lz4_out_and_say_so(form: str) -> None:
    text = tune(*MACHINE, "--disk", "500GB", "--format", form).stdout
    told = " ".join(row.strip().lstrip("#- ") for row in text.splitlines())
    assert (
        "Left out: wal_compression = lz4 and default_toast_compression = lz4. Only if the build "
        "has lz4: SELECT enumvals FROM pg_settings" in told
    )
    assert not {"wal_compression", "default_toast_compression"} & set(parse(form, text))


CONTAINERS = ("patroni", "cloudnativepg", "zalando", "crunchy", "docker", "helm")
WITHOUT_DISK = ("--memory", "16GB", "--cpus", "4", "--storage", "ebs")


@pytest.mark.parametrize("form", CONTAINERS)
def test_formats_for_containers_want_the_disk_and_say_what_they_assumed(form: str) -> None:
    shown = tune(*WITHOUT_DISK, "--format", form)
    assert parse(form, shown.stdout)["max_wal_size"] == "4GB"
    assert parse(form, shown.stdout)["min_wal_size"] == "1GB"
    head = " ".join(row.lstrip("# ") for row in shown.stdout.splitlines() if row.startswith("#"))
    for words in (head, shown.stderr):
        assert "4GB of WAL" in words
        assert "--wal-disk" in words
    for known in ("--disk", "--wal-disk"):
        told = tune(*WITHOUT_DISK, known, "100GB", "--format", form)
        assert told.stderr == ""
        assert "--wal-disk" not in told.stdout


def test_other_formats_assume_the_same_and_do_not_warn() -> None:
    assert tune(*WITHOUT_DISK, "--format", "conf").stderr == ""


def test_a_recovery_that_takes_longer_than_allowed_is_a_warning() -> None:
    """1 GB is the least; at 100 IOPS of 8 kB it takes 1311 s, at 40 MB/s 26 s."""
    machine = ("--memory", "16GB", "--cpus", "4", "--storage", "ssd", "--disk", "200GB")
    asked = (*machine, "--rto", "10s")
    slow = json.loads(tune(*asked, "--iops", "100", "--json").stdout)
    assert [one for one in slow["notices"] if "crash recovery" in one["text"]]
    assert slow["recovery"]["wal_bytes"] == 2**30
    assert slow["recovery"]["seconds_slow"] == 1311
    fast = json.loads(tune(*asked[:-1], "30s", "--json").stdout)
    assert not [one for one in fast["notices"] if "crash recovery" in one["text"]]
