"""A client that talks to the real server in memory, in either protocol era."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from mcp import Client
from mcp.types import CallToolResult, TextContent, TextResourceContents

from mcp_compaction.server.app import build_server
from mcp_compaction.settings import load_settings

Era = Literal["auto", "legacy"]
ERAS: tuple[Era, ...] = ("auto", "legacy")

SMALL = {
    "MCP_COMPACTION_WINDOW_TOKENS": "10000",
    "MCP_COMPACTION_RESERVE_TOKENS": "0",  # it stands for a large one
    "MCP_COMPACTION_COUNTER": "estimate",
}


class Talk:
    """A connected client, with answers as text."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        """The whole result of a call."""
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    async def say(self, tool: str, /, **arguments: Any) -> str:
        """The text of a call that worked."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def fail(self, tool: str, **arguments: Any) -> str:
        """The text of a call that was refused."""
        result = await self.call(tool, **arguments)
        assert result.is_error, text_of(result)
        return text_of(result)

    async def read(self, path: str) -> str:
        """The text of a resource."""
        result = await self.client.read_resource(f"compaction://{path}")
        (content,) = result.contents
        assert isinstance(content, TextResourceContents)
        return content.text

    async def prompt(self, name: str, **arguments: str) -> str:
        """The text of a prompt."""
        result = await self.client.get_prompt(name, arguments)
        content = result.messages[0].content
        assert isinstance(content, TextContent)
        return content.text


def text_of(result: CallToolResult) -> str:
    """The only block of an answer."""
    assert result.structured_content is None
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@asynccontextmanager
async def talk(
    folder: Path,
    era: Era = "auto",
    *,
    environ: Mapping[str, str] | None = None,
    project: str = "/p",
    only_core: bool = False,
    must_name: bool = False,
    home: Path | None = None,
    policy: Mapping[str, str] | None = None,
    **client: Any,
) -> AsyncGenerator[Talk]:
    """A talk with a server whose store is in that folder; `policy` goes over its settings.

    A setting that is empty there is not set at all.
    """
    own = {f"MCP_COMPACTION_{name.upper()}": value for name, value in (policy or {}).items()}
    given = {**SMALL, "MCP_COMPACTION_HOME": str(home or folder / "store"), **own}
    settings = load_settings({name: value for name, value in given.items() if value})
    server = build_server(
        settings, project, environ or {}, only_core=only_core, must_name=must_name
    )
    async with Client(server, mode=era, **client) as connected:
        yield Talk(connected)
