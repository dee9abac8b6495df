"""Handles one event of a host in a process of its own, where no server can hear it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from mcp_compaction.hosts.chat import HostChats
from mcp_compaction.hosts.events import hooked_hosts
from mcp_compaction.hosts.folders import trusted_environ
from mcp_compaction.hosts.handling import EventHandler, HostEvent
from mcp_compaction.hosts.hook_notes import note_trouble
from mcp_compaction.hosts.serving import is_through_gateway
from mcp_compaction.projects import find_project
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace


def handle(host: str, event: str, told: dict[str, Any], environ: Mapping[str, str]) -> str:
    """The text that the host reads: the answer of the hook, or nothing."""
    return asyncio.run(_handle(host, event, told, environ))


async def _handle(host: str, event: str, told: dict[str, Any], environ: Mapping[str, str]) -> str:
    settings = load_settings(environ)
    named = settings.project or environ.get(hooked_hosts()[host].project_variable)
    project = find_project(named, str(told.get("cwd", "")))
    chats = HostChats(
        project,
        trusted_environ(environ, settings.home),
        settings.records,
        partial(is_through_gateway, settings.home, environ),
    )
    handler = EventHandler(chats, partial(note_trouble, environ), variables=environ)
    session, path, source = (
        str(told.get(n, "")) for n in ("session_id", "transcript_path", "source")
    )
    part = "records" if told.get("part") == "records" else ""
    happened = HostEvent(host, event, session, path, part, source)
    work = await open_workspace(settings)
    try:
        answer = await handler.handle(work, happened)
        await handler.confirm(work, answer)
        return answer.text
    finally:
        await chats.close()
        await work.store.close()
