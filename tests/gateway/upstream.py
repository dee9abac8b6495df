"""A provider on loopback whose every byte a test decides, and a gateway before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2

from mcp_compaction.door import open_listener, serve
from mcp_compaction.gateway.app import Gateway
from mcp_compaction.gateway.starting import GatewayAddress, make_secret
from mcp_compaction.gateway.turns import CallTurns


@dataclass(slots=True)
class Asked:
    """A request as it came to the provider."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader  # what comes after it: nothing, until the client is gone


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Provider:
    """Where it is, and what it was asked."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])


@asynccontextmanager
async def provide(answer: Answer, *, remembers: bool = True) -> AsyncGenerator[Provider]:
    """A provider that answers every request as a test says."""
    provider = Provider()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _read_request(reader)) is not None:
                if remembers:
                    provider.asked.append(asked)
                await answer(asked, writer)
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass  # it was cut off
        finally:
            writer.close()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()


async def _read_request(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines) if k}
    body = b""
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    elif headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    return Asked(method, path, headers, body, reader)


def write_head(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str]) -> None:
    """Write the status and the headers of an answer."""
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))


def write_whole(
    writer: asyncio.StreamWriter, body: bytes, status: int = 200, **headers: str
) -> None:
    """Write a whole answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    write_head(writer, status, {"content-length": str(len(body)), **named})
    writer.write(body)


def write_chunk(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Write a piece of an answer whose length is not known before."""
    writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


@asynccontextmanager
async def open_gateway(
    upstream: str, turns: CallTurns | None = None
) -> AsyncGenerator[tuple[httpx2.AsyncClient, Gateway]]:
    """A gateway before a provider, and a client whose base URL it is."""
    with open_listener() as listener:
        address = GatewayAddress(listener.getsockname()[1], make_secret())
        gateway = Gateway(address, {"api": upstream}, turns)
        async with (
            serve(gateway, listener),
            httpx2.AsyncClient(
                base_url=address.url_of("api"), trust_env=False, verify=False, timeout=60
            ) as client,
        ):
            yield client, gateway
