"""Finds and opens the sessions of a project by the one rule for their names."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from difflib import get_close_matches

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.text.words import lower_words
from mcp_compaction.errors import InputError, UnknownSession
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import Scope, SessionKey

_MOST_LISTED = 1_000
_MOST_NAMED = 5
_MOST_COMPARED = 100  # the newest: to compare names takes time on the event loop
_MOST_NAME = 80


def read_name(name: str, most: int = _MOST_NAME) -> str:
    """A name as a session may have it; InputError where it is long, blank, a flag, a secret or
    a line of ours."""
    from mcp_compaction.core.text.injection import has_label  # most commands name no session
    from mcp_compaction.core.text.secrets import redact

    tidy = name.strip()
    is_name = tidy.isprintable() and 0 < len(tidy) <= most and not tidy.startswith("-")
    if not is_name or has_label(tidy) or redact(tidy).counts:
        raise InputError(f"{name!r} is no name for a session; write one such as tax-2026.")
    return tidy


async def open_session(
    work: Workspace,
    key: SessionKey,
    traits: Traits | None = None,
    started: datetime | None = None,
) -> tuple[SessionInfo, bool]:
    """The session of a key, made where it is not there yet, and whether it is new; `started`: when
    a chat that is recorded later began."""
    now = work.now()
    if key.name is not None:
        known = await find_named(work, key.project, key.name)
        # A subagent's name stands behind that of the session it works for.
        most = 2 * _MOST_NAME if key.agent else _MOST_NAME
        name = known.name if known is not None else read_name(key.name, most)
        key = key.model_copy(update={"name": name})
    return await work.store.open_session(key, traits or Traits(), min(started or now, now))


async def find_named(work: Workspace, project: str | None, name: str) -> SessionInfo | None:
    """The session of that name, in one project or in any; as it was written before it is tidied,
    since older sessions have names that the rule would refuse now."""
    scope = Scope(project=project)
    found = await work.store.find_session(scope, name)
    return found or await work.store.find_session(scope, name.strip())


async def list_sessions(
    work: Workspace, project: str | None, limit: int = 50
) -> tuple[SessionInfo, ...]:
    """The sessions of a project, or of all, the newest first."""
    return await work.store.sessions(Scope(project=project), limit)


async def find_session(
    work: Workspace, project: str, name: str | None, *, by_title: bool = False
) -> SessionInfo:
    """The session of that name, or the only one there is; `by_title`: also the only one whose
    title holds every word of the name, which is for reading."""
    if name is not None:
        found = await find_named(work, project, name)
        if found is not None:
            return found
    known = await list_sessions(work, project, _MOST_LISTED)
    if name is None and len(known) == 1:
        return known[0]
    titled = [info for info in known if name and _has_words(info.title, name)] if by_title else []
    if len(titled) == 1:
        return titled[0]
    if titled:
        listed = _list_names(f'{info.name} "{info.title}"' for info in titled)
        raise UnknownSession(
            f"the titles of several sessions have {name!r}; name one of: {listed}."
        )
    if not known:
        raise UnknownSession("no session is recorded for this project yet; record messages first.")
    names = [info.name for info in known]
    near = get_close_matches(name, names[:_MOST_COMPARED], 1) if name else []
    asked = f"no session {name!r} in this project" if name else "several sessions are recorded"
    meant = f" (did you mean {near[0]}?)" if near else ""
    raise UnknownSession(f"{asked}{meant}; name one of: {_list_names([*near, *names])}.")


def _has_words(title: str, words: str) -> bool:
    return set(lower_words(words)) <= set(lower_words(title))


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
