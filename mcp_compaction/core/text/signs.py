"""Finds the signs of a lexicon in a sentence: rules, decisions, tasks and the other kinds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from mcp_compaction.core.text.language import ENGLISH, languages_of, words_of
from mcp_compaction.core.text.patterns import any_of
from mcp_compaction.core.text.sentences import Sentence
from mcp_compaction.lexicon.languages import (
    STRENGTHS,
    Kind,
    Lexicon,
    Sign,
    fill_in_all,
    read_lexicon,
    read_lexicons,
    whole_words,
)


class Shown(NamedTuple):
    """A sign that was found, and where."""

    sign: Sign
    match: re.Match[str]


class _Look(NamedTuple):
    """A sign with its patterns, compiled when they are first used."""

    sign: Sign
    pattern: re.Pattern[str]
    unless: tuple[re.Pattern[str], ...]
    beside: tuple[re.Pattern[str], ...]


class Signs:
    """The signs of one kind in one language; each is looked for only where a sentence has a word
    that it needs."""

    def __init__(self, lexicon: Lexicon, kind: Kind) -> None:
        """Take the signs of that kind, with the guards that they name."""
        guards = {
            sign.name: any_of(*lexicon.patterns_of(sign))
            for sign in lexicon.sign
            if sign.kind == "guard"
        }
        self._always: list[_Look] = []
        self._by_word: dict[str, list[_Look]] = {}
        for sign in lexicon.sign:
            if sign.kind != kind:
                continue
            look = _Look(
                sign,
                any_of(*lexicon.patterns_of(sign)),
                tuple(guards[name] for name in lexicon.guards_of(sign)),
                tuple(guards[name] for name in sign.beside),
            )
            if not sign.needs:
                self._always.append(look)
            for word in sign.needs:
                self._by_word.setdefault(word, []).append(look)
        self._needed = frozenset(self._by_word)

    def may_be_in(self, words: frozenset[str] | None) -> bool:
        """Whether a sentence of these words may show one of the signs."""
        return bool(self._always) or words is None or not self._needed.isdisjoint(words)

    def __bool__(self) -> bool:
        """Whether the language has any sign of the kind."""
        return bool(self._always or self._by_word)

    @property
    def words(self) -> frozenset[str]:
        """The words that its signs need."""
        return frozenset(self._by_word)

    def may_find(self, bare: str) -> bool:
        """Whether a sentence has a word that a sign needs: a cheap look before it is cut up."""
        return bool(self._always) or not self._by_word.keys().isdisjoint(words_of(bare))

    def find(self, bare: str, by_user: bool = True) -> Iterator[Shown]:
        """The signs that a sentence shows, its code and quotations blanked out."""
        for look in self._likely(bare):
            if not by_user and look.sign.by == "user":
                continue
            match = look.pattern.search(bare)
            if (
                match
                and not any(guard.search(bare) for guard in look.unless)
                and all(guard.search(bare) for guard in look.beside)
            ):
                yield Shown(look.sign, match)

    def find_all(self, bare: str) -> Iterator[re.Match[str]]:
        """Every place where a sentence shows a sign, for signs without guards."""
        for look in self._likely(bare):
            yield from look.pattern.finditer(bare)

    def _likely(self, bare: str) -> Iterable[_Look]:
        said = sorted(words_of(bare) & self._by_word.keys()) if self._by_word else ()
        likely = chain(chain.from_iterable(self._by_word[word] for word in said), self._always)
        return {id(look): look for look in likely}.values()


@cache
def signs_of(language: str, kind: Kind) -> Signs:
    """The signs of one kind in one language."""
    return Signs(read_lexicon(language), kind)


def find_sign(kind: Kind, sentence: Sentence, by_user: bool = True) -> Shown | None:
    """The strongest sign of a kind that a sentence shows, in the languages that it may be in; the
    first of several."""
    languages = sentence.languages or (ENGLISH,)
    if not any(signs_of(code, kind).may_be_in(sentence.words) for code in languages):
        return None
    return _find_sign(kind, sentence.bare, languages, by_user)


def shows_sign(
    kind: Kind, text: str, languages: tuple[str, ...] | None = None, by_user: bool = True
) -> bool:
    """Whether a text as it stands shows a sign of a kind, in its languages or in those named."""
    known = languages_of(text) if languages is None else languages
    return _find_sign(kind, text, known or (ENGLISH,), by_user) is not None


def captures_of(kind: Kind, text: str, languages: tuple[str, ...]) -> Iterator[str]:
    """What the signs of a kind point at in a text: the stretches that their patterns capture."""
    return (match[match.lastindex or 0] for match in _find_all(kind, text, languages))


def places_of(kind: Kind, text: str, languages: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Where a text shows signs of a kind."""
    return (match.span() for match in _find_all(kind, text, languages))


def _find_all(kind: Kind, text: str, languages: tuple[str, ...]) -> Iterator[re.Match[str]]:
    codes = languages or (ENGLISH,)
    return chain.from_iterable(signs_of(code, kind).find_all(text) for code in codes)


@lru_cache(maxsize=16_384)  # a window is looked at again and again, and "continue" said often
def _find_sign(kind: Kind, bare: str, languages: tuple[str, ...], by_user: bool) -> Shown | None:
    found = (one for code in languages for one in signs_of(code, kind).find(bare, by_user))
    best: Shown | None = None
    for one in found:
        if one.sign.strength == STRENGTHS[0]:
            return one
        if best is None or STRENGTHS.index(one.sign.strength) < STRENGTHS.index(best.sign.strength):
            best = one
    return best


@cache
def patterns_by_name(kind: Kind) -> dict[str, re.Pattern[str]]:
    """The patterns of each sign of a kind in all languages, for texts whose language does not
    matter; guards are left aside."""
    found: dict[str, list[str]] = {}
    for lexicon, sign in _signs_in_all(kind):
        found.setdefault(sign.name, []).extend(lexicon.patterns_of(sign))
    return {name: any_of(*patterns) for name, patterns in found.items()}


@cache
def pattern_of_kind(kind: Kind) -> re.Pattern[str]:
    """One pattern for all signs of a kind in all languages; guards are left aside."""
    found = tuple(_signs_in_all(kind))
    # Looking for a word's edge once, not for each language, makes it twice as fast.
    words = [p for lexicon, one in found if one.as_words for p in map(lexicon.fill, one.pattern)]
    others = [p for lexicon, one in found if not one.as_words for p in lexicon.patterns_of(one)]
    return any_of(*([whole_words(*words)] if words else ()), *others)


def _signs_in_all(kind: Kind) -> Iterator[tuple[Lexicon, Sign]]:
    return ((one, sign) for one in read_lexicons() for sign in one.sign if sign.kind == kind)


@cache
def needs_of_kind(kind: Kind) -> tuple[str, ...]:
    """The words of which a text in ASCII holds one, in whatever language, where it shows a sign
    of a kind: its signs in Latin letters have to name them."""
    needs = {w for _, sign in _signs_in_all(kind) for w in sign.needs if w.isascii()}
    return tuple(sorted(w for w in needs if not any(o in w for o in needs - {w})))


@cache
def patterns_with_needs(kind: Kind) -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
    """The pattern of each sign of a kind in all languages, with the words that it needs."""
    return tuple((s.needs, any_of(*lexicon.patterns_of(s))) for lexicon, s in _signs_in_all(kind))


@cache
def part_of(name: str, language: str = ENGLISH) -> re.Pattern[str]:
    """A part or list of one language as a pattern."""
    return any_of(read_lexicon(language).fill(f"{{{name}}}"))


@cache
def part_in_all(name: str) -> re.Pattern[str]:
    """The parts or lists of that name in all languages as one pattern."""
    return any_of(fill_in_all(name))
