"""Tells which lines of a draft claim a wish or a consent of the user without the user's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.check.record import by_languages, clauses_of
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.words import telling_words
from mcp_compaction.lexicon.tools import KnownWill, known_deeds
from mcp_compaction.model import Item, Message

_QUOTED = pattern_of(
    r"\"([^\"]{2,})\"|“([^“”]{2,})”|«([^«»]{2,})»|「([^「」]{2,})」|„([^„“”]{2,})[“”]"
    r"|‘([^‘’]{2,})’|(?<!\w)'([^']{2,})'(?!\w)"
)
_CODE = pattern_of(r"`[^`]*[\"“][^`]*`")  # that quotes something itself
_TO_QUOTE = pattern_of('["“«「„‘]')
_NEAR_BEFORE, _NEAR_BEHIND = 60, 24  # signs
_LONG = 4  # words; fewer may answer anything, as "go ahead" does
_AWAITS_BEHIND = ("ja", "ko", "ru")  # a will is awaited by words behind it
_HALF, _MOST = 0.5, 0.75  # of what a line speaks of


class _Saying(NamedTuple):
    """What a user said, and what it may be about: its words and those it answers."""

    said: Evidence
    about: frozenset[str]
    own: frozenset[str]


@dataclass(frozen=True)
class Wills:
    """What users said in a window, and what was checked before and is known of them."""

    messages: Sequence[Message]
    known: Sequence[str] = ()

    def bear(self, item: Item) -> bool:
        """Whether a line claims no will of the user, or quotes it: with a few words only where
        these answer what the claim speaks of. A mere wish may also be told in the user's words."""
        if item.text in self.known or self.quotes_user(item.text):
            return True
        quotes = [
            q for match in _QUOTED.finditer(item.text) if self.quotes_user(q := _inside(match))
        ]
        told = split_sentences(
            _QUOTED.sub(lambda m: "_" if _inside(m) in quotes else m[0], item.text)
        )
        claims = ((will, one) for one in told if (will := will_claimed_in(one)) is not None)
        return all(self._is_borne(will, _matter_of(one), quotes) for will, one in claims)

    def _is_borne(self, will: KnownWill, about: frozenset[str], quotes: Sequence[str]) -> bool:
        if any(_tells(one, quote, about) for one in self._sayings for quote in quotes):
            return True
        return will.name == "wish" and any(_covers(o.own, about, _MOST) for o in self._sayings)

    def quotes_user(self, words: str) -> bool:
        """Whether a user said these words, whatever their case and signs."""
        return any(one.said.holds_words(words) for one in self._sayings)

    @cached_property
    def _sayings(self) -> tuple[_Saying, ...]:
        pairs = zip((None, *self.messages), self.messages, strict=False)
        return tuple(_read(one, before) for before, one in pairs if one.role == "user" and one.text)


def will_claimed_in(line: str) -> KnownWill | None:
    """The will of the user that a line claims, consent before a wish; what is denied or only
    awaited is none."""
    named = [code for code in known_deeds().user if _of("user", code).search(line)]
    for will in known_deeds().will:
        for clause in clauses_of(line):
            beside = (_claims(_of_will(will.name, "beside", code), clause, code) for code in named)
            alone = (_claims(_of_will(will.name, "alone", c), clause, c) for c in will.alone)
            if any(beside) or any(alone):
                return will
    return None


def _matter_of(sentence: str) -> frozenset[str]:
    """What a sentence speaks of beside the user and the will."""
    known = known_deeds()
    for ways in (known.user, *(will.beside for will in known.will)):
        sentence = by_languages(ways).sub(" ", sentence)
    return frozenset(telling_words(sentence))


def _claims(pattern: re.Pattern[str], clause: str, code: str) -> bool:
    """Whether a clause says it, and neither denies it nor waits for it."""
    found = pattern.search(clause)
    if found is None:
        return False
    rest = clause if code in _AWAITS_BEHIND else clause[: found.start()]
    return not any(p.search(rest) for p in (pattern_of_kind("negation"), _of("awaited", code)))


def quotes_of_user_in(line: str) -> Iterator[str]:
    """What a line quotes as the user's words: the user is named close before it or behind it."""
    users, end = by_languages(known_deeds().user), 0
    line = _CODE.sub(lambda code: "_" * len(code[0]), line)
    for match in _QUOTED.finditer(line):
        before = line[max(end, match.start() - _NEAR_BEFORE) : match.start()]
        end = match.end()
        behind = _TO_QUOTE.split(line[end : end + _NEAR_BEHIND], maxsplit=1)[0]
        if users.search(before) or users.search(behind):
            yield _inside(match)


def _inside(quoted: re.Match[str]) -> str:
    return next(filter(None, quoted.groups()))


def _read(message: Message, before: Message | None) -> _Saying:
    own = frozenset(telling_words(message.text))
    asked = before.text if before is not None and before.role == "assistant" else ""
    return _Saying(Evidence([(message.text, None)]), own | {*telling_words(asked)}, own)


def _tells(saying: _Saying, quote: str, about: frozenset[str]) -> bool:
    """Whether a user said a quote, and it tells enough or answers what a claim is about."""
    if not saying.said.holds_words(quote):
        return False
    return _length_of(quote) >= _LONG or _covers(saying.about, about, _HALF)


def _covers(said: frozenset[str], matter: frozenset[str], part: float) -> bool:
    return len(said & matter) >= part * len(matter)


def _length_of(quote: str) -> int:
    """The words of a quote; of what is written without spaces two signs are about one."""
    return len(quote.split()) if quote.isascii() else max(len(quote.split()), len(quote) // 2)


@cache
def _of(table: Literal["user", "awaited"], code: str) -> re.Pattern[str]:
    ways = getattr(known_deeds(), table)
    return by_languages({code: ways[code]})


@cache
def _of_will(name: str, table: Literal["beside", "alone"], code: str) -> re.Pattern[str]:
    ways = next(getattr(will, table) for will in known_deeds().will if will.name == name)
    return by_languages({code: ways[code]})
