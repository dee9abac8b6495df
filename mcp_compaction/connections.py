"""Serves HTTP on few connections: those that have shown the secret, and some that have not yet.

Any program on the machine may connect. Until a request with the secret (a token, or the path of a
gateway) has come over it, a connection has a few seconds for that, and the oldest gives way when
too many wait.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

import anyio
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from mcp_compaction.errors import InputError

if sys.platform != "win32":
    import resource

T = TypeVar("T", bound=Hashable)

_STATE = "mcp_compaction.connection"
_MOST_HEAD = 2**16  # bytes
_QUEUE = 1024  # connections that the system holds until they are taken in
_USUAL_FILES = 1024  # that a process may have open
_FINISHING = 3  # seconds for what was asked before the end
_FINISHING_BESIDE = 0.3  # the same where a program waits that does more than serve


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The most connections that are held, and the time one has to show the secret."""

    seconds_to_secret: float = 10.0
    waiting_of_peer: int = 64
    waiting: int = 256
    admitted: int = 100
    # Far below those of a peer that may wait, so that who was accepted is read before it gives way.
    accepted_at_once: int = 16

    def within(self, files: int) -> ConnectionLimits:
        """The same where a process may have fewer files open than usual: all the smaller."""
        share = min(1.0, files / _USUAL_FILES)
        return ConnectionLimits(
            self.seconds_to_secret,
            waiting_of_peer=max(1, int(share * self.waiting_of_peer)),
            waiting=max(1, int(share * self.waiting)),
            admitted=max(1, int(share * self.admitted)),
            accepted_at_once=max(1, int(share * self.accepted_at_once)),
        )


@contextmanager
def open_listener(port: int = 0, host: str = "127.0.0.1") -> Generator[socket.socket]:
    """A socket that listens, closed afterwards; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot listen on {host}, port {port} ({getattr(error, 'strerror', error)}): pass "
            "another --port, or 0 for a free one."
        ) from error
    with listener:
        yield listener


def most_files() -> int:
    """How many files this process may have open."""
    if sys.platform == "win32":
        return _USUAL_FILES
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _USUAL_FILES if most == resource.RLIM_INFINITY else most


class BoundedServer(uvicorn.Server):
    """Serves an application within limits, and those of its process; more may queue before it.

    `on_cut`: hears of each connection that was cut before it had shown the secret.
    """

    def __init__(
        self,
        app: Callable[..., Any],
        limits: ConnectionLimits | None = None,
        on_cut: Callable[[], None] = lambda: None,
        **changes: Any,
    ) -> None:
        if isinstance(app, Starlette):  # whose router would name a stranger's host before the door
            app.router.redirect_slashes = False
        fitting = (limits or ConnectionLimits()).within(most_files())
        lobby = Lobby[Connection](fitting, on_cut)
        options: dict[str, Any] = {
            "http": partial(Connection, lobby),
            "loop": "asyncio",
            "ws": "none",
            "lifespan": "on",
            "log_config": None,
            "log_level": "warning",
            "access_log": False,
            "proxy_headers": False,
            "server_header": False,
            "backlog": fitting.accepted_at_once,
            "h11_max_incomplete_event_size": _MOST_HEAD,
            "timeout_graceful_shutdown": _FINISHING,
        }
        super().__init__(uvicorn.Config(app, **{**options, **changes}))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        # asyncio takes one number for both; who finds no place in the queue waits for a second.
        for listener in sockets or ():
            listener.listen(_QUEUE)


@asynccontextmanager
async def serve(
    app: Callable[..., Any],
    listener: socket.socket,
    limits: ConnectionLimits | None = None,
    on_cut: Callable[[], None] = lambda: None,
) -> AsyncGenerator[None]:
    """Serve in the background of a program until the end of the block."""
    server = _BackgroundServer(app, limits, on_cut)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.ended.set()
        with anyio.CancelScope(shield=True):
            await task


class _BackgroundServer(BoundedServer):
    """A server that leaves signals to its program, and wakes up for requests alone."""

    def __init__(self, *given: Any) -> None:
        options = {"log_level": "critical", "date_header": False}
        super().__init__(*given, **options, timeout_graceful_shutdown=_FINISHING_BESIDE)
        self.ended = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield

    async def main_loop(self) -> None:
        """Wait for the end."""
        await self.ended.wait()


def may_stay(scope: Mapping[str, Any]) -> bool:
    """Whether the connection of a request that has shown the secret is held."""
    connection = cast("Connection | None", scope.get("state", {}).get(_STATE))
    return connection is None or connection.admit()


class Lobby(Generic[T]):
    """The connections there are: those waiting, oldest first, and those admitted."""

    def __init__(self, limits: ConnectionLimits, on_cut: Callable[[], None] = lambda: None) -> None:
        self.limits = limits
        self.on_cut = on_cut
        self.waiting: dict[T, str] = {}
        self.admitted: set[T] = set()

    def enter(self, connection: T, peer: str) -> T | None:
        """Have a connection wait; the one that must give way for it, if any."""
        self.waiting[connection] = peer
        held = Counter(self.waiting.values())
        if held[peer] > self.limits.waiting_of_peer:
            return self._take_oldest(peer)
        if len(self.waiting) > self.limits.waiting:
            return self._take_oldest(held.most_common(1)[0][0])
        return None

    def admit(self, connection: T) -> bool:
        """Whether a connection that has shown the secret may stay; it no longer waits."""
        self.waiting.pop(connection, None)
        if connection not in self.admitted and len(self.admitted) >= self.limits.admitted:
            return False
        self.admitted.add(connection)
        return True

    def leave(self, connection: T) -> None:
        """Forget a connection that is closed."""
        self.waiting.pop(connection, None)
        self.admitted.discard(connection)

    def _take_oldest(self, peer: str) -> T:
        oldest = next(connection for connection, of in self.waiting.items() if of == peer)
        del self.waiting[oldest]
        return oldest


class Connection(H11Protocol):
    """One HTTP connection, which is cut unless the secret comes in time for each request."""

    def __init__(self, lobby: Lobby[Connection], **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self.app_state = {**self.app_state, _STATE: self}
        self._lobby = lobby
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the secret."""
        super().connection_made(transport)
        gives_way = self._lobby.enter(self, self.client[0] if self.client else "")
        if gives_way is not None:
            gives_way.cut()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._lobby.leave(self)
        self._drop_deadline()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Have the next request come in time too; who never showed the secret gets no more time."""
        if self in self._lobby.admitted:
            self._set_deadline()
        super().on_response_complete()

    def admit(self) -> bool:
        """Whether the request that has just shown the secret is served."""
        self._drop_deadline()
        return self._lobby.admit(self)

    def cut(self) -> None:
        """Close a connection at once that has not shown the secret."""
        self._lobby.on_cut()
        self.transport.abort()

    def _set_deadline(self) -> None:
        self._drop_deadline()
        # A request that came while the loop was busy is admitted before the second step.
        two_steps = partial(self.loop.call_soon, self._cut_if_due)
        self._deadline = self.loop.call_later(self._lobby.limits.seconds_to_secret, two_steps)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_if_due(self) -> None:
        if self._deadline is None:
            return
        if self in self._lobby.admitted:
            self.transport.abort()
        else:
            self.cut()
