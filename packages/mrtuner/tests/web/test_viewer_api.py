"""What the API answers, over HTTP, about the hour of `history_story`."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample
from history_story import DEAR, INSTANCE, TEXTS
from served import HOUR, Viewer, rows, serving, serving_here

from mrtuner.history.recording.source import built_in
from mrtuner.history.store import compaction, retention
from mrtuner.history.store.layout import DATABASE
from mrtuner.history.store.writer import Writer
from mrtuner.web.screens import SCREENS

TWO = datetime(2026, 11, 23, 2, tzinfo=UTC).timestamp()


def chart(screen: Mapping[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in screen["charts"] if one["name"] == name]
    return dict(found)


def line(of: Mapping[str, Any], name: str, part: str = "series") -> list[float | None]:
    (found,) = [one for one in of[part] if one["name"] == name]
    values: list[float | None] = found["values"]
    return values


@pytest.mark.parametrize("name", SCREENS)
def test_every_screen_has_one_value_a_step_and_one_cell_a_column(viewer: Viewer, name: str) -> None:
    found = viewer.screen(name)
    assert found["instance"] == INSTANCE
    assert (found["begin"], found["end"]) == (TWO, TWO + 3600)
    assert all(b - a == found["step"] for a, b in pairwise(found["times"]))
    for one in found["charts"]:
        assert {len(series["values"]) for series in one["series"]} <= {len(found["times"])}
        known = [v for series in one["series"] for v in series["values"] if v is not None]
        assert (one["missing"] is None) == bool(known)
    for table in found["tables"]:
        assert {len(row) for row in table["rows"]} <= {len(table["columns"])}
        assert (table["missing"] is None) == bool(table["rows"])


@pytest.mark.parametrize("name", SCREENS)
def test_no_chart_has_more_points_than_2000(viewer: Viewer, name: str) -> None:
    """For an hour, in which sessions were sampled 3,300 times, and for ten years."""
    for period in (HOUR, "from=2016-11-25T03:00&to=2026-11-23T03:00"):
        for most in (400, 2000):
            found = viewer.screen(name, period if most == 400 else f"{period}&points={most}")
            assert 0 < len(found["times"]) <= most
            values = [one["values"] for one_chart in found["charts"] for one in one_chart["series"]]
            assert all(len(one) <= most for one in values)


def test_the_last_days_begin_with_the_first_sample_at_the_earliest(viewer: Viewer) -> None:
    week, named = (
        viewer.screen("load", period)
        for period in ("since=7d", "from=2026-11-16T03:00&to=2026-11-23T03:00")
    )
    assert (week["begin"], named["begin"]) == (TWO, TWO + 3600 - 7 * 86_400)


def test_waits_are_shown_with_the_line_of_the_cpus(viewer: Viewer) -> None:
    found = viewer.screen("load")
    load = chart(found, "load")
    assert load["limits"] == [{"name": "4 CPUs", "value": 4.0, "reached": False}]
    at = found["times"].index(int(TWO) + 35 * 60)
    assert (line(load, "CPU")[at], line(load, "IO")[at]) == (2.0, 8.0)
    (cpu, _) = sorted(rows(found, "events"), key=lambda row: str(row["event"]))
    assert (cpu["event"], cpu["sessions"]) == ("CPU", 2.0)


def test_a_statement_is_found_by_its_text_and_has_a_history(viewer: Viewer) -> None:
    first, *_ = rows(viewer.screen("statements"), "statements")
    assert (first["query_id"], first["text"]) == (str(DEAR), TEXTS[DEAR])
    assert first["mean"] == pytest.approx(0.5)
    one = viewer.screen("statements", f"{HOUR}&statement={DEAR}")
    at = one["times"].index(int(TWO) + 45 * 60)
    assert line(chart(one, "calls"), "calls")[at] == pytest.approx(1.0)
    assert line(chart(one, "mean"), "time")[at] == pytest.approx(0.5)


def test_headroom_names_the_tightest_first(viewer: Viewer) -> None:

    first, second, *_ = rows(viewer.screen("headroom"), "headroom")
    assert (first["resource"], first["highest"]) == ("CPU", pytest.approx(0.8))
    assert (second["resource"], second["highest"]) == ("connections", pytest.approx(20 / 97))


def test_the_hour_before_is_drawn_beside_it(viewer: Viewer) -> None:
    half = "from=2026-11-23T02:30&to=2026-11-23T02:40&compare=20min"
    wal = chart(viewer.screen("wal", half), "wal")
    assert max(v for v in line(wal, "WAL") if v) == pytest.approx(16e6)
    assert max(v for v in line(wal, "WAL", "before") if v) == pytest.approx(1e6)
    compared = rows(viewer.screen("compare", half), "statements")
    assert compared[0]["query_id"] == str(DEAR)
    assert compared[0]["calls_before"] is None


def test_a_change_is_drawn_on_every_chart(viewer: Viewer) -> None:
    found = viewer.screen("io")
    (change,) = [one for one in found["changes"] if one["what"] == "setting"]
    assert (change["at"], change["detail"]) == (TWO + 1800, "max_wal_size: 1GB → 4GB")


def test_a_moment_shows_who_was_at_work(viewer: Viewer) -> None:
    found = viewer.screen("moment", "from=2026-11-23T02:35&to=2026-11-23T02:35:10")
    waits = [row["wait"] for row in rows(found, "sessions") if row["pid"] == "201"]
    assert waits == ["IO: WALSync"] * 10


def test_a_longer_time_shows_the_sessions_of_its_busiest_minute(viewer: Viewer) -> None:
    """A step of a chart may be an hour long, and a click on it means its peak.

    Eleven sessions are seen in each of its 60 samples.
    """
    found = viewer.screen("moment")
    (table,) = [one for one in found["tables"] if one["name"] == "sessions"]
    busy = re.fullmatch(
        r"Sessions of the busiest minute, 2026-11-23 02:3\d UTC, each sample: "
        "the first 500 of 660", table["title"],
    )  # fmt: skip
    assert busy, table["title"]
    assert {row["wait"] for row in rows(found, "sessions")} >= {"IO: WALSync", "CPU"}
    assert len({row["time"] for row in rows(found, "sessions")}) > 10


def test_sessions_that_are_kept_as_a_summary_are_shown_by_minute(
    recorded: Path, tmp_path: Path
) -> None:
    """After nine days, the rows as sampled are gone; in the busy minutes eight waited for WAL."""
    shutil.copytree(recorded, tmp_path / "old")
    later = MIDNIGHT + 9 * 86_400 * SECOND
    with Writer(tmp_path / "old", built_in().values()) as writer:
        compaction.move_to_parquet(writer, later)
        retention.delete_past_retention(writer, later)
    with serving_here(tmp_path / "old") as viewer:
        found = viewer.screen("moment", "from=2026-11-23T02:35&to=2026-11-23T02:36")
        whole = viewer.screen("moment")
    for screen in (found, whole):
        summed = {(row["wait"], row["state"]): row["sessions"] for row in rows(screen, "sessions")}
        assert summed["IO: WALSync", "active"] == pytest.approx(8)
        assert summed["CPU", "active"] == pytest.approx(2)
        assert summed["CPU", "idle in transaction"] == pytest.approx(1)
    (statement,) = {row["query_id"] for row in rows(found, "sessions") if "WAL" in row["wait"]}
    assert statement == str(DEAR)


def test_the_fleet_says_how_each_instance_is(viewer: Viewer) -> None:
    status, _, body = viewer.get("api/fleet")
    (member,) = json.loads(body)["instances"]
    assert status == 200
    assert (member["instance"], member["cpus"], member["last"]) == (INSTANCE, 4, TWO + 3599)
    # 59 minutes at 1.2 of 4 CPUs, and ten of them at 2 more.
    used = (1.2 * 3540 + 2 * 600) / (4 * 3540)
    assert (member["tightest"], member["used"]) == ("CPU", pytest.approx(used))
    assert member["changes"] == 1


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("api/screens/load?from=2026-11-23T03:00&to=2026-11-23T02:00", 400, "a period of -3600"),
        ("api/screens/load?from=0&to=99999999999999999999", 400, "is not a time"),
        ("api/screens/load?from=1900-01-01&to=2026-01-01", 400, "cannot be shown"),
        ("api/screens/load?from=2026-11-23T02:00", 400, "`from` without `to`"),
        ("api/screens/load?since=tomorrow", 400, "cannot read 'tomorrow' as a duration"),
        ("api/screens/load?compare=-1d", 400, "cannot read '-1d' as a duration"),
        ("api/screens/load?points=1000000", 400, "points=1000000 is out of range"),
        ("api/screens/statements?statement=1;DROP", 400, "is not a query identifier"),
        ("api/screens/load?instance=nobody", 404, "the store has no instance nobody"),
        ("api/screens/nothing", 404, "there is no screen nothing"),
        ("api/nothing", 404, "there is nothing at /api/nothing"),
        ("..%2f..%2fetc/passwd", 404, "there is nothing at"),
        (f"api/screens/load?instance={'x' * 5000}", 414, "the address is too long"),
    ],
)
def test_a_bad_address_gets_a_clear_error(
    viewer: Viewer, path: str, status: int, message: str
) -> None:
    found, said, hint = viewer.refused(path)
    assert (found, message in said) == (status, True), said
    assert hint or status == 414


def test_an_instance_is_a_value_and_never_sql(viewer: Viewer) -> None:
    name = "db'%20OR%20''='"
    assert viewer.refused(f"api/screens/load?instance={name}")[0] == 404


def test_nothing_may_be_written(viewer: Viewer) -> None:
    for path in ("api/fleet", "api/screens/load", ""):
        request = urllib.request.Request(viewer.address + path, data=b"x", method="POST")
        with pytest.raises(urllib.request.HTTPError, match="405") as refused:
            urllib.request.urlopen(request, timeout=60)
        assert sorted(refused.value.headers["Allow"].split(", ")) == ["GET", "HEAD"]
        assert json.load(refused.value)["error"]["message"] == "POST is not supported"


def test_every_answer_forbids_what_the_page_does_not_need(viewer: Viewer) -> None:
    for path in ("", "api/fleet", "api/nothing", "icon.svg"):
        _, headers, _ = viewer.get(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_name_from_elsewhere_is_refused(viewer: Viewer) -> None:
    """A page of another site whose name points here gets nothing (DNS rebinding)."""
    assert viewer.get("api/fleet", Host="attacker.example")[0] == 400


def test_only_this_machine_is_answered(viewer: Viewer) -> None:
    port = int(viewer.address.rsplit(":", 1)[1].strip("/"))
    listening = Path("/proc/net/tcp").read_text(encoding="ascii")
    places = [line.split()[1] for line in listening.splitlines()[1:] if line.split()[3] == "0A"]
    assert f"0100007F:{port:04X}" in places
    assert f"00000000:{port:04X}" not in places


def test_a_thousand_requests_at_once_are_all_answered(viewer: Viewer) -> None:
    """Some get a 503; none hangs, and the next one is served."""
    host = viewer.address.split("/")[2]
    told: list[int] = []

    def ask() -> None:
        connection = HTTPConnection(host, timeout=120)
        try:
            connection.request("GET", "/api/screens/changes")
            told.append(connection.getresponse().status)
        except OSError:
            told.append(0)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 1000
    assert set(told) <= {200, 503}
    assert viewer.get("api/fleet")[0] == 200


def test_a_store_that_is_being_written_is_read(tmp_path: Path) -> None:
    source = queue()
    with Writer(tmp_path, [source]) as writer:
        writer.commit([batch(sample(source, 60, row("mail", 1, 1.0, 1)))])
        with serving(tmp_path) as viewer:
            first = last_sample(viewer)
            writer.commit([batch(sample(source, 120, row("mail", 2, 1.0, 1)))])
            until = time.monotonic() + 60
            while last_sample(viewer) == first and time.monotonic() < until:
                time.sleep(0.2)  # what is shown may be some seconds old
            assert last_sample(viewer) - first == 60


def last_sample(viewer: Viewer) -> float:
    """The time of the only instance's last sample."""
    (member,) = json.loads(viewer.get("api/fleet")[2])["instances"]
    return float(member["last"])


def test_an_empty_store_is_served_and_says_so(tmp_path: Path) -> None:
    with Writer(tmp_path, [queue()]):
        pass
    with serving_here(tmp_path) as viewer:
        assert json.loads(viewer.get("api/fleet")[2])["instances"] == []
        status, message, hint = viewer.refused("api/screens/load")
    assert (status, message, hint) == (404, "the store has 0 instances", "Record one first.")


def test_a_store_that_becomes_unreadable_is_an_error_not_a_crash(tmp_path: Path) -> None:
    with Writer(tmp_path, [queue()]):
        pass
    with serving_here(tmp_path) as viewer:
        with sqlite3.connect(tmp_path / DATABASE) as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
        status, message, _ = viewer.refused("api/fleet")
    assert status == 503
    assert "newer" in message


def test_browsers_keep_files_whose_names_change_with_their_contents(viewer: Viewer) -> None:
    page = viewer.get("")[2].decode()
    hashed = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page)
    assert len(hashed) >= 2
    for path in hashed:
        status, headers, _ = viewer.get(path)
        assert status == 200
        assert headers["cache-control"] == "public, max-age=31536000, immutable"
    for path in ("", "assets/login.css", "icon.svg"):
        assert viewer.get(path)[1]["cache-control"] == "no-cache"
