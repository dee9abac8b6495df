"""Reads the pins of a project as lines, for hooks that must not load more than this.

Standard library only. Nothing is written, and a store that is locked is not waited for.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from mcp_compaction.store.connect import connect, store_path
from mcp_compaction.store.scope import of_project

_PATIENCE = 0.5  # seconds
CONTINUATION = "  | "  # before each further line of a pin, as in core.log.pinned
# All columns: a store that no server has opened since an update lacks the newest.
_PINS = (
    "SELECT pin.*, coalesce(session.name, '') AS name"
    " FROM pin LEFT JOIN session ON session.id = pin.session"
    " WHERE kind != 'note' AND released IS NULL"
    " AND (expires IS NULL OR expires > strftime('%Y-%m-%dT%H:%M:%f', 'now'))"
    " AND (scope = 'global' OR (scope = 'project' AND {})) ORDER BY number"
)


def read_pin_lines(home: Path, project: str) -> list[str]:
    """The pins that every session of a project starts with, as the pinned block writes them."""
    path = store_path(home)
    if not path.exists():
        return []
    with closing(connect(path, deadline=_PATIENCE, readonly=True)) as store:
        here = of_project("pin.project", project)
        rows = store.execute(_PINS.format(here.sql), here.parameters).fetchall()
    return [_line_of(row) for row in rows]


def _line_of(row: sqlite3.Row) -> str:
    origin = ""
    if "used" in row.keys() and row["used"] is not None:  # noqa: SIM118  # a row has values in it
        name = row["name"]
        origin = f", kept {row['at'][:10]}" + (f" from session {name}" if name else "")
    kind = row["kind"].replace("_", " ")
    text = CONTINUATION.join(row["text"].splitlines(keepends=True))
    return f"p{row['number']} {kind}, by {row['author']}{origin}: {text}"
