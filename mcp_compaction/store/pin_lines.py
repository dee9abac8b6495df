"""Reads the pins of a project as lines, for hooks that must not load more than this.

Standard library only. Nothing is written, and a store that is locked is not waited for.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from mcp_compaction.store.connect import connect, store_path

_PATIENCE = 0.5  # seconds
_PINS = (
    "SELECT number, kind, author, text FROM pin"
    " WHERE kind != 'note' AND released IS NULL"
    " AND (expires IS NULL OR expires > strftime('%Y-%m-%dT%H:%M:%f', 'now'))"
    " AND (scope = 'global' OR (scope = 'project' AND project = ?)) ORDER BY number"
)


def read_pin_lines(home: Path, project: str) -> list[str]:
    """The pins that every session of a project starts with, as the pinned block writes them."""
    path = store_path(home)
    if not path.exists():
        return []
    with closing(connect(path, deadline=time.monotonic() + _PATIENCE, readonly=True)) as store:
        rows = store.execute(_PINS, (project,)).fetchall()
    return [f"p{n} {kind.replace('_', ' ')}, by {author}: {text}" for n, kind, author, text in rows]
