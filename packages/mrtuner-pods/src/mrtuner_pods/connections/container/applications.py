"""What runs in a container: its framework, its application server, processes and threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mrtuner.facts import Fact
from mrtuner_pods.connections.container.commands import at_once
from mrtuner_pods.connections.container.connection_string import ConnectionString
from mrtuner_pods.connections.container.container import (
    Container,
    is_of_image,
    matches,
    option,
    variable,
    whole,
)
from mrtuner_pods.connections.given import Given, Uncounted
from mrtuner_pods.frameworks import (
    AppServer,
    Framework,
    app_servers,
    framework,
    frameworks,
)

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
    known = frameworks().values()
    programs = {program for command in container.started for program in command.programs}
    for one in known:
        if is_of_image(container.image, one.images) and programs.issuperset(one.needs):
            return one
    for one in known:
        if any(matches(name, sign) for sign in one.signs for name in container.environment):
            return one
    if server is not None and server.framework is not None:
        return framework(server.framework)
    if (told := _by_strings(strings)) is not None:
        return told
    if sure := next((one for one in known if programs.intersection(one.commands)), None):
        return sure
    unsure = (one for one in known if runtimes and programs.intersection(one.runtimes))
    return next(unsure, None)


def _by_strings(strings: Mapping[str, ConnectionString]) -> Framework | None:
    known = frameworks().values()
    for string in strings.values():
        schemes = [
            (len(scheme), one) for one in known for scheme in one.schemes
            if string.scheme.startswith(scheme)
        ]  # fmt: skip
        if schemes:
            return max(schemes, key=lambda item: item[0])[1]
        for one in known:
            if any(hint in string.text.lower() for hint in one.hints):
                return one
    return None


def is_assumed(
    container: Container, server: AppServer | None, strings: Mapping[str, ConnectionString],
    known: Framework | None,
) -> bool:  # fmt: skip
    """Whether nothing but its runtime shows a framework, and others have another pool."""
    if known is None or not known.assumed:
        return False
    return detected(container, server, strings, runtimes=False) is not known


def serving(container: Container) -> list[tuple[AppServer, Container]]:
    """The application servers that a container runs at once, each with its own command line."""
    found = []
    for command in at_once(container.started):
        more: dict[str, Fact[str | None]] = {
            name: Fact(value, f"{container.where}: {name} before the command")
            for name, value in command.variables.items()
        }
        for server in app_servers().values():
            if (place := _place(server, command.programs)) is not None:
                own = replace(container, arguments=command.words[place:],
                              environment={**container.environment, **more})  # fmt: skip
                found.append((server, own))
                break
    if not found:
        by_image = (
            one for one in app_servers().values() if is_of_image(container.image, one.images)
        )
        found += [(one, container) for one in by_image]
    return found


def first_serving(container: Container) -> tuple[AppServer | None, Container]:
    """The first application server with its own command line; None and the container without."""
    return next(iter(serving(container)), (None, container))


def _place(server: AppServer, programs: Sequence[str]) -> int | None:
    """The place of the first word after a server's command; None where it is not started."""
    for place, program in enumerate(programs):
        pair = " ".join(programs[place : place + 2])
        if not {program, pair}.isdisjoint(server.commands):
            return place + 1 if set(server.needs) <= set(programs[place + 1 :]) else None
    return None


def processes(container: Container, server: AppServer | None, given: Given) -> Fact[int]:
    """The processes of a container; BadValue where that cannot be known."""
    said = container.said(given.workers, "--workers")
    if said is not None:
        return said
    if server is None:
        known = detected(container, None, {}, runtimes=False)
        if known is not None and known.processes > 1:
            return Fact(known.processes, f"{known.title}: {known.note}")
        return Fact(1, "one process: no known application server")
    kind = option(container, server, server.worker_options)
    if kind is not None and kind.value in (*server.in_threads, *server.alone):
        return Fact(1, f"{kind.source} {kind.value}: one process")
    return concurrency(container, server)


def concurrency(container: Container, server: AppServer) -> Fact[int]:
    """How many processes its options, its variables or its default say."""
    found = option(container, server, server.process_options) or variable(
        container.environment, server.process_variables
    )
    own = detected(container, server, {}, runtimes=False)
    if found is None and own is not None and own.workers is not None and server.files:
        return Fact(own.workers, f"default of {own.title} ({own.defaults[-1].source})")
    if found is None and (file := file_of(container, server)) is not None:
        raise Uncounted(
            f"{container.where}: the processes of container {container.name} are in "
            f"{file.value}, which is not here",
            f"Give --workers {container.workload}=N.",
        )
    if found is None and server.processes is not None:
        return Fact(server.processes, f"default of {server.title} ({server.source})")
    if found is None and server.uncounted:
        raise Uncounted(
            f"{container.where}: container {container.name}: {server.uncounted}",
            f"Give --workers {container.workload}=N.",
        )
    by_cpus = {"auto"} if server.processes else {"auto", "0"}
    if found is None or found.value in by_cpus:
        where = found.source if found else f"{container.where}: default of {server.title}"
        raise Uncounted(
            f"{where}: as many workers as CPUs, whose number is not in a manifest",
            f"Give --workers {container.workload}=N.",
        )
    most = found.value.partition(",")[0]  # Celery's --autoscale: most,least
    number = whole(Fact(most, found.source), 0)
    if number == 0:  # Puma, Odoo: 0 workers is one process
        return Fact(1, found.source)
    beside = [_beside(container, server, one) for one in server.more]
    why = "".join(f", and {one.value} ({one.source})" for one in beside)
    return Fact(number + sum(one.value for one in beside), f"{found.source}{why}")


def file_of(container: Container, server: AppServer) -> Fact[str] | None:
    """The file with more options that the command line names."""
    return option(container, server, server.files)


def _beside(container: Container, server: AppServer, more: Mapping[str, Any]) -> Fact[int]:
    told = option(container, server, more["options"])
    if told is not None:
        return Fact(whole(told, 0), told.source)
    return Fact(int(more["usual"]), f"beside them, {server.source}")


def threads(container: Container, server: AppServer | None, given: Given) -> Fact[int] | None:
    """The threads of each process; None for an event loop, and where no server is known."""
    said = said_threads(container, server, given)
    if said is not None or server is None or server.threads is None:
        return said
    if event_loop(container, server):
        return None
    return Fact(server.threads, f"default of {server.title} ({server.source})")


def said_threads(container: Container, server: AppServer | None, given: Given) -> Fact[int] | None:
    """The threads of each process, where an option or a variable says so."""
    said = container.said(given.threads, "--threads")
    if said is not None:
        return said
    if server is None or server.threads is None or event_loop(container, server):
        return None
    kind = option(container, server, server.worker_options)
    if kind is not None and kind.value in server.in_threads:
        tasks = concurrency(container, server)
        return Fact(tasks.value, f"{tasks.source}, as {kind.value}")
    found = option(container, server, server.thread_options) or variable(
        container.environment, server.thread_variables
    )
    if found is None:
        return None
    most = found.value.rpartition(":")[2]  # Puma: least:most
    return Fact(whole(Fact(most, found.source), 1), found.source)


def event_loop(container: Container, server: AppServer) -> bool:
    """Whether its workers take any number of requests at once."""
    if server.asynchronous:
        return True
    kind = option(container, server, server.worker_options)
    if kind is None or kind.value in server.in_threads:
        return False
    return any(loop in kind.value.lower() for loop in _EVENT_LOOPS)
