"""Finds what an agent says it found out, in plain prose as well as under a heading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.log.findings import exact_words
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.language import count_votes
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.model import Message

_FEWEST_FUNCTION_WORDS = 2
_SHORTEST = 20  # characters; less is a label or an exclamation


class Conclusion(NamedTuple):
    """A sentence of an agent that says what it found out, and where it stands."""

    text: str
    ref: str


def conclusions_of(messages: Sequence[Message]) -> Iterator[Conclusion]:
    """The sentences of an agent that give a cause or a result; of words without a call after
    them, which sum up, also those that name something exact."""
    for message in messages:
        if message.role != "assistant":
            continue
        for sentence in spoken_sentences(message.text):
            if _is_conclusion(sentence, is_closing=not message.calls):
                yield Conclusion(sentence.text, message.ref)


def _is_conclusion(sentence: Sentence, is_closing: bool) -> bool:
    said = sentence.text
    if len(said) < _SHORTEST or said.endswith(("?", ":")) or pattern_of_kind("intent").match(said):
        return False
    if find_sign("finding", sentence, by_user=False) is not None:
        return True
    return is_closing and bool(exact_words(said)) and _is_prose(sentence)


def _is_prose(sentence: Sentence) -> bool:
    """Whether a sentence has words that only speech has, unlike a line of code or of a listing."""
    votes = count_votes(sentence.bare, sentence.words)
    return max(votes.values(), default=0) >= _FEWEST_FUNCTION_WORDS
