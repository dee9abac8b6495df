"""Words by which the index knows whose a passage is; needs neither model nor event loop."""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache

from mcp_compaction.core.recall.terms import keys_of


@lru_cache(maxsize=256)
def marks(session: int | None, role: str, tools: tuple[str, ...]) -> str:
    """Words by which the index knows whose a passage is, so that it need not look at others."""
    by_tools = (mark for tool in tools if (mark := tool_mark(tool)))
    return " ".join((session_mark(session), role_mark(role), *by_tools))


def session_mark(session: int | None) -> str:
    """The mark of a session's passages; of none: pins that have outlived theirs."""
    return f"session{session or 0}"


def role_mark(role: str) -> str:
    """The mark of what somebody said."""
    return "role" + _letters_of(role)


def tool_mark(tool: str) -> str:
    """The mark of a tool's calls and answers; names that differ in signs alone share it."""
    letters = _letters_of(tool)
    return f"tool{letters}" if letters else ""


def _letters_of(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def mark_all(connection: sqlite3.Connection) -> None:
    """Give every passage what it is found by, and build the index from that."""

    def marks_of(session: int | None, role: str, tools: str) -> str:
        return marks(session, role, tuple(filter(None, tools.split("\n"))))

    connection.create_function("keys_of", 1, keys_of, deterministic=True)
    connection.create_function("marks_of", 3, marks_of, deterministic=True)
    connection.execute(
        "UPDATE passage SET keys = keys_of(text), marks = marks_of(session, role, tools)"
    )
    connection.execute("INSERT INTO passage_index (passage_index) VALUES ('rebuild')")
