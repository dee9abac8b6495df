"""Look the store over: its pages, references, search index, chains, modes and SQLite itself."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mcp_compaction.core.text.secrets import kinds_of_secrets
from mcp_compaction.ports import Health
from mcp_compaction.store.align import chain_hash
from mcp_compaction.store.connect import pragma
from mcp_compaction.store.identity import RESTORE
from mcp_compaction.store.purge import is_purge_due

_MASK = re.compile(r"\[masked:([a-z0-9-]{1,40})\]")


def health(connection: sqlite3.Connection, path: Path, why_read_only: str | None = None) -> Health:
    """The state of the store; nothing is changed."""
    problems = _find_problems(connection, path, is_writable=why_read_only is None)
    notes = (sqlite_note(sqlite3.sqlite_version_info), why_read_only)
    version = pragma(connection, "user_version")
    (sessions,) = connection.execute("SELECT count(*) FROM session").fetchone()
    (messages,) = connection.execute("SELECT count(*) FROM message").fetchone()
    return Health(
        place=str(path),
        engine=f"SQLite {sqlite3.sqlite_version}",
        schema_version=version if isinstance(version, int) else 0,
        size_bytes=sum(file.stat().st_size for file in _list_files(path)),
        sessions=sessions,
        messages=messages,
        problems=tuple(problems),
        notes=tuple(note for note in notes if note),
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


def _find_problems(
    connection: sqlite3.Connection, path: Path, *, is_writable: bool
) -> Iterator[str]:
    yield from (
        f"{line}; put a backup in its place: {RESTORE}" for line in _find_page_problems(connection)
    )
    if is_writable:
        yield from _find_index_problems(connection)
    yield from _find_chain_problems(connection)
    yield from _find_mode_problems(path)
    if is_purge_due(connection):
        yield (
            "Forgotten bytes are still in the log: a reader holds it. "
            "Close the program that reads the store; the next write or start removes them."
        )


def _find_page_problems(connection: sqlite3.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA quick_check"):
        if line != "ok":
            yield f"quick_check: {line}"
    for row in connection.execute("PRAGMA foreign_key_check"):
        yield f"Row {row[1]} of {row[0]} refers to nothing"


def _find_index_problems(connection: sqlite3.Connection) -> Iterator[str]:
    try:
        connection.execute(
            "INSERT INTO passage_index (passage_index, rank) VALUES ('integrity-check', 1)"
        )
    except sqlite3.DatabaseError:
        yield "The search index is out of step with its texts; run: mcp-compaction doctor --fix"


def _find_chain_problems(connection: sqlite3.Connection) -> Iterator[str]:
    ends = {
        row["id"]: (row["last_seq"], row["last_chain"])
        for row in connection.execute("SELECT id, last_seq, last_chain FROM session")
    }
    session, seq, chain = 0, 0, ""
    found: dict[int, tuple[int, str]] = {}
    broken: set[int] = set()
    rows = connection.execute(
        "SELECT session, seq, content, chain FROM message ORDER BY session, seq"
    )
    for row in rows:
        if row["session"] != session:
            session, seq, chain = row["session"], 0, ""
        seq, chain = seq + 1, chain_hash(chain, row["content"])
        if (row["seq"], row["chain"]) != (seq, chain):
            broken.add(session)
        found[session] = (seq, chain)
    broken |= {number for number, end in ends.items() if found.get(number, (0, "")) != end}
    for number in sorted(broken):
        yield f"The chain of session {number} is broken; put a backup in its place: {RESTORE}"


def _find_mode_problems(path: Path) -> Iterator[str]:
    if os.name == "nt":
        return
    for file in (path.parent, *_list_files(path)):
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            yield f"{file} can be read by others (mode {mode:o}); run: chmod go-rwx '{file}'"


def _count_masks(connection: sqlite3.Connection) -> dict[str, int]:
    """The masks in the messages and sections as they are kept, one text in memory at a time."""
    counts = Counter[str]()
    for table, column in (("message", "raw"), ("section", "json")):
        rows = connection.execute(f"SELECT {column} FROM {table} WHERE instr({column}, '[masked:')")
        for (text,) in rows:
            counts.update(masks_in(text))
    return counts


def masks_in(text: str) -> list[str]:
    """The kinds of the masks that stand in a text."""
    known = kinds_of_secrets()
    return [kind for kind in _MASK.findall(text) if kind in known]


def _list_files(path: Path) -> list[Path]:
    names = (path.name + suffix for suffix in ("", "-wal", "-shm", ".lock"))
    return [path.with_name(name) for name in names if path.with_name(name).exists()]
