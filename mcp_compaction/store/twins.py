"""Other messages that hold all that one message says: forgetting the one leaves its words there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from mcp_compaction import formats
from mcp_compaction.core.log.content import text_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.errors import UnknownRef
from mcp_compaction.model import Part, Shape, ToolCall, Twin, Twins
from mcp_compaction.ports import Scope
from mcp_compaction.store.scope import one_session, project_of, sessions_in
from mcp_compaction.store.sql import Tx
from mcp_compaction.store.stub import FORGOTTEN

LEAST_CHARS = 8  # "yes" stands everywhere
MOST_LISTED = 200
# Signs that every program writes into JSON as they are.
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")


def twins(tx: Tx, scope: Scope, seq: int, within: Scope) -> Twins:
    """The messages that say the same or hold it whole, whatever their white space."""
    session = one_session(tx, scope)
    row = tx.execute(
        "SELECT shape, raw FROM message WHERE session = ? AND seq = ?", (session, seq)
    ).fetchone()
    if row is None:
        raise UnknownRef(f"There is no m{seq} in this session; look at its messages.")
    wanted = words_of(row["shape"], row["raw"])
    if len(wanted.replace(FORGOTTEN, "").strip()) < LEAST_CHARS:
        return Twins()
    condition = sessions_in(within)
    rows = tx.execute(
        "SELECT message.seq, message.shape, message.raw, session.name, session.project"
        " FROM message JOIN session ON session.id = message.session"
        f" WHERE {condition.sql} AND NOT (message.session = ? AND message.seq = ?)"
        " AND instr(message.raw, ?) > 0"
        " ORDER BY session.id = ? DESC, session.project, session.id, message.seq",
        (*condition.parameters, session, seq, rarest_run(wanted), session),
    )
    found = [
        Twin(project=project_of(project), session=name, ref=f"m{number}")
        for number, shape, raw, name, project in rows
        if wanted in words_of(shape, raw)
    ]
    return Twins(found=tuple(found[:MOST_LISTED]), more=max(0, len(found) - MOST_LISTED))


def rarest_run(words: str) -> str:
    """The longest run of plain signs: what does not hold it need not be read."""
    return max(_PLAIN.findall(words), key=len, default="")


def words_of(shape: Shape, raw: str) -> str:
    """All that a message says, in one line."""
    _, parts = formats.read(shape, raw)
    return one_line(" ".join(_texts(parts)))


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ToolCall):
            yield from _strings(part.arguments)
        else:
            yield text_of(part)


def _strings(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for inner in value:
                yield from _strings(inner)
        case dict():
            for inner in value.values():
                yield from _strings(inner)
        case _:
            return
