"""The one door of all that listens: each request meets the same checks in the same order.

Other names for this server and pages of other sites come first, then who does not show the secret,
then one connection too many, then a body that is too large. What is refused is always said in one
form: that of the providers' errors, which hosts show.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_compaction.connections import may_stay
from mcp_compaction.errors import StoreError

logger = logging.getLogger(__name__)

Admit = Callable[[Scope], Awaitable[Scope | None]]
"""The request without the secret that it shows; None where it shows none."""

LOOPBACK: Final = "127.0.0.1"
_HEADERS = {
    401: (b"www-authenticate", b'Bearer error="invalid_token"'),
    503: (b"retry-after", b"2"),
}
_LOOPBACK_NAMES = (LOOPBACK, "localhost", "[::1]")


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
