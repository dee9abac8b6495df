"""Reads a span once for all sections of its digest: what calls did in it, and how they ended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mcp_compaction.core.limits import SHORTEST_PREVIEW
from mcp_compaction.core.log.conversation import Conversation, conversation_of
from mcp_compaction.core.log.ledger import Ledger, ledger_of
from mcp_compaction.core.text.words import shorten
from mcp_compaction.model import SummaryRequest

MOST_LINES = 8
"""Lines of one kind in a digest: more crowd out the others, and recall has them."""


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
    def messages(self) -> Conversation:
        """The conversation of the span."""
        return Conversation(m for m in self.window if self.is_in_span(m.ref))

    @cached_property
    def ledger(self) -> Ledger:
        """What calls did in the window."""
        return ledger_of(self.window)

    def is_in_span(self, ref: str) -> bool:
        """Whether a message is one of the span."""
        return self.request.first <= int(ref[1:]) <= self.request.last


def short(text: str, most: int = SHORTEST_PREVIEW) -> str:
    """A text as a line of a digest."""
    return shorten(text, most)
