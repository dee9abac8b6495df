"""Finds the words of a pin in what users said, and tells how far they are the user's own."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache, cached_property
from typing import Literal, NamedTuple

from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.all_languages import part_in_all
from mcp_compaction.core.text.haystack import Haystack
from mcp_compaction.core.text.pasted import Span, is_passed_on, passed_on_spans, unify_lines
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.lexicon.languages import fill_in_all
from mcp_compaction.model import Message

_LEAST_CHARS = 8
_BULLET = pattern_of(r"(?:[-*•]|\d+[.)]) ")
_IN_WORDS = pattern_of(r"\W?")
_STOPS = tuple(".!?")
_WIDE_STOPS = tuple("。！？")

_Standing = Literal["said", "passed on"]


class Saying(NamedTuple):
    """Where the words of a pin stand, and how far they are the user's own.

    said: the user's own words. told: only an agent recorded that the user said them.
    passed on: the user quotes or pastes them, or a host put them there.
    """

    ref: str
    how: Literal["said", "told", "passed on"]


class Requests:
    """The messages of users, in which the words of many lines are looked for."""

    def __init__(self, messages: Iterable[Message]) -> None:
        """Fold each message once."""
        self._texts = [(m, unify_lines(m.text)) for m in messages if m.is_request]
        self._folded = [one_line(text) for _, text in self._texts]
        self._own = {m.seq: m.text for m in conversation_of(m for m, _ in self._texts)}

    @cached_property
    def _all(self) -> Haystack:
        return Haystack("\n".join(self._folded))

    def saying_of(self, text: str) -> Saying | None:
        """The message that holds these words as whole sentences or lines, the best first."""
        wanted = one_line(unify_lines(text))
        if len(wanted) < _LEAST_CHARS or not self._all.holds(wanted):
            return None
        best: Saying | None = None
        for (message, said), folded in zip(self._texts, self._folded, strict=True):
            if wanted not in folded:
                continue
            stand = self._standing_in(message, said, wanted)
            if stand is None:
                continue
            if stand == "passed on":
                best = best or Saying(message.ref, "passed on")
            elif message.via == "host":
                return Saying(message.ref, "said")
            elif best is None or best.how == "passed on":
                best = Saying(message.ref, "told")
        return best

    def _standing_in(self, message: Message, said: str, wanted: str) -> _Standing | None:
        """How a message holds these words; what only the host says in it is passed on."""
        own = self._own.get(message.seq, "")
        if own == message.text:
            return _standing_of(wanted, said)
        standing = _standing_of(wanted, unify_lines(own)) if own else None
        return standing or ("passed on" if _standing_of(wanted, said) else None)


def saying_of(text: str, messages: Iterable[Message]) -> Saying | None:
    """The user message that holds these words as whole sentences or lines, the best first."""
    return Requests(messages).saying_of(text)


def _standing_of(wanted: str, text: str) -> _Standing | None:
    """How a text holds these words as whole sentences or lines; None: it does not."""
    flat = _fold_text(text)
    spans = passed_on_spans(text)
    standing: _Standing | None = None
    start = flat.text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        # Half a sentence may say the opposite: "share the key" stands in "never share the key".
        begins, closes = flat.begins_at(start), flat.closes_at(end)
        is_inside = is_passed_on(flat.places[start], flat.places[end - 1] + 1, spans)
        if begins and closes and not is_inside:
            return "said"
        if is_inside and _IN_WORDS.fullmatch(flat.text[max(0, start - 1) : start]):
            standing = "passed on"
        start = flat.text.find(wanted, end)
    return standing


@cache
def _abbreviated() -> re.Pattern[str]:
    return any_of(rf"(?:^|[\s(])(?:\w|{fill_in_all('possible_abbreviations')})\.$")


@cache
def _heading() -> re.Pattern[str]:
    about, word = fill_in_all("heading_of_rules"), r"[\w'’/-]+"
    return any_of(rf"\W*(?:{word} ){{0,4}}(?:{about})\b(?: {word}){{0,5}} ?:")


class _Flat(NamedTuple):
    """A text with its white space folded, and where its signs and whole lines were."""

    text: str
    places: tuple[int, ...]  # of each sign, in the text as it was
    starts: frozenset[int]  # of lines that do not go on from the line before
    ends: frozenset[int]  # of lines that the next one does not go on from
    barred: tuple[Span, ...]  # what stands under a heading that may turn it round

    def begins_at(self, start: int) -> bool:
        """Whether a sentence or a whole line begins there."""
        under = bisect_right(self.barred, (start, len(self.text))) - 1
        if under >= 0 and start < self.barred[under].end:
            return False
        if start in self.starts or self.text.endswith(_WIDE_STOPS, 0, start):
            return True
        return self.text[start - 1 : start] == " " and self._stops_at(start - 1)

    def closes_at(self, end: int) -> bool:
        """Whether a sentence or a whole line ends there, with its stop or right before it."""
        if end in self.ends or self.text.endswith(_WIDE_STOPS, 0, end):
            return True
        if self.text.startswith(_WIDE_STOPS, end):
            return True
        return self._stops_at(end) or self._stops_at(end + 1)

    def _stops_at(self, end: int) -> bool:
        """Whether a sentence's stop ends there, and no name, number or abbreviation goes on."""
        if not self.text.endswith(_STOPS, 0, end) or self.text[end : end + 1] not in ("", " "):
            return False
        return not _abbreviated().search(self.text, max(0, end - 12), end)


class _SaidLine(NamedTuple):
    """A line that says something: folded, and where it stands in the folded text."""

    text: str
    start: int
    places: tuple[int, ...]  # of its signs in the text as it was
    is_after_blank: bool
    bullet: int  # how long the sign of a list is that it begins with

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _lines_with_words(text: str) -> list[_SaidLine]:
    lines: list[_SaidLine] = []
    offset, is_after_blank = 0, True
    for line in text.split("\n"):
        places: list[int] = []
        for word in re.finditer(r"\S+", line):
            places += [offset + word.start() - 1] if places else []
            places += range(offset + word.start(), offset + word.end())
        if places:
            folded = one_line(line)
            bullet = _BULLET.match(folded)
            start = lines[-1].end + 1 if lines else 0
            length = bullet.end() if bullet else 0
            lines.append(_SaidLine(folded, start, tuple(places), is_after_blank, length))
        is_after_blank = not places
        offset += len(line) + 1
    return lines


def _fold_text(text: str) -> _Flat:
    lines = _lines_with_words(text)
    starts, ends = set[int](), set[int]()
    barred: list[Span] = []
    places: list[int] = []
    is_barred = False
    for before, line in zip((None, *lines), lines, strict=False):
        stands_alone = line.is_after_blank or bool(line.bullet)
        if before is not None:
            places.append(before.places[-1] + 1)
            ends |= {before.end} if stands_alone else set()
        places += line.places
        is_barred = _is_barred(line, before, is_barred)
        if is_barred:
            barred.append(Span(line.start, line.end))
        elif before is None or stands_alone or before.text.endswith((*_STOPS, *_WIDE_STOPS, ":")):
            starts |= {line.start, line.start + line.bullet}
    whole = " ".join(line.text for line in lines)
    ends.add(len(whole))
    return _Flat(whole, tuple(places), frozenset(starts), frozenset(ends), tuple(barred))


def _is_barred(line: _SaidLine, before: _SaidLine | None, is_barred: bool) -> bool:
    """Whether a line stands under a heading that may turn it round: "Never do these:"."""
    if before is None:
        return False
    if before.text.endswith(":"):
        return not _heading().fullmatch(before.text) or bool(
            part_in_all("turned_round").search(before.text)
        )
    if line.bullet and before.bullet:
        return is_barred
    return is_barred and not line.is_after_blank
