"""Agents over HTTP: the protocol's own client against the viewer, and who is refused."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from history_story import story
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import CallToolResult
from served import Viewer, serving, serving_here

from command_line import run
from machine import PAGE, require
from mrtuner.agents.server import over_http
from mrtuner.agents.tools import TOOLS, Places
from mrtuner.postgres.cluster import Cluster
from mrtuner.web.app import LOOPBACK, Agents
from mrtuner.web.authentication import Access, hash_of

pytestmark = pytest.mark.timed

T = TypeVar("T")
PASSWORD = "correct-horse-battery"
BEARER = {"Authorization": f"Bearer {PASSWORD}"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("agents-http")
    story(place)
    return place


@pytest.fixture(scope="module")
def access() -> Access:
    return Access(hashed=hash_of(PASSWORD))


@pytest.fixture
def viewer(store: Path, access: Access, embedded: Cluster) -> Iterator[Viewer]:
    """A viewer of this process with tools for one server and its history."""
    access.failed.clear()
    app = over_http(Places(servers={"shop": embedded.dsn()}, history=store))
    agents = Agents(app=app, hosts=LOOPBACK)
    with serving_here(store, access=access, agents=agents) as found:
        yield found


def apart(ask: Callable[[], Awaitable[T]]) -> T:
    """Run it in a thread of its own: a browser's test of this process keeps a loop in ours."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(anyio.run, ask).result()


def asked(address: str, *calls: tuple[str, dict[str, Any]], mode: str) -> list[Any]:
    """What the protocol's client is told over HTTP: the tools, then each answer."""

    async def ask() -> list[Any]:
        async with (
            create_mcp_http_client(headers=BEARER) as http,
            Client(streamable_http_client(f"{address}mcp", http_client=http), mode=mode) as client,
        ):
            tools = {tool.name for tool in (await client.list_tools()).tools}
            return [tools, *[await client.call_tool(name, said) for name, said in calls]]

    return apart(ask)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_with_the_password_gets_the_same_tools_and_answers(
    viewer: Viewer, mode: str
) -> None:
    tools, servers, happened, wrong = asked(
        viewer.address,
        ("servers", {}),
        ("what_happened", {}),
        ("check", {"server": "other"}),
        mode=mode,
    )
    assert tools == set(TOOLS)
    assert servers.structured_content["answer"]["servers"] == ["shop"]
    assert happened.structured_content["answer"]["checkpoints"]["requested"] == 10
    assert isinstance(wrong, CallToolResult)
    assert wrong.is_error


CALL = json.dumps({
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "servers", "arguments": {}},
})  # fmt: skip
USUAL = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def sent(viewer: Viewer, method: str = "POST", **headers: str) -> tuple[int, str]:
    """Status and body of a call without a handshake, which a server without sessions answers."""
    connection = HTTPConnection(viewer.address.split("/")[2], timeout=60)
    try:
        connection.request(method, "/mcp", CALL, {**USUAL, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_call_that_others_are_refused_is_answered_to_whoever_has_access(viewer: Viewer) -> None:
    status, body = sent(viewer, **BEARER)
    assert status == 200
    assert '"shop"' in body


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": PASSWORD},
        {"Authorization": f"Basic {PASSWORD}"},
        {"Cookie": f"__Host-mrtuner={PASSWORD}"},
    ],
    ids=str,
)
def test_no_request_without_the_password_gets_an_answer(
    viewer: Viewer, headers: dict[str, str], method: str
) -> None:
    status, body = sent(viewer, method, **headers)
    assert status == 401
    assert "shop" not in body


def test_the_session_of_a_browser_does_not_open_it(viewer: Viewer, access: Access) -> None:
    """A page of another site could use a cookie; it cannot know the password."""
    token = access.log_in(PASSWORD, "127.0.0.1")
    assert sent(viewer, Cookie=f"__Host-mrtuner={token}")[0] == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "attacker.example"}, 400),
        ({"Host": "attacker.example", "Origin": "http://attacker.example"}, 400),
        ({"Origin": "http://attacker.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_even_with_the_password_another_host_or_origin_is_refused(
    viewer: Viewer, headers: dict[str, str], status: int
) -> None:
    found, body = sent(viewer, **BEARER, **headers)
    assert found == status
    assert "shop" not in body


def test_only_post_is_answered_and_a_long_request_is_not(viewer: Viewer) -> None:
    assert sent(viewer, "GET", **BEARER)[0] == 405
    connection = HTTPConnection(viewer.address.split("/")[2], timeout=60)
    connection.request("POST", "/mcp", "x" * 100_000, {**USUAL, **BEARER})
    assert connection.getresponse().status == 413
    connection.close()


def test_a_password_cannot_be_guessed_here_either(viewer: Viewer) -> None:
    guesses = [sent(viewer, Authorization=f"Bearer guess-{n}")[0] for n in range(7)]
    assert guesses == [401] * 5 + [429] * 2


def test_without_tools_there_is_nothing(store: Path, access: Access) -> None:
    require(PAGE)
    with serving_here(store, access=access) as viewer:
        assert sent(viewer, **BEARER)[0] in {404, 405}


# --- the command


def test_the_command_serves_them_with_a_password_and_the_servers_of_a_file(
    store: Path, embedded: Cluster, tmp_path: Path
) -> None:
    require(PAGE)
    password, fleet = tmp_path / "password", tmp_path / "fleet.toml"
    password.write_text(f"{PASSWORD}\n")
    fleet.write_text(f'[instances]\ncrm = "{embedded.dsn()}"\n')
    options = ("--password-file", str(password), "--mcp", "--config", str(fleet))
    with serving(store, *options) as viewer:
        _, servers = asked(viewer.address, ("servers", {}), mode="auto")
    assert servers.structured_content["answer"] == {
        "schema": "mrtuner.servers/1", "servers": ["crm"], "history": True,
    }  # fmt: skip


def test_tools_for_everybody_are_refused(store: Path) -> None:
    done = run("serve", "--dir", store, "--mcp")
    assert done.exit_code == 4
    assert "anyone on this machine could ask the tools of --mcp" in done.stderr
    assert "HINT: " in done.stderr
