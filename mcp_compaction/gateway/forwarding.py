"""Passes requests on to a provider and its answers back, byte for byte and as they come; and counts
what a gateway did.

Nothing is buffered, so that a slow reader slows the provider down. Credentials are in the headers,
which are neither kept nor logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx2

FITTED = "requests sent with our records in them"
AS_IT_CAME = "requests passed as they came"
SIDE = "side calls passed"
NAMELESS = "requests that named no chat, passed as they came"
UNREADABLE = "requests that could not be read, passed as they came"
TORN = "requests with a history that has no beginning, passed as they came"
PART = "requests that brought only what is new, passed as they came"
ASKED_FOR_ALL = "requests that brought only what is new, answered by asking for all"
SLOW = "took too long, sent with the last records or as they came"
FAILED = "failed, sent with the last records or as they came"
NOT_RECORDED = "requests that could not be recorded"
REPLAYED = "made smaller and sent again after an overflow"
WITHOUT_THINKING = "refused for their thinking, and sent again without it"
STILL_REFUSED = "refused again without their thinking"
NOT_ALLOWED = "refused with our records in them, and accepted as they came"
CUT = "connections cut that asked for nothing in time"
COMPACTED = "compactions"
BY_OTHERS = "compactions that the agent asked for or the host made"
COMPACTION_FAILED = "compactions that failed"

PASSED = {"aside": SIDE, "torn": TORN, "part": PART}
"""How calls are counted that are of no conversation as it stands, by their kinds."""

_WHOLE = "this gateway fits whole conversations; send all messages, without `thread`."
_DETAILS = {"error_code": "thread_unsupported_request"}  # by which Claude Code does so
_ERROR = {"type": "invalid_request_error", "message": _WHOLE, "details": _DETAILS}
SEND_ALL = json.dumps({"type": "error", "error": _ERROR}).encode()
"""What a host is answered that is to send a whole history, in its provider's words."""

# With --shadow, where nothing is changed.
WOULD_FIT = "requests that would have been sent with our records in them"
WOULD_REPLAY = "requests that would have been made smaller and sent again after an overflow"
WOULD_COMPACT = "compactions that would have been made"

Headers = list[tuple[bytes, bytes]]

_CONNECT_SECONDS = 30.0
_MOST_CONNECTIONS = 200
# RFC 9110, 7.6.1: they are about one connection, not about the message.
_OF_CONNECTION = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)


def say_counts(counts: Mapping[str, int]) -> str:
    """A line on what the gateway has counted so far."""
    said = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(counts.items()))
    return said or "no call of a model"


class Unreachable(Exception):
    """No answer came from the provider; nothing of one has been passed on."""


class ProviderRequest(NamedTuple):
    """One request as it goes to a provider."""

    method: str
    url: str
    headers: Headers
    body: bytes | AsyncIterable[bytes]


class Forwarder:
    """The HTTP client of a gateway, shared by all its requests."""

    def __init__(self) -> None:
        for name in ("httpx2", "httpcore2"):
            # They log addresses and headers, in which a key may stand.
            logging.getLogger(name).setLevel(logging.WARNING)
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=_MOST_CONNECTIONS),
            follow_redirects=False,
        )

    @asynccontextmanager
    async def send(self, asked: ProviderRequest) -> AsyncGenerator[httpx2.Response]:
        """The answer to a request, its body still on the way; left early, it is cancelled."""
        # Made here and not by the client, which would add headers of its own.
        request = httpx2.Request(asked.method, asked.url, headers=asked.headers, content=asked.body)
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.TransportError as error:
            raise Unreachable(type(error).__name__) from error
        try:
            yield response
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def headers_to_provider(headers: Sequence[tuple[bytes, bytes]], length: int | None) -> Headers:
    """The headers of a host's request as they go on.

    `length`: of a body that may have been changed; None: the body is passed as it comes.
    """
    dropped = {b"host"}
    if length is not None:
        dropped.add(b"content-length")
    kept = _without_connection(headers, dropped)
    return kept if length is None else [*kept, (b"content-length", str(length).encode())]


def headers_to_host(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The headers of a provider's answer as they go back."""
    return _without_connection(headers, set())


def _without_connection(headers: Sequence[tuple[bytes, bytes]], dropped: set[bytes]) -> Headers:
    named = {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    left_out = _OF_CONNECTION | named | dropped
    return [(name, value) for name, value in headers if name.lower() not in left_out]
