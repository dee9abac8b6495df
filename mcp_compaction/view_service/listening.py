"""Serves views to one program on this machine: over loopback, to who holds the token.

The program names a file in a folder of its user's; the address and the token are written there. It
sends one JSON object a request and reads one back: `null` where it should send its own messages.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import secrets
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from mcp_compaction.home import write_whole

logger = logging.getLogger(__name__)

_MOST_HEAD = 2**14
_MOST_BODY = 2**26
_PATIENCE = 10.0  # seconds for a request to arrive

Answer = Callable[[str, dict[str, Any]], Awaitable[object]]
"""What answers a request for a path; LookupError: there is no such path."""


class _Refused(Exception):
    """A request that is not answered, with the status to say so."""


class _Request(NamedTuple):
    path: str
    body: dict[str, Any]


@asynccontextmanager
async def serve_views(place: Path, answer: Answer, limit: float) -> AsyncGenerator[None]:
    """Serve until the end of the block; where the place is not the user's own, not at all."""
    if not _is_private(place.parent):
        logger.warning("%s is not a folder of yours alone: no views are served", place.parent)
        yield
        return
    token = secrets.token_urlsafe(32)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await _converse(reader, writer, token, answer)

    server: asyncio.Server | None = None
    try:
        server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=_MOST_HEAD)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        told = {"url": url, "token": token, "limit_ms": round(limit * 1000)}
        write_whole(place, json.dumps(told))
    except OSError as error:  # a disk that is full, say: all but the views is served
        logger.warning("no views are served: %s", error)
    try:
        yield
    finally:
        if server is not None:
            server.close()
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


async def _converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, answer: Answer
) -> None:
    """Answer the one request of a connection."""
    try:
        request = await asyncio.wait_for(_read(reader, token), _PATIENCE)
        status, told = "200 OK", await answer(request.path, request.body)
    except _Refused as refused:
        status, told = str(refused), None
    except LookupError:
        status, told = "404 Not Found", None
    except (TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        status, told = "400 Bad Request", None
    data = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
    writer.write(f"{head}\r\nconnection: close\r\n\r\n".encode() + data)
    await writer.drain()
    writer.close()


async def _read(reader: asyncio.StreamReader, token: str) -> _Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in _split(lines)}
    given = headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise _Refused("401 Unauthorized")
    if method != "POST":
        raise _Refused("405 Method Not Allowed")
    size = int(headers.get("content-length", ""))
    if not 0 <= size <= _MOST_BODY:
        raise _Refused("413 Content Too Large")
    body = json.loads(await reader.readexactly(size))
    if not isinstance(body, dict):
        raise ValueError("the body is no object")
    return _Request(path, body)


def _split(lines: list[str]) -> list[tuple[str, str, str]]:
    return [line.partition(":") for line in lines if line]
