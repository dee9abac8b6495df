"""Gives the records of a session: what a window needs after somebody else emptied it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mcp_compaction.compactor.workspace import MOST_ROWS, Workspace, scope_of
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.window.fill import ratio_of
from mcp_compaction.core.window.records import newest_block, records_of
from mcp_compaction.errors import InputError
from mcp_compaction.model import Receipt, Session, SessionInfo, Twins
from mcp_compaction.ports import Forgotten, Scope

_NEWEST_SHARE = 40  # percent of the records for the words that no digest holds


async def read_records(
    work: Workspace,
    info: SessionInfo,
    *,
    max_chars: int | None = None,
    max_tokens: int | None = None,
) -> str:
    """The text that a window needs after somebody else emptied it, at most so large.

    Pins whole, then digests, the newest first and in whole lines, then the index; the last
    line says what is missing and how to recall it. Empty where nothing is known.
    """
    given = [limit for limit in (max_chars, max_tokens) if limit is not None]
    if len(given) != 1 or given[0] < 1:
        raise InputError("pass either max_chars or max_tokens, as a number above 0.")
    session = await load_prepared(work, info)
    if max_tokens is None:
        return await work.threads.run(records_of, session, given[0], len)
    limit = int(max_tokens / ratio_of(session))
    return await work.threads.run(records_of, session, limit, work.counter.count)


async def read_after_compaction(work: Workspace, session: Session, max_chars: int) -> str:
    """What a window that its host has compacted wants back beside the pins: the newest words and
    the records, as a session has them."""
    held = {n for one in session.digests for n in range(one.first, one.last + 1)}
    left = tuple(one for one in session.messages if one.seq not in held)
    bare = session.model_copy(update={"pins": (), "messages": left})
    most = max_chars * _NEWEST_SHARE // 100
    newest = await work.threads.run(newest_block, session.messages, most)
    records = await work.threads.run(records_of, bare, max_chars - len(newest) - 1, len)
    return "\n".join(filter(None, (newest, records)))


async def load_prepared(work: Workspace, info: SessionInfo) -> Session:
    """The session seen through the view that was prepared; through the shown one without any."""
    view = await work.store.prepared_view(info.id)
    return await work.load(info, view)


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
