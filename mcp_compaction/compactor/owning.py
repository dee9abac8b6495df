"""Gives users their data: a session as text to take along, and what they want forgotten gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mcp_compaction.compactor.workspace import MOST_ROWS, Workspace, scope_of
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.model import Receipt, SessionInfo, Twins
from mcp_compaction.ports import Forgotten, Scope


async def receipts(work: Workspace, info: SessionInfo) -> tuple[Receipt, ...]:
    """The receipts of all compactions, oldest first."""
    return tuple(receipt for receipt, _ in await work.store.receipts(info.id))


async def twins(work: Workspace, info: SessionInfo, ref: str, within: Scope) -> Twins:
    """The messages within a scope that would still hold all that a forgotten one said."""
    return await work.store.twins(scope_of(info), number_of(ref, "m"), within)


async def forget(work: Workspace, scope: Scope, *refs: str) -> Forgotten:
    """Remove messages, or without any a session or a project, so that no byte is left."""
    seqs = [number_of(ref, "m") for ref in refs]
    return await work.store.forget(scope, seqs, work.now())


async def export(work: Workspace, info: SessionInfo) -> AsyncIterator[str]:
    """The whole session as JSON lines: a header with all that was derived, then the log."""
    session = await work.load(info)
    header = {
        "session": session.info.model_dump(mode="json"),
        "sections": session.sections.model_dump(mode="json"),
        "view": session.view.model_dump(mode="json"),
        "pins": [p.model_dump(mode="json") for p in await work.pins(info)],
        "digests": [d.model_dump(mode="json") for d in await work.store.digests(info.id)],
        "receipts": [r.model_dump(mode="json") for r in await receipts(work, info)],
    }
    yield compact_json(header)
    after = 0
    while page := await work.store.originals(scope_of(info), after=after, limit=MOST_ROWS):
        for original in page:
            yield original.message.raw
        after = page[-1].message.seq
