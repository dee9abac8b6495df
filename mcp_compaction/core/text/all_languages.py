"""Looks for signs in all languages at once, for texts whose language does not matter or may lie:
markers of doubt, pleasantries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from mcp_compaction.core.text.patterns import any_of, may_say
from mcp_compaction.core.text.sentences import blank_quotations
from mcp_compaction.lexicon.languages import (
    Kind,
    Lexicon,
    Sign,
    fill_in_all,
    read_lexicons,
    whole_words,
)

KINDS_IN_ALL: frozenset[Kind] = frozenset(("order-to-model", "marker", "negation"))
"""The kinds that are looked for here; their signs have no guards."""


@cache
def patterns_by_name(kind: Kind) -> dict[str, tuple[tuple[str, ...], re.Pattern[str]]]:
    """The pattern of the signs of each name of a kind in all languages, with the words that they
    need, for texts whose language does not matter."""
    needs: dict[str, list[str]] = {}
    patterns: dict[str, list[str]] = {}
    for lexicon, sign in _signs_in_all(kind):
        needs.setdefault(sign.name, []).extend(sign.needs)
        patterns.setdefault(sign.name, []).extend(lexicon.patterns_of(sign))
    return {name: (tuple(needs[name]), any_of(*found)) for name, found in patterns.items()}


@cache
def pattern_of_kind(kind: Kind) -> re.Pattern[str]:
    """One pattern for all signs of a kind in all languages."""
    found = tuple(_signs_in_all(kind))
    # Looking for a word's edge once, not for each language, makes it twice as fast.
    words = [p for lexicon, one in found if one.as_words for p in map(lexicon.fill, one.pattern)]
    others = [p for lexicon, one in found if not one.as_words for p in lexicon.patterns_of(one)]
    return any_of(*([whole_words(*words)] if words else ()), *others)


def _signs_in_all(kind: Kind) -> Iterator[tuple[Lexicon, Sign]]:
    if kind not in KINDS_IN_ALL:
        raise ValueError(f"{kind} may have guards: look for it by its language")
    return ((one, sign) for one in read_lexicons() for sign in one.sign if sign.kind == kind)


@cache
def part_in_all(name: str) -> re.Pattern[str]:
    """The parts or lists of that name in all languages as one pattern."""
    return any_of(fill_in_all(name))


_MOST_WORDS = 3  # of a greeting


def is_pleasantry(sentence: str) -> bool:
    """Whether a few words only greet or thank."""
    return len(sentence.split()) <= _MOST_WORDS and bool(part_in_all("greets").match(sentence))


def marker_groups(text: str) -> dict[str, str]:
    """The groups of epistemic markers a text holds, each with its phrase; their number is the
    text's score."""
    likely = {
        name: pattern
        for name, (needs, pattern) in patterns_by_name("marker").items()
        if may_say(text, needs)
    }
    if not likely:
        return {}
    found = blank_quotations(text)
    matches = {name: pattern.search(found) for name, pattern in likely.items()}
    return {name: match.group() for name, match in matches.items() if match is not None}
