"""Makes a draft of what a session's own model answers over its own window, and accounts for it."""

from __future__ import annotations

from mcp_compaction.core.digest.prompt import Unusable, prompt_to_session, read_answer
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.wording import kilo
from mcp_compaction.formats.usage import read_usage
from mcp_compaction.lexicon.models import find_summary_price
from mcp_compaction.model import Draft, JsonValue, ModelCall

_LIMIT = 1_500  # tokens of an answer
QUESTION = prompt_to_session(_LIMIT)
"""What the model is asked behind all that its window holds."""


def read_handover(
    text: str, model: str, up_to: int, call: ModelCall, count: CountTokens
) -> Draft | Unusable:
    """The draft in an answer over the messages up to one, with what it took as its note; or why
    there is none."""
    author = f"{model}, asked in its session"
    draft = read_answer(text, author, _LIMIT, count)
    if isinstance(draft, Unusable):
        return draft
    note = f"prose by {author}, up to m{up_to}: {describe_call(call)}"
    return draft.model_copy(update={"up_to": up_to, "note": note})


def account_for(model: str, usage: JsonValue, seconds: float) -> ModelCall:
    """What one question took, by what the provider counted and the list of prices."""
    used = read_usage(usage)
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


def estimate_cost(model: str, window: int) -> float | None:
    """The dollars of one question over a window that the provider has in its cache; None: no price
    is known."""
    price = find_summary_price(model)
    return price.cost_of(window, window, _LIMIT) if price else None


def describe_call(call: ModelCall) -> str:
    """What one question took: what was read, how much of it from the cache, what it cost."""
    cost = f", ${call.cost:.2f} by list prices" if call.cost is not None else ""
    read = f"{kilo(call.input_tokens)} tokens read, {kilo(call.cached_tokens)} from the cache"
    return f"{call.seconds:.0f} s, {read}, {kilo(call.output_tokens)} written{cost}"
