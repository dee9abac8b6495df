"""Measures what past compactions of a host left, beside our view and plain ways in as many tokens,
by what the agent used, said and read again afterwards."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

from mcp_compaction.audit.auditing import AuditCase, LookedAt, Tell, WantedAudit, find_cases
from mcp_compaction.audit.report import find_invented
from mcp_compaction.core.log.passages import passages_of
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.words import fold, telling_words
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.evals.baselines import BASELINES, Strategy
from mcp_compaction.evals.corpora import PlainLine
from mcp_compaction.evals.handover import (
    PLAIN_WAYS,
    SMALLEST_WINDOW,
    Needs,
    PlainWay,
    count_pairs,
)
from mcp_compaction.evals.handover_sessions import Turn, turns_of, with_runs_written_out
from mcp_compaction.evals.plain_accounts import ACCOUNTS
from mcp_compaction.evals.results import PRODUCT, HandoverScore, add_up, score_one
from mcp_compaction.evals.subject import Subject, subject
from mcp_compaction.formats import Incoming
from mcp_compaction.hosts.limits import room_beside_host
from mcp_compaction.lexicon.host_texts import own_tools
from mcp_compaction.lexicon.models import find_summary_price
from mcp_compaction.model import Message, ToolCall, ToolResult, Value
from mcp_compaction.ports import TokenCounter
from mcp_compaction.summarizers.session_model import MOST_WRITTEN


def _by_message(choose: Strategy, turns: Sequence[Turn], budget: float, count: CountTokens) -> str:
    """What a way that knows only messages keeps of them."""
    lines = [PlainLine(role=turn.role, text=turn.text) for turn in turns]
    return "\n".join(line.text for line in choose(lines, budget, count))


HOST = "the host's summary"
SAME, DEFAULT = "the host's size", "our default"
WAYS: Mapping[str, PlainWay] = {
    **{name: PLAIN_WAYS[name] for name in ("newest lines", "names, newest")},
    **ACCOUNTS,
    **{
        name: partial(_by_message, BASELINES[name])
        for name in ("first 100, to 500", "first 200 each")
    },
}
USED = "names used in the next 40 answers"
HOW = (
    "names: paths, ids, names in code, command lines and numbers that the agent's next calls pass, "
    "or its words name, and that stood in the window before: those that stand in the view",
    "together: later calls that pass two or more of them, of which two stand on one line",
    "the user's words: sentences that the user typed or answered, those that stand word for word",
    "causes: sentences in which the agent told a cause, a decision or what is left, in the first "
    "four fifths: word for word, or three fifths of their telling words close together",
    "read again: lines of files that were read before and are read again in the next 20 answers",
    "unsaid: names and quotations of four words or more that stand in nothing said before, in all",
    "The future followed the host's summary: what another view would have led to, nobody knows.",
)
_SOON, _REACH, _READ_REACH = 10, 40, 20  # messages of the agent after a compaction
_FEWEST = 8  # of them, for a compaction to tell anything
_EARLY = 0.8  # of the agent's messages: the newest stand in every view
_LONGEST_WORDS = 700  # tokens of what the user said; what is longer is pasted
_SHORTEST, _LONGEST = 8, 400  # characters of a sentence
_SHORTEST_LINE = 25  # characters of a line that is read again
_PIECE, _NEAR = 150, 3  # characters; pieces that are read together
_CLOSE = 0.6  # of the telling words of a sentence
_CAUSE = re.compile(
    r"\b(?:root cause|the (?:real |actual )?(?:issue|problem|bug|reason|culprit) (?:is|was)|"
    r"turns out|that(?:'s| is) why|caused by|because the|fails? because|"
    r"found (?:it|the (?:bug|issue|problem|cause))|instead of|rather than|decided|let's go with|"
    r"we'll keep|chose|won't|should not|must not|the right (?:call|fix|approach)|"
    r"still (?:need|needs|fail|failing|missing|open)|not yet|remaining|next step|left to do|"
    r"pending|TODO)\b",
    re.I,
)
_QUOTED = re.compile(  # prose alone: in code a mark may end what another began
    r'(?<![\w)\]])"[A-Za-z][^"\n/={}();<>]{12,300}"(?![\w(])|“[^“”\n]{12,300}”'
)
_QUOTATION_MARKS = re.compile('["“”]')
_LINE_NUMBER = re.compile(r"^\s*\d+[→\t]")


class Beside(Value):
    """One compaction of a host, beside our views and plain ways."""

    host: str
    chat: str
    title: str
    number: int
    seen: int  # tokens of the window before
    sizes: tuple[tuple[str, str, int], ...]  # at which size, the way, its tokens
    unsaid: tuple[tuple[str, str, int], ...]  # and what it has that nobody had said
    seconds: float  # that ours took, at the host's size
    hosts_seconds: float | None  # None: its transcript does not tell
    hosts_most_seconds: float | None  # from the last result to a compaction by the host itself
    hosts_dollars: float | None  # for reading the window from a cache and writing, as listed
    prose_dollars: float | None  # for ours, where the chat's model writes its prose
    again_tokens: int  # of the lines that were read again
    lacking: tuple[tuple[str, str, int], ...]  # at which size, the way, those it has not
    hosts_read: int | None  # tokens that its summary's request read
    hosts_wrote: int  # tokens of its summary
    scores: tuple[HandoverScore, ...]
    hosts_text: str
    our_text: str

    @property
    def behind(self) -> float:
        """How much more of what was used next the host's summary had than our view of its size."""
        share = {
            one.way: one.mean_share
            for one in self.scores
            if one.budget == SAME and one.measure == USED and one.asked
        }
        return share.get(HOST, 0.0) - share.get(PRODUCT, 0.0)


class BesideReport(Value):
    """What all of them come to."""

    found: tuple[Beside, ...]
    chats: int
    short: int  # compactions after which too little was said
    skipped: tuple[str, ...]  # files, and why

    @property
    def scores(self) -> tuple[HandoverScore, ...]:
        """The scores of all compactions; each counts the same."""
        every = (
            score.model_copy(update={"source": ""}) for one in self.found for score in one.scores
        )
        return add_up(every, "source", "budget", "way", "measure")

    def tokens_of(self, at: str, way: str) -> float:
        """The tokens that a way took, in the mean."""
        sizes = [n for one in self.found for a, w, n in one.sizes if (a, w) == (at, way)]
        return sum(sizes) / len(sizes) if sizes else 0.0

    def unsaid_in(self, at: str, way: str) -> int:
        """The names and quotations of a way that nobody had said, in all."""
        return sum(n for one in self.found for a, w, n in one.unsaid if (a, w) == (at, way))


async def measure_compactions(
    wanted: WantedAudit, environ: Mapping[str, str], tell: Tell
) -> BesideReport:
    """The hosts' own compactions in transcripts, each beside ours and plain ways."""
    counter = best_counter()
    looked = LookedAt()
    found: list[Beside] = []
    short = 0
    for percent, cases in find_cases(wanted, environ, tell, looked):
        for case in cases:
            tell(percent, f"{case.chat}, compaction {case.number}")
            one = await measure_case(case, counter)
            found += [one] if one is not None else []
            short += one is None and not case.is_ours
    return BesideReport(
        found=tuple(found), chats=looked.chats, short=short, skipped=tuple(looked.skipped)
    )


class Views(NamedTuple):
    """What each way leaves of one window, and our session of it, while that is open."""

    ours: Subject
    messages: Sequence[Message]  # as they were recorded
    seconds: float  # that our compaction took
    texts: Mapping[str, str]  # by the way


@asynccontextmanager
async def open_views(case: AuditCase, size: float, counter: TokenCounter) -> AsyncGenerator[Views]:
    """Our view of a window in so many tokens, the host's, and plain ways in as many."""
    count, early = counter.count, turns_of(case.came)
    window = max(sum(count(turn.text) for turn in early), SMALLEST_WINDOW)
    async with subject(None, counter) as ours:
        await ours.record(Incoming(messages=tuple(case.came)))
        messages = (await ours.workspace.load(ours.info)).messages
        await ours.set_window(window)
        began = time.perf_counter()
        if size < window:
            await ours.compress(100 * size / window, force=True)
        seconds = time.perf_counter() - began
        text = "\n".join(line.text for line in await ours.read_lines())
        plain = {way: shorten(early, size, count) for way, shorten in WAYS.items()}
        yield Views(ours, messages, seconds, {PRODUCT: text, HOST: case.left, **plain})


async def measure_case(case: AuditCase, counter: TokenCounter) -> Beside | None:
    """One compaction beside our views and plain ways; None where it is ours, the host has told
    nothing of it, or too little was said after it."""
    later = turns_of(case.later)
    answers = sum(turn.role == "assistant" for turn in later)
    if case.is_ours or not case.left.strip() or answers < _FEWEST:
        return None
    count, early = counter.count, turns_of(case.came)
    seen = sum(count(turn.text) for turn in early)
    host_size = count(case.left)
    sizes: list[tuple[str, str, int]] = []
    unsaid: list[tuple[str, str, int]] = []
    lacking: list[tuple[str, str, int]] = []
    scores: list[HandoverScore] = []
    texts: dict[str, str] = {}
    seconds, wants, said = 0.0, None, Said(case)
    for at, size in ((SAME, float(host_size)), (DEFAULT, room_beside_host(seen))):
        async with open_views(case, size, counter) as made:
            seconds, texts[at] = seconds or made.seconds, made.texts[PRODUCT]
        wants = wants or Wants(early, later, made.messages, count)  # the same at both sizes
        views = {**made.texts, PRODUCT: with_runs_written_out(texts[at])}
        for way, view in views.items():
            shown = texts[at] if way == PRODUCT else view
            sizes.append((at, way, count(shown)))
            unsaid.append((at, way, len(said.find_unsaid(shown))))
            again = "\n".join(line for line in wants.read_again if line not in view)
            lacking.append((at, way, count(again)))
            scores += wants.score(case.host, at, way, view)
    read = case.told.before or seen
    price = find_summary_price(case.model or "")
    return Beside(
        host=case.host,
        chat=case.chat,
        title=case.title,
        number=case.number,
        seen=seen,
        sizes=tuple(sizes),
        unsaid=tuple(unsaid),
        seconds=round(seconds, 3),
        hosts_seconds=case.told.seconds,
        hosts_most_seconds=_wait_in(case),
        hosts_dollars=price and price.cost_of(read, read, count(case.summary)),
        prose_dollars=price and price.cost_of(read, read, MOST_WRITTEN),
        again_tokens=count("\n".join(wants.read_again)) if wants else 0,
        lacking=tuple(lacking),
        hosts_read=case.told.before,
        hosts_wrote=count(case.summary),
        scores=tuple(scores),
        hosts_text=case.left,
        our_text=texts[SAME],
    )


def _wait_in(case: AuditCase) -> float | None:
    """The seconds from the last result to a compaction that the host began by itself: what it took
    at most, since it begins when that result has come."""
    last = case.fresh[-1] if case.fresh else None
    if case.told.trigger != "auto" or last is None or last.at is None or case.at is None:
        return None
    has_come = any(isinstance(part, ToolResult) for part in turns_of([last])[0].parts)
    return (case.at - last.at).total_seconds() if has_come else None


@dataclass(frozen=True)
class Said:
    """All that was said before a compaction, or that our own views may say of it."""

    case: AuditCase

    @cached_property
    def everything(self) -> str:
        """The words of all of it, with the years in which it was said."""
        case = self.case
        years = {str(message.at.year) for message in case.came if message.at is not None}
        return "\n".join((case.everything, case.window_before, *own_tools(), *sorted(years)))

    @cached_property
    def _folded(self) -> str:
        return fold(self.everything)

    def find_unsaid(self, view: str) -> list[str]:
        """The names and quotations in a text that stand in nothing that was said."""
        quoted = (_QUOTATION_MARKS.sub("", match[0]) for match in _QUOTED.finditer(view))
        unsaid = [q for q in quoted if len(q.split()) > 3 and fold(q) not in self._folded]
        return [*find_invented(view, self.everything, self.case.chat), *unsaid]


@dataclass(frozen=True)
class Wants:
    """What the agent used, said and read again after a compaction, and what the user had said."""

    early: Sequence[Turn]
    later: Sequence[Turn]
    messages: Sequence[Message]  # the early turns as they are recorded
    count: CountTokens

    @cached_property
    def needs(self) -> Needs:
        """What the agent's next messages name."""
        return Needs(self.early, self.later, reach=_REACH)

    @cached_property
    def soon(self) -> Needs:
        """What the agent's very next messages name."""
        return Needs(self.early, self.later, reach=_SOON)

    @cached_property
    def users_words(self) -> list[str]:
        """The sentences of the user."""
        said = (
            " ".join(
                passage.text
                for passage in passages_of(message.role, message.parts, message.speaker)
                if passage.by == "user"
            )
            for message in self.messages
            if message.via == "host"
        )
        return _sentences_in([text for text in said if self.count(text) <= _LONGEST_WORDS])

    @cached_property
    def causes(self) -> list[str]:
        """The sentences in which the agent told a cause, a decision, or what is left."""
        agents = [turn.said for turn in self.early if turn.role == "assistant"]
        told = _sentences_in(agents[: int(_EARLY * len(agents))])
        return [one for one in told if _CAUSE.search(one) and len(one) <= _LONGEST]

    @cached_property
    def read_again(self) -> list[str]:
        """The lines of files that were read before and were read again soon after."""
        known = {path for turn in self.early for path, _ in _files_read(turn)}
        results = {
            part.call: part.text
            for turn in self.later
            for part in turn.parts
            if isinstance(part, ToolResult)
        }
        answers = [turn for turn in self.later if turn.role == "assistant"][:_READ_REACH]
        texts = [results.get(c, "") for one in answers for p, c in _files_read(one) if p in known]
        lines = (_LINE_NUMBER.sub("", line).strip() for text in texts for line in text.split("\n"))
        return [line for line in lines if len(line) >= _SHORTEST_LINE]

    def score(self, source: str, at: str, way: str, view: str) -> Iterator[HandoverScore]:
        """How much of each stands in a view."""
        soon, needs, folded = self.soon.in_calls, self.needs, fold(view)
        pieces = [telling_words(folded[k : k + _PIECE]) for k in range(0, len(folded), _PIECE)]
        near = [{*chain(*pieces[k : k + _NEAR])} for k in range(len(pieces))]
        found = {
            "names used in the next 10 answers": (sum(n in view for n in soon), len(soon)),
            USED: (sum(n in view for n in needs.in_calls), len(needs.in_calls)),
            "names used together": (count_pairs(needs.pairs, view), len(needs.pairs)),
            "names said": (sum(n in view for n in needs.in_talk), len(needs.in_talk)),
            "the user's words": (
                sum(fold(s) in folded for s in self.users_words),
                len(self.users_words),
            ),
            "causes": (sum(_stands(s, folded, near) for s in self.causes), len(self.causes)),
            "read again": (sum(s in view for s in self.read_again), len(self.read_again)),
        }
        for measure, (held, asked) in found.items():
            yield score_one(source, at, way, measure, held, asked)


def _stands(sentence: str, folded: str, near: Sequence[set[str]]) -> bool:
    telling = set(telling_words(sentence))
    most = max((len(telling & words) for words in near), default=0)
    return fold(sentence) in folded or most >= _CLOSE * max(1, len(telling))


def _sentences_in(texts: Sequence[str]) -> list[str]:
    found = (one for text in texts for one in split_sentences(text))
    return list(dict.fromkeys(s for s in found if len(s) >= _SHORTEST and len(s.split()) > 2))


def _files_read(turn: Turn) -> Iterator[tuple[str, str]]:
    """The paths of files that calls read, and the ids of the calls."""
    for part in turn.parts:
        if isinstance(part, ToolCall) and (action := action_of(part)).kind == "read":
            yield action.target, part.id
