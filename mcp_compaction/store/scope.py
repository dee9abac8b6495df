"""The scope of a query: the one place that turns a Scope into SQL.

Every query that gives rows to a caller gets its condition here, so that no row of another
project can slip through a forgotten WHERE.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

from mcp_compaction.errors import InputError, UnknownSession
from mcp_compaction.git_folders import WORKTREES_OF_HOSTS, home_of, paths_of
from mcp_compaction.store.sql import Tx


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


@lru_cache(maxsize=256)
def project_of(path: str) -> str:
    """The project of a row, by the path that it was recorded under."""
    return home_of(path)


def of_project(column: str, project: str) -> Condition:
    """The condition for the rows of a project, by whichever of its paths they were recorded: a
    worktree's are its repository's, also those of one that Claude Code made and removed."""
    paths = paths_of(project)
    gone = f"{paths[0]}{WORKTREES_OF_HOSTS}"
    sql = f"({column} IN ({', '.join('?' * len(paths))}) OR ({column} > ? AND {column} < ?))"
    return Condition(sql, (*paths, gone, f"{gone[:-1]}0"))  # behind `/` comes `0`


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
        shared, mine = of_project("pin.project", scope.project)
        parameters = (*own.parameters, *mine)
    sql = f"(({own.sql}) OR (pin.scope = 'project' AND {shared}) OR pin.scope = 'global')"
    return Condition(sql, parameters)


def check_session(tx: Tx, scope: Within) -> None:
    """Refuse a scope whose session is not in its project."""
    if scope.session is None:
        return
    condition = sessions_in(scope)
    found = tx.execute(
        f"SELECT 1 FROM session WHERE {condition.sql}", condition.parameters
    ).fetchone()
    if found is None:
        raise UnknownSession(f"There is no session {scope.session} here; list the sessions first.")


def one_session(tx: Tx, scope: Within) -> int:
    """The session of a scope that must name one."""
    if scope.session is None:
        raise InputError("This needs one session; name it.")
    check_session(tx, scope)
    return scope.session


def _within(scope: Within, project: str, session: str) -> Condition:
    parts: list[str] = []
    parameters: list[str | int] = []
    if scope.project is not None:
        sql, mine = of_project(project, scope.project)
        parts.append(sql)
        parameters += mine
    if scope.session is not None:
        parts.append(f"{session} = ?")
        parameters.append(scope.session)
    return Condition(" AND ".join(parts) or "TRUE", tuple(parameters))
