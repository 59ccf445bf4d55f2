"""Unusable input is refused with one class of error, one line and one hint."""

from __future__ import annotations

from typing import Any

import pytest

import mrtuner
from mrtuner.errors import BadValue, DoesNotFit, UsageError

SIZES = "Use kB, MB, GB or TB (powers of 1024)."
EXAMPLE = "Give a size such as 16GB."
SIZE = "Give a size such as 16GB or 512MB."
TIME = "Give a number and its unit, such as 30s"

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    # units
    ({"memory": "16"}, "memory: no unit in size '16'", SIZES),
    ({"memory": "16 parsecs"}, "memory: unknown unit 'parsecs' in size '16 parsecs'", SIZES),
    ({"memory": "16PB"}, "memory: unknown unit 'PB' in size '16PB'", SIZES),
    ({"memory": ""}, "memory: cannot read '' as a size", SIZE),
    ({"memory": "GB"}, "memory: cannot read 'GB' as a size", SIZE),
    (
        {"memory": "1e3GB"},
        "memory: cannot read '1e3GB' as a size",
        SIZE,
    ),
    ({"memory": 1.5}, "memory 1.5 is not a size", "Give bytes or a text such as 16GB."),
    ({"memory": True}, "memory True is not a size", "Give bytes or a text such as 16GB."),
    # nothing, and less than nothing
    ({"memory": 0}, "memory: size 0 is not above zero", EXAMPLE),
    ({"memory": "0GB"}, "memory: size '0GB' is not above zero", EXAMPLE),
    ({"memory": -5}, "memory: size -5 is not above zero", EXAMPLE),
    (
        {"memory": "-1GB"},
        "memory: cannot read '-1GB' as a size",
        SIZE,
    ),
    ({"disk": "0GB"}, "disk: size '0GB' is not above zero", EXAMPLE),
    ({"data": -1}, "data: size -1 is not above zero", EXAMPLE),
    ({"cpus": 0}, "cpus 0 is out of range", "Give a number from 1 to 4096."),
    ({"cpus": -4}, "cpus -4 is out of range", "Give a number from 1 to 4096."),
    ({"connections": 0}, "connections 0 is out of range", "Give a number from 1 to 260000."),
    ({"connections": -1}, "connections -1 is out of range", "Give a number from 1 to 260000."),
    # absurd: sixteen bytes where gigabytes were meant, more than addresses can name
    ({"memory": 16}, "memory of 16 bytes is too small", "Give a size with its unit"),
    ({"disk": 100}, "disk of 100 bytes is too small", "Give a size with its unit"),
    ({"memory": "4097TB"}, "memory '4097TB' is too large", "Give at most 4096 TB."),
    ({"memory": 2**60}, f"memory {2**60} is too large", "Give at most 4096 TB."),
    ({"data": "9000000TB"}, "data '9000000TB' is too large", "Give at most 8388608"),
    ({"cpus": 4097}, "cpus 4097 is out of range", "Give a number from 1 to 4096."),
    ({"connections": 262_144}, "connections 262144 is out of range", "Give a number from 1"),
    ({"iops": 0}, "iops 0 is out of range", "Give a number from 1 to 100000000."),
    ({"throughput": "125"}, "throughput: no unit in size '125'", "Use kB, MB, GB or TB"),
    ({"wal_disk": "1kB"}, "wal_disk of 1024 bytes is too small", "Give a size with its unit"),
    ({"disk": "3MB"}, "disk '3MB' is too small", "Give at least 256 MB."),
    ({"wal_disk": "255MB"}, "wal_disk '255MB' is too small", "Give at least 256 MB."),
    # durations
    (
        {"rto": "soon"},
        "rto: cannot read 'soon' as a duration",
        TIME,
    ),
    ({"rto": 0}, "rto: duration 0 is not above zero", TIME),
    # versions
    ({"postgres": 8}, "PostgreSQL 8 is not supported", "MrTuner knows the majors 13 to 19."),
    ({"postgres": 12}, "PostgreSQL 12 is not supported", "MrTuner knows the majors 13 to 19."),
    ({"postgres": 20}, "PostgreSQL 20 is not supported", "MrTuner knows the majors 13 to 19."),
    ({"postgres": 9.6}, "PostgreSQL 9.6 is not supported", "MrTuner knows the majors 13 to 19."),
    ({"postgres": "17"}, "PostgreSQL '17' is not supported", "MrTuner knows the majors 13 to 19."),
    # whole numbers
    ({"cpus": 2.5}, "cpus 2.5 is not a whole number", "Give 3: a quota counts as whole CPUs"),
    ({"cpus": "0.5"}, "cpus '0.5' is not a whole number", "Give 1: a quota counts as whole CPUs"),
    ({"cpus": "500m"}, "cpus '500m' is not a whole number", "Give 1: a quota counts as whole"),
    ({"cpus": "1001m"}, "cpus '1001m' is not a whole number", "Give 2: a quota counts as whole"),
    ({"cpus": "two"}, "cpus 'two' is not a whole number", "Give one from 1 to 4096."),
    ({"cpus": "4"}, "cpus '4' is not a whole number", "Give one from 1 to 4096."),
    ({"connections": 1e2}, "connections 100.0 is not a whole number", "Give one from 1"),
    # words
    ({"workload": "oltpp"}, "workload cannot be 'oltpp'", "Use one of web, oltp, olap, mixed,"),
    ({"workload": ""}, "workload cannot be ''", "Use one of web, oltp, olap, mixed, desktop."),
    ({"storage": "floppy"}, "storage cannot be 'floppy'", "Use one of hdd, ssd, nvme, ebs,"),
    # shares
    ({"ceiling": 0}, "ceiling 0 is not a share", "Give a share from 0.1 to 1."),
    ({"ceiling": 0.09}, "ceiling 0.09 is not a share", "Give a share from 0.1 to 1."),
    ({"ceiling": 1.01}, "ceiling 1.01 is not a share", "Give a share from 0.1 to 1."),
    ({"ceiling": 90}, "ceiling 90 is not a share", "Give a share from 0.1 to 1."),
    ({"ceiling": float("nan")}, "ceiling nan is not a share", "Give a share from 0.1 to 1."),
]


@pytest.mark.parametrize(
    ("given", "message", "hint"), REFUSED, ids=[str(given) for given, _, _ in REFUSED]
)
def test_input_that_means_nothing_is_refused(
    given: dict[str, Any], message: str, hint: str
) -> None:
    usual: dict[str, Any] = {"memory": "8GB", "cpus": 2}
    with pytest.raises(BadValue) as caught:
        mrtuner.tune(**(usual | given))
    assert caught.value.message == message
    assert (caught.value.hint or "").startswith(hint)
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize(
    "given",
    [
        {"memory": "4096TB", "cpus": 4096},
        {"memory": "256MB", "cpus": 1, "connections": 1},
        {"memory": "16 gib"},
        {"memory": "1.5G"},
        {"memory": "8GB", "ceiling": 0.5, "connections": 10},
        {"memory": "8GB", "ceiling": 1},
        {"memory": "8GB", "workload": "OLAP", "storage": "NVMe"},
    ],
    ids=str,
)
def test_the_edges_of_what_means_something_are_taken(given: dict[str, Any]) -> None:
    tuning = mrtuner.tune(**given)
    assert tuning.budget is not None
    assert tuning.budget.fits


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # By default a tenth of the volume may be WAL, or 1 GB if a quarter holds that.
        (
            {"data": "500GB", "disk": "10GB"},
            "500 GB of data and 1 GB of WAL do not fit on a volume",
        ),
        ({"data": "9.5GB", "disk": "10GB"}, "9.5 GB of data and 1 GB of WAL do not fit"),
        ({"data": "9GB", "disk": "10GB"}, None),
        ({"data": "9.5GB", "disk": "10GB", "wal_disk": "10GB"}, None),
        (
            {"data": "11GB", "disk": "10GB", "wal_disk": "10GB"},
            "11 GB of data do not fit on a volume",
        ),
        ({"data": "500GB"}, None),
    ],
    ids=str,
)
def test_data_that_do_not_fit_on_their_volume_are_a_warning(
    given: dict[str, Any], expected: str | None
) -> None:
    tuning = mrtuner.tune(memory="16GB", cpus=4, storage="ssd", **given)
    told = [one.text for one in tuning.notices if "do not fit on a volume" in one.text]
    assert len(told) == (expected is not None)
    assert all(text.startswith(expected or "") for text in told)


SCARCE: list[dict[str, Any]] = [
    {"memory": "1GB", "cpus": 1, "connections": 5000, "postgres": 18},
    {"memory": "2GB", "cpus": 64, "connections": 1000, "postgres": 13, "workload": "olap"},
    {"memory": "256GB", "cpus": 4, "connections": 260_000, "postgres": 17, "huge_pages": True},
    {"memory": "8GB", "cpus": 2, "connections": 1500, "postgres": 16, "ceiling": 0.5},
]


@pytest.mark.parametrize("asked", SCARCE, ids=str)
def test_either_way_out_of_too_many_connections_works(asked: dict[str, Any]) -> None:
    """The hint's connections fit and one more does not; its memory holds what was asked for."""
    with pytest.raises(DoesNotFit) as caught:
        mrtuner.tune(**asked)
    assert caught.value.exit_code == 4
    assert caught.value.message.startswith(f"{asked['connections']} connections do not fit into")
    hint = caught.value.hint or ""
    fewer = int(hint.split("--connections to ")[1].split()[0])
    mrtuner.tune(**(asked | {"connections": fewer}))
    with pytest.raises(DoesNotFit):
        mrtuner.tune(**(asked | {"connections": fewer + 1}))
    memory = hint.split("give it ")[1].split(" of memory")[0]
    assert mrtuner.tune(**(asked | {"memory": memory}))


def test_a_machine_too_small_for_anything_is_told_what_it_needs() -> None:
    with pytest.raises(DoesNotFit) as caught:
        mrtuner.tune(memory="32MB", cpus=1, connections=1)
    hint = caught.value.hint or ""
    assert hint.startswith("Not even one connection fits: give it ")
    memory = hint.split("give it ")[1].split(" of memory")[0]
    assert mrtuner.tune(memory=memory, cpus=1, connections=1)["max_connections"].value == "4"


@pytest.mark.parametrize("ceiling", [0.25, 0.2])
def test_a_low_ceiling_is_named_itself(ceiling: float) -> None:
    """At 0.28 of 8 GB a machine of 2548.6 MB is sized. Of its 2293.8, buffers take 79.6 (the least,
    an eighth of a quarter) * 1.03, with 16 + 611 * 0.11 + 20; processes 608 * 2.5 + 16, autovacuum
    3 * 39.8, maintenance 159.3, and the least sorts 605 * 0.5: 2302. At 0.29, 2375.7 hold 2315.
    """
    asked: dict[str, Any] = {
        "memory": "8GB", "cpus": 2, "connections": 600, "postgres": 16, "huge_pages": True,
    }  # fmt: skip
    with pytest.raises(DoesNotFit) as caught:
        mrtuner.tune(**asked, ceiling=ceiling)
    hint = caught.value.hint or ""
    assert "of memory" in hint
    share = float(hint.split("raise --ceiling to ")[1].removesuffix("."))
    assert share == 0.29
    mrtuner.tune(**asked, ceiling=share)
    with pytest.raises(DoesNotFit):
        mrtuner.tune(**asked, ceiling=share - 0.01)


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(BadValue) as caught:
        mrtuner.tune(memory="8GB").as_("xml")
    assert caught.value.message == "unknown format 'xml'"
    assert "patroni" in (caught.value.hint or "")
