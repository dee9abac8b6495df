"""Measures how good a handover a view is, by what the rest of a real session needed, beside plain
ways of shortening it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from mcp_compaction.core.compaction.plain_views import newest_lines
from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.baselines import keep_last, take_until_full, tokens_of
from mcp_compaction.evals.corpora import PlainLine
from mcp_compaction.evals.handover_sessions import (
    RealSession,
    Turn,
    names_in,
    turns_of,
    with_runs_written_out,
)
from mcp_compaction.evals.results import PRODUCT, HandoverCost, HandoverScore, score_one
from mcp_compaction.evals.subject import Subject, subject
from mcp_compaction.formats import Incoming
from mcp_compaction.model import Digest, Item, Message
from mcp_compaction.ports import TokenCounter

PlainWay = Callable[[Sequence[Turn], float, CountTokens], str]

_FIRST_SHARE = _NAMES_SHARE = 0.25  # of the budget

BUDGETS: dict[str, float | None] = {"the default": None, "25 %": 25.0, "10 %": 10.0}
WITH_RECALL = "with one recall"
_RELEASE = 60.0  # percent that a compaction without a target goes down to
SMALLEST_WINDOW = 500  # tokens
_REACH = 40
_LINE, _STRIDE = 240, 200  # characters of a line that are read together
_LONGEST_QUESTION = 1_500

Tell = Callable[[str], None]


def first_and_last(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """The first lines for a quarter of the tokens, then the newest."""
    lines = _lines_of(turns)
    first = take_until_full(lines, budget * _FIRST_SHARE, count)
    left = budget - tokens_of(first, count)
    return _join([*first, *keep_last(lines[len(first) :], left, count)])


def names_and_newest(turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """The names that calls passed most and most lately for a quarter, then the newest lines."""
    best = [PlainLine(role="", text=name) for name in names_by_use(turns)]
    names = take_until_full(best, budget * _NAMES_SHARE, count)
    left = budget - tokens_of(names, count)
    return "\n".join((_join(names, " "), newest_lines(turns, left, count)))


def names_by_use(turns: Sequence[Turn]) -> list[str]:
    """The names that calls passed, those first that were passed most and most lately."""
    worth: Counter[str] = Counter()
    for place, turn in enumerate(turns):
        for name in sorted(names_in(turn.typed)):
            worth[name] += 1 + round(1_000 * place / len(turns))
    return [name for name, _ in worth.most_common()]


PLAIN_WAYS: Mapping[str, PlainWay] = MappingProxyType(
    {
        "newest lines": newest_lines,
        "first and last": first_and_last,
        "names, newest": names_and_newest,
    }
)


def _lines_of(turns: Sequence[Turn]) -> list[PlainLine]:
    texts = [line for turn in turns for line in f"{turn.role}: {turn.text}".split("\n")]
    return [PlainLine(role="", text=text) for text in texts]


def _join(lines: Sequence[PlainLine], between: str = "\n") -> str:
    return between.join(line.text for line in lines)


@dataclass(frozen=True)
class Needs:
    """The names of the early turns that later ones use."""

    early: Sequence[Turn]
    later: Sequence[Turn]
    reach: int = field(
        default=_REACH, kw_only=True
    )  # messages of the agent after the cut that are looked at

    @cached_property
    def known(self) -> str:
        """The text of all messages before the cut."""
        return "\n".join(turn.text for turn in self.early)

    @cached_property
    def answers(self) -> list[Turn]:
        """The agent's next messages."""
        return [turn for turn in self.later if turn.role == "assistant"][: self.reach]

    @cached_property
    def in_calls(self) -> dict[str, str]:
        """The names and command lines that later calls pass, each with what was said before."""
        found: dict[str, str] = {}
        for turn in self.answers:
            for name in (*sorted(names_in(turn.typed)), *turn.commands):
                if name in self.known:
                    found.setdefault(name, turn.said)
        return found

    @cached_property
    def lines(self) -> list[str]:
        """The other lines that later calls pass once more."""
        typed = dict.fromkeys(line for turn in self.answers for line in turn.typed_lines)
        return [line for line in typed if line not in self.in_calls and line in self.known]

    @cached_property
    def pairs(self) -> list[frozenset[str]]:
        """The known names of each later call that passes two or more, none a part of another:
        `src/pick_one.py` and `pick_one` are one thing."""
        of_calls = (names_in(turn.typed) for turn in self.answers)
        known = ([name for name in names if name in self.known] for names in of_calls)
        apart = (
            frozenset(n for n in names if not any(n != other and n in other for other in names))
            for names in known
        )
        return [names for names in apart if len(names) > 1]

    @cached_property
    def in_talk(self) -> list[str]:
        """The known names that are only talked of later."""
        said = "\n".join(turn.said for turn in self.answers)
        return sorted(name for name in names_in(said) - self.in_calls.keys() if name in self.known)


async def measure_session(
    session: RealSession, counter: TokenCounter, count: CountTokens, tell: Tell
) -> tuple[list[HandoverScore], list[HandoverCost]]:
    """The scores of our views and of the plain ways at each budget."""
    early = turns_of(session.early)
    needs = Needs(early, session.later)
    total = sum(count(turn.text) for turn in early)
    scores: list[HandoverScore] = []
    costs: list[HandoverCost] = []
    for budget, percent in BUDGETS.items():
        tell(f"{session.name} to {budget}")
        async with subject(None, counter) as ours:
            await ours.record(Incoming(messages=session.early))
            untouched = await ours.workspace.load(ours.info)
            await ours.set_window(max(total, SMALLEST_WINDOW))
            faults = (await ours.compress(percent)).faults
            view = "\n".join(line.text for line in await ours.read_lines())
            readable = with_runs_written_out(view)
            kept = [*_scores_of(needs, PRODUCT, readable)]
            kept.append(await _score_with_recall(needs, readable, ours))
            digests = (await ours.workspace.load(ours.info)).digests
            claims = judge_claims(untouched.messages, session.later, digests)
            kept += [(PRODUCT, claim, held, of) for claim, (held, of) in claims.items()]
        size, most = count(view), total * (percent or _RELEASE) / 100
        for way, shorten in PLAIN_WAYS.items():
            kept += _scores_of(needs, way, shorten(early, min(size, most), count))
        scores += [
            score_one(session.source, budget, way, measure, held, asked)
            for way, measure, held, asked in kept
        ]
        costs.append(
            HandoverCost(
                source=session.source,
                budget=budget,
                sessions=1,
                tokens=size,
                of_tokens=total,
                over_budget=int(size > most),
                faults=tuple(f"{session.name}: {fault}" for fault in faults),
            )
        )
    return scores, costs


_Tally = tuple[str, str, int, int]  # the way, the measure, how many, of how many


def count_pairs(pairs: Sequence[frozenset[str]], view: str) -> int:
    """How many groups of names have two on one line of a view, or close together on a long one."""
    stretches = [
        names_in(line[start : start + _LINE])
        for line in view.split("\n")
        for start in range(0, len(line), _STRIDE)
    ]
    return sum(any(len(pair & names) > 1 for names in stretches) for pair in pairs)


def _scores_of(needs: Needs, way: str, view: str) -> Iterator[_Tally]:
    in_calls, in_talk = needs.in_calls, needs.in_talk
    yield way, "names in later calls", sum(name in view for name in in_calls), len(in_calls)
    together = count_pairs(needs.pairs, view)
    yield way, "calls with two names on a line", together, len(needs.pairs)
    again = sum(line in view for line in needs.lines)
    yield way, "lines typed again", again, len(needs.lines)
    yield way, "names in later talk", sum(name in view for name in in_talk), len(in_talk)


async def _score_with_recall(needs: Needs, view: str, ours: Subject) -> _Tally:
    """The names of later calls that are in view, or in one answer to what the agent said before
    the call, the name taken out of it."""
    found = 0
    for name, said in needs.in_calls.items():
        question = said.replace(name, " ")[:_LONGEST_QUESTION]
        if name in view:
            found += 1
        elif re.search(r"\w{3}", question):
            found += name in "\n".join((await ours.recall(question)).context.lines)
    return WITH_RECALL, "names in later calls", found, len(needs.in_calls)


Claim = Literal[
    "files whose state is told", "files told of falsely", "NEXT that is not stale",
    "NEXT that comes true", "views that say what is next",
]  # fmt: skip

_SOON = 10  # messages of the agent that NEXT is to be about
_OLD = 10  # messages after which nobody's plan is no longer next
_SHORTEST_NAME = 7  # of a file, by which it is known without its folder
_THERE = re.compile(r"\b(?:created|wr(?:ote|itten)|edited|changed|added|saved|updated)\b", re.I)
_GONE = re.compile(r"\b(?:deleted|removed|moved|renamed|gone|reverted|unknown)\b", re.I)
_STATE_OF = {
    "created": _THERE,
    "written": _THERE,
    "edited": _THERE,
    "deleted": _GONE,
    "moved": _GONE,
}

Tallies = dict[Claim, tuple[int, int]]  # how many hold, of how many


def judge_claims(
    early: Sequence[Message], later: Sequence[Turn], digests: Sequence[Digest]
) -> Tallies:
    """What holds of that which digests of the early messages claim."""
    ahead = [item for digest in digests for item in digest.items("NEXT")]
    open_tasks = [item for digest in digests for item in digest.items("OPEN")]
    by_ref = {message.ref: message for message in early}
    answers = [turn for turn in later if turn.role == "assistant"][:_SOON]
    soon = frozenset[str]().union(*(names_in(f"{turn.typed}\n{turn.said}") for turn in answers))
    fresh = sum(not _is_stale(item, by_ref, early[-1].seq) for item in ahead)
    true = sum(not soon.isdisjoint(names_in(words_of_item(item))) for item in ahead)
    right, false, known = _judge_files(early, digests)
    return {
        "files whose state is told": (right, known),
        "files told of falsely": (false, known),
        "NEXT that is not stale": (fresh, len(ahead)),
        "NEXT that comes true": (true, len(ahead)),
        "views that say what is next": (int(bool(ahead or open_tasks)), 1),
    }


def _is_stale(item: Item, by_ref: Mapping[str, Message], last: int) -> bool:
    """Whether a NEXT item names no message, was done by the very message that it names, or is old
    and nobody's wish or plan."""
    named = [by_ref[ref] for ref in item.refs if ref in by_ref]
    if not named:
        return True
    message = named[-1]
    if message.is_request or any(action_of(c).kind in ("plan", "task") for c in message.calls):
        return False
    typed = Turn(message.role, message.parts).typed
    return last - message.seq > _OLD or not names_in(words_of_item(item)).isdisjoint(
        names_in(typed)
    )


def _judge_files(early: Sequence[Message], digests: Sequence[Digest]) -> tuple[int, int, int]:
    """The files told of rightly, those told of as if they were still there, and all whose last
    state is certain."""
    items = [item for one in digests for _, items in one.sections for item in items]
    index = [f"{item.text} {item.note}" for one in digests for item in one.index]
    lines = (*map(words_of_item, items), *index)
    told = [piece for line in lines for piece in line.split("; ")]
    counted: Counter[str] = Counter()
    for path, state in ledger_of(conversation_of(early)).files.items():
        sign = _STATE_OF.get(state.word)
        if sign is None:
            continue
        named = [piece for piece in told if _names(path, piece)]
        counted["known"] += 1
        counted["right"] += any(sign.search(piece) for piece in named)
        is_gone = sign is _GONE
        counted["false"] += is_gone and any(
            _THERE.search(piece) and not _GONE.search(piece) for piece in named
        )
    return counted["right"], counted["false"], counted["known"]


def _names(path: str, line: str) -> bool:
    """Whether a line names a file, by its path or by its name alone."""
    name = path.rpartition("/")[2]
    if re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w/-])", line):
        return True
    alone = rf"(?<![\w./-]){re.escape(name)}(?![\w/-])"
    return len(name) >= _SHORTEST_NAME and bool(re.search(alone, line))
