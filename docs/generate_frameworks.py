"""The page of frameworks and their pools, for `docs.generate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner_pods.frameworks import (
    AppServer,
    Framework,
    PoolDefault,
    app_servers,
    frameworks,
    uncounted,
)

_ABOUT: Final = """\
# Pools of frameworks

What an application opens where nobody says: `mrtuner pods check` counts with it
([how to](../how-to/fit-pods-to-connections.md)). A pool is that of one process, for one database.
Options win over all of it; then the connection string, the variables named here, a variable that is
named like a pool (`DB_POOL_SIZE`, `APP_DATABASE_POOL_MAX`), and last the default.

Evidence: *code* was read in the source, *document* in the manual, *memory* is not verified.
"""

_APPLICATIONS: Final = """
## Applications that are not counted

They connect to PostgreSQL, and their manifests do not say how many times. `pods check` names them,
and does not judge them without `--pool NAME=N`.
"""

#: Signs that Markdown would take for its own.
BAR, STAR = "\\|", "\\*"


def frameworks_page() -> Iterator[str]:
    """Both tables: frameworks, then application servers."""
    yield from _ABOUT.splitlines()
    yield ""
    yield from _row("Framework", "Since", "Pool", "Set by", "Evidence", "Source")
    yield "|:--|--:|:--|:--|:--|:--|"
    for one in frameworks().values():
        for default in one.defaults:
            name = f"{one.title} (`{one.name}`)"
            yield from _row(name, default.since, _size(default), _set_by(one, default),
                            default.evidence, default.source)  # fmt: skip
    yield ""
    yield from (f"- {one.title}: {one.note}." for one in frameworks().values() if one.note)
    yield "\n## Application servers"
    yield ""
    yield from _row("Server", "Processes", "Threads", "Processes set by", "Threads set by",
                    "Evidence", "Source")  # fmt: skip
    yield "|:--|--:|--:|:--|:--|:--|:--|"
    for server in (one for one in app_servers().values() if one.client):
        threads = "an event loop" if server.threads is None else str(server.threads)
        yield from _row(
            server.title, _processes(server), threads,
            _code([*server.process_options, *server.process_variables]),
            _code([*server.thread_options, *server.thread_variables]),
            server.evidence, server.source,
        )  # fmt: skip

    yield from _APPLICATIONS.splitlines()
    yield from _row("Application", "Images", "Why", "Evidence", "Source")
    yield "|:--|:--|:--|:--|:--|"
    for told in uncounted():
        yield from _row(told.title, _code(told.images), told.why, told.evidence, told.source)


def _processes(server: AppServer) -> str:
    if server.processes is not None:
        return str(server.processes)
    return "not known" if server.uncounted else "the CPUs"


def _row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cell.replace('|', BAR).replace('*', STAR) for cell in cells)} |"


def _size(default: PoolDefault) -> str:
    match default.rule:
        case "fixed":
            more = f" + {default.overflow} overflow" if default.overflow else ""
            return f"{default.size}{more}"
        case "per thread":
            return "one for each thread; unbounded on an event loop"
        case "per cpu":
            times = f"{default.times} times " if default.times > 1 else ""
            plus = f" and {default.size}" if default.size else ""
            least = f", at least {default.least}" if default.least else ""
            return f"{times}the node's CPUs{plus}{least}"
    return "unbounded"


def _set_by(one: Framework, default: PoolDefault) -> str:
    parameters = one.parameters if default.parameters is None else default.parameters
    return _code([*one.variables, *parameters])


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"
