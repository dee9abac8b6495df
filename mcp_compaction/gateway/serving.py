"""Serves a gateway on loopback: in the background of a program, or until a signal."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from mcp_compaction.errors import InputError
from mcp_compaction.gateway.door import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Generator

    from mcp_compaction.gateway.app import Gateway

_FINISHING = 5  # seconds for answers that are on the way at the end


@contextmanager
def open_listener(port: int = 0) -> Generator[socket.socket]:
    """A socket that only this machine reaches; port 0 takes a free one."""
    try:
        listener = socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise InputError(
            f"cannot listen on port {port} ({error.strerror}); pass another --port."
        ) from error
    with listener:
        yield listener


@asynccontextmanager
async def serve(gateway: Gateway, listener: socket.socket) -> AsyncGenerator[None]:
    """Serve a gateway until the end of the block; it has its connections closed then."""
    server = _Quiet(
        uvicorn.Config(
            gateway,
            loop="asyncio",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_FINISHING,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await task


class _Quiet(uvicorn.Server):
    """A server that leaves signals to the program it is part of."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield
