"""Oracle's own JDBC driver reads what we write for it, and gives up in time.

There is no Oracle server here: a port is closed, or a process accepts and never answers. So only
logins are tested, not the limit on answers.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest
from failover_programs import build, jars
from failover_stacks import CLIENTS

from mrtuner.failover.predict.kernel import local
from mrtuner.failover.predict.path import Path as NetworkPath
from mrtuner.failover.settings.advice import Settings, settings

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("asks")]

OJDBC = "com.oracle.database.jdbc:ojdbc11:23.5.0.24.07"
WITHIN = 10.0


@pytest.fixture(scope="module")
def advice() -> Settings:
    return settings("oracle-jdbc", WITHIN, local(), NetworkPath(), longest_query=1)


def hang(advice: Settings, port: int, directory: Path) -> tuple[float, str]:
    """How long a login to this port hangs [s] once the driver is loaded, and its message."""
    path = jars(OJDBC)
    here = advice.text.replace("HOST=db", "HOST=127.0.0.1").replace("PORT=1521", f"PORT={port}")
    [url] = [line for line in here.splitlines() if line.startswith("jdbc:")]
    assert f"(HOST=127.0.0.1)(PORT={port})" in url
    properties = directory / "oracle.properties"
    properties.write_text(here.replace(url, "user=app\npassword=none"))
    build(["javac", "-d", str(directory), str(CLIENTS / "java" / "Login.java")], directory)
    done = subprocess.run(
        ["java", "-cp", f"{directory}:{path}", "Login", url, str(properties)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    _, second = done.stdout.splitlines()
    seconds, _, message = second.partition(" ")
    return float(seconds), message


def test_a_closed_port_is_an_error_at_once(advice: Settings, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and not listening
        seconds, message = hang(advice, closed.getsockname()[1], tmp_path)
    assert seconds < 1
    assert message.startswith("ORA-12541")  # no listener


def test_a_login_that_nobody_answers_hangs_as_long_as_predicted(
    advice: Settings, tmp_path: Path
) -> None:
    """Predicted for 10 s: 3 s, by CONNECT_TIMEOUT. The kernel accepts, and nobody reads."""
    [connect] = [one.span for one in advice.cases if str(one.case) == "connect"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        seconds, message = hang(advice, silent.getsockname()[1], tmp_path)
    assert connect is not None
    assert connect.covers(seconds, slack=1)
    assert 2.9 < seconds <= WITHIN
    assert message.startswith("ORA-12170")  # outbound connect timeout
