"""The ASGI application: takes requests of a host in, passes them on, and streams answers back,
whatever fails of the turn that a request is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import anyio
import httpx2
from starlette.types import Receive, Scope, Send

from mcp_compaction.door import Door, RefusedRequest, own_names, refuse
from mcp_compaction.errors import SummarizerError
from mcp_compaction.gateway.calls import find_api
from mcp_compaction.gateway.forwarding import (
    Forwarder,
    Headers,
    ProviderRequest,
    Unreachable,
    headers_to_host,
    headers_to_provider,
)
from mcp_compaction.gateway.prose import is_paid_by_key, unless_limited
from mcp_compaction.gateway.starting import GatewayAddress
from mcp_compaction.gateway.turns import CallTurn, CallTurns

T = TypeVar("T")

_MOST_OF_ERROR = 2**20  # bytes of an error body that are looked at
_MAY_BE_MENDED = frozenset((400, 401, 403, 413, 422))  # by sending something else


class SafeTurn:
    """A turn whose faults are counted and change nothing of what passes."""

    def __init__(self, turn: CallTurn, note_fault: Callable[[Exception], None]) -> None:
        self._turn: CallTurn | None = turn  # None: it has failed
        self._note_fault = note_fault
        self.body = turn.out.body

    def narrow(self, headers: Headers) -> Headers:
        """The headers to send."""
        return self._try(lambda turn: turn.out.narrow(headers), headers)

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Have the turn hear that the provider answers."""

        def begin(turn: CallTurn) -> None:
            turn.begin_answer(status, headers)
            turn.ask_provider = unless_limited(turn.ask_provider, headers)

        self._try(begin, None)

    def hear(self, piece: bytes) -> None:
        """Have the turn hear a piece of the answer."""
        self._try(lambda turn: turn.hear(piece), None)

    def end(self, *, is_whole: bool) -> None:
        """Have the turn hear that nothing more comes."""
        self._try(lambda turn: turn.end(is_whole=is_whole), None)

    async def mend(
        self, status: int, error: bytes, headers: Mapping[str, str], *, is_again: bool
    ) -> bool:
        """Have the turn make another request after an error; says whether it has."""
        if self._turn is None:
            return False
        try:
            is_mended = await self._turn.mend(status, error, headers, is_again=is_again)
        except Exception as fault:  # noqa: BLE001  # the provider's error passes as it is
            self._note_fault(fault)
            return False
        self.body = self._turn.out.body
        return is_mended

    def _try(self, work: Callable[[CallTurn], T], otherwise: T) -> T:
        if self._turn is None:
            return otherwise
        try:
            return work(self._turn)
        except Exception as fault:  # noqa: BLE001  # what the host gets does not depend on it
            self._turn = None
            self._note_fault(fault)
            return otherwise


class _ClientLeft(Exception):
    """The host went away before it had sent its whole request."""


class _Request(NamedTuple):
    method: str
    path: str  # at the provider
    url: str
    headers: Headers
    receive: Receive
    send: Send


class Gateway:
    """Passes what a host sends on to its providers; calls of models may become smaller."""

    def __init__(
        self, address: GatewayAddress, upstreams: Mapping[str, str], turns: CallTurns | None = None
    ) -> None:
        """`upstreams`: the base URLs of the providers, by their names in our own."""
        self.address = address
        self._door = Door(self._serve, own_names(address.port), address.admit)
        self._upstreams = {name: url.rstrip("/") for name, url in upstreams.items()}
        self._turns = turns
        self._forwarder = Forwarder()
        self.requests = 0  # that came through the door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self._door(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._forwarder.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _readable(scope["headers"])
        upstream, slash, rest = scope["raw_path"].decode("latin-1").partition("/")
        if upstream not in self._upstreams:
            await refuse(
                send, RefusedRequest(404, "no provider has this path; start the host again.")
            )
            return
        self.requests += 1
        path = slash + rest
        query = bytes(scope["query_string"]).decode("latin-1")
        url = self._upstreams[upstream] + path + (f"?{query}" if query else "")
        request = _Request(scope["method"], path, url, scope["headers"], receive, send)
        is_call = self._turns is not None and request.method == "POST"
        if self._turns is not None and is_call and find_api(path) is not None:
            await self._pass_call(request, self._turns, headers)
        else:
            await self._pass_as_it_is(request)

    async def _pass_as_it_is(self, request: _Request) -> None:
        has_all = anyio.Event()
        asked = ProviderRequest(
            request.method,
            request.url,
            headers_to_provider(request.headers, None),
            _body_of(request, has_all),
        )

        async def run() -> None:
            async with self._forwarder.send(asked) as response:
                await _pass_answer(request, response, None)

        await _run_while_client_is_there(request, has_all, run)

    async def _pass_call(
        self, request: _Request, turns: CallTurns, headers: Mapping[str, str]
    ) -> None:
        has_all = anyio.Event()

        async def run() -> None:
            body = b"".join([piece async for piece in _body_of(request, has_all)])
            turn = await turns.begin(request.path, headers, body)
            if isinstance(turn, bytes):
                await _answer(request.send, turn)
                return
            if turn is not None and turns.has_prose and is_paid_by_key(headers):
                turn.ask_provider = partial(self._ask, request)
            safe = SafeTurn(turn, turns.note_fault) if turn is not None else None
            await self._exchange(request, safe, body)

        await _run_while_client_is_there(request, has_all, run)

    async def _ask(self, request: _Request, body: bytes) -> bytes:
        """The answer to a request of our own, with the key of the host's."""
        named = [one for one in request.headers if one[0].lower() != b"accept-encoding"]
        headers = headers_to_provider(named, len(body))
        asked = ProviderRequest(request.method, request.url, headers, body)
        async with self._forwarder.send(asked) as response:
            answer = await response.aread()
        if not response.is_success:
            raise SummarizerError(f"the provider refused it ({response.status_code})")
        return answer

    async def _exchange(
        self, request: _Request, turn: SafeTurn | None, body: bytes, *, is_again: bool = False
    ) -> None:
        body = turn.body if turn is not None else body
        headers = headers_to_provider(request.headers, len(body))
        headers = turn.narrow(headers) if turn is not None else headers
        asked = ProviderRequest(request.method, request.url, headers, body)
        async with self._forwarder.send(asked) as response:
            if turn is None or response.status_code not in _MAY_BE_MENDED:
                await _pass_answer(request, response, turn)
                return
            error, is_whole = await _read_error(response)
            is_mended = is_whole and await turn.mend(
                response.status_code, error, dict(response.headers), is_again=is_again
            )
            if not is_mended:
                await _pass_answer(request, response, turn, error)
                return
        await self._exchange(request, turn, body, is_again=True)


async def _read_error(response: httpx2.Response) -> tuple[bytes, bool]:
    """What was read of an error body, and whether that is all of it."""
    read = b""
    async for piece in response.aiter_raw():
        read += piece
        if len(read) > _MOST_OF_ERROR:
            return read, False
    return read, True


async def _pass_answer(
    request: _Request, response: httpx2.Response, turn: SafeTurn | None, begun: bytes = b""
) -> None:
    """Pass an answer on; where the provider breaks off, so does this.

    `begun`: what was read of its body already.
    """
    if turn is not None:
        turn.begin_answer(response.status_code, dict(response.headers))
    is_whole = False
    try:
        await request.send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": headers_to_host(response.headers.raw),
            }
        )
        if begun:
            await request.send({"type": "http.response.body", "body": begun, "more_body": True})
        if not response.is_stream_consumed:
            async for piece in response.aiter_raw():
                if turn is not None:
                    turn.hear(piece)
                await request.send({"type": "http.response.body", "body": piece, "more_body": True})
        await request.send({"type": "http.response.body", "body": b"", "more_body": False})
        is_whole = True
    except httpx2.TransportError:
        # Returning without an end makes the server close the connection: the host sees the cut.
        pass
    finally:
        if turn is not None:
            turn.end(is_whole=is_whole)


async def _answer(send: Send, error: bytes) -> None:
    """Answer with an error of a provider's form."""
    length = str(len(error)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": error, "more_body": False})


async def _body_of(request: _Request, has_all: anyio.Event) -> AsyncIterator[bytes]:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise _ClientLeft
        yield message.get("body", b"")
        if not message.get("more_body", False):
            has_all.set()
            return


async def _run_while_client_is_there(
    request: _Request, has_all: anyio.Event, run: Callable[[], Awaitable[None]]
) -> None:
    """Run an exchange; a client that leaves cancels it, and with it what the provider is asked."""

    async def watch() -> None:
        await has_all.wait()
        while (await request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        try:
            await run()
        except Unreachable as error:
            why = f"the provider cannot be reached ({error}); try again later."
            await refuse(request.send, RefusedRequest(502, why))
        except _ClientLeft:
            pass
        group.cancel_scope.cancel()


def _readable(headers: Headers) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
