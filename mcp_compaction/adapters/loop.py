"""A kit for home-made agent loops, with Anthropic's, OpenAI's chat or Responses messages.

    kit = LoopKit(await store.session("tax-2026"))      # or over MCP: LoopKit(client, session="…")
    response = await kit.send(ask, messages)            # fits the window, retries an overflow once
    messages += kit.answer_of(response)
    calls = kit.calls_of(response)
    results = [await kit.call(c) if kit.owns(c) else kit.result_of(c, run(c)) for c in calls]
    messages += kit.messages_of(results)
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
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any, Protocol, TypeVar, cast, get_args, overload

from mcp_compaction.adapters.dialects import (
    DialectCall,
    arguments_of,
    calls_in,
    count_compacted_by_api,
    find_block,
    has_open_calls,
    make_definition,
    make_result,
    plain_messages,
    read_call,
    read_request,
    result_messages,
)
from mcp_compaction.adapters.guard import CallGuard, Failures, text_of_error
from mcp_compaction.adapters.in_process import InProcess
from mcp_compaction.adapters.over_mcp import OverMcp, ToolCaller
from mcp_compaction.adapters.session_model import (
    SummarizerName,
    as_it_stands,
    ask_caller,
    find_own_model,
)
from mcp_compaction.api.blocking import BlockingSession
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.formats.arrival import messages_of_answer
from mcp_compaction.formats.content import objects_in, text_or_empty
from mcp_compaction.formats.turns import (
    blocks_of,
    join_turns,
    place_before_joining,
    plain_of,
    split_turns,
)
from mcp_compaction.lexicon.host_texts import own_tools
from mcp_compaction.lexicon.models import find_refused_block, is_overflow, limit_in
from mcp_compaction.model import JsonObject, JsonValue, Shape
from mcp_compaction.summarizers.session_model import SessionModel
from mcp_compaction.tools.answers import is_budget_line
from mcp_compaction.tools.arguments import definition_of
from mcp_compaction.tools.running import ToolAnswer, list_tools

__all__ = ["LoopKit"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

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
        guard: CallGuard | None = None,
        summarizer: SummarizerName = None,
    ) -> None:
        """A kit on an open session, or over MCP on an object with `call_tool`.

        `session`: over MCP, the name of the session. `shape`: of the messages. A tool result of
        more tokens than `offload_over_tokens` becomes a preview with its ref when it comes; None:
        never. `microcompact`: before each request, large results outside the recent turns become
        previews; in the provider's cache all that stands after the oldest new one is lost each
        time. `indicator`: each request ends with one line of the fill. `agent_controlled`: whether
        compress_context is offered; without it the store's setting, over MCP true. `guard`: what
        `hold` asks about calls of your own tools. `summarizer`: "session" has the model that `send`
        calls write the handover when the window is compacted: it is asked over the request as it
        stands, which its provider has in the cache; None: as the store's settings say.
        """
        if shape not in get_args(Shape):
            raise InputError(f"shape is {shape!r}; use {', '.join(get_args(Shape))}.")
        self._backend = _backend_of(source, session, shape)
        self.shape: Shape = shape
        self._own_model: SessionModel | None = None
        if isinstance(source, OpenSession):
            self._own_model = find_own_model(source, summarizer)
        elif summarizer is not None:
            raise InputError(
                'summarizer="session" needs a session that is open in this process; leave it out, '
                "or pass `await store.session(NAME)`."
            )
        self._failures = Failures("loop")
        by_agent = self._backend.by_agent if agent_controlled is None else agent_controlled
        self.tools: list[JsonObject] = [
            make_definition(definition_of(tool), shape) for tool in list_tools(by_agent=by_agent)
        ]
        self._options = FitOptions(True, offload_over_tokens, microcompact)
        self._has_indicator = indicator
        self._guard = guard
        self._is_directed = False
        self._last: tuple[list[Any], list[JsonObject]] = ([], [])  # what came, and what went out

    @property
    def failures(self) -> int:
        """How often something failed here; each is logged, and the loop went on."""
        return self._failures.count

    def owns(self, call: Any) -> bool:
        """Whether a tool call is for the kit: a block, an entry of `tool_calls` or an item."""
        known = read_call(call)
        return known is not None and known.name in own_tools()

    async def call(self, call: Any) -> JsonObject:
        """Run a tool call, and give its finished result in the loop's dialect.

        Whatever goes wrong is a result that says what to do next.
        """
        known = _must_be_call(call)
        try:
            answer = await self._backend.run(known.name, arguments_of(known))
        except (MemoryError, RecursionError):
            raise
        except CompactionError as error:
            return make_result(known, str(error), True, self.shape)
        except Exception as error:  # the loop goes on, whatever fails here
            logger.exception("a call of %s failed; the loop goes on", known.name)
            self._failures.count += 1
            text = _FAILED.format(error=type(error).__name__)
            return make_result(known, text, True, self.shape)
        self._is_directed = self._is_directed or answer.changes_view
        return make_result(known, answer.text, answer.is_error, self.shape)

    def hold(self, call: Any) -> JsonObject | None:
        """The result of a call that a pin holds, in place of running it; None: it may run."""
        known = _must_be_call(call)
        if self._guard is None:
            return None
        refusal = self._guard.hold(known.name, arguments_of(known), known.id)
        return None if refusal is None else make_result(known, refusal, True, self.shape)

    def result_of(self, call: Any, content: Any, *, is_error: bool = False) -> JsonObject:
        """The result of a call that you ran yourself, in the loop's dialect.

        `content`: its text, or blocks as the provider takes them. OpenAI's dialects have no place
        for `is_error`: there the text must tell it.
        """
        known = _must_be_call(call)
        if self._guard is not None:
            told = content if isinstance(content, str) else ""
            self._guard.note(known.name, arguments_of(known), told, failed=is_error)
        return make_result(known, plain_of(content), is_error, self.shape)

    def messages_of(self, results: Sequence[JsonObject]) -> list[JsonObject]:
        """The messages that the results of a batch add to the history."""
        return result_messages(results, self.shape)

    def answer_of(self, response: Any) -> list[JsonObject]:
        """The messages that a response adds to the history, as plain objects."""
        shape: Shape = self.shape
        messages: list[JsonObject] = []
        with self._failures.isolate("reading an answer"):
            shape, messages = messages_of_answer(plain_of(response), shape)
        if shape != self.shape:
            raise InputError(
                f"the kit speaks {self.shape!r} and this response is {shape!r}; make the kit with "
                f"shape={shape!r}."
            )
        return messages

    def calls_of(self, response: Any) -> list[JsonObject]:
        """The tool calls of a response."""
        return [call for message in self.answer_of(response) for call in calls_in(message)]

    async def record(self, response: Any) -> None:
        """Keep what the model answered, with its usage; a dict or an SDK's object."""
        with self._failures.isolate("recording an answer"):
            await self._backend.record(plain_of(response))

    @overload
    async def fit(self, request: Mapping[str, Any]) -> dict[str, Any]: ...
    @overload
    async def fit(self, request: Sequence[Any]) -> list[JsonObject]: ...
    async def fit(self, request: Any) -> Any:
        """Record what is new, make room where the window is too full, and give what to send.

        `request`: your messages, or the whole body with them; you get the same kind back. What
        stays as it was said is your own object.
        """
        given = read_request(request)
        own = _without_budget_line(given.messages)
        sent = None
        with self._failures.isolate("fitting the window"):
            sent = await self._fit(own, given.beside, self._options)
        if sent is None:
            return given.with_messages(list(as_it_stands(own, self._last)))
        self._last = (own, sent)
        return given.with_messages(await self._with_indicator(sent))

    async def apply(self, request: Any) -> Any:
        """Replace the window where a tool's result asks for it; else the request as it is.

        `request`: your messages, or the whole body with them. Call it when all results of a batch
        are in; before that it changes nothing.
        """
        if not self._is_directed:
            return request
        with self._failures.isolate("replacing the window"):
            given = read_request(request)
            own = _without_budget_line(given.messages)
            if has_open_calls(plain_messages(own), self.shape):
                return request
            options = self._options._replace(relieve=False, is_sent=False)
            sent = await self._fit(own, given.beside, options)
            self._is_directed = False
            self._last = (sent, sent)
            return given.with_messages(sent)
        return request

    @overload
    async def send(self, call: Callable[[Any], Awaitable[T]], request: Any) -> T: ...
    @overload
    async def send(self, call: Callable[[Any], T], request: Any) -> T: ...
    async def send(self, call: Callable[[Any], Any], request: Any) -> Any:
        """Fit the window, call the model with it, and record the answer.

        `call` takes what `fit` gives, and may be a coroutine function or a plain one. Where the
        provider says that the request is too large, the window is compressed and the call made
        once more; so it is without the thinking that a provider refuses.
        """
        given = read_request(request)
        if self._own_model is not None:  # before anything leaves the request
            now = as_it_stands(_without_budget_line(given.messages), self._last)
            self._own_model.ask = partial(ask_caller, call, given, now, self.shape)
        sent = cast("object", await self.fit(request))
        if self._own_model is not None:
            self._own_model.ask = partial(ask_caller, call, given, self._last[1], self.shape)
        try:
            response = await self._ask(call, sent)
            other = await self._mend(request, sent, _refusal_in(response))
            if other is None:
                return response
        except Exception as error:
            other = await self._mend(request, sent, text_of_error(error))
            if other is None:
                raise
        return await self._ask(call, other)

    async def _mend(self, request: Any, sent: object, refusal: str) -> object | None:
        """What to send after a provider's error; None where nothing else would help."""
        if is_overflow(refusal):
            return await self._fit_smaller(request, sent, refusal)
        place = find_refused_block(refusal)
        if place is None or self.shape == "responses":
            return None
        given = read_request(sent)
        plain = plain_messages(given.messages)
        done = count_compacted_by_api(plain) if self.shape == "anthropic" else 0
        message, block = find_block(plain, place, self.shape)
        parts = self._split(plain[done:])
        message = max(0, message - done)
        if self.shape == "anthropic":
            message = place_before_joining(parts, message)
        with self._failures.isolate("leaving thinking out"):
            left = await self._backend.leave_out_refused(parts, given.beside, (message, block))
            sent_again = [*plain[:done], *self._join(left)]
            if self._last[1]:
                self._last = (self._last[0], _without_budget_line(sent_again))
            return given.with_messages(sent_again)
        return None

    async def _ask(self, call: Callable[[Any], Any], sent: Any) -> Any:
        response = call(sent)
        if isawaitable(response):
            response = await response
        if not _refusal_in(response):
            await self.record(response)
        return response

    async def _fit(
        self, messages: Sequence[Any], beside: JsonObject, options: FitOptions
    ) -> list[JsonObject]:
        plain = plain_messages(messages)
        done = count_compacted_by_api(plain) if self.shape == "anthropic" else 0
        if done == len(plain):
            return plain
        sent = await self._backend.fit(self._split(plain[done:]), beside, options)
        return [*plain[:done], *self._join(sent)]

    def _join(self, messages: list[JsonObject]) -> list[JsonObject]:
        return join_turns(messages) if self.shape == "anthropic" else messages

    def _split(self, messages: list[JsonObject]) -> list[JsonObject]:
        return split_turns(messages) if self.shape == "anthropic" else messages

    async def _fit_smaller(self, request: Any, sent: object, refusal: str) -> object | None:
        """What to send after an overflow; None where it is no smaller than what was refused."""
        with self._failures.isolate("compressing after an overflow"):
            await self._backend.make_room(limit_in(refusal))
        fitted = cast("object", await self.fit(request))
        return fitted if len(str(fitted)) < len(str(sent)) else None

    async def _with_indicator(self, sent: list[JsonObject]) -> list[JsonObject]:
        """The request with the line of the fill behind it: no cache mark stands after that."""
        if not self._has_indicator or not sent or sent[-1].get("role") == "assistant":
            return sent
        line = ""
        with self._failures.isolate("measuring the window"):
            line = await self._backend.budget_line()
        if not line:
            return sent
        self._backend.note_passing()
        if self.shape != "anthropic" or sent[-1].get("role") != "user":
            return [*sent, {"role": "user", "content": line}]
        content: list[JsonValue] = [*blocks_of(sent[-1]), {"type": "text", "text": line}]
        return [*sent[:-1], {**sent[-1], "content": content}]


def _backend_of(source: OpenSession | ToolCaller, session: str | None, shape: Shape) -> LoopSession:
    if isinstance(source, OpenSession):
        if session is not None:
            raise InputError("the session is open already; leave `session` out.")
        return InProcess(source, shape)
    if isinstance(source, BlockingSession):
        raise InputError("the kit is for asyncio; open the store with `async with open_store()`.")
    if session is None:
        raise InputError('over MCP the session needs a name; pass session="tax-2026".')
    return OverMcp(source, session, shape)


def _must_be_call(call: Any) -> DialectCall:
    known = read_call(call)
    if known is None:
        raise InputError("this is no tool call; pass one of those that `calls_of` gives.")
    return known


def _without_budget_line(messages: Sequence[Any]) -> list[Any]:
    """The messages without the lines of the fill that came back: as messages, or in one."""
    found: list[Any] = []
    for message in messages:
        content = cast("Any", message.get("content")) if isinstance(message, dict) else None  # pyright: ignore[reportUnknownMemberType]
        blocks = objects_in(content)
        kept = [b for b in blocks if not is_budget_line(text_or_empty(b.get("text")))]
        if isinstance(content, str) and is_budget_line(content):
            continue
        found.append({**message, "content": kept} if len(kept) < len(blocks) else message)
    return found


def _refusal_in(response: Any) -> str:
    """The error that a call gave back in place of an answer; empty where it is one."""
    with suppress(Exception):  # an answer that cannot be read is counted when it is recorded
        found = plain_of(response)
        said = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        return str(said.get("error") or "")
    return ""


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
