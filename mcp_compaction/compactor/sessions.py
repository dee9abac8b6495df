"""Finds the sessions of a project, and notes how their windows are kept."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import UnknownSession
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import Scope

_MOST_LISTED = 1_000
_MOST_NAMED = 5
_MOST_COMPARED = 100  # the newest: to compare names takes time on the event loop


async def find(work: Workspace, project: str, name: str | None) -> SessionInfo:
    """The session of that name, or the only one there is."""
    scope = Scope(project=project)
    if name is not None:
        found = await work.store.find_session(scope, name)
        if found is not None:
            return found
    known = await work.store.sessions(scope, _MOST_LISTED)
    if name is None and len(known) == 1:
        return known[0]
    if not known:
        raise UnknownSession("no session is recorded for this project yet; record messages first.")
    names = [info.name for info in known]
    near = get_close_matches(name, names[:_MOST_COMPARED], 1) if name else []
    asked = f"no session {name!r} in this project" if name else "several sessions are recorded"
    meant = f" (did you mean {near[0]}?)" if near else ""
    raise UnknownSession(f"{asked}{meant}; name one of: {_list_names([*near, *names])}.")


def _list_names(names: Iterable[str]) -> str:
    """The first names, each once, and how many there are besides."""
    listed = list(dict.fromkeys(names))
    more = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


async def own_window(work: Workspace, info: SessionInfo) -> SessionInfo:
    """Note that this session's caller replaces its own window."""
    return await work.store.set_traits(info.id, Traits(owns_window=True))


async def put_pins_back(work: Workspace, info: SessionInfo) -> None:
    """Note that a hook has shown this session its pins after the host's own compaction."""
    await work.store.set_traits(info.id, Traits(pins_put_back=work.now()))
