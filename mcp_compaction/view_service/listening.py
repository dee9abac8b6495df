"""Serves views to one program on this machine: over loopback, to who holds the token.

The program names files in a folder of its user's; the address and the token are written there. It
sends one JSON object a request and reads one back: `null` where it should send its own messages.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mcp_compaction.door import (
    LOOPBACK,
    ConnectionLimits,
    Door,
    bearer,
    open_listener,
    own_names,
    read_object,
    serve,
)
from mcp_compaction.errors import InputError
from mcp_compaction.home import write_whole

logger = logging.getLogger(__name__)

_MOST_BODY = 2**26

Answer = Callable[[str, dict[str, Any]], Awaitable[object]]
"""What answers a request for a path; LookupError: there is no such path."""


@asynccontextmanager
async def serve_views(
    places: Sequence[Path], answer: Answer, limit: float, limits: ConnectionLimits | None = None
) -> AsyncGenerator[None]:
    """Serve until the end of the block; where the folder is not the user's own, not at all."""
    if not _is_private(places[0].parent):
        logger.warning("%s is not a folder of yours alone: no views are served", places[0].parent)
        yield
        return
    token = secrets.token_urlsafe(32)
    async with AsyncExitStack() as stack:
        try:
            listener = stack.enter_context(open_listener())
            port = listener.getsockname()[1]
            app = Starlette(routes=[Route("/{path:path}", _views(answer), methods=["POST"])])
            door = Door(app, own_names(port), bearer(token), _MOST_BODY)
            await stack.enter_async_context(serve(door, listener, limits))
            url = f"http://{LOOPBACK}:{port}"
            told = {"url": url, "token": token, "limit_ms": round(limit * 1000)}
            for place in places:
                stack.callback(_remove, place)
                write_whole(place, json.dumps(told))
        except (OSError, InputError) as error:  # a disk that is full: all but the views is served
            logger.warning("no views are served: %s", error)
        yield


def _views(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def reply(request: Request) -> Response:
        body = read_object(await request.body())
        status, told = 400, None
        if body is not None:
            try:
                status, told = 200, await answer(request.url.path, body)
            except LookupError:
                status = 404
        data = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
        # Each on a connection of its own: none is closed while the next request is on its way.
        return Response(data, status, {"connection": "close"}, "application/json")

    return reply


def _remove(place: Path) -> None:
    with suppress(OSError):
        place.unlink()


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
