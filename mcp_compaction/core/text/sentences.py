"""Reads the sentences of a text, and tells which are doubts, next steps or pleasantries."""

from __future__ import annotations

import re
from itertools import chain
from typing import NamedTuple

from mcp_compaction.core.text.language import Votes, count_votes, most_voted
from mcp_compaction.core.text.patterns import (
    FENCED,
    INLINE_CODE,
    QUOTED,
    Cuts,
    may_say,
    pattern_of,
)
from mcp_compaction.core.text.reading import read_once

MARKER_GROUPS: dict[str, re.Pattern[str]] = {
    "interjection": pattern_of(r"\b(?:wait|hmm?|ah|actually)\b", re.I),
    "reversal": pattern_of(r"\b(?:let me reconsider|on second thought|I was wrong)\b", re.I),
    "hedge": pattern_of(
        r"\b(?:perhaps|alternatively|I'm not sure|I am not sure|uncertain)\b", re.I
    ),
    "check": pattern_of(r"\b(?:let me verify|double[- ]check|verify|check)\b(?![-(/_]|\.\w)", re.I),
    "halt": pattern_of(r"\b(?:but wait|actually,? no|hold on)\b", re.I),
}
_MARKER_WORDS = (  # each marker has one of these
    *("wait", "hm", "ah", "actually", "reconsider", "thought", "wrong", "perhaps"),
    *("alternatively", "sure", "uncertain", "verify", "check", "hold"),
)

_STOP = r"(?<=[.!?。！？])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!^\d\.)(?<!^\d\d\.)"
_SENTENCE = Cuts(rf"{_STOP}\s+|\n+")
_LIST_SIGN = pattern_of(r"(?:[-*•+>#]+|\d{1,2}[.)])[ \t]+(?:\[[ xX~]\][ \t]+)?")
_NOT_SPEECH = pattern_of(
    r"(?:>|\$ |#!|//|\||(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|Traceback|File \")"
    r"|\d{4}-\d\d-\d\d[T ]|[\w.]+(?:Error|Exception)\b|(?:Error|Exception)\b(?! \w)"
    r"|[^\n]*[{};]$|\w+(?:=|\()\S)"
)
_FEWEST_CHARS, _FEWEST_WIDE_CHARS, _LONGEST = 8, 4, 600  # five signs of Chinese say a lot

_NEXT = pattern_of(
    r"\b(?:next,|to ?do:)|\b(?:next(?: step| up| I)|then I(?:'ll| will)|"
    r"now I(?:'ll| will| need)|remaining|"
    r"still (?:to do|need|have to|missing)|follow[- ]up|later we|afterwards)\b",
    re.I,
)
_UNCERTAIN = pattern_of(
    r"\b(?:not sure|unsure|uncertain|unclear|perhaps|maybe|might be|suspect|seems? (?:like|to)|"
    r"possibly|unverified|haven't (?:checked|verified|tested)|don't know|open question)\b",
    re.I,
)
_PLEASANTRY = pattern_of(
    r"^(?:thanks?|thank you|great|perfect|awesome|ok(?:ay)?|sure|got it|sounds good|hello|hi|"
    r"hey|you're (?:welcome|right)|good|nice|cool|yes|no|done|continue|go on|"
    r"please continue|right|good catch|nice (?:catch|one|work)|fair enough|makes sense|exactly|"
    r"looks good|lgtm|go ahead|carry on|thanks,? go on)\b[^a-z]*$",
    re.I,
)


class Sentence(NamedTuple):
    """A sentence of a text: its words, and the same words with code and quotations blanked."""

    text: str
    bare: str
    start: int
    end: int
    languages: tuple[str, ...] = ()  # that it may be in, or else those of the text around it


@read_once
def spoken_sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences somebody says in a text: no code, no quoted block, no line of a log."""
    open_text = FENCED.sub(_as_lines, text)
    bare = INLINE_CODE.sub(_blank, open_text.replace("’", "'"))
    bare = QUOTED.sub(_blank, bare)
    found: list[Sentence] = []
    votes: list[Votes] = []
    begin = 0
    for cut in (*_SENTENCE.in_text(bare).finditer(bare), None):
        end, following = cut.span() if cut else (len(bare), len(bare))
        sentence = _read_sentence(open_text, bare, begin, end)
        if sentence is not None:
            found.append(sentence)
            votes.append(count_votes(sentence.bare))
        begin = following
    around: tuple[str, ...] = ()
    if not all(votes):
        around = most_voted(Votes(chain.from_iterable(own.elements() for own in votes)))
    return tuple(
        one._replace(languages=most_voted(own) or around)
        for one, own in zip(found, votes, strict=True)
    )


def _read_sentence(text: str, bare: str, start: int, end: int) -> Sentence | None:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    sign = _LIST_SIGN.match(text, start, end) if text[start : start + 1] != ">" else None
    start = sign.end() if sign else start
    said = text[start:end]
    fewest = _FEWEST_CHARS if said.isascii() else _FEWEST_WIDE_CHARS
    if not fewest <= len(said) <= _LONGEST or _NOT_SPEECH.match(said):
        return None
    return Sentence(" ".join(said.split()), bare[start:end], start, end)


def _as_lines(match: re.Match[str]) -> str:
    return "\n" * len(match[0])


def _blank(match: re.Match[str]) -> str:
    return "_" * len(match[0])


def prose_of(text: str) -> str:
    """A text without code and quotations, where a marker would mean something else."""
    return QUOTED.sub(" ", _without_code(FENCED.sub(" ", text)))


def marker_groups(text: str) -> dict[str, str]:
    """The groups of epistemic markers a text holds, each with its phrase; their number is the
    text's score."""
    if not may_say(text, _MARKER_WORDS):
        return {}
    found = prose_of(text)
    matches = {name: pattern.search(found) for name, pattern in MARKER_GROUPS.items()}
    return {name: match.group() for name, match in matches.items() if match is not None}


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences and lines of a text, without blank ones."""
    return tuple(
        part.strip() for part in _SENTENCE.in_text(text).split(text) if part and part.strip()
    )


def is_next_step(sentence: Sentence) -> bool:
    """Whether a sentence says what comes next."""
    return bool(_NEXT.search(sentence.bare))


def is_doubt(sentence: Sentence) -> bool:
    """Whether a sentence says that its speaker is not sure."""
    return bool(_UNCERTAIN.search(sentence.bare))


def is_pleasantry(sentence: str) -> bool:
    """Whether a sentence only keeps the talk going."""
    return bool(_PLEASANTRY.match(sentence))


def _without_code(sentence: str) -> str:
    return INLINE_CODE.sub(" ", sentence).replace("’", "'")
