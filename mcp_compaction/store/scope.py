"""The scope of a query: the one place that turns a Scope into SQL.

Every query that gives rows to a caller gets its condition here, so that no row of another
project can slip through a forgotten WHERE.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple, Protocol

from mcp_compaction.errors import InputError, UnknownSession


class Within(Protocol):
    """What a query may see, as `ports.Scope` has it; without the models of ports."""

    @property
    def project(self) -> str | None:
        """The project; None: every one."""
        ...

    @property
    def session(self) -> int | None:
        """The session; None: every one."""
        ...


class Condition(NamedTuple):
    """A part of a WHERE clause with its parameters."""

    sql: str
    parameters: tuple[str | int, ...]


def rows_in(scope: Within, table: str) -> Condition:
    """The condition for a scope's rows of a table with the columns `project` and `session`."""
    return _within(scope, f"{table}.project", f"{table}.session")


def sessions_in(scope: Within) -> Condition:
    """The condition for a scope's rows of the table `session`."""
    return _within(scope, "session.project", "session.id")


def pins_in(scope: Within) -> Condition:
    """The condition for the pins in force: the scope's own, its project's and the global ones."""
    own = rows_in(scope, "pin")
    if scope.project is None and scope.session is None:
        return own
    if scope.project is None:
        shared = "pin.project = (SELECT project FROM session WHERE id = ?)"
        parameters = (*own.parameters, *((scope.session,) if scope.session is not None else ()))
    else:
        shared = "pin.project = ?"
        parameters = (*own.parameters, scope.project)
    sql = f"(({own.sql}) OR (pin.scope = 'project' AND {shared}) OR pin.scope = 'global')"
    return Condition(sql, parameters)


def check_session(connection: sqlite3.Connection, scope: Within) -> None:
    """Refuse a scope whose session is not in its project."""
    if scope.session is None:
        return
    condition = sessions_in(scope)
    found = connection.execute(
        f"SELECT 1 FROM session WHERE {condition.sql}", condition.parameters
    ).fetchone()
    if found is None:
        raise UnknownSession(f"There is no session {scope.session} here; list the sessions first.")


def one_session(connection: sqlite3.Connection, scope: Within) -> int:
    """The session of a scope that must name one."""
    if scope.session is None:
        raise InputError("This needs one session; name it.")
    check_session(connection, scope)
    return scope.session


def _within(scope: Within, project: str, session: str) -> Condition:
    parts: list[str] = []
    parameters: list[str | int] = []
    if scope.project is not None:
        parts.append(f"{project} = ?")
        parameters.append(scope.project)
    if scope.session is not None:
        parts.append(f"{session} = ?")
        parameters.append(scope.session)
    return Condition(" AND ".join(parts) or "TRUE", tuple(parameters))
