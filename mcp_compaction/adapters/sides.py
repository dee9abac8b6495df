"""What the kit needs of the other side, in process or over MCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from mcp_compaction.model import JsonObject
from mcp_compaction.tools.running import Answer


class Wish(NamedTuple):
    """What is to be done to a window beside recording what is new."""

    offload_over_tokens: int | None
    microcompact: bool
    relieve: bool = True  # compress where the window is too full


class Side(Protocol):
    """The session of a loop, wherever it is kept."""

    by_agent: bool  # the agent decides when to compress

    async def fit(self, messages: list[JsonObject], wish: Wish) -> list[JsonObject]:
        """Record what is new of a history, and give what to send in its place."""
        ...

    async def record(self, answer: JsonObject) -> None:
        """Keep what the model answered, with the usage that it reported."""
        ...

    async def run(self, tool: str, given: Mapping[str, Any]) -> Answer:
        """Answer a call of a tool."""
        ...

    async def make_room(self, reason: str, share: float) -> bool:
        """Compress to a share of the present fill; says whether the window is smaller now."""
        ...

    async def budget_line(self) -> str:
        """The line with the fill, and advice when it is due."""
        ...
