"""Look one owner's part of the store over: its chains, its search terms, the server itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mcp_compaction.ports import Health
from mcp_compaction.store.align import chain_hash
from mcp_compaction.store.health import masks_in
from mcp_compaction.store.postgres.database import PgRow, PgTx
from mcp_compaction.store.postgres.schema import SCHEMA_VERSION

_READ_AT_ONCE = 5_000


def health(tx: PgTx, place: str) -> Health:
    """The state of one owner's rows; nothing is changed."""
    sessions = tx.all(
        "SELECT id, last_seq, last_chain FROM session WHERE owner = %(owner)s ORDER BY id"
    )
    problems: list[str] = []
    messages = size = 0
    masked = Counter[str]()
    for session in sessions:
        chain, seq = "", 0
        is_broken = False
        while rows := _read_rows(tx, session["id"], seq):
            for row in rows:
                seq, chain = seq + 1, chain_hash(chain, row["content"])
                is_broken |= (row["seq"], row["chain"]) != (seq, chain)
                size += len(row["raw"])
                masked.update(masks_in(row["raw"].decode()))
            messages += len(rows)
            seq = rows[-1]["seq"]
        if is_broken or (seq, chain) != (session["last_seq"], session["last_chain"]):
            problems.append(
                f"The chain of session {session['id']} is broken; restore the database from its "
                "own backup."
            )
    problems += _find_index_problems(tx)
    version = tx.one("SELECT current_setting('server_version') AS version")
    return Health(
        place=place,
        engine=f"PostgreSQL {(version or {'version': '?'})['version']}",
        schema_version=SCHEMA_VERSION,
        size_bytes=size,
        sessions=len(sessions),
        messages=messages,
        problems=tuple(problems),
        masked=masked,
    )


def _read_rows(tx: PgTx, session: int, after: int) -> list[PgRow]:
    return tx.all(
        "SELECT seq, content, chain, raw FROM message WHERE owner = %(owner)s"
        " AND session = %(session)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s",
        session=session,
        after=after,
        limit=_READ_AT_ONCE,
    )


def _find_index_problems(tx: PgTx) -> Iterator[str]:
    lost = tx.one(
        "SELECT 1 FROM posting WHERE posting.owner = %(owner)s AND NOT EXISTS (SELECT 1"
        " FROM passage WHERE passage.owner = %(owner)s AND passage.id = posting.passage"
        " AND passage.session = posting.session) LIMIT 1"
    )
    if lost is None:
        return iter(())
    return iter(
        ("The search terms are out of step with their texts; run: mcp-compaction doctor --fix",)
    )
