"""Reads the sentences of a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.language import Votes, count_votes, most_voted, words_of
from mcp_compaction.core.text.patterns import FENCED, INLINE_CODE, QUOTED, cuts_at, pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.lexicon.languages import read_heads

_LIST_SIGN = pattern_of(r"(?:[-*•+>#]+|\d{1,2}[.)])[ \t]+(?:\[[ xX~]\][ \t]+)?")
_QUOTED_LINE = pattern_of(r"^[ \t]*>.*$", re.M)
_NOT_SPEECH = pattern_of(
    # What a shell shows: its prompt, the rows of a listing.
    r"(?:>|\$ |[\w.-]+@[\w.-]+[ :][^%$#\n]{0,80}[%$#] |[dl-][rwxst-]{9}[@+. ]|total \d+$"
    r"|#!|//|\||⎿|npm (?:WARN|ERR)|(?:remote|error|fatal): "
    r"|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|Traceback|File \")"
    r"|\d{4}-\d\d-\d\d[T ]|[\w.]+(?:Error|Exception)\b|(?:API )?(?:Error|Exception)\b(?! \w)"
    r"|\w+(?:=|\()\S|</?[\w-]+>$)"
)
_ENDS_OF_CODE = ("{", "}", ";")
_FEWEST_CHARS = 4  # five signs of Chinese say a lot
_CUT = cuts_at(r"(?<=[.!?。！？])\s+|\n+")
_APOSTROPHES = str.maketrans("'’", "  ")  # "l'art. 3"
_OPENING = "([{\"'“„«‘`*_"
_LONGEST_SHORT = 24  # signs of an abbreviation with what stands beside it


class _Short(NamedTuple):
    """What ends in a stop and ends no sentence, in all languages."""

    words: frozenset[str]  # without the spaces inside: "z. B." as "z.B."
    beginnings: frozenset[str]  # of those that consist of several: "z."
    before_numbers: frozenset[str]
    before_ordinals: frozenset[str]


@cache
def _short() -> _Short:
    heads = read_heads()
    words = frozenset(one.replace("_", "") for head in heads for one in head.abbreviations)
    return _Short(
        words,
        frozenset(w[: n + 1] for w in words for n in range(len(w) - 1) if w[n] == "."),
        frozenset(one for head in heads for one in head.before_numbers),
        frozenset(one for head in heads for one in head.before_ordinals),
    )


def ends_sentence(text: str, end: int) -> bool:
    """Whether a sentence ends before a gap of a text: not behind an abbreviation ("Ms. Gray",
    "z. B."), one before a number ("No. 5"), an ordinal ("am 12. Mai") or the number of an item."""
    if text[end - 1 : end] != ".":
        return True
    line = text[max(0, end - _LONGEST_SHORT) : end].rpartition("\n")[2]
    said = [word.lstrip(_OPENING) for word in line.translate(_APOSTROPHES).split()[-3:]]
    following = text[end : end + _LONGEST_SHORT].lstrip()
    if not said or not following:
        return True
    ways = ["".join(said[n:]) for n in range(len(said))]
    ways += [way[:1].lower() + way[1:] for way in ways]
    short, following = _short(), following.split()[0]
    if any(way in short.words for way in ways) or (
        any(f"{way}{following}" in short.words | short.beginnings for way in ways)
    ):
        return False
    if following[0].isdigit() and not short.before_numbers.isdisjoint(ways):
        return False
    if len(said[-1]) > 3 or not said[-1][:-1].isdigit():
        return True
    return len(said) > 1 and said[-2].lower() not in short.before_ordinals


def _cuts_in(text: str) -> Iterator[tuple[int, int]]:
    """Where sentences end and where the next begin."""
    for cut in _CUT.finditer(text):
        if "\n" in cut[0] or ends_sentence(text, cut.start()):
            yield cut.span()


class Sentence(NamedTuple):
    """A sentence of a text: its words, and the same words with code and quotations blanked."""

    text: str
    bare: str
    start: int
    end: int
    words: frozenset[str]  # of its bare text
    languages: tuple[str, ...]  # that it may be in, or else those of the text around it


@read_once
def spoken_sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences somebody says in a text: no code, no quoted block, no line of a log."""
    open_text = _QUOTED_LINE.sub(_as_lines, FENCED.sub(_as_lines, text))
    bare = blank_quotations(open_text)
    found: list[Sentence] = []
    votes: Votes = Counter()
    begin = 0
    for end, following in (*_cuts_in(bare), (len(bare), len(bare))):
        is_blank = end - begin < _FEWEST_CHARS  # as between the lines of many texts
        place = None if is_blank else _place_of_sentence(open_text, begin, end)
        if place is not None:
            start, end = place
            unquoted = bare[start:end]
            words = words_of(unquoted)
            own = count_votes(unquoted)
            said = one_line(open_text[start:end])
            found.append(Sentence(said, unquoted, start, end, words, most_voted(own)))
            votes.update(own)
        begin = following
    around = most_voted(votes)
    return tuple(one if one.languages else one._replace(languages=around) for one in found)


def _place_of_sentence(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Where the words of a stretch begin and end, without a list sign; None for what is no
    speech."""
    said = text[start:end]
    start += len(said) - len(said.lstrip())
    end = start + len(said.strip())
    sign = _LIST_SIGN.match(text, start, end) if text[start : start + 1] != ">" else None
    start = sign.end() if sign else start
    said = text[start:end]
    is_long_enough = _FEWEST_CHARS <= len(said) <= LONGEST_SENTENCE
    is_speech = not said.endswith(_ENDS_OF_CODE) and not _NOT_SPEECH.match(said)
    return (start, end) if is_long_enough and is_speech else None


def _as_lines(match: re.Match[str]) -> str:
    return "\n" * len(match[0])


def _blank(match: re.Match[str]) -> str:
    return "_" * len(match[0])


def blank_quotations(text: str) -> str:
    """A text of the same length in which nothing stands that is code or quoted."""
    unfenced = FENCED.sub(_blank, text.replace("’", "'"))
    return QUOTED.sub(_blank, INLINE_CODE.sub(_blank, unfenced))


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences and lines of a text, without blank ones."""
    cuts = (0, *chain.from_iterable(_cuts_in(text)), len(text))
    parts = (text[begin:end].strip() for begin, end in zip(cuts[::2], cuts[1::2], strict=True))
    return tuple(filter(None, parts))
