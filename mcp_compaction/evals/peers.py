"""Other projects' compactions, where they are installed: each gets the tokens of the product.

Where one asks a model for its summary, the sentences of `baselines.novelty` stand in for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.baselines import Strategy, cost, keep_last, novelty, tokens_of
from mcp_compaction.evals.measures import PlainLine

_KEPT = 0.5  # of the budget, as recent messages; the summary gets the rest
_HEADING_TOKENS = 16  # what LangChain writes before a summary
_LONG_HEADING_TOKENS = 80  # deepagents also names the file of the history
# CliffCompaction's own rungs, before it cuts the summary.
_RUNGS: Sequence[Mapping[str, int]] = (
    {},
    {"keep_recent": 1},
    {"keep_recent": 1, "thought_max_chars": 300},
)
_BEFORE_MESSAGES = "Messages to summarize:"
_BETWEEN_TURNS = "\n\n---\n\n"


class FoundPeers(NamedTuple):
    """The peers that can be measured here, and what is to be said of the others."""

    strategies: Mapping[str, Strategy]
    notes: tuple[str, ...]


def find_peers() -> FoundPeers:
    """The peers that are installed; of each other one, why it was not measured."""
    strategies = {name: peer for name, (package, peer) in _PEERS.items() if find_spec(package)}
    missing = {name: package for name, (package, _) in _PEERS.items() if name not in strategies}
    notes = (
        f"{name} was not measured: {package} is not installed; pip install {package}, and run this "
        "again."
        for name, package in missing.items()
    )
    return FoundPeers(strategies, tuple(notes))


def _langchain(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    middleware = import_module("langchain.agents.middleware")
    kept = int(budget * _KEPT)
    shrinking = middleware.SummarizationMiddleware(
        model=_make_model(int(budget) - kept - _HEADING_TOKENS, count),
        trigger=("tokens", 1),
        keep=("tokens", kept),
        token_counter=partial(_count_tokens, count),
    )
    said = _as_langchain(lines)
    update = shrinking.before_model({"messages": said}, None)
    return _from_langchain(said if update is None else update["messages"][1:])  # 1: removes all


def _deepagents(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    summarization = import_module("deepagents.middleware.summarization")
    types = import_module("langchain.agents.middleware.types")
    backends = import_module("deepagents.backends.filesystem")
    kept = int(budget * _KEPT)
    model = _make_model(int(budget) - kept - _LONG_HEADING_TOKENS, count)
    sent: list[Any] = []

    def note(request: Any) -> Any:
        sent.extend(request.messages)
        return types.ModelResponse(result=[])

    with TemporaryDirectory() as folder:
        shrinking = summarization.SummarizationMiddleware(
            model=model,
            backend=backends.FilesystemBackend(root_dir=folder),
            trim_tokens_to_summarize=None,  # as its own factory has it
            trigger=("tokens", 1),
            keep=("tokens", kept),
            token_counter=partial(_count_tokens, count),
        )
        said = _as_langchain(lines)
        request = types.ModelRequest(model=model, messages=said, tools=[], state={"messages": said})
        shrinking.wrap_model_call(request, note)
    return _from_langchain(sent)


def _make_model(most_tokens: int, count: CountTokens) -> Any:
    """A chat model that answers with the sentences of what it was handed."""
    models = import_module("langchain_core.language_models.chat_models")

    def answer(_: object, prompt: Sequence[Any], *_more: object, **_options: object) -> str:
        handed = str(prompt[-1].content).partition(_BEFORE_MESSAGES)[2]
        lines = [PlainLine(role="user", text=line) for line in handed.splitlines()]
        chosen = novelty(lines, max(0, most_tokens), count)
        return "\n".join(line.text for line in chosen)

    body = {"_call": answer, "_llm_type": property(lambda _: "extractive")}
    return type("Extractive", (models.SimpleChatModel,), body)()


def _as_langchain(lines: Sequence[PlainLine]) -> list[Any]:
    messages = import_module("langchain_core.messages")
    return [
        (messages.AIMessage if line.role == "assistant" else messages.HumanMessage)(
            line.text, id=str(number)
        )
        for number, line in enumerate(lines)
    ]


def _from_langchain(messages: Sequence[Any]) -> list[PlainLine]:
    return [
        PlainLine(role="assistant" if one.type == "ai" else "user", text=str(one.content))
        for one in messages
    ]


def _count_tokens(count: CountTokens, said: Sequence[Any], **_: object) -> int:
    return sum(cost(str(one.content), count) for one in said)


def _cliff(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    compact = import_module("cliffcompaction.cliff").compact
    config = import_module("cliffcompaction.config").Config
    dialect = import_module("cliffcompaction.dialects").detect("/v1/messages")
    said = list(_as_requests(lines))
    head: list[PlainLine] = [*lines]
    summary: list[PlainLine] = []
    tail: list[PlainLine] = []
    for knobs in _RUNGS:
        result = compact(said, dialect, config(**knobs))
        if result is None:
            break
        messages: list[dict[str, Any]] = result.messages
        told = [PlainLine(role=one["role"], text=_text_in(one["content"])) for one in messages]
        if tokens_of(told, count) <= budget:
            return told
        at: int = result.head_len
        head, tail = told[:at], told[at + 1 :]
        turns = told[at].text.split(_BETWEEN_TURNS)
        summary = [PlainLine(role="user", text=turn) for turn in turns]
    left = budget - tokens_of([*head, *tail], count)  # its last rung keeps the newest turns
    if left < 0:
        return keep_last([*head, *tail], budget, count)
    return [*head, *keep_last(summary, left, count), *tail]


def _as_requests(lines: Sequence[PlainLine]) -> Iterator[dict[str, Any]]:
    """The lines in the shape of the Messages API; what a tool gave is a result there."""
    for line in lines:
        if line.role == "tool":
            block = {"type": "tool_result", "tool_use_id": "t", "content": line.text}
            yield {"role": "user", "content": [block]}
        else:
            yield {"role": line.role, "content": line.text}


def _text_in(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or block.get("content") or "") for block in content)


_PEERS: Mapping[str, tuple[str, Strategy]] = MappingProxyType(
    {
        "LangChain": ("langchain", _langchain),
        "deepagents": ("deepagents", _deepagents),
        "CliffCompaction": ("cliffcompaction", _cliff),
    }
)
