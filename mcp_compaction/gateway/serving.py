"""Serves a gateway on loopback: in the background of a program, or until a signal."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from mcp_compaction.connections import BoundedServer, ConnectionLimits, bounded_config
from mcp_compaction.errors import InputError
from mcp_compaction.gateway.door import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Generator

    from mcp_compaction.gateway.app import Gateway

_FINISHING = 0.3  # seconds for answers that are on the way at the end
_LIMITS = ConnectionLimits(admitted=200)  # each with one to the provider


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
async def serve(
    gateway: Gateway,
    listener: socket.socket,
    limits: ConnectionLimits = _LIMITS,
    on_cut: Callable[[], None] = lambda: None,
) -> AsyncGenerator[None]:
    """Serve a gateway until the end of the block; it has its connections closed then.

    `on_cut`: hears of each connection that was cut before it had shown the secret.
    """
    server = _Quiet(
        bounded_config(
            gateway,
            limits,
            on_cut,
            log_level="critical",
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


class _Quiet(BoundedServer):
    """A server that leaves signals to the program it is part of."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield
