"""The backend of a loop whose session is open in the same process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_compaction import compactor
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.formats.thinking import sending_of
from mcp_compaction.model import JsonObject, Shape
from mcp_compaction.tools.answers import budget_line
from mcp_compaction.tools.compressing import plan_after_overflow
from mcp_compaction.tools.running import ToolAnswer, run_tool


class InProcess:
    """A session of the API as the kit uses it."""

    def __init__(self, session: OpenSession, shape: Shape) -> None:
        self.by_agent = session.store.settings.policy.agent_controlled
        self._session = session
        self._work = session.store.workspace
        self._key = "input" if shape == "responses" else "messages"

    async def fit(
        self, messages: list[JsonObject], beside: JsonObject, options: FitOptions
    ) -> list[JsonObject]:
        """Record what is new of a history, and give what to send in its place."""
        request = {**beside, self._key: messages} if beside else messages
        fitted = await self._session.fit(
            request,
            relieve=options.relieve,
            offload_over_tokens=options.offload_over_tokens,
            microcompact=options.microcompact,
            is_sent=options.is_sent,
        )
        return fitted.messages

    async def leave_out_refused(
        self, sent: list[JsonObject], beside: JsonObject, place: tuple[int, int]
    ) -> list[JsonObject]:
        """What to send after a provider refused a thinking block: the message, and the block."""
        sending = sending_of(sent, beside)
        model = str(beside.get("model") or "")
        left = await compactor.take_refusal(self._work, self._session.info, sending, model, place)
        return left.messages

    def note_passing(self) -> None:
        """Note that something was sent behind what `fit` gave that will not be sent again."""
        compactor.note_passing(self._work, self._session.info)

    async def record(self, answer: JsonObject) -> None:
        """Keep what the model answered, with the usage that it reported."""
        await self._session.record_answer(answer)

    async def run(self, tool: str, given: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call of a tool."""
        return await run_tool(self._session, tool, given)

    async def make_room(self, limit: int | None) -> None:
        """Compress after a provider refused a request as too large."""
        info, ask = await plan_after_overflow(self._work, self._session.info, limit)
        self._session.info = info
        await compactor.compress(self._work, info, ask)

    async def budget_line(self) -> str:
        """The line with the fill, and advice when it is due."""
        window = await self._work.read_window(self._session.info)
        return budget_line(window.fill, window.pressure, by_agent=self.by_agent)
