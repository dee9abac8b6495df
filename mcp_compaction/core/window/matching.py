"""What is shown of a text that somebody waits for: its start, its end, and what was asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import log
from typing import NamedTuple

from mcp_compaction.core.text.language import main_language
from mcp_compaction.core.text.words import (
    cut_at_spaces,
    lower_words,
    space_pairs,
    telling_stem,
    telling_words,
)
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.preview import note_of_size, preview

_START_SHARE, _END_SHARE = 30, 20  # percent; the rest is for what matches, as far as it is needed
_LONGEST_PIECE = 300  # characters
_PREFIX = 3  # letters that a word shares with its stem
_MARK = "[...]"
_LEAST_CHARS = 600  # a text cut to less is only its start and its end


class _Piece(NamedTuple):
    """A line of a text, or a part of a long line, and how well it matches."""

    text: str
    score: float


def preview_within(text: str, ref: str, tokens: int, request: str, count: CountTokens) -> str:
    """The start and the end of a text and the lines between that match a request best, in so many
    tokens at most; where they are too few for that, the shortest preview."""
    pieces = _score_pieces(list(_pieces_of(text)), request)
    note = note_of_size(text, ref)
    chars = len(text) * tokens // max(1, count(text))
    while chars >= _LEAST_CHARS:
        shown = _lay_out(pieces, _choose(pieces, chars - len(note)), note)
        used = count(shown)
        if used <= tokens:
            return shown
        chars = chars * tokens * 98 // (used * 100)
    return _plain_preview(text, ref, tokens, count)


def _plain_preview(text: str, ref: str, tokens: int, count: CountTokens) -> str:
    chars = _LEAST_CHARS
    while True:
        shown = preview(text, ref, chars)
        if chars <= _LEAST_CHARS // 8 or count(shown) <= tokens:
            return shown
        chars //= 2


def _pieces_of(text: str) -> Iterable[str]:
    """The lines of a text, long ones in pieces; together they are the text."""
    for line in text.splitlines(keepends=True):
        yield from cut_at_spaces(line, _LONGEST_PIECE)


def _score_pieces(pieces: Sequence[str], request: str) -> list[_Piece]:
    """Each piece with the weight of the request's words in it; a rare word weighs more."""
    matches = _Matcher(request)
    found = [matches(piece) for piece in pieces]
    times = Counter(term for terms in found for term in terms)
    # A word of more than half of the lines tells none of them apart.
    weights = {t: log(len(pieces) / n) for t, n in times.items() if 2 * n <= len(pieces)}
    return [
        _Piece(piece, sum(sorted(weights.get(term, 0.0) for term in terms)))
        for piece, terms in zip(pieces, found, strict=True)
    ]


class _Matcher:
    """Tells which words of a request a text names, in whatever form."""

    def __init__(self, request: str) -> None:
        spaced = space_pairs(request)
        self._language = main_language(spaced)
        self._stems = frozenset(telling_words(spaced))
        self._prefixes = frozenset(stem[:_PREFIX] for stem in self._stems)

    def __call__(self, text: str) -> set[str]:
        # Only a word that begins like one of the request's is worth a stemmer's work.
        words = lower_words(space_pairs(text))
        near = {word for word in words if word[:_PREFIX] in self._prefixes}
        return {telling_stem(word, self._language) for word in near} & self._stems


def _choose(pieces: Sequence[_Piece], chars: int) -> list[int]:
    """The pieces that are shown: what matches best between a start and an end, and as much more
    of the start and the end as there is room for."""
    first = _reach(pieces, range(len(pieces)), chars * _START_SHARE // 100)
    last = len(pieces) - _reach(
        pieces, range(len(pieces) - 1, first - 1, -1), chars * _END_SHARE // 100
    )
    room = chars - sum(len(piece.text) for piece in (*pieces[:first], *pieces[last:]))
    chosen: set[int] = set()
    matching = (n for n in range(first, last) if pieces[n].score)
    for number in sorted(matching, key=lambda n: (-pieces[n].score, n)):
        cost = len(pieces[number].text) + len(_MARK)
        if cost <= room:
            chosen.add(number)
            room -= cost
    between = [n for n in range(first, last) if n not in chosen]
    more = _reach(pieces, between, room * 2 // 3)
    room -= sum(len(pieces[n].text) for n in between[:more])
    rest = between[more:][::-1]
    chosen.update(between[:more], rest[: _reach(pieces, rest, room)])
    return [*range(first), *sorted(chosen), *range(last, len(pieces))]


def _reach(pieces: Sequence[_Piece], order: Sequence[int], chars: int) -> int:
    """How many pieces in that order take no more than so many characters."""
    return bisect_right(list(accumulate(len(pieces[number].text) for number in order)), chars)


def _lay_out(pieces: Sequence[_Piece], chosen: Sequence[int], note: str) -> str:
    """The pieces in order, with a mark wherever some are left out; the first says how to go on."""
    shown: list[str] = []
    following = 0
    mark = note
    for number in (*chosen, len(pieces)):
        if number > following:
            if shown and not shown[-1].endswith("\n"):
                shown.append("\n")
            shown.append(f"{mark}\n")
            mark = _MARK
        if number < len(pieces):
            shown.append(pieces[number].text)
        following = number + 1
    return "".join(shown)
