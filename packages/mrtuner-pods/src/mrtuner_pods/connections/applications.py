"""What runs in a container: its framework, its application server, processes and threads."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from mrtuner.catalog.frameworks import (
    AppServer,
    Framework,
    app_servers,
    framework,
    frameworks,
)
from mrtuner.errors import BadValue
from mrtuner.facts import Fact
from mrtuner_pods.connections.connection_string import ConnectionString
from mrtuner_pods.connections.container import Container, Environment, option, variable, whole
from mrtuner_pods.connections.given import Given

_EVENT_LOOPS: Final = ("uvicorn", "gevent", "eventlet", "tornado", "asgi", "aiohttp")


def framework_of(
    container: Container,
    server: AppServer | None,
    strings: Mapping[str, ConnectionString],
    named: Fact[str] | None,
) -> tuple[Framework | None, str | None]:
    """The framework that an option names, with its version, else the one that is detected."""
    if named is not None:
        name, _, version = named.value.partition(":")
        return framework(name), version or None
    return detected(container, server, strings), None


def detected(
    container: Container, server: AppServer | None, strings: Mapping[str, ConnectionString], *,
    runtimes: bool = True,
) -> Framework | None:  # fmt: skip
    """The framework by its surest sign, or None; the least sure sign is its runtime."""
    if server is not None and server.framework is not None:
        return framework(server.framework)
    known = frameworks().values()
    for string in strings.values():
        schemes = [
            (len(scheme), one) for one in known for scheme in one.schemes
            if string.scheme.startswith(scheme)
        ]  # fmt: skip
        if schemes:
            return max(schemes, key=lambda item: item[0])[1]
        for one in known:
            if any(hint in string.text for hint in one.hints):
                return one
    for one in known:
        if any(_signed(sign, container.environment) for sign in one.signs):
            return one
    programs = {word.rpartition("/")[2] for word in container.words}
    if sure := next((one for one in known if programs.intersection(one.commands)), None):
        return sure
    unsure = (one for one in known if runtimes and programs.intersection(one.runtimes))
    return next(unsure, None)


def _signed(sign: str, environment: Environment) -> bool:
    if sign.endswith("*"):
        return any(name.startswith(sign[:-1]) for name in environment)
    return sign in environment


def server_of(container: Container) -> AppServer | None:
    """The application server that a container's command starts."""
    programs = [word.rpartition("/")[2] for word in container.words]
    pairs = {f"{one} {two}" for one, two in pairwise(programs)}
    for server in app_servers().values():
        if not {*programs, *pairs}.isdisjoint(server.commands):
            return server
    return None


def processes(container: Container, server: AppServer | None, given: Given) -> Fact[int]:
    """The processes of a container; BadValue where that cannot be known."""
    said = container.said(given.workers, "--workers")
    if said is not None:
        return said
    if server is None:
        return Fact(1, "one process: no known application server")
    found = option(container, server, server.process_options) or variable(
        container.environment, server.process_variables
    )
    if found is None:
        return Fact(server.processes, f"default of {server.title} ({server.source})")
    if found.value == "auto":
        raise BadValue(
            f"{found.source}: as many workers as CPUs, whose number is not in a manifest",
            f"Give --workers {container.workload}=N.",
        )
    return Fact(max(1, whole(found, 0)), found.source)  # Puma: 0 workers is one process


def threads(container: Container, server: AppServer | None, given: Given) -> Fact[int] | None:
    """The threads of each process; None for an event loop, and where no server is known."""
    said = container.said(given.threads, "--threads")
    if said is not None:
        return said
    if server is None or server.threads is None or event_loop(container, server):
        return None
    found = option(container, server, server.thread_options) or variable(
        container.environment, server.thread_variables
    )
    if found is None:
        return Fact(server.threads, f"default of {server.title} ({server.source})")
    most = found.value.rpartition(":")[2]  # Puma: least:most
    return Fact(whole(Fact(most, found.source), 1), found.source)


def event_loop(container: Container, server: AppServer) -> bool:
    """Whether its workers take any number of requests at once."""
    if server.asynchronous:
        return True
    kind = option(container, server, server.worker_options)
    return kind is not None and any(loop in kind.value.lower() for loop in _EVENT_LOOPS)
