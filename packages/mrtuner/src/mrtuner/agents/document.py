"""What `mrtuner mcp` offers, as JSON: ``mrtuner.servers/1`` and ``mrtuner.tools/1``."""

from __future__ import annotations

from typing import Annotated, Any

from mrtuner.documents import Doc, Document, Struct


class ServersDocument(Document, tag="mrtuner.servers/1"):
    """The servers that the tools of `mrtuner mcp` can read."""

    servers: Annotated[list[str], Doc("names for the argument `server`")]
    history: Annotated[bool, Doc("whether there is a history to ask")]


class OfferedTool(Struct):
    """One tool."""

    name: Annotated[str, Doc("its name")]
    title: Annotated[str, Doc("the same for people")]
    description: Annotated[str, Doc("what the agent reads")]
    takes: Annotated[dict[str, Any], Doc("JSON Schema of its arguments")]
    gives: Annotated[str, Doc("the kind of document that it answers with")]


class ToolsDocument(Document, tag="mrtuner.tools/1"):
    """Written by `mrtuner mcp --json`."""

    tools: Annotated[list[OfferedTool], Doc("every tool; all of them only read")]
