"""Keeps an agent's own digest where nothing recorded gives way to it."""

from __future__ import annotations

from datetime import datetime

from mcp_compaction.core.digest.check.wills import will_claimed_in
from mcp_compaction.core.digest.fit import as_sections, measure_digest
from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import (
    Ask,
    Compaction,
    Digest,
    Digested,
    Item,
    Outcome,
    Projection,
    Receipt,
    Replaced,
    SectionName,
    Session,
)


def keep_own_digest(
    session: Session, ask: Ask, now: datetime, fill: Fill, count: CountTokens
) -> Outcome:
    """An agent's own digest that stands for nothing recorded, marked as not checked."""
    number = session.next_digest
    digest = _unchecked_digest(ask.digest or "", number, now, count)
    after = fill.tokens + fill.scaled(digest.tokens)
    if ask.dry_run:
        return Projection(
            before=fill.tokens, after=after, window=fill.window, precision=fill.precision
        )
    view = session.view.model_copy(
        update={
            "version": session.view.version + 1,
            "compaction": session.next_compaction,
            "pinned": tuple(pin.number for pin in session.pins),
            "body": (*session.view.body, Digested(digest=number)),
        }
    )
    receipt = Receipt(
        compaction=session.next_compaction,
        kind="digest",
        reason=ask.reason,
        at=now,
        before=fill.tokens,
        after=after,
        window=fill.window,
        precision=fill.precision,
        replaced=(Replaced(first=0, last=0, digest=number),),
        pins=len(session.pins),
        author="agent",
        checked=False,
    )
    return Compaction(
        base_version=session.view.version, view=view, digests=(digest,), receipt=receipt
    )


def _unchecked_digest(text: str, number: int, now: datetime, count: CountTokens) -> Digest:
    """The digest of an agent's text, without lines that pose as another part of the window or
    claim a consent for which no user's words are at hand."""
    draft = parse_digest(text, "agent")
    kept: dict[SectionName, list[Item]] = {}
    for name, items in draft.sections:
        said = (item for item in items if not is_planted(item.text) and not _consents(item.text))
        kept[name] = [item.model_copy(update={"by": "agent"}) for item in said]
    return measure_digest(
        Digest(
            number=number,
            first=0,
            last=0,
            messages=0,
            sections=as_sections(kept),
            author="agent",
            checked=False,
            began=now,
            ended=now,
        ),
        count,
    )


def _consents(line: str) -> bool:
    will = will_claimed_in(line)
    return will is not None and will.name == "consent"
