"""The four servers that listen, each opened in this process behind its door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction import viewer as viewer
from mcp_compaction.door import ConnectionLimits, open_listener, serve
from mcp_compaction.formats import Incoming, IncomingMessage
from mcp_compaction.gateway.app import Gateway
from mcp_compaction.gateway.starting import GatewayAddress
from mcp_compaction.ports import SessionKey
from mcp_compaction.server.http import ServerAddress, build_app, ensure_token
from mcp_compaction.settings import load_settings
from mcp_compaction.view_service.listening import serve_views
from mcp_compaction.wiring import open_workspace
from tests.gateway.upstream import Asked, provide, write_whole
from tests.server.host import HELLO
from tests.server.talking import SMALL, talk

FEW = ConnectionLimits(waiting_of_peer=16, waiting=16, admitted=8)
PATIENCE = 60  # seconds, only a net


@dataclass(frozen=True)
class Opened:
    """A server, and a request that it answers with 200."""

    port: int
    token: str
    path: str = "/"
    body: bytes = b""
    method: str = "POST"
    has_token_in_path: bool = False
    most_body: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What a well-behaved client sends."""
        good = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Connection": "close",
        }
        return good if self.has_token_in_path else {**good, "Authorization": f"Bearer {self.token}"}

    def with_token(self, token: str) -> Opened:
        """The same request with another token."""
        return replace(self, token=token, path=self.path.replace(self.token, token))

    def bytes_of(self, body: bytes | None = None, **changes: str) -> bytes:
        """The request as it goes over the wire."""
        body = self.body if body is None else body
        headers = {**self.headers, "Content-Length": str(len(body)), **changes}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def say(self, sent: bytes) -> tuple[int, bytes]:
        """The status and the body that come back; 0 where the server only closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(sent)
            said = await asyncio.wait_for(reader.read(), PATIENCE)
        except ConnectionError:  # closed before it had read all, and its answer is lost with that
            return 0, b""
        finally:
            writer.close()
        head, _, body = said.partition(b"\r\n\r\n")
        return (int(head.split()[1]) if said else 0), body

    async def ask(self, body: bytes | None = None, **changes: str) -> tuple[int, bytes]:
        """The answer to the request, with what is wrong with it."""
        return await self.say(self.bytes_of(body, **changes))


@asynccontextmanager
async def open_page(
    folder: Path, key: viewer.PageKey, limits: ConnectionLimits | None = None
) -> AsyncGenerator[Opened]:
    """The page of a store with one session."""

    async def audit() -> dict[str, Any]:
        return {}

    work = await open_workspace(load_settings({"MCP_COMPACTION_HOME": str(folder)}))
    info, _ = await compactor.open_session(work, SessionKey(project="/p", name="a"))
    said = IncomingMessage(shape="anthropic", raw='{"role": "user", "content": "Hello."}')
    await compactor.record(work, info, Incoming(messages=(said,)))
    with open_listener() as listener:
        port = listener.getsockname()[1]
        async with serve(viewer.build_app(work, key, port, audit), listener, limits):
            yield Opened(port, key.token, "/api/sessions", method="GET", most_body=2**14)
    await work.store.close()


def _open_viewer(folder: Path, limits: ConnectionLimits) -> AbstractAsyncContextManager[Opened]:
    return open_page(folder, viewer.PageKey(), limits)


@asynccontextmanager
async def _open_gateway(_: Path, limits: ConnectionLimits) -> AsyncGenerator[Opened]:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        write_whole(writer, b"{}")

    async with provide(answer) as provider:
        with open_listener() as listener:
            address = GatewayAddress(listener.getsockname()[1], "secret-of-this-run")
            path = f"/{address.secret}/api/v1/models"
            async with serve(Gateway(address, {"api": provider.url}), listener, limits):
                yield Opened(address.port, address.secret, path, has_token_in_path=True)


@asynccontextmanager
async def _open_module(folder: Path, limits: ConnectionLimits) -> AsyncGenerator[Opened]:
    async def answer(path: str, body: dict[str, Any]) -> object:
        return {path: body}

    place = folder / "views.json"
    folder.chmod(0o700)
    async with serve_views([place], answer, 0.3, limits):
        told = json.loads(place.read_text(encoding="utf-8"))
        port = int(told["url"].rpartition(":")[2])
        yield Opened(port, told["token"], "/opencode/view", b"{}", most_body=2**26)


@asynccontextmanager
async def open_plugin(folder: Path) -> AsyncGenerator[Opened]:
    """The module's door with all that is behind it, in the server that a host starts."""
    folder.chmod(0o700)
    place = folder / "views.json"
    environ = {"HOME": str(folder), "MCP_COMPACTION_VIEWS": str(place)}
    async with talk(folder, environ=environ):
        told = json.loads(place.read_text(encoding="utf-8"))
        port = int(told["url"].rpartition(":")[2])
        yield Opened(port, told["token"], "/opencode/record", b'{"session": "s"}')


@asynccontextmanager
async def _open_http(folder: Path, limits: ConnectionLimits) -> AsyncGenerator[Opened]:
    settings = load_settings({"MCP_COMPACTION_HOME": str(folder), **SMALL})
    token = ensure_token(folder)
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    with open_listener() as listener:
        port = listener.getsockname()[1]
        app = build_app(settings, "/one", {}, ServerAddress(port=port), token)
        async with serve(app, listener, limits):
            yield Opened(port, token, "/mcp", json.dumps(body).encode(), most_body=2**22)


OpenDoor = Callable[[Path, ConnectionLimits], AbstractAsyncContextManager[Opened]]
all_doors = pytest.mark.parametrize(
    "open_door",
    [
        pytest.param(_open_viewer, id="viewer"),
        pytest.param(_open_gateway, id="gateway"),
        pytest.param(_open_module, id="module"),
        pytest.param(_open_http, id="http"),
    ],
)
