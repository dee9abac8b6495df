"""Judges a draft before it may stand for a span: refused, or stripped of what nobody said."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.core.digest.check.refuse import refusal_reason, texts_of
from mcp_compaction.core.digest.check.source import NO_KNOWLEDGE, AuthorKnowledge, Source
from mcp_compaction.core.digest.check.strip import Verdict, author_of, strip_faults
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    Draft,
    SummaryRequest,
)


def check_draft(
    draft: Draft,
    request: SummaryRequest,
    count: CountTokens,
    rules: Sequence[str] = (),
    beside: AuthorKnowledge = NO_KNOWLEDGE,
) -> Verdict:
    """The draft without what cannot be believed, or none where it is no digest of this span."""
    if draft.author == "archive":  # it has no prose on purpose
        return Verdict(draft, ())
    source = Source(request, rules, beside)
    reason = refusal_reason(draft, request, source, count)
    notes: tuple[str, ...] = ()
    if reason is None:
        judged = strip_faults(draft, source)
        if judged.draft is not None and texts_of(judged.draft):
            return judged
        reason, notes = "nothing in it could be believed", judged.notes
    if draft.author == "extractive":  # a short span is its own best digest: no fault of anyone's
        return Verdict(None, ())
    refused = f"the draft of {author_of(draft)} was refused: {reason}; extracted instead"
    return Verdict(None, (refused, *notes))


def strip_unsupported(draft: Draft, request: SummaryRequest, rules: Sequence[str] = ()) -> Verdict:
    """Our own draft without the lines at fault, never refused: it may quote what a tool planted."""
    return strip_faults(draft, Source(request, rules))
