"""What the kit needs of its session, in process or over MCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.model import JsonObject
from mcp_compaction.tools.running import ToolAnswer


class LoopSession(Protocol):
    """The session of a loop, wherever it is kept."""

    by_agent: bool  # the agent decides when to compress

    async def fit(
        self, messages: list[JsonObject], beside: JsonObject, options: FitOptions
    ) -> list[JsonObject]:
        """Record what is new of a history, and give what to send in its place.

        `beside`: what a request body has beside its messages.
        """
        ...

    async def leave_out_refused(
        self, sent: list[JsonObject], beside: JsonObject, place: tuple[int, int]
    ) -> list[JsonObject]:
        """What to send after a provider refused a thinking block: the message, and the block."""
        ...

    def note_passing(self) -> None:
        """Note that something was sent behind what `fit` gave that will not be sent again."""
        ...

    async def record(self, answer: JsonObject) -> None:
        """Keep what the model answered, with the usage that it reported."""
        ...

    async def run(self, tool: str, given: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call of a tool."""
        ...

    async def make_room(self, limit: int | None) -> None:
        """Compress after a provider refused a request as too large.

        `limit`: the tokens that it said are allowed.
        """
        ...

    async def budget_line(self) -> str:
        """The line with the fill, and advice when it is due."""
        ...
