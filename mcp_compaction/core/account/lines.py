"""Reads messages into the lines of an account: each is shown in one of several forms, the shortest
first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Literal

from mcp_compaction.core.account.telling import (
    LINE_NUMBER,
    answer_of,
    last_part,
    outline_of,
    shorten_answer,
    telling_words_of,
)
from mcp_compaction.core.excerpts.choose import is_unsure
from mcp_compaction.core.excerpts.render import line_of
from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_LINE, SHORTEST_PREVIEW
from mcp_compaction.core.log.call_entries import CallEntry
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.effects import effects_of
from mcp_compaction.core.log.ledger import Ledger, ledger_of
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.words import Haystack, fold, shorten, telling_words
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import By, Excerpt, Message
from mcp_compaction.shell import commands_of

Form = tuple[Excerpt, ...]
# "order": a user's, or a lead's, words at length; "asked": the agent's words that a user's short
# ones answer, which say nothing without them
Kind = Literal["user", "order", "asked", "closing", "said", "aside", "doubt", "steps", "file"]

_SHORT, _MIDDLE, _LONG = 60, 120, 400  # characters of a call or an answer
_LONG_WORDS = 2_000  # characters of a user's message, of which a small room holds a part
_SHORT_WORDS = (SHORTEST_PREVIEW, 4 * SHORTEST_PREVIEW)
_MOST_OF_RUN = 3  # calls in one run
_TOLD_ELSEWHERE = ("plan", "task", "recall")  # by the open tasks, or by nobody
_SHORT_ANSWER = 100  # characters of a user's message
_LEADS = (":", "：")
_ASIDE = 3  # telling words beside those of a call: they say no more than that it comes
_LINES_OF_FILE = (12, 40, 120)
_OF_USER: tuple[By, ...] = ("user", "reported", "lead")
_OF_AGENT: dict[By, By] = {"decision": "said", "answer": "said", "agent": "said"}
_GONE: tuple[By, ...] = ("wanted", "command", "field", "line")


@dataclass(frozen=True, eq=False)
class Line:
    """What somebody said, some calls in a row, or what was seen of a file."""

    seq: int
    kind: Kind
    makes: Sequence[Callable[[], Form]]  # the forms, the shortest first
    _made: dict[int, Form] = field(default_factory=dict[int, Form])
    _costs: dict[int, int] = field(default_factory=dict[int, int])

    def form(self, level: int) -> Form:
        """The line in one of its forms; the longest, where it has none of that length."""
        level = min(level, len(self.makes) - 1)
        if level not in self._made:
            self._made[level] = self.makes[level]()
        return self._made[level]

    def cost(self, level: int, count: CountTokens) -> int:
        """The tokens of the line in one of its forms."""
        if level not in self._costs:
            self._costs[level] = sum(count(line_of(one)) + 1 for one in self.form(level))
        return self._costs[level]

    @property
    def is_talk(self) -> bool:
        """Whether somebody said it, and more than that a call comes."""
        return self.kind not in ("steps", "file", "aside")

    @cached_property
    def whole(self) -> Form:
        """The line in its longest form."""
        return self.form(len(self.makes) - 1)


class AccountLines:
    """The lines of one window's account; an agent's message with so many groups of epistemic
    markers is a doubt."""

    def __init__(self, said: Sequence[Message], markers: int | None) -> None:
        self._said, self._markers = said, markers
        self._made: tuple[object, list[Line]] = (None, [])  # what was asked for last

    def of(self, gone: frozenset[int], earlier: Iterable[Excerpt], shown: str) -> list[Line]:
        """The lines of those messages that left the window, and of what was told of earlier ones,
        in the order of their time, without words that are shown already."""
        seen = Haystack(fold(shown))
        known = [one for one in earlier if one.by not in _GONE]
        left = [one for one in self._said if one.seq in gone]
        told = frozenset(one.seq for one in left if not seen.holds(fold(one.text)))
        asked = (gone, told, known)
        if self._made[0] != asked:
            self._made = asked, list(_with_runs(self._things_of(gone, told, known)))
        return self._made[1]

    def _things_of(
        self, gone: Container[int], told: Container[int], known: Iterable[Excerpt]
    ) -> Iterator[Line | _Step]:
        ledger = ledger_of(self._said)
        things: list[tuple[int, Line | _Step]] = [(one.seq, _line_of_earlier(one)) for one in known]
        for message, after in zip(self._said, (*self._said[1:], None), strict=False):
            if message.seq in told:
                things += ((message.seq, x) for x in _words_of(message, after, self._markers))
        for entry in ledger.entries:
            if (seq := int(entry.ref[1:])) in gone and entry.action.kind not in _TOLD_ELSEWHERE:
                things.append((seq, _Step(seq, entry)))
        things += ((line.seq, line) for line in file_lines(ledger, gone))
        return (thing for _, thing in sorted(things, key=lambda one: one[0]))


def _words_of(message: Message, after: Message | None, markers: int | None) -> Iterator[Line]:
    text = message.text.strip()
    if not text:
        return
    if message.role == "user":
        by: By = "reported" if message.via == "tool" else "user"
        by = "lead" if message.speaker == "agent" else by
        yield words_line(message.seq, by, "user", text)
    elif message.role == "assistant" and not is_planted(text):
        if markers is not None and is_unsure(text, markers):
            yield words_line(message.seq, "doubt", "doubt", text)
        elif after is not None and after.is_request and len(after.text) <= _SHORT_ANSWER:
            yield words_line(message.seq, "closing", "asked", text)
        elif (after is None or after.is_request) and not message.calls:
            yield words_line(message.seq, "closing", "closing", text)
        else:
            called = " ".join(map(words_of, message.calls))
            kind = "aside" if message.calls and _is_aside(text, called) else "said"
            yield words_line(message.seq, "said", kind, text)


def _is_aside(text: str, called: str = "") -> bool:
    """Whether words before a call say no more than that it comes: they end as what leads to
    something, or name hardly more than the call does."""
    if len(text) > LONGEST_LINE:
        return False
    if text.endswith(_LEADS):
        return True
    return len(set(telling_words(text)) - set(telling_words(called))) <= _ASIDE


def words_line(seq: int, by: By, kind: Kind, text: str) -> Line:
    """Words as a line: whole, or as much as so many characters hold; of a long order by its
    headings and what it orders."""

    kind = "order" if kind == "user" and len(text) > _LONG_WORDS else kind

    def cut(most: int) -> Callable[[], Form]:
        part = last_part if kind == "asked" else telling_words_of
        part = outline_of if most > _SHORT_WORDS[-1] else part
        return lambda: (Excerpt(seq=seq, by=by, pieces=(part(text, most),)),)

    lengths = [n for n in _SHORT_WORDS if 2 * n < len(text)]
    while kind == "order" and 2 * lengths[-1] < len(text):
        lengths.append(2 * lengths[-1])
    whole = Excerpt(seq=seq, by=by, pieces=(text,))
    return Line(seq, kind, [*map(cut, lengths), lambda: (whole,)])


def _line_of_earlier(one: Excerpt) -> Line | _Step:
    by = _OF_AGENT.get(one.by, one.by)
    if by == "step":
        return _Step(one.seq, one)
    if by == "file":
        return Line(one.seq, "file", [lambda: (one,)])
    if by == "talk":
        by = "user" if one.role == "user" else "said"
    text = " … ".join(one.pieces)
    kind: Kind = "user" if by in _OF_USER else by  # pyright: ignore[reportAssignmentType]
    if by == "said" and _is_aside(text):
        kind = "aside"
    return words_line(one.seq, by, kind, text)


# Steps


@dataclass(frozen=True, eq=False)
class _Step:
    """One call, as it was made or as it was told before."""

    seq: int
    call: CallEntry | Excerpt

    def shown(self, most: int, of_answer: int) -> Excerpt:
        """The call and its answer in so many characters each."""
        if isinstance(self.call, Excerpt):
            what, *answer = self.call.pieces
            cut = (shorten_answer(one, of_answer, what) for one in answer if of_answer)
            return self.call.model_copy(update={"pieces": (shorten(what, most), *cut)})
        what = self.call.line(most)
        answer = answer_of(self.call, of_answer) if of_answer else ""
        return Excerpt(seq=self.seq, by="step", pieces=(what, answer) if answer else (what,))

    @property
    def last(self) -> int:
        """The last message it tells of."""
        return self.call.last or self.seq if isinstance(self.call, Excerpt) else self.seq

    @property
    def name_and_target(self) -> tuple[str, str]:
        """The tool, and the telling end of what it was given."""
        if isinstance(self.call, Excerpt):
            name, _, target = self.call.pieces[0].partition(" ")
        else:
            name, target = self.call.call.name, self.call.argument
        is_path = " " not in target and "/" in target
        told = target.rpartition("/")[2] if is_path else shorten(target, _MIDDLE)
        return name, f"{told} -> {self.mishap}" if self.mishap else told

    @cached_property
    def mishap(self) -> str:
        """How the call ended where it was not done, in a few words."""
        if isinstance(self.call, Excerpt):
            return ""
        if self.call.ending in ("done", "running") and not self.call.changed_nothing:
            return ""
        return answer_of(self.call, _SHORT)


def _with_runs(things: Iterable[Line | _Step]) -> Iterator[Line]:
    """The lines, with calls in a row as one line each few of them; what was seen of files ends no
    run."""
    for _, run in groupby(things, key=lambda one: isinstance(one, Line) and one.kind != "file"):
        found = list(run)
        steps = [one for one in found if isinstance(one, _Step)]
        starts = range(0, len(steps), _MOST_OF_RUN)
        lines = [_line_of_steps(steps[start : start + _MOST_OF_RUN]) for start in starts]
        lines += (one for one in found if isinstance(one, Line))
        yield from sorted(lines, key=lambda line: line.seq)


def _line_of_steps(steps: Sequence[_Step]) -> Line:
    def each(most: int, of_answer: int) -> Callable[[], Form]:
        return lambda: tuple(step.shown(most, of_answer) for step in steps)

    longer = [
        each(_MIDDLE, _SHORT),
        each(LONGEST_LINE, SHORTEST_PREVIEW),
        each(LONGEST_LINE, _LONG),
        each(LONGEST_LINE, LONGEST_ANSWER),
    ]
    # One alone tells its answer at once, and grows no sooner than those in a run.
    shortest = longer[0] if len(steps) == 1 else lambda: (_run_of(steps),)
    return Line(steps[0].seq, "steps", [shortest, *longer])


def _run_of(steps: Sequence[_Step]) -> Excerpt:
    """Calls in a row as one: what each tool was called for."""
    targets: dict[str, Counter[str]] = {}
    for step in steps:
        name, target = step.name_and_target
        targets.setdefault(name, Counter())[target] += 1
    told = "; ".join(
        f"{name} {', '.join(filter(None, of))}".strip() for name, of in targets.items()
    )
    return Excerpt(seq=steps[0].seq, last=steps[-1].last, by="step", pieces=(told,))


# Files


def file_lines(ledger: Ledger, gone: Container[int]) -> list[Line]:
    """What the agent last saw of each file and part of a file, by what it read or wrote itself; of
    those whose last sight has left the window. What was seen before the last that was done to a
    file may stand there no more, and is not told."""
    last: dict[str, dict[str, tuple[CallEntry, str]]] = {}  # by paths and their parts
    for entry in ledger.entries:
        if entry.ending != "done" or entry.changed_nothing:
            continue
        for path, part, text in _seen_in(entry):
            now = ledger.files.get(path)
            if now is None or int(now.ref[1:]) <= int(entry.ref[1:]):
                last.setdefault(path, {})[part] = entry, text
    return [
        _line_of_file(int(entry.ref[1:]), f"{path} {part}".strip(), entry.action.kind, text)
        for path, parts in last.items()
        for part, (entry, text) in parts.items()
        if int(entry.ref[1:]) in gone
    ]


_HOW: dict[str, str] = {"read": "read", "write": "written", "edit": "edited", "run": "written"}
_CONTENT = ("content", "file_text", "new_string", "new_str", "new_source")


def _seen_in(entry: CallEntry) -> Iterator[tuple[str, str, str]]:
    """The files that a call shows: each with the part that it names and the text of that time."""
    action, given = entry.action, entry.call.arguments
    if action.kind == "read" and entry.result is not None:
        yield action.target, action.detail, LINE_NUMBER.sub("", entry.result.text)
    elif action.kind in ("write", "edit"):
        text = next((given[key] for key in _CONTENT if isinstance(given.get(key), str)), "")
        if isinstance(text, str) and text:
            yield action.target, "", text
    elif action.kind == "run" and "<<" in action.target and "\n" in action.target:
        written = [one.path for one in effects_of(action.target) if one.does == "write"]
        given = [one.given for one in commands_of(action.target) or () if one.given]
        if written and given:
            yield written[0], "", given[0]


def _line_of_file(seq: int, place: str, kind: str, text: str) -> Line:
    lines = [line for line in text.split("\n") if line.strip()]

    def first(most: int) -> Callable[[], Form]:
        def make() -> Form:
            cut = f", the first {most} of {len(lines)} lines" if most < len(lines) else ""
            harmless = (line for line in lines[:most] if not is_planted(line))
            pieces = (f"{place} as {_HOW[kind]}{cut}:", "\n".join(harmless))
            return (Excerpt(seq=seq, by="file", pieces=pieces),)

        return make

    sizes = [size for size in _LINES_OF_FILE if size < len(lines)]
    return Line(seq, "file", [*map(first, sizes), first(len(lines))])
