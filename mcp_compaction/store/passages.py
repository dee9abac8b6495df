"""The rows the search finds, kept in step with their full-text index in the same transaction."""

from __future__ import annotations

import sqlite3
import textwrap
from collections.abc import Iterable, Iterator
from functools import singledispatch
from typing import Literal, NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.recall.terms import keys_of
from mcp_compaction.model import Digest
from mcp_compaction.store.marks import marks
from mcp_compaction.store.sql import Tx, encodable


class StoredPassage(NamedTuple):
    """A text to be found, and what it belongs to."""

    session: int | None
    project: str | None
    kind: Literal["m", "d", "p"]
    number: int
    ordinal: int
    role: str
    at: str
    tools: tuple[str, ...]
    text: str


# Each engine has an index of its own, and registers what is done in it.


@singledispatch
def insert(tx: Tx, passages: Iterable[StoredPassage]) -> None:
    """Make texts findable."""
    for passage in passages:
        _insert(tx, passage)


@singledispatch
def delete(tx: Tx, session: int | None, kind: str, number: int) -> None:
    """Make the texts of a message, digest or pin unfindable; their words stay in the index until
    it is optimized."""
    _delete(tx, "session IS ? AND kind = ? AND number = ?", session, kind, number)


@singledispatch
def delete_session(tx: Tx, session: int) -> None:
    """Make all texts of a session unfindable, but for its pins, which may outlive it."""
    rows = tx.execute(
        "SELECT session, project, kind, number, ordinal, role, at, tools, text"
        " FROM passage WHERE session = ? AND kind = 'p'",
        (session,),
    ).fetchall()
    _delete(tx, "session = ?", session)
    insert(tx, [StoredPassage(*row)._replace(session=None, tools=()) for row in rows])


def _insert(tx: Tx, passage: StoredPassage) -> None:
    text = encodable(passage.text)
    tools = "".join(f"\n{encodable(tool).lower()}\n" for tool in passage.tools)
    found_by = (text, keys_of(text), marks(passage.session, passage.role, passage.tools))
    cursor = tx.execute(
        "INSERT INTO passage"
        " (session, project, kind, number, ordinal, role, at, tools, text, keys, marks)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*passage[:7], tools, *found_by),
    )
    tx.execute(
        "INSERT INTO passage_index (rowid, text, keys, marks) VALUES (?, ?, ?, ?)",
        (cursor.lastrowid, *found_by),
    )


def _delete(tx: Tx, condition: str, *parameters: str | int | None) -> None:
    rows = tx.execute(
        f"SELECT id, text, keys, marks FROM passage WHERE {condition}", parameters
    ).fetchall()
    for row in rows:
        # An external-content index must be told the old text to find its words.
        tx.execute(
            "INSERT INTO passage_index (passage_index, rowid, text, keys, marks)"
            " VALUES ('delete', ?, ?, ?, ?)",
            tuple(row),
        )
        tx.execute("DELETE FROM passage WHERE id = ?", (row[0],))


def optimize(connection: sqlite3.Connection) -> None:
    """Write the index anew without the words of deleted texts.

    FTS5's own 'secure-delete' would make the file unreadable for any SQLite before 3.42.
    """
    connection.execute("INSERT INTO passage_index (passage_index) VALUES ('optimize')")


def rebuild(connection: sqlite3.Connection) -> None:
    """Build the index anew from the texts."""
    connection.execute("INSERT INTO passage_index (passage_index) VALUES ('rebuild')")


def insert_digest(tx: Tx, session: int, project: str, digest: Digest, at: str) -> None:
    """Make a digest findable, its sections in pieces; its index only says where things stand."""
    texts = enumerate(texts_of_digest(digest))
    insert(
        tx,
        [
            StoredPassage(session, project, "d", digest.number, ordinal, "digest", at, (), text)
            for ordinal, text in texts
        ],
    )


def texts_of_digest(digest: Digest) -> list[str]:
    """The texts that a digest is found by, each line with who wrote it."""
    from mcp_compaction.core.digest.render import mark_of, words_of_item

    texts: list[str] = []
    for name, items in digest.sections:
        lines = (words_of_item(item) + mark_of(item) for item in items)
        texts += _cut_pieces(lines, f"{name}: ")
    return texts


def _cut_pieces(items: Iterable[str], label: str) -> list[str]:
    """The items in pieces of bounded length, each piece under the label."""
    room = LONGEST_SENTENCE - len(label)
    pieces: list[str] = []
    for text in (part for item in items for part in _wrap_item(item, room)):
        if pieces and len(pieces[-1]) + 1 + len(text) <= room:
            pieces[-1] += f"\n{text}"
        else:
            pieces.append(text)
    return [label + piece for piece in pieces]


def _wrap_item(item: str, room: int) -> Iterator[str]:
    """An item whole if it fits, else line by line; a line too long is wrapped."""
    if len(item) <= room:
        yield item
        return
    for line in item.splitlines():
        yield from textwrap.wrap(
            line, room, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False
        )
