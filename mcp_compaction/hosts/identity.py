"""Which session of ours a host's chat is, for whoever brings its words: hooks, modules, plugins,
gateways, imports.

A chat is known by its host and the host's own id for it, a subagent by its name besides. The store
keeps that as an address beside those of the chat's transcripts. A session that is forgotten leaves
its addresses behind: so what was said in a forgotten chat is never recorded again, neither from
another file nor from a history that holds it. What its transcript tells later is a new session's.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from pathlib import Path

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import ForgottenChat, InputError
from mcp_compaction.formats import Incoming
from mcp_compaction.git_folders import git_top_of
from mcp_compaction.hosts.events import hooked_hosts
from mcp_compaction.hosts.transcripts.pieces import Chat, Transcript
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import Mark, SessionKey
from mcp_compaction.projects import find_project

_FORGOTTEN = (
    "what was said in this chat was forgotten, and its history holds it; nothing was recorded. "
    "Begin another chat."
)


def project_of_chat(transcript: Transcript, chat: Chat, asked: str | None = None) -> str | None:
    """The project in which a chat's words count, by the folder it worked in, as the host's server
    sees it: the one asked for where that folder is below it in the same repository, or not told."""
    if chat.folder is None:
        return asked
    host = hooked_hosts().get(transcript.host)
    is_told = host is not None and host.project_variable != ""
    try:
        own = find_project(chat.folder if is_told else None, chat.folder)
    except InputError as error:
        if asked is not None:
            return ""  # no project: its folder cannot be
        raise InputError(f"{str(transcript.path)!r} is not taken in: {error}") from None
    is_below = asked is not None and Path(own).is_relative_to(asked)
    return asked if is_below and git_top_of(own) == git_top_of(asked or "") else own


async def open_chat(
    work: Workspace,
    key: SessionKey,
    traits: Traits | None = None,
    started: datetime | None = None,
) -> tuple[SessionInfo, bool]:
    """The session of a host's chat, made where it is not there yet, and whether it is new."""
    info, is_new = await compactor.open_session(
        work, key, traits or Traits(owns_window=False), started
    )
    if key.host_session is not None:
        address = _address_of(key.host, key.host_session, key.agent)
        if await work.store.find_transcript(address) is None:
            mark = Mark(address=address, position=0, tail="")
            await compactor.record_transcript(
                work, info, Incoming(messages=()), via="host", mark=mark
            )
    return info, is_new


async def check_history(work: Workspace, key: SessionKey) -> None:
    """Refuse the history of a chat that was ever forgotten: it still holds what went."""
    if await is_forgotten(work, key.host, key.host_session, key.agent):
        raise ForgottenChat(_FORGOTTEN)


async def is_forgotten(work: Workspace, host: str, session: str | None, agent: str = "") -> bool:
    """Whether a chat, or the one that a subagent serves, was ever forgotten."""
    for name in {"", agent} if session is not None else ():
        known = await work.store.find_transcript(_address_of(host, session or "", name))
        if known is not None and known.session is None:
            return True
    return False


def _address_of(host: str, session: str, agent: str) -> str:
    place = "\0".join(("chat", host, session, agent))
    return "sha256:" + sha256(place.encode("utf-8", "surrogateescape")).hexdigest()
