"""`mrtuner mcp`: the answers as tools for agents."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, prerequisites, targets, terminal
from mrtuner.errors import UsageError


@options.command("mcp")
@click.argument("dsns", type=targets.ServerArgument(), nargs=-1, metavar="[DSN]...")
@targets.config_option
@options.path_option(
    "--history", "DIR", "History that mrtuner record writes, for what happened, limits and SQL."
)
@options.json_option
def command(
    dsns: tuple[str, ...], config: Path | None, history: Path | None, as_json: bool
) -> None:
    """Serve the answers to agents by the Model Context Protocol, on stdin and stdout.

    \b
    Examples:
      mrtuner mcp postgresql://monitor@db/app
      mrtuner mcp --config fleet.toml --history /var/lib/mrtuner
      mrtuner mcp --json                             only lists the tools

    An agent's program starts this command. Its tools only read, and none changes anything: check,
    tune, explain, vacuum, what_happened, history_query and others, which --json lists. The servers
    are known by name (HOST:PORT, or as in --config); connection strings are never shown.
    """
    if as_json:
        from mrtuner.agents.tools import tools_document

        terminal.document(tools_document())
        return
    prerequisites.require("mcp")
    from mrtuner.agents.server import serve_stdio
    from mrtuner.agents.tools import Places

    servers = {one.name: one.dsn for one in targets.servers_named(dsns, config).values()}
    if not servers and history is None:
        raise UsageError("nothing to read", "Give a connection string, or --history DIR.")
    terminal.print_note(f"serving {', '.join(servers) or 'a history'} on stdin and stdout")
    serve_stdio(Places(servers=servers, history=history))
