"""Judges a draft before it may stand for a span: refused, or stripped of what nobody said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcp_compaction.core.digest.check.refuse import RefusedFor, refusal_reason, texts_of
from mcp_compaction.core.digest.check.source import NO_KNOWLEDGE, AuthorKnowledge, Source
from mcp_compaction.core.digest.check.strip import Stripped, author_of, strip_faults
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    Draft,
    SummaryRequest,
)


class Refused(NamedTuple):
    """A draft that is no digest of its span: whose it was, and why."""

    author: str
    reason: RefusedFor
    stripped: Stripped | None = None  # where no line was left


def check_draft(
    draft: Draft,
    request: SummaryRequest,
    count: CountTokens,
    rules: Sequence[str] = (),
    beside: AuthorKnowledge = NO_KNOWLEDGE,
) -> Stripped | Refused:
    """The draft without what cannot be believed, or why it is no digest of this span."""
    if draft.author == "archive":  # it has no prose on purpose
        return Stripped(draft)
    source = Source(request, rules, beside)
    reason = refusal_reason(draft, request, count)
    if reason is not None:
        return Refused(author_of(draft), reason)
    stripped = strip_faults(draft, source)
    if texts_of(stripped.draft):
        return stripped
    return Refused(author_of(draft), "nothing_believed", stripped)


def strip_unsupported(draft: Draft, request: SummaryRequest, rules: Sequence[str] = ()) -> Stripped:
    """Our own draft without the lines at fault, never refused: it may quote what a tool planted."""
    return strip_faults(draft, Source(request, rules))
