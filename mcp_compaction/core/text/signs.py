"""Finds the signs of a lexicon in a sentence: rules, decisions, tasks and the other kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from mcp_compaction.core.text.language import ENGLISH, words_of
from mcp_compaction.core.text.patterns import any_of
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.lexicon.languages import STRENGTHS, Kind, Lexicon, Sign, read_lexicon


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
            sign.name: any_of(*map(lexicon.fill, sign.pattern))
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
                any_of(*map(lexicon.fill, sign.pattern)),
                tuple(guards[name] for name in lexicon.guards_of(sign)),
                tuple(guards[name] for name in sign.beside),
            )
            if not sign.needs:
                self._always.append(look)
            for word in sign.needs:
                self._by_word.setdefault(word, []).append(look)

    def find(self, bare: str, by_user: bool = True) -> Iterator[Shown]:
        """The signs that a sentence shows, its code and quotations blanked out."""
        said = sorted(words_of(bare) & self._by_word.keys()) if self._by_word else ()
        likely = chain(chain.from_iterable(self._by_word[word] for word in said), self._always)
        for look in {id(look): look for look in likely}.values():
            if not by_user and look.sign.by == "user":
                continue
            match = look.pattern.search(bare)
            if (
                match
                and not any(guard.search(bare) for guard in look.unless)
                and all(guard.search(bare) for guard in look.beside)
            ):
                yield Shown(look.sign, match)


@cache
def signs_of(language: str, kind: Kind) -> Signs:
    """The signs of one kind in one language."""
    return Signs(read_lexicon(language), kind)


def find_sign(kind: Kind, sentence: Sentence, by_user: bool = True) -> Shown | None:
    """The strongest sign of a kind that a sentence shows, in the languages that it may be in; the
    first of several."""
    return _find_sign(kind, sentence.bare, sentence.languages or (ENGLISH,), by_user)


@lru_cache(maxsize=16_384)  # a window is looked at again and again, and "continue" said often
def _find_sign(kind: Kind, bare: str, languages: tuple[str, ...], by_user: bool) -> Shown | None:
    found = (one for code in languages for one in signs_of(code, kind).find(bare, by_user))
    return min(found, key=lambda one: STRENGTHS.index(one.sign.strength), default=None)


def check_sign(lexicon: Lexicon, sign: Sign) -> Iterator[str]:
    """What is wrong with a sign, judged by its own sentences."""
    signs = Signs(lexicon, sign.kind)
    for text in sign.yes:
        if not any(one.sign is sign for bare in _bare(text) for one in signs.find(bare)):
            yield f"it does not take its yes sentence: {text}"
    for text in sign.no:
        taker = next((one.sign for bare in _bare(text) for one in signs.find(bare)), None)
        if taker is not None and (taker is sign or sign.kind != "guard"):
            yield f"{taker.name} takes its no sentence: {text}"


def _bare(text: str) -> tuple[str, ...]:
    return tuple(sentence.bare for sentence in spoken_sentences(text))
