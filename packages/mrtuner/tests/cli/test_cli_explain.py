"""`mrtuner explain` through the real command line."""

from __future__ import annotations

import json

from click.testing import Result

from command_line import run


def explain(*arguments: str) -> Result:
    return run("explain", *arguments)


def test_a_parameter_is_explained_with_its_rule_and_its_history() -> None:
    shown = explain("wal_compression").stdout
    assert shown.startswith("wal_compression (PostgreSQL 18)\n")
    for word in ("what", "how", "basis", "source", "risk", "change", "type", "range", "default"):
        assert f"\n  {word} " in shown
    assert "13 to 19: off" in shown
    assert "15: the type changed from bool to enum" in shown


def test_json_tells_the_same() -> None:
    document = json.loads(explain("shared_buffers", "--pg", "15", "--json").stdout)
    assert document["schema"] == "mrtuner.explain/1"
    assert document["postgres"] == 15
    assert document["unit"] == "8kB"
    assert document["restart"] is True
    assert document["rule"]["area"] == "buffers"


def test_names_are_read_as_the_server_reads_them() -> None:
    assert explain("TimeZone").stdout.startswith("TimeZone (")
    assert explain("WORK_MEM").stdout.startswith("work_mem (")


def test_a_parameter_without_a_rule_is_said_to_be_left_alone() -> None:
    assert "MrTuner has no rule for it and never changes it." in explain("cluster_name").stdout


def test_a_parameter_of_another_version_is_found_there() -> None:
    assert explain("io_max_workers").stdout.startswith("io_max_workers (PostgreSQL 19)\n")
    assert explain("vacuum_defer_cleanup_age").stdout.startswith(
        "vacuum_defer_cleanup_age (PostgreSQL 15)\n"
    )


def test_an_unknown_name_gets_its_close_matches() -> None:
    done = explain("worc_mem")
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "error: PostgreSQL 18 has no parameter 'worc_mem'",
        "HINT: Did you mean work_mem?",
    ]


def test_a_name_like_that_of_a_check_leads_there() -> None:
    assert explain("lockqueue").stderr.splitlines()[1] == "HINT: Did you mean the check lock-queue?"


def test_a_name_that_came_later_says_when() -> None:
    done = explain("io_method", "--pg", "13")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[1] == "HINT: io_method was added in 18."


def test_without_a_name_every_rule_is_listed_by_area() -> None:
    shown = explain().stdout
    assert shown.startswith("sessions\n  max_connections ")
    assert "\nwal\n" in shown
    document = json.loads(explain("--json").stdout)
    names = [item["name"] for item in document["parameters"]]
    assert {"shared_buffers", "work_mem", "io_method"} <= set(names)
    assert "io_method" not in explain("--pg", "15").stdout


def test_every_rule_can_be_explained() -> None:
    for item in json.loads(explain("--json").stdout)["parameters"]:
        assert explain(item["name"]).exit_code == 0
