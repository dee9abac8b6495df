"""The one door of all that listens: each request meets the same checks in the same order.

Other names for this server and pages of other sites come first, then who does not show the secret,
then one connection too many, then a body that is too large. What is refused is always said in one
form: that of the providers' errors, which hosts show.

Any program on the machine may connect. Until a request with the secret (a token, or the path of a
gateway) has come over it, a connection has a few seconds for that, and the oldest gives way when
too many wait.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mcp_compaction.errors import InputError, StoreError

if sys.platform != "win32":
    import resource

T = TypeVar("T", bound=Hashable)

_STATE = "mcp_compaction.connection"
_MOST_HEAD = 2**16  # bytes
_QUEUE = 1024  # connections that the system holds until they are taken in
_USUAL_FILES = 1024  # that a process may have open
_FINISHING = 3  # seconds for what was asked before the end
_FINISHING_BESIDE = 0.3  # the same where a program waits that does more than serve

logger = logging.getLogger(__name__)

Admit = Callable[[Scope], Awaitable[Scope | None]]
"""The request without the secret that it shows; None where it shows none."""

LOOPBACK: Final = "127.0.0.1"
_HEADERS = {
    401: (b"www-authenticate", b'Bearer error="invalid_token"'),
    503: (b"retry-after", b"2"),
}
_LOOPBACK_NAMES = (LOOPBACK, "localhost", "[::1]")


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


class RefusedRequest(NamedTuple):
    """Why a request is not answered, with the status that says so."""

    status: int
    why: str


_NO_PROXY = RefusedRequest(405, "this is no proxy; ask for a path.")
_NO_NAME = RefusedRequest(421, "this server has another name; ask by the address that it printed.")
_NO_PAGE = RefusedRequest(403, "pages of other sites are refused; ask from a program of yours.")
_NO_SECRET = RefusedRequest(401, "the token is missing or wrong; send Authorization: Bearer TOKEN.")
_TOO_MANY = RefusedRequest(503, "too many connections are open; close one, or ask again later.")
_TOO_LARGE = RefusedRequest(413, "the body is too large; send less at once.")
_UNAVAILABLE = RefusedRequest(503, "the store cannot be used now; try again later.")


class Names(NamedTuple):
    """The Host and Origin headers that are accepted; `box.lan:*` is that name with any port."""

    hosts: tuple[str, ...]
    origins: tuple[str, ...] = ()

    def find_refusal(self, scope: Scope) -> RefusedRequest | None:
        """Why a request is refused whoever sends it; None where it is not.

        A browser sends the Origin of a page, and for a name of another site that Host.
        """
        if not _is_listed(header_of(scope, b"host") or "", self.hosts):
            return _NO_NAME
        origin = header_of(scope, b"origin")
        return None if origin is None or _is_listed(origin, self.origins) else _NO_PAGE


def own_names(port: int, *, has_pages: bool = False) -> Names:
    """The names that this machine has for a server of its own, whose pages may ask it too."""
    hosts = tuple(f"{name}:{port}" for name in _LOOPBACK_NAMES)
    return Names(hosts, tuple(f"http://{host}" for host in hosts) if has_pages else ())


def _is_listed(given: str, listed: tuple[str, ...]) -> bool:
    return given in listed or f"{given.rpartition(':')[0]}:*" in listed


def header_of(scope: Scope, name: bytes) -> str | None:
    """A header of a request; one that comes twice is both, so that neither counts."""
    found = [value for key, value in scope["headers"] if key.lower() == name]
    return b", ".join(found).decode("latin-1") if found else None


def without_header(scope: Scope, name: bytes) -> Scope:
    """A request without a header: what nobody behind the door sees, nobody logs."""
    return {**scope, "headers": [pair for pair in scope["headers"] if pair[0].lower() != name]}


def is_secret(given: str, secret: str) -> bool:
    """Whether a secret is the right one, in a time that tells nothing of it."""
    return bool(secret) and hmac.compare_digest(given.encode(), secret.encode())


def bearer_of(scope: Scope) -> str:
    """The bearer token of a request; empty where there is none."""
    scheme, _, given = (header_of(scope, b"authorization") or "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def bearer(token: str) -> Admit:
    """Lets in who holds one token."""

    async def admit(scope: Scope) -> Scope | None:
        is_right = is_secret(bearer_of(scope), token)
        return without_header(scope, b"authorization") if is_right else None

    return admit


class Door:
    """An ASGI application that serves another one to who may come in."""

    def __init__(
        self,
        app: ASGIApp,
        names: Names | None,
        admit: Admit | None,
        most_body: int | None = None,
    ) -> None:
        """`names`, `admit`: None where anybody may ask by any name, or without a secret.

        `most_body`: the most bytes of a body, which is read before it is passed on; None passes
        it as it comes.
        """
        self._app = app
        self._names = names
        self._admit = admit
        self._most_body = most_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            shown = await self._look_at(scope)
            if self._most_body is not None and not isinstance(shown, RefusedRequest):
                body = await _read_body(scope, receive, self._most_body)
                if body is None:
                    return  # nobody is there to be answered
                shown = body if isinstance(body, RefusedRequest) else shown
                receive = _replay(body, receive) if isinstance(body, bytes) else receive
            if isinstance(shown, RefusedRequest):
                await refuse(send, shown)
            else:
                await self._app(shown, receive, send)
        except StoreError as error:
            logger.warning("%s", error)  # its text may name what strangers need not know
            await refuse(send, _UNAVAILABLE)

    async def _look_at(self, scope: Scope) -> Scope | RefusedRequest:
        if scope["method"] == "CONNECT":  # whose connection HTTP leaves behind its answer
            return _NO_PROXY
        refusal = self._names.find_refusal(scope) if self._names is not None else None
        if refusal is not None or self._admit is None:
            return refusal or scope
        shown = await self._admit(scope)
        if shown is None:
            return _NO_SECRET
        return shown if may_stay(scope) else _TOO_MANY


async def _read_body(scope: Scope, receive: Receive, most: int) -> bytes | RefusedRequest | None:
    """The body of a request; None where its client has left."""
    told = header_of(scope, b"content-length")
    if told is not None and int(told) > most:
        return _TOO_LARGE
    pieces: list[bytes] = []
    size = 0
    while (message := await receive())["type"] == "http.request":
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            return _TOO_LARGE
        if not message.get("more_body", False):
            return b"".join(pieces)
    return None


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def receive_again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_again


async def refuse(send: Send, refusal: RefusedRequest) -> None:
    """Answer that a request is not served, and close: what is left of it is not read."""
    told = {"type": "mcp_compaction_error", "message": f"mcp-compaction: {refusal.why}"}
    body = json.dumps({"type": "error", "error": told}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        *([_HEADERS[refusal.status]] if refusal.status in _HEADERS else []),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def read_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object that a body holds, half characters as U+FFFD; None where it holds none."""
    try:
        told: object = json.loads(body)
        if b"\\ud" in body.lower():
            whole = json.dumps(told, ensure_ascii=False).encode("utf-16", "surrogatepass")
            told = json.loads(whole.decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", told) if isinstance(told, dict) else None
