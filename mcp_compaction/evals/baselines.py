"""The simpler ways to shrink a session, and other libraries where they are installed, each given
the same tokens as the product."""

from __future__ import annotations

import heapq
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.corpora import PlainLine, content_words_of

Strategy = Callable[[Sequence[PlainLine], float, CountTokens], list[PlainLine]]

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NEARLY_FULL = 0.98
_S0_CHARS, _S0_SUMMARY = 100, 500
_S1_CHARS = 200
_TELLING = re.compile(
    r"\b\d[\d,.:/%-]*\b"  # a number
    r"|\b[A-Z][a-z]+(?: [A-Z][a-z]+)+\b"  # a name
    r"|\"[^\"]{2,60}\""  # a quotation
    r"|\b(?:never|always|must|not|no longer|decided|because|instead|prefer|until|deadline)\b"
)
_SMALL_TALK = re.compile(
    r"(?:\w+: )?(?:hey|hi|hello|wow|thanks|thank you|awesome|great|cool|yeah|sounds|glad|take care|"
    r"bye|that's (?:great|awesome|so)|so (?:cool|nice|glad))\b",
    re.I,
)


def cost(text: str, count: CountTokens) -> int:
    """The tokens of a line with its end."""
    return count(text) + 1


def tokens_of(lines: Sequence[PlainLine], count: CountTokens) -> int:
    """The tokens of a session: what every budget is a share of."""
    return sum(cost(line.text, count) for line in lines)


def keep_last(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """The newest messages that fit."""
    return take_until_full(lines[::-1], budget, count)[::-1]


def what_s0_had(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """The first 100 characters of each assistant message joined to 500, then the newest."""
    heads = [line.text[:_S0_CHARS] for line in lines if line.role == "assistant"]
    summary = PlainLine(role="assistant", text=" ".join(heads)[:_S0_SUMMARY])
    first = take_until_full([summary], budget, count)
    return [*first, *keep_last(lines, budget - tokens_of(first, count), count)]


def first_characters(
    lines: Sequence[PlainLine], budget: float, count: CountTokens
) -> list[PlainLine]:
    """The first 200 characters of each message, from the oldest on, until it is full."""
    heads = [PlainLine(role=line.role, text=line.text[:_S1_CHARS]) for line in lines]
    return take_until_full(heads, budget, count)


def tfidf(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """The sentences with the rarest words for their length."""
    rarity = _rarity_of(lines)
    scored: list[tuple[float, PlainLine]] = []
    for unit in _sentences_of(lines):
        words = content_words_of(unit.text)
        score = sum(map(rarity, dict.fromkeys(words))) / math.sqrt(len(words) + 3)
        scored.append((score, unit))
    return _choose_best(scored, budget, count)


def novelty(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """A greedy cover: each next sentence is worth the rare words that are not yet there."""
    rarity = _rarity_of(lines)
    units = _sentences_of(lines)
    # In their order, not as a set: sums of floats depend on it.
    words = [tuple(dict.fromkeys(content_words_of(unit.text))) for unit in units]
    costs = [cost(unit.text, count) for unit in units]
    weights = [_weight_of(unit.text) / size**0.8 for unit, size in zip(units, costs, strict=True)]
    covered: Counter[str] = Counter()

    def worth(n: int) -> float:
        return weights[n] * sum(rarity(word) * 0.5 ** covered[word] for word in words[n])

    queue = [(-worth(n), n) for n in range(len(units))]
    heapq.heapify(queue)
    chosen: list[int] = []
    used = 0
    while queue:
        _, n = heapq.heappop(queue)
        now = -worth(n)
        if queue and now > queue[0][0] + 1e-9:  # others cover more by now
            heapq.heappush(queue, (now, n))
        elif used + costs[n] <= budget:
            chosen.append(n)
            used += costs[n]
            covered.update(words[n])
        elif used > _NEARLY_FULL * budget:
            break
    return [units[n] for n in sorted(chosen)]


def at_random(lines: Sequence[PlainLine], budget: float, count: CountTokens) -> list[PlainLine]:
    """Sentences drawn by lot."""
    lot = random.Random(0)
    return _choose_best([(lot.random(), unit) for unit in _sentences_of(lines)], budget, count)


BASELINES: Mapping[str, Strategy] = MappingProxyType(
    {
        "keep last": keep_last,
        "first 100, to 500": what_s0_had,
        "first 200 each": first_characters,
        "TF-IDF": tfidf,
        "novelty": novelty,
        "random": at_random,
    }
)


def take_until_full(
    lines: Sequence[PlainLine], budget: float, count: CountTokens
) -> list[PlainLine]:
    """The first lines that fit."""
    kept: list[PlainLine] = []
    used = 0
    for line in lines:
        used += cost(line.text, count)
        if used > budget:
            break
        kept.append(line)
    return kept


def _choose_best(
    scored: Sequence[tuple[float, PlainLine]], budget: float, count: CountTokens
) -> list[PlainLine]:
    """The lines that score highest and still fit, in their old order."""
    chosen: list[int] = []
    used = 0
    for n in sorted(range(len(scored)), key=lambda n: -scored[n][0]):
        size = cost(scored[n][1].text, count)
        if used + size <= budget:
            chosen.append(n)
            used += size
        elif used > _NEARLY_FULL * budget:
            break
    return [scored[n][1] for n in sorted(chosen)]


def _sentences_of(lines: Sequence[PlainLine]) -> list[PlainLine]:
    return [
        PlainLine(role=line.role, text=part.strip())
        for line in lines
        for part in _SENTENCE.split(line.text)
        if part.strip()
    ]


def _rarity_of(lines: Sequence[PlainLine]) -> Callable[[str], float]:
    """A function that gives the rarity of a word among the messages."""
    seen = Counter(word for line in lines for word in set(content_words_of(line.text)))
    return lambda word: math.log(1 + len(lines) / (1 + seen[word]))


def _weight_of(sentence: str) -> float:
    told = 1 + 0.2 * min(3, len(_TELLING.findall(sentence)))
    is_idle = _SMALL_TALK.match(sentence) or sentence.endswith("?")
    return told * (0.6 if is_idle else 1)


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
