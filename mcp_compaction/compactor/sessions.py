"""Finds the sessions of a project, and notes how their windows are kept."""

from __future__ import annotations

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import UnknownSession
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import Scope


async def find(work: Workspace, project: str, name: str | None) -> SessionInfo:
    """The session of that name, or the only one there is."""
    scope = Scope(project=project)
    if name is not None:
        found = await work.store.find_session(scope, name)
        if found is not None:
            return found
    known = await work.store.sessions(scope, 5)
    if name is None and len(known) == 1:
        return known[0]
    if not known:
        raise UnknownSession("no session is recorded for this project yet; record messages first.")
    names = ", ".join(info.name for info in known)
    asked = f"no session {name!r} in this project" if name else "several sessions are recorded"
    raise UnknownSession(f"{asked}; name one of: {names}.")


async def own_window(work: Workspace, info: SessionInfo) -> SessionInfo:
    """Note that this session's caller replaces its own window."""
    return await work.store.set_traits(info.id, Traits(owns_window=True))


async def put_pins_back(work: Workspace, info: SessionInfo) -> None:
    """Note that a hook has shown this session its pins after the host's own compaction."""
    await work.store.set_traits(info.id, Traits(pins_put_back=work.now()))
