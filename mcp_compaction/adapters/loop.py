"""A kit for home-made agent loops, with Anthropic's, OpenAI's chat or Responses messages.

    kit = LoopKit(await store.session("tax-2026"))      # or over MCP: LoopKit(client, session="…")
    response = await kit.send(ask, messages)            # fits the window, retries an overflow once
    messages += kit.answer_of(response)
    results = [await kit.call(c) if kit.owns(c) else run(c) for c in kit.calls_of(response)]
    messages.append({"role": "user", "content": results})
    messages = await kit.apply(messages)                # after the whole batch

A failure of the kit's own is logged and counted, and the loop goes on with its own messages.

The API's own context editing (`context_management`) clears old results on the API's side and leaves
the messages as they are; the fill follows the usage that it reports. Its own compaction
(`compact_20260112`) answers with a compaction block, and from then on it reads nothing that stands
before the last one. All up to that block goes out as it is, and the kit's window begins after it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from mcp_compaction.adapters.dialects import (
    answer_calls,
    answer_messages,
    arguments_of,
    count_compacted_by_api,
    has_open_calls,
    make_definition,
    make_result,
    plain_messages,
    plain_of,
    read_call,
)
from mcp_compaction.adapters.in_process import InProcess
from mcp_compaction.adapters.over_mcp import OverMcp, ToolCaller
from mcp_compaction.adapters.sides import Side, Wish
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.lexicon.furniture import own_tools
from mcp_compaction.lexicon.overflow import is_overflow
from mcp_compaction.model import JsonObject, Shape
from mcp_compaction.tools.answers import BUDGET_LABEL
from mcp_compaction.tools.arguments import definition_of
from mcp_compaction.tools.running import list_tools

__all__ = ["LoopKit"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_AFTER_OVERFLOW = 0.6  # of the fill that was too much, whatever we took the window to hold
_FAILED = (
    "this call failed inside the context tools ({error}); nothing was changed. Go on without it, "
    "or call again later."
)


class LoopKit:
    """The context tools for one loop: what to offer, what to send, and what to do with answers."""

    def __init__(
        self,
        source: OpenSession | ToolCaller,
        *,
        session: str | None = None,
        shape: Shape = "anthropic",
        offload_over_tokens: int | None = 20_000,
        microcompact: bool = False,
        indicator: bool = False,
        agent_controlled: bool | None = None,
    ) -> None:
        """A kit on an open session, or over MCP on an object with `call_tool`.

        `session`: over MCP, the name of the session. `shape`: of the messages. A tool result of
        more tokens than `offload_over_tokens` becomes a preview with its ref when it comes; None:
        never. `microcompact`: before each request, large results outside the recent turns become
        previews; in the provider's cache all that stands after the oldest new one is lost each
        time. `indicator`: each request ends with one line of the fill. `agent_controlled`: whether
        compress_context is offered; without it the store's setting, over MCP true.
        """
        self._side = _side_of(source, session, shape)
        self.shape: Shape = shape
        self.failures = 0
        by_agent = self._side.by_agent if agent_controlled is None else agent_controlled
        self.tools: list[JsonObject] = [
            make_definition(definition_of(tool), shape) for tool in list_tools(by_agent=by_agent)
        ]
        self._wish = Wish(offload_over_tokens, microcompact)
        self._has_indicator = indicator
        self._is_directed = False
        self._last: tuple[list[Any], list[JsonObject]] = ([], [])  # what came, and what went out

    def owns(self, call: Any) -> bool:
        """Whether a tool call is for the kit: a block, an entry of `tool_calls` or an item."""
        known = read_call(call)
        return known is not None and known.name in own_tools()

    async def call(self, call: Any) -> JsonObject:
        """Run a tool call, and give its finished result in the loop's dialect.

        Whatever goes wrong is a result that says what to do next.
        """
        known = read_call(call)
        if known is None:
            raise InputError("this is no tool call; pass a call for which `owns` is true.")
        try:
            answer = await self._side.run(known.name, arguments_of(known))
        except (MemoryError, RecursionError):
            raise
        except CompactionError as error:
            return make_result(known, str(error), True, self.shape)
        except Exception as error:  # the loop goes on, whatever fails here
            logger.exception("a call of %s failed; the loop goes on", known.name)
            self.failures += 1
            text = _FAILED.format(error=type(error).__name__)
            return make_result(known, text, True, self.shape)
        self._is_directed = self._is_directed or answer.changes_view
        return make_result(known, answer.text, answer.is_error, self.shape)

    def answer_of(self, response: Any) -> list[JsonObject]:
        """The messages that a response adds to the history, as plain objects."""
        return answer_messages(response)

    def calls_of(self, response: Any) -> list[JsonObject]:
        """The tool calls of a response."""
        return answer_calls(response)

    async def record(self, response: Any) -> None:
        """Keep what the model answered, with its usage; a dict or an SDK's object."""
        await self._isolate("recording an answer", self._record(response), None)

    async def fit(self, messages: Sequence[Any]) -> list[JsonObject]:
        """Record what is new, make room where the window is too full, and give what to send.

        What stays as it was said is your own object.
        """
        own = [one for one in messages if not _is_budget_line(one)]
        sent = await self._isolate("fitting the window", self._fit(own, self._wish), None)
        if sent is None:
            return self._without_us(own)
        self._last = (own, sent)
        return await self._with_indicator(sent)

    async def apply(self, messages: list[Any]) -> list[Any]:
        """Replace the window where a tool's result asks for it; else the list as it is.

        Call it when all results of a batch are in the list; before that it changes nothing.
        """
        if not self._is_directed:
            return messages
        own = [one for one in messages if not _is_budget_line(one)]
        sent = await self._isolate("replacing the window", self._fit_whole_batch(own), None)
        if sent is None:
            return messages
        self._is_directed = False
        self._last = (sent, sent)
        return sent

    async def send(
        self, call: Callable[[list[JsonObject]], Awaitable[T]], messages: Sequence[Any]
    ) -> T:
        """Fit the window, call the model with it, and record the answer.

        Where the provider says that the request is too large, the window is compressed and the
        call made once more.
        """
        try:
            response = await call(await self.fit(messages))
            if not _is_refused(response):
                await self.record(response)
                return response
        except Exception as error:
            if not _is_too_large(error) or not await self._make_room():
                raise
        else:
            if not await self._make_room():
                return response
        response = await call(await self.fit(messages))
        await self.record(response)
        return response

    async def _record(self, response: Any) -> None:
        await self._side.record(plain_of(response))

    async def _fit(self, messages: Sequence[Any], wish: Wish) -> list[JsonObject]:
        plain = plain_messages(messages)
        done = count_compacted_by_api(plain) if self.shape == "anthropic" else 0
        if done == len(plain):
            return plain
        return [*plain[:done], *await self._side.fit(plain[done:], wish)]

    async def _fit_whole_batch(self, messages: Sequence[Any]) -> list[JsonObject] | None:
        if has_open_calls(plain_messages(messages), self.shape):
            return None
        return await self._fit(messages, self._wish._replace(relieve=False))

    async def _make_room(self) -> bool:
        reason = "the provider refused the request: too large for the window"
        return await self._isolate(
            "compressing after an overflow", self._side.make_room(reason, _AFTER_OVERFLOW), False
        )

    async def _with_indicator(self, sent: list[JsonObject]) -> list[JsonObject]:
        """The request with the line of the fill behind it: no cache mark stands after that."""
        if not self._has_indicator or sent[-1].get("role") == "assistant":
            return sent
        line = await self._isolate("measuring the window", self._side.budget_line(), "")
        return [*sent, {"role": "user", "content": line}] if line else sent

    def _without_us(self, messages: list[Any]) -> list[JsonObject]:
        """What to send where fitting failed: what was sent last, and behind it what is new."""
        came, sent = self._last
        is_longer = len(messages) >= len(came) and all(
            one is other for one, other in zip(came, messages, strict=False)
        )
        return [*sent, *messages[len(came) :]] if is_longer else messages

    async def _isolate(self, doing: str, work: Awaitable[T], otherwise: T) -> T:
        try:
            return await work
        except (MemoryError, RecursionError):
            raise
        except Exception:  # the loop goes on, whatever fails here
            logger.exception("%s failed; the loop goes on without it", doing)
            self.failures += 1
            return otherwise


def _side_of(source: OpenSession | ToolCaller, session: str | None, shape: Shape) -> Side:
    if isinstance(source, OpenSession):
        if session is not None:
            raise InputError("the session is open already; leave `session` out.")
        return InProcess(source)
    if session is None:
        raise InputError('over MCP the session needs a name; pass session="tax-2026".')
    return OverMcp(source, session, shape)


def _is_budget_line(message: Any) -> bool:
    content = cast("Any", message.get("content")) if isinstance(message, dict) else None  # pyright: ignore[reportUnknownMemberType]
    return isinstance(content, str) and content.startswith(BUDGET_LABEL)


def _is_too_large(error: Exception) -> bool:
    """Whether a provider's error says that the request does not fit into the window."""
    response = getattr(error, "response", None)
    told = (error, getattr(error, "body", ""), getattr(response, "text", ""))
    return is_overflow(" ".join(map(str, told)))


def _is_refused(response: Any) -> bool:
    """Whether what a call gave back is such an error, not an answer."""
    if not isinstance(response, Mapping):
        return False
    error: Any = cast("Mapping[str, Any]", response).get("error")
    return bool(error) and is_overflow(str(error))
