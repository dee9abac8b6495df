"""Serves the views of a plugin that runs in the host of this very process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp_compaction.errors import CompactionError
from mcp_compaction.hosts.gateways import is_through_gateway
from mcp_compaction.hosts.transcripts import opencode
from mcp_compaction.server.state import State
from mcp_compaction.view_service.listening import VARIABLE, serve_views
from mcp_compaction.view_service.views import Chat

logger = logging.getLogger(__name__)


@asynccontextmanager
async def serve_plugin(state: State) -> AsyncGenerator[None]:
    """Serve views where a plugin has named a file for their address."""
    place = state.environ.get(VARIABLE, "")
    if not Path(place).is_absolute():
        yield
        return
    opening = asyncio.create_task(_open(state))  # so that the first view need not wait for it

    async def answer(path: str, body: dict[str, Any]) -> object:
        window = body.get("window_tokens")
        size = window if isinstance(window, int) and window > 0 else None
        chat = Chat(state.project, opencode.NAME, str(body.get("session") or ""), size)
        if is_through_gateway(state.settings.home, state.environ, chat.session):
            return None  # which records the chat, and shows its view
        match path:
            case "/opencode/view" if chat.session:
                return await state.views.view_for_opencode(chat, body.get("messages"))
            case "/opencode/record" if chat.session:
                return await state.views.record(chat)
            case _:
                raise LookupError(path)

    async with serve_views(Path(place), answer, state.settings.view_timeout_seconds):
        yield
    opening.cancel()


async def _open(state: State) -> None:
    try:
        await state.compactor()
    except CompactionError as error:
        logger.warning("the store is not open yet: %s", error)
