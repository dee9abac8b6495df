"""Reads a span once for all sections of its digest: what was said, and what calls did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mcp_compaction.core.limits import SHORTEST_PREVIEW
from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.log.conversation import Conversation, conversation_of
from mcp_compaction.core.log.decisions import is_acceptance
from mcp_compaction.core.log.ledger import CallEntry, Ledger, ledger_of
from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import shorten, telling_words
from mcp_compaction.model import Message, SummaryRequest

MOST_LINES = 8
"""Lines of one kind in a digest: more crowd out the others, and recall has them."""


class Speech(NamedTuple):
    """A message and the sentences spoken in it."""

    message: Message
    text: str
    sentences: tuple[Sentence, ...]

    @property
    def is_only_a_rule(self) -> bool:
        """Whether it is one sentence, and that a rule."""
        return len(self.sentences) == 1 and bool(find_rules(self.text))

    @property
    def says_something(self) -> bool:
        """Whether a user says more here than yes or thanks."""
        if is_acceptance(self.text):
            longer = (s for s in self.sentences if len(telling_words(s.text)) > 3)
            return any(is_asking(sentence, firmly=True) for sentence in longer)
        return len(telling_words(self.text)) > 1


@dataclass(frozen=True)
class Reading:
    """A span and what stays in the window around it, which tells how things ended."""

    request: SummaryRequest

    @cached_property
    def window(self) -> Conversation:
        """The conversation of the span, before it and after it, as far as the window holds it."""
        request = self.request
        return conversation_of((*request.earlier, *request.messages, *request.later))

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The conversation of the span."""
        return tuple(m for m in self.window if self.is_in_span(m.ref))

    @cached_property
    def said(self) -> tuple[Speech, ...]:
        """What was said in the span."""
        return _speeches(self.messages)

    @cached_property
    def requests(self) -> tuple[Speech, ...]:
        """The messages of the window in which a user asks for something, led to a call or was not
        answered; all in which one says something, where none is seen to ask, as in a language that
        has no lexicon."""
        said = _speeches(m for m in self.window if m.is_request)
        telling = [one for one in said if one.says_something]
        asking = {one.message.seq for one in telling if any(map(is_asking, one.sentences))}
        unanswered = {o.message.seq for o in telling} - self.answered_in_words
        if not asking and not any(seq < self.window[-1].seq for seq in unanswered):
            return tuple(telling)
        return tuple(one for one in telling if one.message.seq in asking | unanswered)

    @cached_property
    def answered_in_words(self) -> frozenset[int]:
        """The numbers of the users' messages that an assistant answered without any call."""
        found: set[int] = set()
        asked = 0
        for message in self.window:
            if message.is_request:
                asked = message.seq
            elif message.calls:
                found.discard(asked)
                asked = 0
            elif message.role == "assistant" and asked:
                found.add(asked)
        return frozenset(found)

    @cached_property
    def ledger(self) -> Ledger:
        """What calls did in the window."""
        return ledger_of(self.window)

    @cached_property
    def entries(self) -> tuple[CallEntry, ...]:
        """The calls of the span."""
        return tuple(e for e in self.ledger.entries if self.is_in_span(e.ref))

    @cached_property
    def is_talk(self) -> bool:
        """Whether people only talk here."""
        return is_talk(self.messages)

    def is_in_span(self, ref: str) -> bool:
        """Whether a message is one of the span."""
        return self.request.first <= int(ref[1:]) <= self.request.last


def is_asking(sentence: Sentence, firmly: bool = False) -> bool:
    """Whether a sentence asks for something."""
    shown = find_sign("request", sentence)
    is_shown = shown is not None and (not firmly or shown.sign.strength == "firm")
    return is_shown or sentence.text.endswith(remarks.QUESTION_MARKS)


def _speeches(messages: Iterable[Message]) -> tuple[Speech, ...]:
    return tuple(
        Speech(message, text, spoken_sentences(text))
        for message in messages
        if (text := message.text)
    )


def short(text: str, most: int = SHORTEST_PREVIEW) -> str:
    """A text as a line of a digest."""
    return shorten(text, most)
