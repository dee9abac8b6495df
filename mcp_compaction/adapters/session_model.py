"""Asks a loop's own model for the handover of a compaction, over the request as it stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any

from mcp_compaction.adapters.dialects import Request, has_open_calls, plain_messages
from mcp_compaction.core.digest.prompt import Unusable
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.errors import SummarizerError
from mcp_compaction.formats.arrival import messages_of_answer
from mcp_compaction.formats.content import objects_in, text_or_empty
from mcp_compaction.formats.turns import blocks_of, plain_of
from mcp_compaction.model import Draft, JsonObject, JsonValue, Shape, SummaryRequest
from mcp_compaction.summarizers.session_model import QUESTION, account_for, read_handover


class SessionModel:
    """The model of a loop, as a summarizer of its own session."""

    name = "the session's own model"

    def __init__(self, shape: Shape, count: CountTokens) -> None:
        """Nobody is asked before a request is known."""
        self._shape: Shape = shape
        self._count = count
        self._call: Callable[[Any], Any] | None = None
        self._given: Request | None = None
        self._messages: list[JsonObject] = []

    def know(self, call: Callable[[Any], Any], given: Request, messages: Sequence[Any]) -> None:
        """Take what sends a request to the model, and the request as it stands now."""
        self._call, self._given, self._messages = call, given, plain_messages(messages)

    async def summarize(self, request: SummaryRequest) -> Draft:
        """The draft that the model gives for its whole window."""
        if self._call is None or self._given is None or not self._messages:
            raise SummarizerError("no request of it is known yet")
        if has_open_calls(self._messages, self._shape):
            raise SummarizerError("a call waits for its result")
        began = time.monotonic()
        try:
            response = self._call(self._given.with_messages(self._with_question()))
            answer = plain_of(await response if isawaitable(response) else response)
            _, said = messages_of_answer(answer, self._shape)
        except Exception as error:
            raise SummarizerError(f"its request failed ({type(error).__name__})") from error
        model = text_or_empty(answer.get("model")) or "a model"
        call = account_for(model, answer.get("usage"), time.monotonic() - began)
        text = "\n".join(_text_of(message) for message in said)
        up_to = (request.later or request.messages)[-1].seq
        draft = read_handover(text, model, up_to, call, self._count)
        if isinstance(draft, Unusable):
            failed = call.model_copy(update={"failed": draft.reason})
            raise SummarizerError(draft.reason, (failed,))
        return draft.model_copy(update={"calls": (call,)})

    def _with_question(self) -> list[JsonObject]:
        """The messages with the question behind them; in the Messages API roles take turns."""
        *before, last = self._messages
        if self._shape != "anthropic" or last.get("role") != "user":
            return [*self._messages, {"role": "user", "content": QUESTION}]
        blocks: list[JsonValue] = [*blocks_of(last), {"type": "text", "text": QUESTION}]
        return [*before, {**last, "content": blocks}]


def _text_of(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    kinds = ("text", "output_text")
    texts = (b.get("text") for b in objects_in(content) if b.get("type") in kinds)
    return "\n".join(map(text_or_empty, texts))
