"""LangChain's SummarizationMiddleware as a baseline, where it is installed, with an echo model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.baselines import Strategy, cost
from mcp_compaction.evals.measures import PlainLine

NAME = "LangChain echo"
NOT_INSTALLED = (
    "LangChain's SummarizationMiddleware was not measured: langchain is not installed; "
    "pip install langchain, and run this again."
)
_KEPT = 0.5  # of the budget, as recent messages; the summary gets the rest
_HEADING_TOKENS = 16  # what the middleware writes before a summary
_BEFORE_MESSAGES = "Messages to summarize:"


def langchain_strategy() -> Strategy | None:
    """The middleware with a model that gives back what it was handed, cut at its tokens."""
    return _summarize if find_spec("langchain") else None


def _summarize(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    middleware = import_module("langchain.agents.middleware")
    messages = import_module("langchain_core.messages")
    kept = int(budget * _KEPT)
    shrinking = middleware.SummarizationMiddleware(
        model=_make_echo(int(budget) - kept - _HEADING_TOKENS, count),
        trigger=("tokens", 1),
        keep=("tokens", kept),
        token_counter=partial(_count_tokens, count),
    )
    said = [
        (messages.AIMessage if line.role == "assistant" else messages.HumanMessage)(line.text)
        for line in lines
    ]
    update = shrinking.before_model({"messages": said}, None)
    left = said if update is None else update["messages"][1:]  # the first removes all others
    return [PlainLine(role=_role_of(one), text=_text_of(one)) for one in left]


def _count_tokens(count: CountTokens, said: Sequence[Any]) -> int:
    return sum(cost(_text_of(one), count) for one in said)


def _make_echo(most_tokens: int, count: CountTokens) -> Any:
    models = import_module("langchain_core.language_models.chat_models")

    def answer(_: object, prompt: Sequence[Any], *_more: object, **_options: object) -> str:
        handed = str(prompt[-1].content).partition(_BEFORE_MESSAGES)[2]
        return _cut_text(handed.strip(), most_tokens, count)

    body = {"_call": answer, "_llm_type": property(lambda _: "echo")}
    return type("Echo", (models.SimpleChatModel,), body)()


def _cut_text(text: str, most_tokens: int, count: CountTokens) -> str:
    """As much of a text, from its start, as a model's answer may hold."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= most_tokens else (low, middle - 1)
    return text[:low]


def _text_of(message: Any) -> str:
    return str(message.content)


def _role_of(message: Any) -> str:
    return "assistant" if message.type == "ai" else "user"
