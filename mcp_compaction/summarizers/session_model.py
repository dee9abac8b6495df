"""Asks a session's own model for a handover, reads what it answers, and accounts for it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from mcp_compaction.core.digest.prompt import Unusable, prompt_to_session, read_answer
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.wording import kilo
from mcp_compaction.errors import SummarizerError
from mcp_compaction.formats.arrival import messages_of_answer
from mcp_compaction.formats.content import objects_in, text_or_empty
from mcp_compaction.formats.turns import blocks_of
from mcp_compaction.formats.usage import Usage, read_usage
from mcp_compaction.lexicon.models import find_summary_price
from mcp_compaction.model import Draft, JsonObject, JsonValue, ModelCall, Shape, SummaryRequest

MOST_WRITTEN = 1_500  # tokens of an answer
_LEAST_FROM_CACHE = 0.5  # of what a question has read
QUESTION = prompt_to_session(MOST_WRITTEN)
"""What the model is asked behind all that its window holds."""


class Answered(NamedTuple):
    """What the model answered to the question."""

    text: str
    model: str
    usage: Usage | None  # as the provider counted it


class SessionModel:
    """The model of a session, as a summarizer of its own window."""

    name = "the session's own model"

    def __init__(self, count: CountTokens) -> None:
        self.ask: Callable[[], Awaitable[Answered]] | None = None  # over the request as it stands
        self.unseen = 0  # newest messages of the session that the request has not
        self._count = count
        self._stopped = ""  # why it is not asked any more

    async def summarize(self, request: SummaryRequest) -> Draft:
        """The draft that the model gives for its whole window."""
        if self._stopped:
            raise SummarizerError(self._stopped)
        if self.ask is None:
            raise SummarizerError("no request of it is known yet")
        began = time.monotonic()
        try:
            answered = await self.ask()
        except SummarizerError:
            raise
        except Exception as error:
            raise SummarizerError(f"its request failed ({type(error).__name__})") from error
        call = account_for(answered.model, answered.usage, time.monotonic() - began)
        # A model without a listed price mostly runs at its caller's: a miss costs only time there.
        self._stopped = explain_miss(call) if call.cost is not None else ""
        known = [*request.messages, *request.later]
        up_to = known[max(0, len(known) - 1 - self.unseen)].seq
        draft = read_handover(answered.text, answered.model, up_to, call, self._count)
        if isinstance(draft, Unusable):
            failed = call.model_copy(update={"failed": draft.reason})
            raise SummarizerError(draft.reason, (failed,))
        return draft.model_copy(update={"calls": (call,)})


def with_question(messages: Sequence[JsonObject], shape: Shape) -> list[JsonObject]:
    """The messages with the question behind them; in the Messages API roles take turns."""
    *before, last = messages
    if shape != "anthropic" or last.get("role") != "user":
        return [*messages, {"role": "user", "content": QUESTION}]
    blocks: list[JsonValue] = [*blocks_of(last), {"type": "text", "text": QUESTION}]
    return [*before, {**last, "content": blocks}]


def read_answered(answer: JsonObject, shape: Shape) -> Answered:
    """What a provider's response says."""
    _, said = messages_of_answer(answer, shape)
    text = "\n".join(map(_text_of, said))
    model = text_or_empty(answer.get("model")) or "a model"
    return Answered(text, model, read_usage(answer.get("usage")))


def _text_of(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    kinds = ("text", "output_text")
    texts = (b.get("text") for b in objects_in(content) if b.get("type") in kinds)
    return "\n".join(map(text_or_empty, texts))


def read_handover(
    text: str, model: str, up_to: int, call: ModelCall, count: CountTokens
) -> Draft | Unusable:
    """The draft in an answer over the messages up to one, with what it took as its note; or why
    there is none."""
    author = f"{model}, asked in its session"
    draft = read_answer(text, author, MOST_WRITTEN, count)
    if isinstance(draft, Unusable):
        return draft
    note = f"prose by {author}, up to m{up_to}: {describe_call(call)}"
    return draft.model_copy(update={"up_to": up_to, "note": note})


def account_for(model: str, used: Usage | None, seconds: float) -> ModelCall:
    """What one question took, by what the provider counted and the list of prices."""
    if used is None:
        return ModelCall(model=model, seconds=seconds)
    price = find_summary_price(model)
    return ModelCall(
        model=model,
        seconds=seconds,
        input_tokens=used.read,
        output_tokens=used.output,
        cached_tokens=used.cached,
        cost=price.cost_of(used.read, used.cached, used.output) if price else None,
    )


def explain_miss(call: ModelCall) -> str:
    """Why the model is not asked again: the provider read anew what its cache was to save; empty:
    the cache served the question."""
    fresh = call.input_tokens - call.cached_tokens
    if call.cached_tokens >= _LEAST_FROM_CACHE * call.input_tokens:
        return ""
    return f"the provider's cache did not serve it: {kilo(fresh)} tokens were read anew"


def estimate_cost(model: str, window: int) -> float | None:
    """The dollars of one question over a window that the provider has in its cache; None: no price
    is known."""
    price = find_summary_price(model)
    return price.cost_of(window, window, MOST_WRITTEN) if price else None


def describe_call(call: ModelCall) -> str:
    """What one question took: what was read, how much of it from the cache, what it cost."""
    cost = f", ${call.cost:.2f} by list prices" if call.cost is not None else ""
    read = f"{kilo(call.input_tokens)} tokens read, {kilo(call.cached_tokens)} from the cache"
    return f"{call.seconds:.0f} s, {read}, {kilo(call.output_tokens)} written{cost}"
