"""Turns a plan and its digests into the next view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from mcp_compaction.core.compaction.blocks import (
    Block,
    DigestBlock,
    MergeBlock,
    SpanBlock,
    StepBlock,
    WindowPlan,
)
from mcp_compaction.model import Digest, Digested, Entry, Session, View


def apply(
    session: Session, window: WindowPlan, digests: Mapping[int, Digest], memory_in: int | None
) -> Session:
    """The session seen through its next view; `digests` are the new ones, by block."""
    body: list[Entry] = []
    for number, block in enumerate(window.blocks):
        body += _entries_of(block, digests.get(number))
    new = tuple(digests.values())
    shown = {entry.digest for entry in body if isinstance(entry, Digested)}
    view = View(
        version=session.view.version + 1,
        head=window.head,
        pinned=tuple(pin.number for pin in session.pins),
        body=tuple(body),
        upto=max((session.view.upto, *(m.seq for m in session.messages))),
        memory_in=memory_in,
        index_most=window.index_most,
        gone=session.view.gone,
        reworded=session.view.reworded,
        taken=session.view.taken,
    )
    kept = {entry.seq for entry in (*view.head, *body) if not isinstance(entry, Digested)}
    return session.model_copy(
        update={
            "view": view,
            "messages": tuple(m for m in session.messages if m.seq in kept),
            "digests": tuple(d for d in (*session.digests, *new) if d.number in shown),
            "next_digest": session.next_digest + len(new),
        }
    )


def _entries_of(block: Block, digest: Digest | None) -> tuple[Entry, ...]:
    match block:
        case StepBlock():
            return block.entries
        case DigestBlock():
            number = block.digest.number if digest is None else digest.number
            return (Digested(digest=number),)
        case SpanBlock() | MergeBlock():
            if digest is None:
                raise ValueError("a planned digest was never written")
            return (Digested(digest=digest.number),)
        case _:
            assert_never(block)
