"""What Patroni's REST API says of members; the answers are those of its documentation."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mrtuner.errors import MrTunerError
from mrtuner.failover.rehearse import patroni
from mrtuner.failover.rehearse.patroni import Patroni


class Api:
    """A REST API whose members have these states; the first one leads."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.states = ["running", "streaming"]
        self.logins: list[str | None] = []
        self.switched = (200, "Successfully switched over")
        self.answering = threading.Event()
        self.answering.set()

    def url(self, login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.port}"

    def answer(self, path: str) -> Any:
        if path == "/history":
            return []
        roles = ["leader", *["replica"] * (len(self.states) - 1)]
        return {
            "members": [
                {"name": f"db{number}", "role": role, "state": state}
                for number, (role, state) in enumerate(zip(roles, self.states, strict=True), 1)
            ]
        }


@contextmanager
def serving() -> Iterator[Api]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.logins.append(self.headers.get("Authorization"))
            body = json.dumps(made.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            made.answering.wait(10)
            self.send_response(*made.switched)
            self.end_headers()
            self.wfile.write(made.switched[1].encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Api(server.server_port)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as made:
        yield made


def test_a_replica_that_replays_from_the_archive_is_well(api: Api) -> None:
    api.states = ["running", "in archive recovery"]
    trigger = Patroni(api.url())
    trigger.check()
    assert trigger.over


def test_a_member_that_was_ill_before_does_not_keep_a_failover_from_ending(api: Api) -> None:
    api.states = ["running", "streaming", "start failed"]
    trigger = Patroni(api.url())
    trigger.check()
    assert trigger.over
    api.states = ["running", "stopped", "start failed"]
    list(trigger.news())
    assert not trigger.over  # db2 was well
    api.states = ["running", "streaming", "start failed"]
    list(trigger.news())
    assert trigger.over


def test_without_a_second_member_that_is_well_nothing_can_take_over(api: Api) -> None:
    api.states = ["running", "start failed"]
    with pytest.raises(MrTunerError, match="no replica is running"):
        Patroni(api.url()).check()


def test_a_switchover_that_takes_longer_than_patroni_waits_goes_on(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source of the answers: patroni/api.py, do_POST_failover and poll_failover_result."""
    api.switched = (503, "Switchover status unknown")
    Patroni(api.url()).fire()
    api.switched = (503, "Switchover failed")
    with pytest.raises(MrTunerError, match="rejected /switchover: 503 Switchover failed"):
        Patroni(api.url()).fire()
    monkeypatch.setattr(patroni, "_SWITCHING", 0.2)
    api.answering.clear()
    Patroni(api.url()).fire()
    api.answering.set()


def test_a_login_of_the_address_is_decoded(api: Api) -> None:
    """By hand: base64 of me:p/ss is bWU6cC9zcw==, of a@b:c is YUBiOmM=."""
    Patroni(api.url("me:p%2Fss@")).check()
    assert set(api.logins) == {"Basic bWU6cC9zcw=="}
    api.logins.clear()
    Patroni(api.url("a%40b:c@")).check()
    assert set(api.logins) == {"Basic YUBiOmM="}
    api.logins.clear()
    Patroni(api.url()).check()
    assert set(api.logins) == {None}
