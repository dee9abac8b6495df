"""The side of a loop whose session is open in the same process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_compaction.adapters.sides import Wish
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.model import Compaction, JsonObject
from mcp_compaction.tools.answers import budget_line
from mcp_compaction.tools.running import Answer, run_tool


class InProcess:
    """A session of the API as the kit uses it."""

    def __init__(self, session: OpenSession) -> None:
        self.by_agent = session.store.settings.policy.agent_controlled
        self._session = session
        self._compactor = session.store.compactor

    async def fit(self, messages: list[JsonObject], wish: Wish) -> list[JsonObject]:
        """Record what is new of a history, and give what to send in its place."""
        fitted = await self._session.fit(
            messages,
            relieve=wish.relieve,
            offload_over_tokens=wish.offload_over_tokens,
            microcompact=wish.microcompact,
        )
        return fitted.messages

    async def record(self, answer: JsonObject) -> None:
        """Keep what the model answered, with the usage that it reported."""
        await self._session.record_answer(answer)

    async def run(self, tool: str, given: Mapping[str, Any]) -> Answer:
        """Answer a call of a tool."""
        return await run_tool(self._session, tool, given)

    async def make_room(self, reason: str, share: float) -> bool:
        """Compress to a share of the present fill; says whether the window is smaller now."""
        fill = await self._compactor.fill(self._session.info)
        target = min(99.0, share * fill.percent)
        outcome = await self._session.compress(reason, target_percent=target, force=True)
        return isinstance(outcome, Compaction)

    async def budget_line(self) -> str:
        """The line with the fill, and advice when it is due."""
        fill, pressure = await self._compactor.pressure(self._session.info)
        return budget_line(fill, pressure, by_agent=self.by_agent)
