"""The product under test: one session on a real store of its own, recorded and compressed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.digest.extract import must_keep, ref_of_standing_plan
from mcp_compaction.core.log.content import text_of, words_of
from mcp_compaction.core.log.spoken_rules import unpinned_rules
from mcp_compaction.core.policy import Policy
from mcp_compaction.evals.corpora import (
    Context,
    EvalCase,
    PlainLine,
    Probe,
    Recollection,
    normalize,
    survives,
)
from mcp_compaction.formats import Incoming, read, validate
from mcp_compaction.formats.turns import split_turns
from mcp_compaction.model import (
    Ask,
    Compaction,
    JsonObject,
    Projection,
    SessionInfo,
    Shape,
    Strategy,
    Traits,
)
from mcp_compaction.ports import SessionKey, Summarizer, TokenCounter
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from mcp_compaction.wiring import SystemClock

_REF = re.compile(r"\bm(\d{1,12})\b")
_FIRST_HITS = 5
_RECALL_TOKENS = Policy().recall_max_tokens


@dataclass(frozen=True, slots=True)
class Shown:
    """The view after a compaction, with its tokens, time and faults."""

    context: Context
    tokens: int
    seconds: float
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Noticed:
    """The rules and open tasks that the product notices, before anything is compressed."""

    held: str  # what every digest has to hold, normalized
    offered: str  # what is offered for pinning, normalized
    flagged: frozenset[int]  # the positions of the messages it is offered from

    def holds(self, text: str) -> bool:
        """Whether every digest will have to hold this."""
        return f" {normalize(text)} " in self.held

    def offers(self, text: str) -> bool:
        """Whether this is offered for pinning."""
        return f" {normalize(text)} " in self.offered


@dataclass
class Subject:
    """One session in the product's hands."""

    workspace: Workspace
    info: SessionInfo
    shape: Shape = "anthropic"
    seqs: list[int] = field(default_factory=list[int])  # the log's number of each message
    _answers: dict[str, Recollection] = field(default_factory=dict[str, Recollection])
    _hits: dict[str, Context] = field(default_factory=dict[str, Context])

    async def record(self, came: Incoming) -> None:
        """Append messages."""
        recorded = await compactor.record(self.workspace, self.info, came)
        self.shape = came.messages[0].shape
        self.seqs += recorded.seqs

    async def set_window(self, tokens: int) -> None:
        """Make the window that percents are taken of exactly this large."""
        self.info = await self.workspace.store.set_traits(
            self.info.id, Traits(window_tokens=tokens)
        )

    async def compress(
        self, percent: float | None, *, strategy: Strategy = "summarize", force: bool = False
    ) -> Shown:
        """Compress to that many percent of the window, or as far as by default, and read the whole
        view."""
        began = time.perf_counter()
        ask = Ask(reason="evaluation", target_percent=percent, strategy=strategy, force=force)
        outcome = await compactor.compress(self.workspace, self.info, ask)
        seconds = time.perf_counter() - began
        why = "" if isinstance(outcome, Compaction | Projection) else outcome.text
        faults = () if isinstance(outcome, Compaction) else (f"{outcome.kind}: {why}",)
        self._answers.clear()
        self._hits.clear()
        return await self._read_view(seconds, faults)

    async def read_lines(self) -> list[PlainLine]:
        """The messages of the view as a model would read them, each with its role."""
        shown = await compactor.context(self.workspace, self.info, self.shape)
        apart = split_turns(_messages_of(shown))
        read_messages = (read(self.shape, json.dumps(m)) for m in apart)
        return [
            PlainLine(role=role, text="\n".join(map(words_of, parts)))
            for role, parts in read_messages
        ]

    async def recall(self, question: str) -> Recollection:
        """One recall of the default size."""
        if question not in self._answers:
            found = await compactor.recall(self.workspace, self.info, question)
            places = {f"m{seq}": place for place, seq in enumerate(self.seqs)}
            self._answers[question] = Recollection(
                Context(tuple(line for hit in found.hits for line in hit.text.splitlines())),
                frozenset(places[hit.ref] for hit in found.hits if hit.ref in places),
            )
        return self._answers[question]

    async def can_recover(self, probe: Probe, view: Context) -> bool:
        """Whether a ref in the view gives it, or its own words bring it into the first hits."""
        if survives(probe, view):
            return True
        seq = None if probe.source is None else self.seqs[probe.source]
        if seq is not None and str(seq) in _REF.findall(view.raw):
            original = (await compactor.originals(self.workspace, self.info, f"m{seq}"))[0]
            if original.message.tokens <= _RECALL_TOKENS:  # one recall gives it whole
                return True
        return survives(probe, await self._find_first(f"{probe.key} {probe.needle}".strip()))

    async def read_noticed(self) -> Noticed:
        """The rules and open tasks that the product itself notices."""
        session = await self.workspace.load(self.info)
        held = must_keep(session.messages, ref_of_standing_plan(session.messages))
        offered = unpinned_rules(session.messages, ())
        places = {f"m{seq}": place for place, seq in enumerate(self.seqs)}
        return Noticed(
            held=_normal_text(item.text for _, items in held for item in items),
            offered=_normal_text(candidate.text for candidate in offered),
            flagged=frozenset(places[one.ref] for one in offered if one.ref in places),
        )

    async def _find_first(self, words: str) -> Context:
        if words not in self._hits:
            # A recall within the session would count as the agent's own, and what is recalled
            # again and again is shown at the next compaction: measuring would change the view.
            found = await compactor.recall(
                self.workspace, None, words, scope="project", project=self.info.project
            )
            texts = [hit.text for hit in found.hits[:_FIRST_HITS]]
            self._hits[words] = Context(tuple(line for t in texts for line in t.splitlines()))
        return self._hits[words]

    async def _read_view(self, seconds: float, faults: tuple[str, ...]) -> Shown:
        lines: list[str] = []
        for shape in dict.fromkeys((self.shape, "anthropic")):
            shown = await compactor.context(self.workspace, self.info, shape)
            messages = _messages_of(shown)
            faults += validate(messages, shape)
            if shape == self.shape:
                parts = [part for one in messages for part in read(shape, json.dumps(one))[1]]
                texts = [line for part in parts for line in text_of(part).splitlines()]
                lines = [line for line in texts if line.strip()]
        fill = (await self.workspace.read_window(self.info)).fill
        return Shown(Context(tuple(lines)), fill.tokens, seconds, faults)


@asynccontextmanager
async def subject(
    case: EvalCase | None,
    counter: TokenCounter,
    summarizer: Summarizer | None = None,
    policy: Policy | None = None,
) -> AsyncGenerator[Subject]:
    """A session on a store of its own in a temporary folder, with a case recorded in it."""
    with TemporaryDirectory(prefix="mcp-compaction-eval-") as folder:
        # Neither the user's settings nor other sessions may change what is measured; and one
        # counter serves all, since loading its ranks takes longer than many a compaction.
        work = Workspace(
            store=await open_store(store_path(Path(folder))),
            summarizer=summarizer or ExtractiveSummarizer(),
            counter=counter,
            clock=SystemClock(),
            policy=policy or Policy(),
        )
        try:
            info, _ = await compactor.open_session(work, SessionKey(project="/eval", name="case"))
            made = Subject(work, info)
            if case is not None:
                await made.record(case.came)
                for text in case.pins:
                    await compactor.pin(work, info, PinWish(text, by="user"))
            yield made
        finally:
            await work.store.close()


def _messages_of(body: JsonObject) -> list[JsonObject]:
    """The messages of a request, which the Responses API calls its input."""
    return cast(list[JsonObject], body["input"] if "input" in body else body["messages"])


def _normal_text(texts: Iterable[str]) -> str:
    return f" {normalize(' '.join(texts))} "
