"""Serves the views of a plugin that runs in the host of this very process."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from re import fullmatch
from typing import Any

from mcp_compaction.errors import CompactionError
from mcp_compaction.hosts.events import hooked_hosts
from mcp_compaction.hosts.hook_notes import MODULE
from mcp_compaction.hosts.known import hosts_with
from mcp_compaction.hosts.transcripts.claude_code import NAME
from mcp_compaction.server.claude_mod import PATH, ClaudeMod
from mcp_compaction.server.state import State
from mcp_compaction.settings_file import VIEWS, view_seconds
from mcp_compaction.view_service.listening import serve_views

logger = logging.getLogger(__name__)


@asynccontextmanager
async def serve_plugin(state: State) -> AsyncGenerator[None]:
    """Serve views where a plugin has named a file, or a folder, for their address."""
    mod = ClaudeMod(state)
    places = _places_of(state, mod)
    if not places:
        yield
        return
    opening = asyncio.create_task(_open(state))  # so that the first view need not wait for it

    async def answer(path: str, body: dict[str, Any]) -> object:
        if path.startswith(PATH):
            state.runs.note(MODULE.format(NAME), "a chat")
            return await mod.answer(path, body)
        session = str(body.get("session") or "")
        if state.chats.has_gateway(session):
            return None  # which records the chat, and shows its view
        host, _, verb = path.removeprefix("/").partition("/")
        match verb:
            case "view" if session and host in hosts_with("plugin"):
                given, tokens = body.get("messages"), body.get("window_tokens")
                return await state.views.view_for(host, session, given, tokens)
            case "handover" if session and host in hosts_with("plugin"):
                return await state.views.handover_for(host, session)
            case "record" if session and host in hosts_with("plugin"):
                return await state.views.record(host, session)
            case _:
                raise LookupError(path)

    async with serve_views(places, answer, view_seconds(state.environ)):
        yield
    opening.cancel()


def _places_of(state: State, mod: ClaudeMod) -> tuple[Path, ...]:
    """The files for the address. Claude Code's module looks in a folder for the one of the chat or,
    since a continued chat gets its id after its servers were started, of its own process."""
    named = Path(state.environ.get(VIEWS, ""))
    session = state.environ.get(hooked_hosts()[NAME].session_variable, "")
    if not named.is_absolute() or not fullmatch(r"[\w-]*", session):
        return ()
    if not session:
        return (named,)
    try:
        named.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        logger.warning("the module cannot be told where to ask: %s", error)
    mod.expect(session)
    return tuple(named / f"{one}.json" for one in (session, os.getppid()))


async def _open(state: State) -> None:
    try:
        await state.workspace()
    except CompactionError as error:
        logger.warning("the store is not open yet: %s", error)
