"""What passes through the gateway is what was sent, on both ways."""

from __future__ import annotations

import asyncio
import os

import httpx2
import pytest

from mcp_compaction.gateway.starting import HEADER
from tests.gateway.upstream import (
    Asked,
    open_gateway,
    provide,
    write_chunk,
    write_head,
    write_whole,
)

pytestmark = pytest.mark.anyio

EVENTS = [f"event: ping\ndata: {n}\n\n".encode() for n in range(50)]


async def test_a_stream_passes_byte_for_byte_and_piece_by_piece() -> None:
    heard = asyncio.Event()

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        write_head(writer, 200, {"transfer-encoding": "chunked", "x-request-id": "req_1"})
        write_chunk(writer, EVENTS[0])
        await writer.drain()
        await heard.wait()  # the rest is only written once the first piece has arrived
        for event in EVENTS[1:]:
            write_chunk(writer, event)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with provide(answer) as provider, open_gateway(provider.url) as (client, _):
        async with client.stream("POST", "/v1/messages?beta=true", content=b"{}") as response:
            got = b""
            async for piece in response.aiter_raw():
                heard.set()
                got += piece
        assert got == b"".join(EVENTS)
        assert response.headers["x-request-id"] == "req_1"
        assert provider.asked[0].path == "/v1/messages?beta=true"


async def test_headers_pass_but_for_those_of_the_connection() -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        write_whole(writer, b"{}", set_cookie="a=1")

    async with provide(answer) as provider, open_gateway(provider.url) as (client, _):
        sent = {"x-api-key": "k", "anthropic-beta": "a,b", "x-unknown": "y", "te": "trailers"}
        response = await client.post("/v1/any%2Fthing", content=b"abc", headers=sent)
        asked = provider.asked[0]
        assert asked.path == "/v1/any%2Fthing"
        assert asked.body == b"abc"
        assert {name: asked.headers.get(name) for name in sent} == {**sent, "te": None}
        assert asked.headers["host"] in provider.url
        assert asked.headers["user-agent"] == client.headers["user-agent"]
        assert response.headers["set-cookie"] == "a=1"
        assert "date" not in response.headers


@pytest.mark.parametrize("share", [0.1 * n for n in range(10)])
async def test_a_stream_that_breaks_off_breaks_off_for_the_host(share: float) -> None:
    whole = b"".join(EVENTS)
    part = whole[: int(share * len(whole))]

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        write_head(
            writer, 200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        )
        if part:
            write_chunk(writer, part)
        writer.close()

    async with provide(answer) as provider, open_gateway(provider.url) as (client, _):
        got = b""

        async def read() -> None:
            nonlocal got
            async with client.stream("POST", "/v1/messages", content=b"{}") as response:
                async for piece in response.aiter_raw():
                    got += piece

        with pytest.raises(httpx2.RemoteProtocolError):
            await read()
        assert got == part


async def test_a_provider_that_is_not_there_is_an_error_and_no_empty_answer() -> None:
    async with open_gateway("http://127.0.0.1:1") as (client, _):
        response = await client.post("/v1/messages", content=b"{}")
        assert response.status_code == 502
        assert "cannot be reached" in response.json()["error"]["message"]


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_client_that_leaves_cancels_what_the_provider_is_asked(has_begun: bool) -> None:
    came, left = asyncio.Event(), asyncio.Event()

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if has_begun:
            write_head(writer, 200, {"transfer-encoding": "chunked"})
            write_chunk(writer, b"begun")
            await writer.drain()
        came.set()
        assert await asked.reader.read() == b""
        left.set()

    async with provide(answer) as provider, open_gateway(provider.url) as (client, _):
        asking = asyncio.create_task(client.post("/v1/messages", content=b"{}", timeout=None))
        await came.wait()
        asking.cancel()
        async with asyncio.timeout(60):
            await left.wait()


async def test_a_slow_reader_slows_the_provider_down() -> None:
    piece = os.urandom(2**16)
    written = 0

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        write_head(writer, 200, {"content-length": str(2**30)})
        while written < 2**30:
            writer.write(piece)
            await writer.drain()
            written += len(piece)

    async with provide(answer) as provider, open_gateway(provider.url) as (client, _):
        async with client.stream("GET", "/v1/files/1") as response:
            got = 0
            async for some in response.aiter_raw():
                got += len(some)
                if got > 2**22:
                    break
            # The provider goes on until every buffer between is full, and no further.
            before = -1
            while before != written:
                before = written
                for _ in range(200):
                    await asyncio.sleep(0)
        assert written < 2**27


async def test_the_secret_may_come_in_a_header_which_goes_no_further() -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        write_whole(writer, b"{}")

    async with provide(answer) as provider, open_gateway(provider.url) as (client, gateway):
        url = f"{gateway.address.open_url_of('api')}/v1/responses"
        for wrong in ({}, {HEADER: "guess"}, {HEADER: ""}):
            assert (await client.post(url, content=b"{}", headers=wrong)).status_code == 401
        assert provider.asked == []
        right = {HEADER: gateway.address.secret}
        assert (await client.post(url, content=b"{}", headers=right)).status_code == 200
        assert (await client.get(url, headers=right)).status_code == 200
    assert [one.path for one in provider.asked] == ["/v1/responses"] * 2
    assert not any(HEADER in one.headers for one in provider.asked)


async def test_the_gateway_listens_on_loopback_only() -> None:
    async with open_gateway("http://127.0.0.1:1") as (_, gateway):
        assert gateway.address.url_of("api").startswith("http://127.0.0.1:")
