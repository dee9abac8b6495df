"""Reads the sentences of a text."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.text.language import Votes, count_votes, most_voted, words_of
from mcp_compaction.core.text.patterns import FENCED, INLINE_CODE, QUOTED, cuts_at, pattern_of
from mcp_compaction.core.text.reading import read_once
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


@cache
def _sentence_cuts() -> re.Pattern[str]:
    """Where sentences end: not after abbreviations, list numbers and ordinals ("am 12. Mai")."""
    heads = read_heads()
    short = {re.escape(word) for head in heads for word in head.abbreviations}
    before = {word for head in heads for word in head.before_ordinals}
    ordinals = {rf"{word} {digits}\." for word in before for digits in (r"\d", r"\d\d")}
    kept = "".join(rf"(?<!\b{ending})" for ending in sorted(short | ordinals))
    return cuts_at(rf"(?<=[.!?。！？])(?<!^\d\.)(?<!^\d\d\.){kept}\s+|\n+")


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
    for cut in (*_sentence_cuts().finditer(bare), None):
        end, following = cut.span() if cut else (len(bare), len(bare))
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


def is_speech(line: str) -> bool:
    """Whether a line may be somebody's words, rather than a line of a log or a shell."""
    return not line.endswith(_ENDS_OF_CODE) and not _NOT_SPEECH.match(line)


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
    return (start, end) if is_long_enough and is_speech(said) else None


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
    return tuple(part.strip() for part in _sentence_cuts().split(text) if part and part.strip())
