"""A second opinion on what a provider accepts, written from its rules and not from our code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, cast

Json = dict[str, Any]

_SIGNED = ("thinking", "redacted_thinking")


def problems(messages: Sequence[Json], shape: str) -> list[str]:
    """Everything the provider of that shape would refuse."""
    check = {"anthropic": _anthropic, "openai": _openai, "responses": _responses}[shape]
    return list(check(messages))


def changed_thinking(originals: Sequence[Json], shown: Sequence[Json]) -> list[str]:
    """Signed reasoning that is not byte for byte an original, or has lost the call it led to."""
    known = list(_signed(originals))
    return [f"changed: {block}" for block in _signed(shown) if block not in known]


def signature_behind(body: Json, messages: Sequence[Json]) -> str:
    """The signature of thinking that is made behind some messages, on a model that binds it."""
    system = _blocks(body.get("system"))
    offered: list[Json] = body.get("tools") or []
    tools = [tool for tool in offered if not tool.get("defer_loading")]
    parts: list[list[Json]] = [system, tools, list(messages)]
    sent = json.dumps([_unmarked(one) for one in parts], sort_keys=True)
    return "bound." + sha256(sent.encode()).hexdigest()[:32]


def unbound_thinking(body: Json) -> str | None:
    """The refusal of a block that was made behind something else than what stands before it."""
    messages: list[Json] = body["messages"]
    for place, message in enumerate(messages):
        for number, block in enumerate(_blocks(message["content"])):
            signature = str(block.get("signature") or block.get("data"))
            if block["type"] not in _SIGNED or not signature.startswith("bound."):
                continue
            if signature != signature_behind(body, messages[:place]):
                return (
                    f"messages.{place}.content.{number}: Invalid `signature` in `thinking` block. "
                    "The block is bound to a different conversation. Remove the block, or set "
                    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                )
    return None


class BoundReasoning:
    """A model of the Responses API whose reasoning is bound to what was sent before its answer:
    behind anything else it is removed from the request, without an error."""

    def __init__(self) -> None:
        self._led_to: dict[str, str] = {}  # the reasoning that each item followed, by ids
        self.removed: list[Json] = []  # from all requests together
        self.kept = 0
        self.faults: list[str] = []

    def look_at(self, body: Json) -> list[Json]:
        """What is removed from a request, as its answer tells."""
        items: list[Json] = body["input"]
        removed: list[Json] = []
        ids = {item.get("id") for item in items}
        start = 0
        for place, item in enumerate(items):
            if not (place and _is_said(item) and _is_said(items[place - 1])):
                start = place
            if self._led_to.get(item.get("id", "")) not in (None, *ids):
                self.faults.append(f"#{place}: provided without its required 'reasoning' item")
            if item.get("type") != "reasoning":
                continue
            if item["encrypted_content"] == _sealed_behind(body, items[:start]):
                self.kept += 1
                continue
            about = {"id": item["id"], "type": "reasoning"}
            removed.append({**about, "action": "removed", "reason": "prefix_mismatch"})
        self.removed += removed
        return removed

    def reason(self, body: Json, output: Sequence[Json], number: int) -> list[Json]:
        """An answer with a reasoning item before each of its items."""
        found: list[Json] = []
        for place, item in enumerate(output):
            sealed = _sealed_behind(body, body["input"])
            own = f"rs_{number}_{place}"
            thought: Json = {"type": "reasoning", "id": own, "summary": []}
            found += [{**thought, "encrypted_content": sealed}, item]
            self._led_to[item["id"]] = own
        return found


def _sealed_behind(body: Json, items: Sequence[Json]) -> str:
    beside = {"system": body.get("instructions"), "tools": body.get("tools")}
    return signature_behind(beside, items)


class MessageThreads:
    """The conversations that a provider keeps for requests that bring only what is new."""

    def __init__(self) -> None:
        self._kept: dict[str, Json] = {}
        self.continued = 0  # requests that brought only what was new

    def find_whole(self, body: Json) -> Json | None:
        """The request that a body stands for; None: its thread is not there."""
        thread: Json = body.get("thread") or {}
        if thread.get("type") != "continue":
            return body
        kept = self._kept.get(thread["previous_message_id"])
        if kept is None:
            return None
        self.continued += 1
        return {**kept, **body, "messages": [*kept["messages"], *body["messages"]]}

    def keep(self, whole: Json, answer: Json) -> None:
        """Keep a request that wishes it, with its answer, under the answer's id."""
        if whole.get("thread"):
            said = {"role": "assistant", "content": answer["content"]}
            self._kept[answer["id"]] = {**whole, "messages": [*whole["messages"], said]}


class BoundThinking:
    """Watches the requests to a model that binds its thinking, and what becomes of each block."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[str, ...]] = {}  # what followed each block in its answer
        self._gone: set[str] = set()  # that were missing from a request once
        self.kept = 0  # blocks that were sent back, in all requests together
        self.faults: list[str] = []

    def sign(self, body: Json, content: Sequence[Json]) -> list[Json]:
        """An answer to a request, its thinking bound to that."""
        signature = signature_behind(body, body["messages"])
        key = {"thinking": "signature", "redacted_thinking": "data"}
        signed = [{**b, key[b["type"]]: signature} if b["type"] in key else b for b in content]
        if signed != list(content):
            self._made[signature] = _said(signed)
        return signed

    def look_at(self, body: Json) -> None:
        """Note what is wrong with a request: a block that is bound to something else, one that
        came back, or one that is missing though nothing before it has changed."""
        refusal = unbound_thinking(body)
        if refusal is not None:
            self.faults.append(refusal)
        messages: list[Json] = body["messages"]
        for place, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            blocks = _blocks(message["content"])
            sent = {b.get("signature") or b.get("data") for b in blocks if b["type"] in _SIGNED}
            self.kept += len(sent)
            own = signature_behind(body, messages[:place])
            self.faults += [f"came back: {one}" for one in sent & self._gone]
            said = _said(blocks)
            mine = [one for one, what in self._made.items() if what == said]
            missing = {*mine} - sent
            if own in missing and own not in self._gone:
                self.faults.append(f"#{place}: is missing and was good: {said}")
            self._gone |= missing


def _said(blocks: Sequence[Json]) -> tuple[str, ...]:
    """What an answer says besides thinking; its calls are known by their ids."""
    return tuple(str(b.get("id") or b.get("text")) for b in blocks if b["type"] not in _SIGNED)


def _unmarked(value: Any) -> Any:
    """A value without cache marks; a text alone is a block."""
    if isinstance(value, list):
        return [_unmarked(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    return {
        key: _blocks(inner) if key == "content" and isinstance(inner, str) else _unmarked(inner)
        for key, inner in cast("Json", value).items()
        if key != "cache_control"
    }


def _signed(messages: Sequence[Json]) -> Iterator[tuple[Json, tuple[str, ...]]]:
    for place, message in enumerate(messages):
        if message.get("type") == "reasoning":
            after = messages[place + 1 : place + 2]
            yield message, tuple(str(item.get("call_id", item.get("content"))) for item in after)
            continue
        blocks = _blocks(message.get("content"))
        for position, block in enumerate(blocks):
            if block["type"] in _SIGNED:
                yield block, tuple(b["id"] for b in blocks[position:] if b["type"] == "tool_use")


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or [])


def _repeated(ids: Sequence[str]) -> list[str]:
    return [one for one, times in Counter(ids).items() if times > 1]


# Anthropic: consecutive assistant messages count as one turn; the next message answers all of it.


def _anthropic(messages: Sequence[Json]) -> Iterator[str]:
    if messages and messages[0]["role"] != "user":
        yield "the first message is not the user's"
    for place, message in enumerate(messages):
        yield from (f"#{place}: {fault}" for fault in _anthropic_message(message))
        if message["role"] != "assistant":
            if _ids(message, "tool_result") and not (
                place and messages[place - 1]["role"] == "assistant"
            ):
                yield f"#{place}: results that do not follow the assistant"
            continue
        if place + 1 < len(messages) and messages[place + 1]["role"] == "assistant":
            continue
        yield from (f"#{place}: {fault}" for fault in _anthropic_turn(messages, place))


def _anthropic_turn(messages: Sequence[Json], place: int) -> Iterator[str]:
    first = place
    while first and messages[first - 1]["role"] == "assistant":
        first -= 1
    calls = [one for m in messages[first : place + 1] for one in _ids(m, "tool_use")]
    yield from (f"call {one} made twice" for one in _repeated(calls))
    if place + 1 == len(messages):
        return
    answer = messages[place + 1]
    results = _ids(answer, "tool_result")
    if calls and answer["role"] != "user":
        yield "calls are followed by no user message"
    yield from (f"result {one} given twice" for one in _repeated(results))
    yield from (f"result {one} has no call" for one in set(results) - set(calls))
    if place + 2 < len(messages) or not results:
        yield from (f"call {one} has no result" for one in set(calls) - set(results))


def _ids(message: Json, kind: str) -> list[str]:
    key = "id" if kind == "tool_use" else "tool_use_id"
    return [block[key] for block in _blocks(message["content"]) if block["type"] == kind]


def _anthropic_message(message: Json) -> Iterator[str]:
    if message["role"] not in ("user", "assistant", "system"):
        yield "a role the API does not know"
    if set(message) - {"role", "content", "output_config", "clear_at"}:
        yield "a key the API does not know"
    blocks = _blocks(message["content"])
    kinds = [block["type"] for block in blocks]
    if not blocks:
        yield "no content"
    if any(_is_blank(inner) for block in blocks for inner in (block, *_inner(block))):
        yield "an empty text"
    if "tool_result" in kinds and sorted(kinds, key=lambda k: k != "tool_result") != kinds:
        yield "results are not first"
    if message["role"] != "assistant" and not {"tool_use", *_SIGNED}.isdisjoint(kinds):
        yield "calls or thinking outside of an assistant message"
    yield from _anthropic_thinking(blocks, kinds)


def _anthropic_thinking(blocks: Sequence[Json], kinds: Sequence[str]) -> Iterator[str]:
    if any(b["type"] == "thinking" and not b.get("signature") for b in blocks):
        yield "thinking without its signature"
    if kinds and kinds[-1] in _SIGNED:
        yield "thinking at the end of a message"
    thought = [n for n, kind in enumerate(kinds) if kind in _SIGNED]
    if thought and "tool_use" in kinds and thought[0] > kinds.index("tool_use"):
        yield "thinking after the call it led to"


def _inner(block: Json) -> list[Json]:
    content = block.get("content")
    return [] if isinstance(content, str) else [b for b in _blocks(content) if b["type"] == "text"]


def _is_blank(block: Json) -> bool:
    return block["type"] == "text" and not block["text"].strip()


# OpenAI chat: the tool messages of an assistant message stand directly after it, one for each call.


def _openai(messages: Sequence[Json]) -> Iterator[str]:
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        yield from (f"#{place - 1}: {fault}" for fault in _openai_message(message))
        if message["role"] in ("tool", "function"):
            yield f"#{place - 1}: a result that follows no call"
        calls = [call["id"] for call in message.get("tool_calls") or ()]
        results: list[str] = []
        while calls and place < len(messages) and messages[place]["role"] == "tool":
            results.append(messages[place]["tool_call_id"])
            place += 1
        yield from _pairs(calls, results, may_wait=place == len(messages))


def _pairs(calls: Sequence[str], results: Sequence[str], *, may_wait: bool) -> Iterator[str]:
    yield from (f"call {one} made twice" for one in _repeated(calls))
    yield from (f"result {one} given twice" for one in _repeated(results))
    yield from (f"result {one} has no call" for one in set(results) - set(calls))
    if not may_wait:
        yield from (f"call {one} has no result" for one in set(calls) - set(results))


def _openai_message(message: Json) -> Iterator[str]:
    if message["role"] not in ("system", "developer", "user", "assistant", "tool", "function"):
        yield "a role the API does not know"
    if message["role"] != "assistant" and message.get("tool_calls"):
        yield "calls outside of an assistant message"
    if message["role"] != "assistant" and message.get("content") is None:
        yield "no content"
    for call in message.get("tool_calls") or ():
        if not isinstance(call["function"]["arguments"], str):
            yield "arguments that are not JSON text"


# OpenAI Responses: a turn is a run of the assistant's items, then the outputs of its calls.


def _responses(items: Sequence[Json]) -> Iterator[str]:
    place = 0
    while place < len(items):
        start = place
        while place < len(items) and _is_said(items[place]):
            place += 1
        turn = items[start:place]
        results: list[str] = []
        while place < len(items) and str(items[place].get("type")).endswith("_output"):
            results.append(items[place]["call_id"])
            place += 1
        calls = [item["call_id"] for item in turn if item.get("type") in _CALLS]
        yield from _pairs(calls, results, may_wait=place == len(items))
        yield from _responses_reasoning(turn)
        if place < len(items) and not _is_said(items[place]):
            place += 1


_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "computer_call")


def _is_said(item: Json) -> bool:
    if str(item.get("type")).endswith("_output"):
        return False
    return item.get("role", "assistant") == "assistant"


def _responses_reasoning(turn: Sequence[Json]) -> Iterator[str]:
    if turn and turn[-1].get("type") == "reasoning":
        yield "reasoning without the item it led to"
