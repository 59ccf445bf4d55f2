"""The viewer as a Lambda function, on Lambda's own emulator: package, cold start, warm answers.

    make bench-serverless                         # an hour of a story, a few kilobytes
    make bench-serverless ARGS="--dir DIR"        # what you recorded; its files are published

S3 is a stand-in on this machine, whose time is part of every figure; a real one is farther away.
What AWS takes to start a sandbox, and to get the package there, is not in them. A cold start is the
first request to a new process: Python, imports, DuckDB, the lists of files and the first files.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fetch_lambda import fetch
from lake import PLACE, URL, stand_in
from lambda_emulator import ARCHITECTURE, PYTHON, Function, authorization, function, login, request
from served import sealed_story

from mrtuner.history.reading import open_history
from mrtuner.units import pretty_bytes
from mrtuner.web.authentication import hash_of
from mrtuner.web.screens import SCREENS
from mrtuner.web.serverless.deployment import Deployment, size_of, write

PASSWORD = "correct-horse-battery"
HASH = hash_of(PASSWORD)
VIEWER = "mrtuner.web.serverless.viewer.handler"
AUTHORIZER = "mrtuner.web.serverless.authorizer.handler"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="a store whose rows are in files")
    parser.add_argument("--cold", type=int, default=7, help="cold starts of each function")
    parser.add_argument("--warm", type=int, default=20, help="answers of each screen")
    options = parser.parse_args()
    fetched = fetch()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the stand-in's requests
    with TemporaryDirectory() as name:
        place = Path(name)
        store = options.dir or sealed_story(place / "store")
        period = _last_hour(store)
        package = _package(place / "viewer")
        print(f"package: {pretty_bytes(size_of(package))} unzipped")
        with stand_in(store) as bucket:
            environment = bucket.environment | {
                "MRTUNER_HISTORY_DIR": URL, "MRTUNER_PASSWORD_HASH": HASH
            }  # fmt: skip
            _cold_starts(package, environment, fetched, period, options.cold)
            with function(package, VIEWER, environment, fetched) as viewer:
                _warm_answers(viewer, period, options.warm)


def _package(out: Path) -> Path:
    of = Deployment(place=PLACE, password_hash=HASH, python=PYTHON, architecture=ARCHITECTURE)
    write(of, out)
    return out / "function"


def _last_hour(store: Path) -> str:
    with open_history(store) as history:
        last = history.row("SELECT max(time) AS last FROM samples")["last"]
    end = last.replace(tzinfo=UTC).timestamp()
    return f"from={_text(end - 3600)}&to={_text(end)}"


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _cold_starts(package: Path, environment: Any, fetched: Path, period: str, count: int) -> None:
    with function(package, VIEWER, environment, fetched) as viewer:
        cookie = _session(viewer)
    events = {
        "authoriser": (AUTHORIZER, authorization("/api/fleet", (cookie,))),
        "viewer, load": (VIEWER, request("/api/screens/load", period, cookies=(cookie,))),
    }
    for name, (handler, event) in events.items():
        taken = []
        for _ in range(count):
            with function(package, handler, environment, fetched) as started:
                taken.append(_seconds(started, event))
        print(f"cold start of the {name}: {_told(taken)}")


def _warm_answers(viewer: Function, period: str, count: int) -> None:
    cookie = _session(viewer)
    every = []
    for name in SCREENS:
        event = request(f"/api/screens/{name}", period, cookies=(cookie,))
        viewer.invoke(event)
        taken = [_seconds(viewer, event) for _ in range(count)]
        every += taken
        print(f"warm, {name}: {_told(taken)}")
    print(f"warm, every screen: {_told(every)}")


def _session(viewer: Function) -> str:
    return str(viewer.invoke(login(PASSWORD))["cookies"][0].partition(";")[0])


def _seconds(of: Function, event: Any) -> float:
    begin = time.perf_counter()
    answer = of.invoke(event)
    taken = time.perf_counter() - begin
    assert answer.get("statusCode") == 200 or answer.get("isAuthorized"), json.dumps(answer)
    return taken


def _told(taken: list[float]) -> str:
    last = sorted(taken)[max(0, round(0.95 * len(taken)) - 1)]
    return (
        f"median {statistics.median(taken) * 1000:.0f} ms, 95 % within {last * 1000:.0f} ms "
        f"({len(taken)} times)"
    )


if __name__ == "__main__":
    main()
