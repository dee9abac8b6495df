"""Shows strategies side by side on one session: what each costs, and what it keeps."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.core.digest.extract import open_tasks, stated_rules
from mcp_compaction.core.log.identifiers import identifiers_by_message
from mcp_compaction.core.policy import PRESETS, Policy
from mcp_compaction.core.text.words import fold
from mcp_compaction.evals.corpora import PlainLine
from mcp_compaction.evals.handover import PLAIN_WAYS, SMALLEST_WINDOW, Needs
from mcp_compaction.evals.handover_sessions import RealSession, turns_of, with_runs_written_out
from mcp_compaction.evals.runner import AskedSummarizer, Tell
from mcp_compaction.evals.subject import Subject, subject
from mcp_compaction.formats import Incoming
from mcp_compaction.model import IndexKind, Message, Value
from mcp_compaction.ports import TokenCounter

PERCENTS = (25, 10)
_KINDS: Mapping[str, IndexKind] = MappingProxyType(
    {"errors": "error", "commands": "command", "paths": "file"}
)

Way = Literal["compress", "archive", "force", "microcompact", "memory"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to compress a session: a policy with or without a target, or a plain way."""

    name: str
    description: str
    percent: int | None = None
    policy: Policy = field(default_factory=Policy)
    plain_way: str = ""  # its name, where it is one
    way: Way = "compress"
    has_model: bool = False


class Result(Value):
    """What one strategy left of a session: its tokens, how much of each thing, and the view."""

    name: str
    description: str
    tokens: int
    of_tokens: int
    kept: tuple[tuple[str, int, int], ...]  # what, how many, of how many
    view: tuple[PlainLine, ...]
    note: str = ""  # why nothing was compressed


def strategies(model: AskedSummarizer | None = None) -> Iterator[Strategy]:
    """All strategies: ours, the presets, with a model where one is asked, and the plain ways."""
    yield Strategy("ours", "as compress does it by default")
    for percent in PERCENTS:
        yield Strategy(f"ours-{percent}", f"to {percent} % of the window", percent)
    yield Strategy("archive", "refs, counts and index, no prose", way="archive")
    yield Strategy("force", "even where it hardly pays, as /compact", way="force")
    yield Strategy("microcompact", "old results become previews", way="microcompact")
    yield Strategy("session-memory", "the facts that a next session is offered", way="memory")
    if model is not None:
        for percent in PERCENTS:
            told = f"to {percent} %, digests by {model.model}"
            yield Strategy(f"model-{percent}", told, percent, has_model=True)
    for name, policy in PRESETS.items():
        if name != "default":
            yield Strategy(name, f"the preset {name}", policy=policy)
    for way in PLAIN_WAYS:
        for percent in PERCENTS:
            name = f"{re.sub(', | and | ', '-', way)}-{percent}"
            told = f"{way}, as many tokens as ours-{percent}"
            yield Strategy(name, told, percent, plain_way=way)


async def compare(
    session: RealSession,
    wanted: Sequence[Strategy],
    counter: TokenCounter,
    model: AskedSummarizer | None,
    tell: Tell,
) -> AsyncIterator[Result]:
    """What each strategy makes of the session, one after another; a plain way comes after ours of
    the same percent, whose tokens it may spend."""
    early = turns_of(session.early)
    total = sum(counter.count(turn.text) for turn in early)
    async with subject(None, counter) as untouched:
        await untouched.record(Incoming(messages=session.early))
        recorded = await untouched.workspace.load(untouched.info)
    things = Things(recorded.messages, Needs(early, session.later))
    sizes: dict[int | None, int] = {}
    for strategy in wanted:
        tell(strategy.name)
        if strategy.plain_way:
            most = min(sizes[strategy.percent], total * (strategy.percent or 100) / 100)
            text = PLAIN_WAYS[strategy.plain_way](early, most, counter.count)
            view, note = [PlainLine(role="", text=text)], ""
        else:
            summarizer = model if strategy.has_model else None
            async with subject(None, counter, summarizer, strategy.policy) as ours:
                await ours.record(Incoming(messages=session.early))
                # A preset for small windows keeps the one that it is made for.
                if strategy.policy.window_tokens == Policy().window_tokens:
                    await ours.set_window(max(total, SMALLEST_WINDOW))
                note = "; ".join(await _run(ours, strategy))
                view = await ours.read_lines()
                if strategy.way == "memory":
                    facts = await compactor.offered_facts(ours.workspace, ours.info)
                    view = [PlainLine(role="", text="\n".join(fact.text for fact in facts))]
                    note = "" if facts else "no facts are offered"
            text = "\n".join(line.text for line in view)
            sizes.setdefault(strategy.percent, counter.count(text))
        yield Result(
            name=strategy.name,
            description=strategy.description,
            tokens=counter.count(text),
            of_tokens=total,
            kept=tuple(things.kept_in(text)),
            view=tuple(view),
            note=note,
        )


async def _run(ours: Subject, strategy: Strategy) -> tuple[str, ...]:
    """Carry a strategy out; gives why nothing was done."""
    if strategy.way == "memory":
        return ()
    if strategy.way == "microcompact":
        await compactor.shorten(ours.workspace, ours.info, 0, FitOptions(False, microcompact=True))
        return ()
    is_forced = strategy.way == "force"
    told = "archive" if strategy.way == "archive" else "summarize"
    return (await ours.compress(strategy.percent, strategy=told, force=is_forced)).faults


class Things:
    """What a session holds that one would not like to lose."""

    def __init__(self, messages: Sequence[Message], needs: Needs) -> None:
        """Gather it from the messages, and from what came after them."""
        found = dict.fromkeys(f for each in identifiers_by_message(messages).values() for f in each)
        self._texts: dict[str, list[str]] = {
            "rules": list(dict.fromkeys(item.text for item in stated_rules(messages))),
            "tasks": list(dict.fromkeys(item.text for item in open_tasks(messages))),
            **{name: [f.text for f in found if f.kind == kind] for name, kind in _KINDS.items()},
            "used later": list(needs.in_calls),
        }

    def kept_in(self, view: str) -> Iterator[tuple[str, int, int]]:
        """How many of each kind that there is can be read in a view, of how many."""
        text = fold(with_runs_written_out(view))
        for name, things in self._texts.items():
            if things:
                yield name, sum(fold(thing) in text for thing in things), len(things)
