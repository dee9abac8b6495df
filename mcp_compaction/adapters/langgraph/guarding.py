"""Checks of pins for agents of LangChain: a middleware that holds calls of their tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from mcp_compaction.adapters.guard import CallGuard

__all__ = ["GuardMiddleware"]

_Answer = ToolMessage | Command[Any]


class GuardMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Answers a call in place of its tool where a pin holds it."""

    def __init__(self, guard: CallGuard) -> None:
        """A middleware that asks a guard."""
        super().__init__()
        self._guard = guard
        self.tools = []

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _Answer]
    ) -> _Answer:
        """Run the tool, unless it is held."""
        held = self._hold(request)
        return held if held is not None else self._note(request, handler(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_Answer]]
    ) -> _Answer:
        """Run the tool, unless it is held."""
        held = self._hold(request)
        return held if held is not None else self._note(request, await handler(request))

    def _hold(self, request: ToolCallRequest) -> ToolMessage | None:
        call = request.tool_call
        refusal = self._guard.hold(call["name"], call["args"], call["id"] or "")
        if refusal is None:
            return None
        return ToolMessage(
            content=refusal, tool_call_id=call["id"] or "", name=call["name"], status="error"
        )

    def _note(self, request: ToolCallRequest, answer: _Answer) -> _Answer:
        call = request.tool_call
        if isinstance(answer, ToolMessage):
            failed = answer.status == "error"
            self._guard.note(call["name"], call["args"], str(answer.text), failed=failed)
        return answer
