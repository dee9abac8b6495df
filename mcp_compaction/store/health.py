"""Look the store over: its pages, references, search index, chains and SQLite itself."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mcp_compaction.core.text.secrets import kinds_of_secrets
from mcp_compaction.errors import MalformedMessage, StoreDamaged
from mcp_compaction.formats.content import parse_object
from mcp_compaction.formats.identity import hash_of, normalize, normalize_answer
from mcp_compaction.model import Shape, View
from mcp_compaction.ports import Health
from mcp_compaction.store.align import chain_hash
from mcp_compaction.store.connect import pragma
from mcp_compaction.store.database import is_purge_due
from mcp_compaction.store.identity import RESTORE, log_path, size_of
from mcp_compaction.store.listing import checksum_of
from mcp_compaction.store.load import list_shown
from mcp_compaction.store.sql import from_json

_LARGEST_LOOKED_THROUGH = 200_000_000  # bytes
_LOOKED_AT = 200  # of the newest messages, and as many of all
# An error of the statement itself: a table or a column is gone.
_CODES_OF_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
# What comes of a value that is not of its column's kind.
_ERRORS_OF_DAMAGE = (TypeError, ValueError, AttributeError, LookupError, OverflowError)
_MASK = re.compile(r"\[masked:([a-z0-9-]{1,40})\]")


def health(
    connection: sqlite3.Connection,
    path: Path,
    damage: Sequence[str] | None = None,
    notes: Iterable[str | None] = (),
) -> Health:
    """The state of the store; nothing is changed. `damage`: what was found of it before."""
    found = _find_problems(connection, path, is_sound=damage is None)
    version = pragma(connection, "user_version")
    return Health(
        place=str(path),
        engine=f"SQLite {sqlite3.sqlite_version}",
        schema_version=version if isinstance(version, int) else 0,
        size_bytes=sum(file.stat().st_size for file in _list_files(path)),
        sessions=_count_rows(connection, "session"),
        messages=_count_rows(connection, "message"),
        problems=tuple(dict.fromkeys((*(damage or ()), *found))),
        notes=tuple(note for note in (sqlite_note(sqlite3.sqlite_version_info), *notes) if note),
        masked=_count_masks(connection),
    )


def sqlite_note(version: tuple[int, ...]) -> str | None:
    """The note on a version of SQLite."""
    series, patch = version[:2], version[2]
    fixed = {(3, 44): 6, (3, 50): 7, (3, 51): 3}
    if series > (3, 51) or patch >= fixed.get((series[0], series[1]), 10**6):
        return None
    number = ".".join(map(str, version))
    return (
        f"SQLite {number} has the WAL-reset bug; writes are serialized by a lock file, which "
        "avoids it. Update to a Python with SQLite 3.51.3 or newer."
    )


def _find_problems(connection: sqlite3.Connection, path: Path, *, is_sound: bool) -> Iterator[str]:
    for line in find_damage(connection, path, whole=True):
        yield f"{line}; put a backup in its place: {RESTORE}"
    yield from _tell_unreadable(_find_changed_pins(connection))
    if is_sound:
        yield from _find_index_problems(connection)
    with suppress(sqlite3.DatabaseError):
        if is_purge_due(connection):
            yield (
                "Forgotten bytes are still in the log: a reader holds it. "
                "Close the program that reads the store; the next write or start removes them."
            )


# Whether pages and rows are what was written


def find_damage(
    connection: sqlite3.Connection, path: Path, *, whole: bool = False
) -> Iterator[str]:
    """What is not as it was written: of a large store without its pages, and of the texts only the
    newest and a sample, unless the whole is asked for."""
    size = path.stat().st_size
    if size % int(pragma(connection, "page_size") or 1) and not size_of(log_path(path)):
        yield "The file ends within a page"
    is_small = whole or size <= _LARGEST_LOOKED_THROUGH
    finders = (_find_bad_pages, _find_bad_json, _find_lost_views) if is_small else ()
    for find in (*finders, _find_foreign_parts, _find_broken_ends):
        yield from _tell_unreadable(find(connection))
    newest = _newest_id(connection)
    every = newest if is_small else _LOOKED_AT
    yield from _tell_unreadable(_find_broken_chains(connection, newest - every))
    every = newest if whole else _LOOKED_AT
    step = max(1, newest // _LOOKED_AT)
    chosen = {*range(max(1, newest - every + 1), newest + 1), *range(1, newest, step)}
    yield from _tell_unreadable(_find_changed_texts(connection, sorted(chosen)))


def find_missing_rows(acknowledged: str, newest: str) -> Iterator[str]:
    """The rows that were acknowledged and are no longer there, as by the loss of a log."""
    kinds = ("message", "pin", "event")
    for kind, before, now in zip(kinds, acknowledged.split("/"), newest.split("/"), strict=False):
        if before and int(before) > int(now):
            yield (
                f"the newest {kind}s are missing, {int(before) - int(now)} that were acknowledged:"
                " the end of the log is lost; to go on without them: mcp-compaction doctor --fix"
            )


def _tell_unreadable(found: Iterator[str]) -> Iterator[str]:
    """The problems found, and that one of the rows cannot be read at all."""
    try:
        yield from found
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF not in _CODES_OF_DAMAGE:
            raise
        yield f"SQLite says: {error}"
    except _ERRORS_OF_DAMAGE as error:
        yield f"A row is not of the kind that was written: {error}"


def _newest_id(connection: sqlite3.Connection) -> int:
    try:
        return connection.execute("SELECT coalesce(max(id), 0) FROM message").fetchone()[0]
    except sqlite3.DatabaseError:
        return 0  # as is told by who looks at the pages


def _find_bad_pages(connection: sqlite3.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA quick_check"):
        if line != "ok":
            yield f"quick_check: {line}"
    for row in connection.execute("PRAGMA foreign_key_check"):
        yield f"Row {row[1]} of {row[0]} refers to nothing"


def _find_bad_json(connection: sqlite3.Connection) -> Iterator[str]:
    for table in ("section", "view", "digest", "receipt"):
        query = f"SELECT session FROM {table} WHERE NOT json_valid(json) LIMIT 1"
        for (session,) in connection.execute(query):
            yield f"A {table} of session {session} is no JSON"


def _find_foreign_parts(connection: sqlite3.Connection) -> Iterator[str]:
    """What runs by itself, or stands for a table: none of it is ours."""
    query = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    yield from (f"The {kind} {name} is not ours" for kind, name in connection.execute(query))


def _find_lost_views(connection: sqlite3.Connection) -> Iterator[str]:
    """The sessions whose present view is lost, or shows a digest that is."""
    rows = connection.execute(
        "SELECT session.id, view_version, view.json, (SELECT json_group_array(number) FROM digest"
        " WHERE session = session.id) FROM session LEFT JOIN view"
        " ON view.session = session.id AND version = view_version WHERE view_version != 0"
    )
    for session, version, text, numbers in rows:
        try:
            shown = from_json(View, text)
        except StoreDamaged:
            shown = View()
        if shown.version != version:
            yield f"The view of session {session} is lost"
        digests = set(list_shown(shown).digests)
        if not digests <= set(json.loads(numbers)):
            yield f"The view of session {session} shows a digest that is lost"


def _find_broken_ends(connection: sqlite3.Connection) -> Iterator[str]:
    """The sessions without their last message, or without as many as they count."""
    rows = connection.execute(
        "SELECT id FROM session WHERE last_seq !="
        " (SELECT count(*) FROM message WHERE session = session.id)"
        " OR last_seq > 0 AND last_chain IS NOT"
        " (SELECT chain FROM message WHERE session = session.id AND seq = last_seq)"
    )
    yield from (f"The log of session {number} has lost messages" for (number,) in rows)


def _find_broken_chains(connection: sqlite3.Connection, after: int) -> Iterator[str]:
    """The sessions in which a message after that one does not follow the message before it."""
    rows = connection.execute(
        "SELECT message.session, message.content, message.chain, message.seq, before.chain"
        " FROM message LEFT JOIN message AS before"
        " ON before.session = message.session AND before.seq = message.seq - 1"
        " WHERE message.id > ?",
        (after,),
    )
    broken = {
        session
        for session, content, chain, seq, before in rows
        if (before is None and seq > 1) or chain != chain_hash(before or "", content)
    }
    yield from (f"The chain of session {number} is broken" for number in sorted(broken))


def _find_changed_texts(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[str]:
    """The messages of these whose text is not the one that was recorded."""
    forgotten = {tuple(row) for row in connection.execute("SELECT session, ref FROM tombstone")}
    rows = connection.execute(
        "SELECT session, 'm' || seq, shape, role, content, raw FROM message"
        " WHERE id IN (SELECT value FROM json_each(?))",
        (str(ids),),
    )
    for session, ref, shape, role, content, raw in rows:
        if (session, ref) not in forgotten and not _may_say(shape, role, content, raw):
            yield f"{ref} of session {session} is not what was recorded"


def _may_say(shape: Shape, role: str, content: str, raw: str) -> bool:
    """Whether a text can be the one that was recorded; a mask stands for what nobody knows."""
    try:
        normals = [raw, normalize(parse_object(raw, "the message")), normalize_answer(raw, shape)]
    except MalformedMessage:
        return False
    is_known = content in (hash_of(shape, role, normal) for normal in normals)
    return is_known or _MASK.search(raw) is not None


def _find_changed_pins(connection: sqlite3.Connection) -> Iterator[str]:
    with suppress(sqlite3.DatabaseError):
        for number, text, checksum in connection.execute("SELECT number, text, checksum FROM pin"):
            if checksum_of(text) != checksum:
                yield f"The text of p{number} is not what was pinned; release it and pin it anew"


def _find_index_problems(connection: sqlite3.Connection) -> Iterator[str]:
    try:
        connection.execute(
            "INSERT INTO passage_index (passage_index, rank) VALUES ('integrity-check', 1)"
        )
    except sqlite3.DatabaseError:
        yield "The search index is out of step with its texts; run: mcp-compaction doctor --fix"


def _count_rows(connection: sqlite3.Connection, table: str) -> int:
    with suppress(sqlite3.DatabaseError):
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return 0


def _count_masks(connection: sqlite3.Connection) -> dict[str, int]:
    """The masks in the messages and sections as they are kept, one text in memory at a time."""
    counts = Counter[str]()
    for table, column in (("message", "raw"), ("section", "json")):
        query = f"SELECT {column} FROM {table} WHERE instr({column}, '[masked:')"
        with suppress(sqlite3.DatabaseError, *_ERRORS_OF_DAMAGE):
            for (text,) in connection.execute(query):
                counts.update(masks_in(text))
    return counts


def masks_in(text: str) -> list[str]:
    """The kinds of the masks that stand in a text."""
    known = kinds_of_secrets()
    return [kind for kind in _MASK.findall(text) if kind in known]


def _list_files(path: Path) -> list[Path]:
    names = (path.name + suffix for suffix in ("", "-wal", "-shm", ".lock"))
    return [path.with_name(name) for name in names if path.with_name(name).exists()]
