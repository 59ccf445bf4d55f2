"""WildFly with the generated datasource, asked over HTTP: HOME BASE."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from conversation import converse

home, base = map(Path, sys.argv[1:3])


class Failed(Exception):
    """The answer of the application when it failed."""


def ask(case: str) -> None:
    with urlopen(f"http://127.0.0.1:8080/client/{case}", timeout=120) as page:
        said = page.read().decode()
    if said != "answered":
        raise Failed(said)


def opened() -> None:
    """Wait until WildFly has deployed everything."""
    for _ in range(400):
        with suppress(URLError, ConnectionError):
            ask("open")
            return
        time.sleep(0.2)
    raise TimeoutError("WildFly does not answer")


subprocess.Popen(
    [
        "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m",
        f"-Djboss.home.dir={home}", f"-Djboss.server.base.dir={base}",
        "-jar", str(home / "jboss-modules.jar"), "-mp", f"{base / 'modules'}:{home / 'modules'}",
        "org.jboss.as.standalone",
    ],
    stdin=subprocess.DEVNULL, stdout=sys.stderr,
)  # fmt: skip
opened()
converse(**{case: lambda case=case: ask(case) for case in ("connect", "idle", "flight")})
