"""The demonstration: a long coding session, played against the real server, and what came of it in
words: what was freed, what still holds.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from textwrap import indent, shorten
from typing import Any, NamedTuple, cast

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.ladder import shown_as
from mcp_compaction.core.log.pinned import PINNED_LABEL, shown_text
from mcp_compaction.core.wording import kilo
from mcp_compaction.formats import validate
from mcp_compaction.model import Receipt, Tally, Value
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

_WIDTH = 40
_SMALL = 20
_TEXT = 92
_MOST_LINES = 6  # of the passage that came back


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


def tell(figures: Figures) -> Iterator[list[str]]:
    """The result of a played session in paragraphs, each a heading and its lines."""
    yield list(_tell_window(figures))
    yield list(_tell_freed(figures.receipt))
    yield list(_tell_checked(figures.receipt.tallies))
    yield list(_tell_rule(figures))
    yield list(_tell_recalled(figures))
    yield list(_tell_soundness(figures))


def broken_promises_of(figures: Figures) -> list[str]:
    """The promises that did not hold."""
    return [promise for promise, holds in figures.promises() if not holds]


def _tell_window(figures: Figures) -> Iterator[str]:
    receipt = figures.receipt
    said = f"{figures.messages} messages, {figures.calls} tool calls"
    yield f"a coding session of {said}, up to {figures.largest_batch} calls at once"
    if figures.advice:
        yield f"  context_stats said: {figures.advice}"
    for name, tokens in (("before", receipt.before), ("after", receipt.after)):
        percent = 100 * tokens / receipt.window
        size = f"{tokens:,} of {receipt.window:,} tokens ({receipt.precision})"
        yield f"  {name:6} {draw_bar(percent, _WIDTH)} {percent:3.0f} %  {size}"
    spans = [f"m{r.first}..m{r.last} is now the digest d{r.digest}" for r in receipt.replaced]
    yield f"  compaction {receipt.ref}: {'; '.join(spans) or 'no digest was needed'}"
    if receipt.shortfall:
        yield f"  shortfall: {receipt.shortfall}"


def _tell_freed(receipt: Receipt) -> Iterator[str]:
    freed = [freed for freed in receipt.freed if freed[1] > 0]
    most = max((tokens for _, tokens in freed), default=1)
    yield "what each rung freed, gentlest first"
    for rung, tokens in freed:
        yield f"  {shown_as(rung):24} {draw_bar(100 * tokens / most, _SMALL)} {tokens:7,}"
    back = sum(tokens for _, tokens in freed) - (receipt.before - receipt.after)
    if back > 0:
        yield f"  {'put back by the check':24} {' ' * (_SMALL + 2)} {-back:7,}"


def _tell_checked(tallies: tuple[Tally, ...]) -> Iterator[str]:
    yield "checked before it counted    in the window   by recall   lost"
    for tally in tallies:
        numbers = f"{tally.retained:13,}   {tally.recoverable:9,}   {tally.lost:4,}"
        yield f"  {tally.kind:26} {numbers}"


def _tell_rule(figures: Figures) -> Iterator[str]:
    yield "the rule, word for word"
    yield indent(figures.rule, "  | ")
    left = "still stands in the window" if figures.rule_message_in_window else "left the window"
    yield f"  said once, in {figures.rule_message}, which {left}; pinned by the agent at once"
    verdict = "the same" if figures.rule_in_window else "NOT all the same"
    yield f"  its {figures.rule_bytes} bytes against the context a model is sent: {verdict}"


def _tell_recalled(figures: Figures) -> Iterator[str]:
    asked = figures.recollection
    yield f"a detail that is {'STILL' if asked.in_window else 'no longer'} in the window, recalled"
    yield f'  recall_archived "{asked.query}"'
    if asked.ref is None:
        yield f"  NOT found: {asked.detail}"
        return
    lines = asked.passage.splitlines()
    place = next((n for n, line in enumerate(lines) if asked.detail in line), 0)
    first = max(0, place - _MOST_LINES // 2)
    yield f"  {asked.ref}, lines {first + 1} to {min(len(lines), first + _MOST_LINES)}:"
    for line in lines[first : first + _MOST_LINES]:
        yield f"  | {line[:_TEXT]}".rstrip()


def _tell_soundness(figures: Figures) -> Iterator[str]:
    yield "and besides"
    shown = f"{figures.shown_messages} messages to send"
    faults = "; ".join(figures.provider_faults)
    yield f"  {shown}: {f'NOT valid: {faults}' if faults else 'valid for the Messages API'}"
    missing = ", ".join(figures.archive_faults)
    kept = f"NOT as they were said: {missing}" if missing else "as they were said, all of them"
    yield f"  {figures.messages} messages in the archive: {kept}"
    yield f"  undo: restore_context {figures.receipt.ref} gives the window back as it was"
    saved = kilo(figures.receipt.before - figures.receipt.after)
    yield f"  {saved} tokens less in every request from here on; no model, no key, no network"


def draw_bar(percent: float, width: int) -> str:
    """A bar that is full at 100 percent."""
    full = min(width, round(width * percent / 100))
    return f"[{'#' * full}{'.' * (width - full)}]"
