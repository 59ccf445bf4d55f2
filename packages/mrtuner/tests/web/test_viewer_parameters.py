"""Every parameter of every route takes anything: an answer, or an error that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from served import HOUR, Viewer, serving_here

from mrtuner.inputs import MACHINE
from mrtuner.web.screens import SCREENS

NASTY = (
    "9" * 100, "9" * 400, f"{'9' * 100}d", "-1", "0", "0.000000000000000000001", "1e400", "nan",
    "inf", "-inf", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-13-40",
    "\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}", "\0", "\ud800", "'", '"; DROP TABLE t',
    "%", "../../etc/passwd", " ", "true", "9223372036854775808", "-9223372036854775809",
)  # fmt: skip


@pytest.fixture(scope="module")
def here(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A viewer whose server fails the module if a request ends in an exception."""
    with serving_here(recorded, records=tmp_path_factory.mktemp("records")) as found:
        yield found


def written(value: str) -> str:
    return quote(value, errors="surrogatepass")


def screen_addresses(name: str) -> Iterator[str]:
    for value in map(written, NASTY):
        for given in ("since", "compare", "points", "statement", "change", "process", "instance"):
            yield f"api/screens/{name}?{HOUR}&{given}={value}"
        yield f"api/screens/{name}?since={value}"
        yield f"api/screens/{name}?to={value}"
        yield f"api/screens/{name}?from={value}&to=2026-11-23T03:00"
        yield f"api/screens/{name}?from=2026-11-23T02:00&to={value}"


def answered(viewer: Viewer, address: str) -> None:
    """The answer is JSON, and what is refused has a message without a full stop and a hint."""
    status, headers, body = viewer.get(address)
    assert status in {200, 400, 404}, (address, status)
    assert headers["content-type"].startswith("application/json"), address
    found = json.loads(body)
    if status != 200:
        assert found["error"]["message"], address
        assert not found["error"]["message"].endswith("."), address


@pytest.mark.parametrize("name", sorted(SCREENS))
def test_a_screen_takes_any_parameters(here: Viewer, name: str) -> None:
    for address in screen_addresses(name):
        answered(here, address)


def test_the_tuner_takes_any_input(here: Viewer) -> None:
    for value in map(written, NASTY):
        for name in (*MACHINE, "no_such_input"):
            answered(here, f"api/tune?memory=16GB&cpus=4&{name}={value}")
            answered(here, f"api/tune?instance=db&{name}={value}")
        answered(here, f"api/tune?instance={value}")


def test_other_routes_take_any_name(here: Viewer) -> None:
    for value in map(written, NASTY):
        answered(here, f"api/fleet?instance={value}")
        answered(here, f"api/screens/{value.replace('/', '%2F')}")
        answered(here, f"api/records?name={value}")
        for page in ("page", "style"):
            status, _, _ = here.get(f"api/records/{page}?name={value}")
            assert status in {400, 404}, value


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"{HOUR}&compare={'9' * 100}", "out of range"),
        ("from=9999-12-31T23:59:59-23:59&to=2026-11-23T03:00", "is not a time"),
        ("from=0001-01-01T00:00:00%2B23:59&to=2026-11-23T03:00", "is not a time"),
        (f"since={'9' * 400}", "is too long"),
        (f"{HOUR}&statement={'9' * 100}", "is not a query identifier"),
    ],
)
def test_what_is_out_of_range_is_refused_with_its_reason(
    here: Viewer, query: str, message: str
) -> None:
    status, told, hint = here.refused(f"api/screens/load?{query}")
    assert status == 400
    assert message in told
    assert hint
