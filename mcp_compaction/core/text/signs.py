"""Finds the signs of a lexicon in a sentence, and what a user seems to want kept in force: rules,
limits, preferences; offered as pins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.language import ENGLISH, languages_of, words_of
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.words import one_line
from mcp_compaction.lexicon.languages import STRENGTHS, Kind, Lexicon, Sign, Strength, read_lexicon


class FoundSign(NamedTuple):
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
        own = [sign for sign in lexicon.sign if sign.kind == kind]
        named = {name for sign in own for name in (*lexicon.guards_of(sign), *sign.beside)}
        guards = {
            sign.name: any_of(*lexicon.patterns_of(sign))
            for sign in lexicon.sign
            if sign.kind == "guard" and sign.name in named
        }
        self._always: list[_Look] = []
        self._by_word: dict[str, list[_Look]] = {}
        for sign in own:
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
        self.needed = frozenset(self._by_word)

    def may_be_in(self, words: frozenset[str]) -> bool:
        """Whether a sentence of these words may show one of the signs: a cheap look."""
        return bool(self._always) or not self.needed.isdisjoint(words)

    def find(self, bare: str, by_user: bool = True) -> Iterator[FoundSign]:
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
                yield FoundSign(look.sign, match)

    def _likely(self, bare: str) -> Iterable[_Look]:
        said = sorted(self.needed & words_of(bare)) if self.needed else ()
        if not said:
            return self._always
        likely = [look for word in said for look in self._by_word[word]]
        return {id(look): look for look in (*likely, *self._always)}.values()


@cache
def signs_of(language: str, kind: Kind) -> Signs:
    """The signs of one kind in one language."""
    return Signs(read_lexicon(language), kind)


def find_sign(kind: Kind, sentence: Sentence) -> FoundSign | None:
    """The strongest sign of a kind that a sentence shows, in the languages that it may be in; the
    first of several."""
    languages = sentence.languages or (ENGLISH,)
    likely = [code for code in languages if signs_of(code, kind).may_be_in(sentence.words)]
    return _find_sign(kind, sentence.bare, tuple(likely)) if likely else None


def sign_in(kind: Kind, text: str, languages: tuple[str, ...] | None = None) -> FoundSign | None:
    """The strongest sign of a kind that a text as it stands shows."""
    known = languages_of(text) if languages is None else languages
    return _find_sign(kind, text, known or (ENGLISH,))


@lru_cache(maxsize=16_384)  # a window is looked at again and again, and "continue" said often
def _find_sign(kind: Kind, bare: str, languages: tuple[str, ...]) -> FoundSign | None:
    found = (one for code in languages for one in signs_of(code, kind).find(bare))
    return min(found, key=lambda one: STRENGTHS.index(one.sign.strength), default=None)


@cache
def part_of(name: str, language: str) -> re.Pattern[str]:
    """A part or list of a language as a pattern; the English one, where the language has none."""
    lexicon = read_lexicon(language)
    known = lexicon if lexicon.has(name) else read_lexicon(ENGLISH)
    return any_of(known.fill(f"{{{name}}}"))


_MARKUP = pattern_of(r"\*+|^[^\w\s\"'(@/~.-]+ ")  # bold words, and pictures before a sentence


class FoundRule(NamedTuple):
    """A sentence that may state a rule, word for word, and how plainly it does."""

    text: str
    strength: Strength


def find_rules(text: str) -> tuple[str, ...]:
    """The sentences of a text that state a constraint which outlasts the task, word for word."""
    return tuple(found.text for found in find_likely_rules(text) if found.strength != "hint")


@read_once
def find_likely_rules(text: str) -> tuple[FoundRule, ...]:
    """The rules of a text, and the sentences that are too vague to count and may be offered."""
    found: list[FoundRule] = []
    for sentence in spoken_sentences(text):
        line = one_line(sentence.bare)
        if "*" in line or not line[:1].isalnum():
            line = _MARKUP.sub("", line)
        shown = find_sign("rule", sentence._replace(bare=line))
        if shown is not None:
            found.append(FoundRule(text[sentence.start : sentence.end], shown.sign.strength))
    return tuple(found)
