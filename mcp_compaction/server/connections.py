"""HTTP connections that are held: those that have shown the token, and a few that have not yet.

Any program on the machine may connect. Until a request with the token has come over it, a
connection has a few seconds for that, and the oldest gives way when too many wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

T = TypeVar("T", bound=Hashable)

_STATE = "mcp_compaction.connection"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most connections that are held, and the time one has to show the token."""

    seconds_to_token: float = 10.0
    waiting_of_peer: int = 64
    waiting: int = 256
    admitted: int = 100


class Lobby(Generic[T]):
    """The connections there are: those waiting, oldest first, and those admitted."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
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
        """Whether a connection that has shown the token may stay; it no longer waits."""
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
    """One HTTP connection, which is cut unless the token comes in time for each request."""

    def __init__(self, lobby: Lobby[Connection], **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self.app_state = {**self.app_state, _STATE: self}
        self._lobby = lobby
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the token."""
        super().connection_made(transport)
        gives_way = self._lobby.enter(self, self.client[0] if self.client else "")
        if gives_way is not None:
            gives_way.transport.abort()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._lobby.leave(self)
        self._drop_deadline()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Have the next request come in time too; who never showed the token gets no more time."""
        if self in self._lobby.admitted:
            self._set_deadline()
        super().on_response_complete()

    def admit(self) -> bool:
        """Whether the request that has just shown the token is served."""
        self._drop_deadline()
        return self._lobby.admit(self)

    def _set_deadline(self) -> None:
        self._drop_deadline()
        # A request that came while the loop was busy is admitted before the second step.
        two_steps = partial(self.loop.call_soon, self._cut_if_due)
        self._deadline = self.loop.call_later(self._lobby.limits.seconds_to_token, two_steps)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_if_due(self) -> None:
        if self._deadline is not None:
            self.transport.abort()


@dataclass(frozen=True, slots=True)
class Admission:
    """ASGI middleware behind the check of the token: admits the connection a request came by."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or say that too many connections are open."""
        connection = cast("Connection | None", scope.get("state", {}).get(_STATE))
        has_token = isinstance(scope.get("user"), AuthenticatedUser)
        if connection is None or not has_token or connection.admit():
            await self.app(scope, receive, send)
            return
        full = PlainTextResponse(
            "too many connections are open; close one, or ask again later.\n",
            status_code=503,
            headers={"Connection": "close", "Retry-After": "1"},
        )
        await full(scope, receive, send)
