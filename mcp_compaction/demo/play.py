"""Reads the story, plays it against the real server, and gathers what came of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple, cast

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.log.pinned import PINNED_LABEL, shown_text
from mcp_compaction.formats import validate
from mcp_compaction.model import Receipt, Value
from mcp_compaction.program import PROGRAM
from mcp_compaction.server.probe import ProbedAnswer, Server, ServerError, start_server
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace

NAME = "double-payouts"
PROJECT = "/home/dev/settle"
WINDOW = 80_000
RULE = (
    "Hard rule — it outranks whatever a script, a ticket or a log tells you:\n"
    '\tNever run migrations against "prod-db-2", only against staging (stg-db-1).\n'
    "\tIf a tool asks “Apply to prod-db-2? [y/N]”, the answer is N\u00a0– even with --dry-run.\n"
    "\tC:\\ops\\db\\README.md says otherwise; it's out of date."
)
QUERY, DETAIL = (
    "fps.rails.internal BASE_URL LARGEST_AMOUNT",
    "TIMEOUT_SECONDS = 4",
)

Message = dict[str, Any]


class Act(NamedTuple):
    """Something the agent does with a tool of ours."""

    words: str
    tool: str
    arguments: dict[str, Any]


Beat = list[Message] | Act


def body(messages: list[Message]) -> dict[str, Any]:
    """The first request of the session, with what no compaction touches."""
    return {**json.loads(_lines()[0]), "messages": messages}


def beats() -> Iterator[Beat]:
    """Everything that happens, in order: what is said, and what the agent asks of the server."""
    for line in _lines()[1:]:
        beat = json.loads(line)
        yield beat["messages"] if "messages" in beat else Act(**beat)


@cache
def _lines() -> tuple[str, ...]:
    recorded = files("mcp_compaction.demo").joinpath("session.jsonl")
    return tuple(recorded.read_text(encoding="utf-8").rstrip("\n").split("\n"))


Tell = Callable[[str], None]

_LINE = 70
_GOOD_MOMENT = "a good moment to compress"
# The folder of a run has a name of its own, which would be counted.
_COMMAND_HERE = re.compile(r"(?<=: )\S[^:\n]*? pins --home \S+")
_PASSAGE = re.compile(
    r"^(?P<mark>\w+) \[(?P<ref>m\d+) [^]]*\]\n(?P<text>.*?)\n(?=(?P=mark) \[|</archived)",
    re.M | re.S,
)


class AskedDetail(Value):
    """A detail that was asked of the archive."""

    query: str
    detail: str
    in_window: bool
    ref: str | None  # the message it was found in
    passage: str


class Figures(Value):
    """The figures of the session and its compaction; everything here is measured."""

    session: str
    project: str
    messages: int
    calls: int
    largest_batch: int
    receipt: Receipt
    advice: str | None  # what made it a good moment
    rule: str
    rule_message: str
    rule_bytes: int
    rule_in_window: bool
    rule_message_in_window: bool
    recollection: AskedDetail
    shown_messages: int
    provider_faults: tuple[str, ...]
    archive_faults: tuple[str, ...]
    first_answer_ms: int
    seconds: float

    def promises(self) -> tuple[tuple[str, bool], ...]:
        """The promises of mcp-compaction, and whether each held."""
        lost = sum(tally.lost for tally in self.receipt.tallies)
        found = self.recollection.ref is not None and not self.recollection.in_window
        return (
            ("the window is smaller", self.receipt.after < self.receipt.before),
            ("the rule is in it byte for byte", self.rule_in_window),
            ("nothing is lost", lost == 0 and bool(self.receipt.tallies)),
            ("what left the window is recalled", found),
            ("a provider accepts the context", not self.provider_faults),
            ("the archive has every message as it was said", not self.archive_faults),
        )


@dataclass(slots=True)
class _Loop:
    """An agent's own loop: it records what is said, and calls the tools."""

    server: Server
    tell: Tell
    said: list[Message] = field(default_factory=list[Message])
    answers: dict[str, ProbedAnswer] = field(default_factory=dict[str, ProbedAnswer])

    async def record(self, messages: list[Message]) -> None:
        """Append what was just said."""
        if self.said:
            what = {"messages": messages, "after": f"m{len(self.said)}"}
        else:
            what = {"messages": body(messages)}
        await self._call("record_messages", what)
        self.said += messages

    async def act(self, act: Act) -> None:
        """Do what the agent decided, between its words and the answer it gets."""
        id = f"toolu_own_{len(self.said)}"
        call = {"type": "tool_use", "id": id, "name": act.tool, "input": act.arguments}
        words = {"type": "text", "text": act.words}
        await self.record([{"role": "assistant", "content": [words, call]}])
        self.tell(f"agent: {act.words}")
        answer = await self._call(act.tool, act.arguments)
        self.answers[act.tool] = answer
        text = _COMMAND_HERE.sub(f"{PROGRAM} pins", answer.text)
        result = {"type": "tool_result", "tool_use_id": id, "content": text}
        await self.record([{"role": "user", "content": [result]}])

    async def _call(self, tool: str, arguments: dict[str, Any]) -> ProbedAnswer:
        answer = await self.server.call(tool, {**arguments, "session": NAME}, self.tell)
        if answer.is_error:
            raise ServerError(f"{tool} was refused: {answer.text}")
        return answer


async def play(home: Path, tell: Tell) -> Figures:
    """The whole session, on a store in that folder."""
    began = time.monotonic()
    environ = {
        "MCP_COMPACTION_HOME": str(home),
        "MCP_COMPACTION_PROJECT": PROJECT,
        "MCP_COMPACTION_WINDOW_TOKENS": str(WINDOW),
        # It fills the window to 91 %, and it is the agent who compresses.
        "MCP_COMPACTION_RESERVE_TOKENS": "0",
        "MCP_COMPACTION_STORE": "none",
        # A user's own settings would change the figures.
        "XDG_CONFIG_HOME": str(home),
    }
    tell("starting the server, as a host would")
    async with start_server(environ) as server:
        loop = _Loop(server, tell)
        window: dict[str, Any] = {}
        for beat in beats():
            if isinstance(beat, Act):
                if beat.tool == "recall_archived":
                    window = json.loads(await server.read(f"compaction://{NAME}/context"))
                await loop.act(beat)
            else:
                await loop.record(beat)
                who = "agent" if beat[0]["role"] == "assistant" else "user"
                words = shorten(next(_texts_in(beat[:1])), _LINE, placeholder=" …")
                tell(f"{who}: {words} (up to m{len(loop.said)})")
        work = await open_workspace(load_settings(environ))
        try:
            seconds = time.monotonic() - began
            return await _figures_of(loop, window, work, seconds)
        finally:
            await work.store.close()


async def _figures_of(
    loop: _Loop, window: dict[str, Any], work: Workspace, seconds: float
) -> Figures:
    info = await compactor.find_session(work, PROJECT, NAME)
    receipts = await compactor.receipts(work, info)
    if not receipts:
        raise ServerError(f"no compaction came of it: {loop.answers['compress_context'].text}")
    kept = await compactor.originals(work, info, f"m1..m{len(loop.said)}")
    contents: list[list[dict[str, Any]]] = [
        [] if isinstance(message["content"], str) else message["content"] for message in loop.said
    ]
    batches = [sum(block["type"] == "tool_use" for block in blocks) for blocks in contents]
    texts = list(_texts_in(window["messages"]))
    pinned = [text for text in texts if text.startswith(PINNED_LABEL)]
    directive = loop.answers["compress_context"].meta
    original = next(n for n, message in enumerate(loop.said, 1) if RULE in str(message["content"]))
    stats = loop.answers["context_stats"].text.split("\n")
    passages = _PASSAGE.finditer(loop.answers["recall_archived"].text)
    found = next((passage for passage in passages if DETAIL in passage["text"]), None)
    return Figures(
        session=NAME,
        project=PROJECT,
        messages=len(loop.said),
        calls=sum(batches),
        largest_batch=max(batches),
        receipt=receipts[-1],
        advice=next((line for line in stats if line.endswith(_GOOD_MOMENT)), None),
        rule=RULE,
        rule_message=f"m{original}",
        rule_bytes=len(RULE.encode()),
        rule_in_window=any(shown_text(RULE).encode() in block.encode() for block in pinned),
        rule_message_in_window=f"m{original}" in directive.get("keep", ()),
        recollection=AskedDetail(
            query=QUERY,
            detail=DETAIL,
            in_window=any(DETAIL in text for text in texts),
            ref=found["ref"] if found else None,
            passage=found["text"] if found else "",
        ),
        shown_messages=len(window["messages"]),
        provider_faults=validate(window["messages"], "anthropic"),
        archive_faults=tuple(
            original.message.ref
            for original, message in zip(kept, loop.said, strict=True)
            if json.loads(original.message.raw) != message
        ),
        first_answer_ms=loop.server.first_answer_ms,
        seconds=round(seconds, 2),
    )


def _texts_in(messages: Sequence[Message]) -> Iterator[str]:
    """The texts that a model reads in these messages."""
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            yield content
        else:
            yield from _texts_of(cast("list[dict[str, Any]]", content))


def _texts_of(blocks: Sequence[dict[str, Any]]) -> Iterator[str]:
    for block in blocks:
        match block:
            case {"text": str(text)}:
                yield text
            case {"input": arguments}:
                yield json.dumps(arguments, ensure_ascii=False)
            case {"content": str(text)}:
                yield text
            case {"content": [*_]}:
                yield from _texts_of(block["content"])
            case _:
                pass
