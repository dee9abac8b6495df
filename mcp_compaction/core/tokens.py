"""Token numbers without a tokenizer: the estimator, the models' factors, and calibration."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from math import ceil

from mcp_compaction.lexicon.models import family_of_model
from mcp_compaction.model import Calibration, Precision, Traits

# Close to o200k's own split. Every repeat is bounded, so hostile text stays linear and what the
# cache holds stays small.
_PIECE = re.compile(
    r"(?:[^\w\r\n]|_)?[A-Z]{0,64}[a-z]{1,64}"
    r"|(?:[^\w\r\n]|_)?[A-Z]{1,64}"
    r"|[0-9]{1,3}"
    r"|\s{0,64}[\r\n]{1,64}"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,64}"
    r"|[^\W\d_a-zA-Z]{1,64}"
    r"| ?(?:[^\s\w]|_){1,64}[\r\n/]{0,8}"
    r"|\s{1,64}(?!\S)|\s{1,64}|\w{1,8}"
)
_VOWELS = frozenset("aeiouyAEIOUY")
_LAST_LATIN = "\u024f"
_LAST_CYRILLIC = "\u052f"
_FIRST_CJK = "\u3040"
_FIRST_HANGUL = "\uac00"

# A text this long for its limit is over it, whatever the language: it need not be counted.
CHARS_OF_A_LARGE_TOKEN = 8

_LEAST = 0.5
# Of 27 real chats: a prompt and tools of 27k to 51k; .9 to 1.25 times a family's factor.
_MOST_UNSEEN = 60_000
_ENOUGH = 5_000  # tokens that a factor can be told by
_LEAST_FACTOR, _OVER_USUAL, _MOST_FACTOR = 0.85, 1.25, 1.6


def estimate(text: str) -> int:
    """The o200k tokens of a text, within a few percent on a page of it."""
    # One by one: while a single call reads a long text no other thread could run.
    return ceil(sum(_weight(piece[0]) for piece in _PIECE.finditer(text)))


@lru_cache(maxsize=32_768)
def _weight(piece: str) -> float:
    last = piece[-1]
    if last.isascii():
        if last.isalpha():
            return _word(piece)
        if last.isdigit():
            return 1.10
        if last.isspace() and piece.isspace():
            return 1.58 if "\n" in piece or "\r" in piece else 0.86
    first = piece[0]
    if first.isalpha():
        return _foreign(piece)
    signs = len(piece.strip(" \r\n"))
    return 1.08 + 0.03 * max(0, signs - 1) + 1.7 * sum(sign > "\x7f" for sign in piece)


def _word(piece: str) -> float:
    lead, word = ("", piece) if piece[0].isalpha() else (piece[0], piece[1:])
    size = len(word)
    weight = 0.71 if lead not in ("", " ", "\t", "_") else 0.3 if lead == "_" else 0.0
    if size > 2 and _VOWELS.isdisjoint(word):
        weight += 0.57
    if word.islower():
        plain = 0.90 if lead == " " else 0.77 if lead else 1.10
        return weight + plain + 0.155 * max(0, size - 7)
    if word.isupper():
        return weight + 0.75 + 0.08 * (size - 1)
    capitals = sum(map(str.isupper, word))
    plain = 1.18 if lead == " " and capitals == 1 else 0.88
    return weight + plain + 0.03 * max(0, size - 5) + 0.08 * (capitals - 1)


def _foreign(piece: str) -> float:
    first = piece[0]
    size = len(piece)
    if first <= _LAST_LATIN:
        return 1.46 * size
    if first <= _LAST_CYRILLIC:
        return 0.5 + 0.14 * size
    if first < _FIRST_CJK:
        return 0.36 * size
    return (0.5 if first >= _FIRST_HANGUL else 0.63) * size


def family_factor(model: str | None) -> float:
    """How many tokens a model of that name makes of what o200k counts as one."""
    family = family_of_model(model or "")
    return family.factor if family else 1.0


def precision_of(counter: Precision, model: str | None) -> Precision:
    """How far to believe a count of that counter for that model."""
    family = family_of_model(model or "")
    is_exact = family is not None and family.is_o200k
    return "scaled" if counter == "exact" and not is_exact else counter


def token_ratio(model: str | None, calibration: Calibration) -> float:
    """How many tokens a model makes of one that o200k counts, in a window that is ours.

    What a provider reports beyond our count may be a part that we never saw, which adds to every
    count alike and says nothing of a factor; no unseen part makes a report smaller than ours.
    """
    factor = family_factor(model)
    if calibration.counted <= 0 or calibration.reported <= 0:
        return factor
    return min(factor, max(_LEAST, calibration.reported / calibration.counted))


def learn_of_host(traits: Traits, told: Calibration, *, is_whole: bool) -> Traits:
    """What a report tells of a host's window: the first one, of few messages, what the host's own
    prompt and tools take; a later one, where its window is known whole, how the model counts. Each
    counts up to what is plausible; the rest is taken to leave with the messages."""
    usual, unseen, factor = family_factor(traits.model), traits.unseen_tokens, traits.token_factor
    if unseen is None:
        unseen = min(_MOST_UNSEEN, max(0, told.reported - round(usual * told.counted)))
    grown = (told.reported - unseen) / told.counted
    # Where less is reported than any tokenizer makes of it, the host has dropped something.
    if is_whole and told.counted >= _ENOUGH and grown >= _LEAST_FACTOR * usual:
        factor = round(min(grown, max(_MOST_FACTOR, _OVER_USUAL * usual)), 2)
    return Traits(unseen_tokens=unseen, token_factor=factor)


CountTokens = Callable[[str], int]
