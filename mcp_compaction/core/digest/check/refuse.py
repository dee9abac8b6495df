"""Refuses a draft that is no digest of its span: it is empty or too long."""

from __future__ import annotations

from typing import Literal, NamedTuple

from mcp_compaction.core.digest.render import render_item
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    Draft,
    SummaryRequest,
)

_TIMES_TOO_LONG = 4


def texts_of(draft: Draft) -> list[str]:
    """The texts of all lines of a draft that are not blank."""
    return [item.text for _, items in draft.sections for item in items if item.text.strip()]


class TooLong(NamedTuple):
    """How long a draft is that is too long for its span."""

    tokens: int
    span_tokens: int


RefusedFor = TooLong | Literal["empty", "nothing_believed"]


def refusal_reason(draft: Draft, request: SummaryRequest, count: CountTokens) -> RefusedFor | None:
    """Why a draft is no digest of its span; None where it may be one."""
    if not any(sign.isalnum() for text in texts_of(draft) for sign in text):
        return "empty"
    span = sum(message.tokens for message in request.messages)
    tokens = count("\n".join(render_item(item) for _, items in draft.sections for item in items))
    # The agent's digest tells of the whole session, of which this span may be a small part.
    if (tokens > span and draft.author != "agent") or (
        tokens > _TIMES_TOO_LONG * request.max_tokens
    ):
        return TooLong(tokens, span)
    return None
