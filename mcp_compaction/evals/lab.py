"""Shows strategies side by side on one session: what each costs, and what it keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mcp_compaction.core.digest.extract import open_tasks, stated_rules
from mcp_compaction.core.log.identifiers import identifiers_by_message
from mcp_compaction.core.policy import PRESETS, Policy
from mcp_compaction.core.text.words import fold
from mcp_compaction.evals.asked import Asked
from mcp_compaction.evals.handover.measure import Needs
from mcp_compaction.evals.handover.names import with_runs_written_out
from mcp_compaction.evals.handover.plain_ways import PLAIN_WAYS
from mcp_compaction.evals.handover.sessions import RealSession
from mcp_compaction.evals.handover.turns import turns_of
from mcp_compaction.evals.measures import Line
from mcp_compaction.evals.subject import subject
from mcp_compaction.formats import Incoming
from mcp_compaction.model import IndexKind, Message, Value
from mcp_compaction.ports import TokenCounter

PERCENTS = (25, 10)
_KINDS: Mapping[str, IndexKind] = MappingProxyType(
    {"errors": "error", "commands": "command", "paths": "file"}
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to compress a session: a policy with or without a target, or a plain way."""

    name: str
    description: str
    policy: Policy | None = None  # None: a plain way
    percent: int | None = None
    has_model: bool = False


class Result(Value):
    """What one strategy left of a session: its tokens, how much of each thing, and the view."""

    name: str
    description: str
    tokens: int
    of_tokens: int
    kept: tuple[tuple[str, int, int], ...]  # what, how many, of how many
    view: tuple[Line, ...]
    note: str = ""  # why nothing was compressed


def strategies(model: Asked | None = None) -> Iterator[Strategy]:
    """All strategies: ours, the presets, with a model where one is asked, and the plain ways."""
    yield Strategy("ours", "as compress does it by default", Policy())
    for percent in PERCENTS:
        yield Strategy(f"ours-{percent}", f"to {percent} % of the window", Policy(), percent)
    if model is not None:
        for percent in PERCENTS:
            told = f"to {percent} %, digests by {model.model}"
            yield Strategy(f"model-{percent}", told, Policy(), percent, has_model=True)
    for name, policy in PRESETS.items():
        if name != "default":
            yield Strategy(name, f"the preset {name}", policy)
    for way in PLAIN_WAYS:
        for percent in PERCENTS:
            name = f"{way.replace(', ', '-').replace(' and ', '-').replace(' ', '-')}-{percent}"
            yield Strategy(name, f"{way}, as many tokens as ours-{percent}", None, percent)


async def compare(
    session: RealSession,
    wanted: Sequence[Strategy],
    counter: TokenCounter,
    model: Asked | None,
    tell: Tell,
) -> AsyncIterator[Result]:
    """What each strategy makes of the session, one after another."""
    early = turns_of(session.early)
    needs = Needs(early, session.later)
    things: Things | None = None
    sizes: dict[int | None, int] = {}  # of our views, which the plain ways may not exceed
    total = sum(counter.count(turn.text) for turn in early)
    for strategy in wanted:
        tell(strategy.name)
        if strategy.policy is None:
            assert things is not None
            way = next(way for way in PLAIN_WAYS if strategy.description.startswith(f"{way}, "))
            most = min(sizes[strategy.percent], total * (strategy.percent or 100) / 100)
            view = [Line(role="", text=PLAIN_WAYS[way](early, most, counter.count))]
            note = ""
        else:
            summarizer = model if strategy.has_model else None
            async with subject(None, counter, summarizer, strategy.policy) as ours:
                await ours.record(Incoming(messages=session.early))
                if things is None:
                    things = Things((await ours.compactor.load(ours.info)).messages, needs)
                if strategy.policy.window_tokens == Policy().window_tokens:
                    await ours.set_window(total)
                shown = await ours.compress(strategy.percent)
                view, note = await ours.read_lines(), "; ".join(shown.faults)
        text = "\n".join(line.text for line in view)
        size = counter.count(text)
        sizes.setdefault(strategy.percent, size)
        yield Result(
            name=strategy.name,
            description=strategy.description,
            tokens=size,
            of_tokens=total,
            kept=tuple(things.kept_in(text)),
            view=tuple(view),
            note=note,
        )


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
