"""A scripted model that refuses what the Messages API refuses, and a loop that talks to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

from mcp_compaction.adapters.loop import LoopKit
from tests.checkers import BoundThinking, Json, problems, unbound_thinking

Step = list[Json]
Run = Callable[[Json], str]

MOST_MARKS = 4


class Refused(Exception):
    """What a provider raises."""


class ScriptedModel:
    """Answers with its script, one step a request; what the API would refuse raises."""

    def __init__(self, steps: Sequence[Step], window: int = 10**9) -> None:
        self.steps = list(steps)
        self.window = window  # characters over which a request is refused
        self.requests: list[list[Json]] = []  # the very objects
        self.texts: list[list[str]] = []  # of the same requests, without cache marks
        self.refused = 0

    async def __call__(self, sent: list[Json]) -> Json:
        """The next answer of the script."""
        faults = [*problems([_without_marks(one) for one in sent], "anthropic"), *_strict(sent)]
        if faults:
            raise Refused("; ".join(faults))
        texts = [json.dumps(_without_marks(one), ensure_ascii=False) for one in sent]
        size = sum(map(len, texts))
        if size > self.window:
            self.refused += 1
            raise Refused(f"prompt is too long: {size} tokens > {self.window} maximum")
        self.requests.append(list(sent))
        self.texts.append(texts)
        usage = {"input_tokens": size // 4, "output_tokens": 20}
        step = self.steps.pop(0) if self.steps else [{"type": "text", "text": "All done."}]
        return {"type": "message", "role": "assistant", "content": step, "usage": usage}


BOUND = "claude-opus-5-5"


class BoundModel(ScriptedModel):
    """A model that binds its thinking to what was sent before it, and refuses it elsewhere."""

    def __init__(self, steps: Sequence[Step], window: int = 10**9, name: str = BOUND) -> None:
        super().__init__(steps, window)
        self.name = name
        self.thinking = BoundThinking()
        self.binds = True

    async def __call__(self, sent: Any) -> Json:
        """The next answer of the script, to a list of messages or a body with them."""
        body: Json = {"messages": list(sent)}
        if isinstance(sent, dict):
            body = cast("Json", sent)
        body = copy.deepcopy(body)
        if self.binds:
            self.thinking.look_at(body)
        refusal = unbound_thinking(body) if self.binds else None
        if refusal is not None:
            self.refused += 1
            raise Refused(refusal)
        answer = await super().__call__(body["messages"])
        content = self.thinking.sign(body, answer["content"])
        return {**answer, "model": self.name, "content": content}


def blocks_of(message: Json) -> list[Json]:
    """The blocks of a message; a plain text has none."""
    content: Any = message["content"]
    return [] if isinstance(content, str) else list(content)


def _without_marks(message: Json) -> Json:
    blocks = [{k: v for k, v in b.items() if k != "cache_control"} for b in blocks_of(message)]
    return {**message, "content": blocks} if blocks else message


def _strict(sent: Sequence[Json]) -> list[str]:
    """The rules for a request that is sent: all calls are answered, and few marks are set; and
    roles take turns, as templates of local models want it."""
    faults: list[str] = []
    if any(one["role"] == other["role"] for one, other in pairwise(sent)):
        faults.append("roles must alternate user/assistant/user/assistant/...")
    if sent[-1]["role"] == "assistant":
        faults.append("the last message is the assistant's")
    open_calls: set[str] = set()
    for message in sent:
        blocks = blocks_of(message)
        if message["role"] == "assistant":
            open_calls |= {block["id"] for block in blocks if block["type"] == "tool_use"}
        else:
            open_calls -= {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
            faults += [f"{call} is not answered at once" for call in sorted(open_calls)]
    marks = json.dumps(list(sent)).count('"cache_control"')
    if marks > MOST_MARKS:
        faults.append(f"{marks} cache marks, at most {MOST_MARKS}")
    return faults


def move_mark(messages: Sequence[Json]) -> None:
    """Set the cache mark on the newest message, as loops do, and take it off all others."""
    for message in messages:
        for block in blocks_of(message):
            block.pop("cache_control", None)
    for block in blocks_of(messages[-1])[-1:]:
        block["cache_control"] = {"type": "ephemeral"}


async def run_loop(
    kit: LoopKit, model: ScriptedModel, messages: list[Json], run: Run, *, marks: bool = False
) -> list[Json]:
    """The loop of the README: until the model calls no tool any more."""
    while True:
        if marks:
            move_mark(messages)
        response = await kit.send(model, messages)
        messages += kit.answer_of(copy.deepcopy(response))
        calls = kit.calls_of(response)
        if not calls:
            return messages
        results = [
            await kit.call(call) if kit.owns(call) else kit.result_of(call, run(call))
            for call in calls
        ]
        messages += kit.messages_of(results)
        messages = await kit.apply(messages)


def use(id: str, name: str, **arguments: Any) -> Json:
    """A tool call."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def think(text: str) -> Json:
    """A thinking block with its signature."""
    return {"type": "thinking", "thinking": text, "signature": f"signed: {text}"}


class Sdk:
    """An object of a provider's SDK, as far as a loop sees it."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def to_dict(self) -> Json:
        return self.fields
