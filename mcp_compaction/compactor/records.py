"""Gives the records of a session: what a window needs after somebody else emptied it."""

from __future__ import annotations

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.window.fill import ratio_of
from mcp_compaction.core.window.records import newest_block, records_of
from mcp_compaction.errors import InputError
from mcp_compaction.model import Session, SessionInfo


async def read_records(
    work: Workspace,
    info: SessionInfo,
    *,
    max_chars: int | None = None,
    max_tokens: int | None = None,
    with_pins: bool = True,
) -> str:
    """The text that a window needs after somebody else emptied it, at most so large.

    Pins whole, then digests, the newest first and in whole lines, then the index; the last
    line says what is missing and how to recall it. Empty where nothing is known.
    `with_pins`: False where the pins are shown beside it.
    """
    given = [limit for limit in (max_chars, max_tokens) if limit is not None]
    if len(given) != 1 or given[0] < 1:
        raise InputError("pass either max_chars or max_tokens, as a number above 0.")
    session = await load_prepared(work, info)
    if not with_pins:
        session = session.model_copy(update={"pins": ()})
    if max_tokens is None:
        return await work.threads.run(records_of, session, given[0], len)
    limit = int(max_tokens / ratio_of(session))
    return await work.threads.run(records_of, session, limit, work.counter.count)


async def newest_words(work: Workspace, info: SessionInfo, max_chars: int) -> str:
    """What was said in the messages that no digest holds, the newest first into the room."""
    session = await load_prepared(work, info)
    return await work.threads.run(newest_block, session.messages, max_chars)


async def load_prepared(work: Workspace, info: SessionInfo) -> Session:
    """The session seen through the view that was prepared; through the shown one without any."""
    view = await work.store.prepared_view(info.id)
    return await work.load(info, view)
