"""Finds what users tell as a fact or a state, by a label before it, and which of it is older.

Nothing that users said is dropped for a later word of theirs: both stand, with their refs.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.words import fold
from mcp_compaction.lexicon.languages import words_in_all
from mcp_compaction.model import Digest, Message

_FACTS, _STATES = "fact_labels", "state_labels"  # lists of the lexicon
_LABEL = pattern_of(r"^((?:[^\W\d_][\w'-]*+ ?){1,3}+)[:：–—] ?\S")


def is_told(text: str) -> bool:
    """Whether a text is told as a fact or a state, by a label before it."""
    first = next(iter(spoken_sentences(text)), None)
    return first is not None and any(_has_label(of, first) for of in (_FACTS, _STATES))


@read_once
def labelled_facts(text: str) -> tuple[str, ...]:
    """The sentences of a text that are called facts by a label before them, word for word."""
    return _told_under(_FACTS, text)


@read_once
def labelled_states(text: str) -> tuple[str, ...]:
    """The sentences of a text that are called a state by a label before them, word for word."""
    return _told_under(_STATES, text)


def _told_under(labels: str, text: str) -> tuple[str, ...]:
    """The sentences that begin with such a label, and those behind them on the same line."""
    found: list[str] = []
    end = 0  # of the last line that has one
    for one in spoken_sentences(text):
        if one.start >= end and _has_label(labels, one):
            line_end = text.find("\n", one.start)
            end = line_end if line_end >= 0 else len(text)
        if one.start < end:
            found.append(text[one.start : one.end])
    return tuple(found)


def _has_label(labels: str, sentence: Sentence) -> bool:
    """Whether a sentence begins with a label that has one of the words of that list."""
    label = _LABEL.match(sentence.bare)
    if label is None:
        return False
    return not words_in_all(labels).isdisjoint((label[1].lower(), *label[1].lower().split()))


def older_words(messages: Iterable[Message], digests: Iterable[Digest] = ()) -> dict[str, str]:
    """The facts and states that users told, folded, which they told again with another last word,
    each with the ref of that; digests tell the oldest. Rules are never among them, nor does an
    agent's word for it make anything older."""
    earlier = [
        (item.text, item.refs[0] if item.refs else "")
        for digest in digests
        for name in ("STATE", "FACTS")
        for item in digest.items(name)
        if item.must_stay
    ]
    said = [
        (told, message.ref)
        for message in conversation_of(messages)
        if message.is_request and message.via == "host"
        for told in (*labelled_facts(message.text), *labelled_states(message.text))
    ]
    newest = {_all_but_the_end(told): (fold(told), ref) for told, ref in (*earlier, *said)}
    return {
        fold(told): ref
        for told, _ in (*earlier, *said)
        for words, ref in [newest[_all_but_the_end(told)]]
        if words != fold(told) and ref
    }


def _all_but_the_end(told: str) -> str:
    return fold(told).rpartition(" ")[0]
