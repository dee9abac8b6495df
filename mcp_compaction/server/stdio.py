"""Serves an MCP server over a wire, and closes what it opened before its time is up.

The SDK's own stdio transport drops what it cannot read, dies of a reply it cannot write and waits
for every thread at the end; so the messages are carried here. Import it after `claim`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import MCPServer
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mcp_compaction.server import front
from mcp_compaction.server.wire import Wire, refuse

# Within the lifeline's 1.3 s: first what was asked is finished, then the rest is cancelled, and
# what remains is for closing the store.
FINISHING = 0.5
CANCELLING = 0.3

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def serve_stdio(wire: Wire, build: Callable[[], MCPServer[Any]]) -> int:
    """Serve until the host leaves or asks for the end; the exit code of an orderly end is 0."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    if not wire.over:
        asyncio.run(_serve(wire, build()))
    return 0


class _Unanswered:
    """The requests that the host still waits for."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._none = asyncio.Event()
        self._none.set()

    def note_received(self, message: JSONRPCMessage) -> None:
        match message:
            # It is answered by the end itself.
            case JSONRPCRequest(method="subscriptions/listen"):
                pass
            case JSONRPCRequest(id=id):
                self._ids.add(id)
                self._none.clear()
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": id}):
                self._settle(id)
            case _:
                pass

    def note_sent(self, message: JSONRPCMessage) -> None:
        if not isinstance(message, JSONRPCRequest | JSONRPCNotification):
            self._settle(message.id)

    async def wait(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._none.wait()

    def _settle(self, id: object) -> None:
        self._ids = {one for one in self._ids if one != id}
        if not self._ids:
            self._none.set()


async def _serve(wire: Wire, server: MCPServer[Any]) -> None:
    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    ended = asyncio.Event()
    async with low.lifespan(low) as state:
        loop = partial(
            serve_dual_era_loop,
            low,
            lifespan_state=state,
            init_options=low.create_initialization_options(),
        )
        carrying = asyncio.create_task(_carry(wire, loop, ended))
        ending = asyncio.create_task(ended.wait())
        await asyncio.wait({carrying, ending}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({carrying}, timeout=CANCELLING)
    if not carrying.done():
        # A tool's thread cannot be cancelled; all else is closed.
        os._exit(0)
    ending.cancel()
    carrying.result()


async def _carry(wire: Wire, loop: Callable[..., Any], ended: asyncio.Event) -> None:
    unanswered = _Unanswered()
    to_server, from_host = anyio.create_memory_object_stream[SessionMessage | Exception]()
    from_server, to_host = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, wire, to_server, unanswered, ended)
        tasks.start_soon(_send, wire, to_host, unanswered)
        try:
            await loop(from_host, from_server)
        finally:
            # Frees the thread that reads; whatever runs from now on runs against the clock.
            wire.stop()


async def _receive(
    wire: Wire,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    unanswered: _Unanswered,
    ended: asyncio.Event,
) -> None:
    # A limiter of its own: tools in threads must not be able to use up the wire's.
    limiter = anyio.CapacityLimiter(1)
    in_thread = partial(anyio.to_thread.run_sync, abandon_on_cancel=True, limiter=limiter)
    async with to_server:
        while line := await in_thread(wire.readline):
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                if '"method"' in line:
                    await in_thread(wire.send, refuse(line, "not a message of MCP").text)
                continue
            unanswered.note_received(message)
            await to_server.send(SessionMessage(message))
        if not wire.over:
            await unanswered.wait(FINISHING)
        ended.set()


async def _send(
    wire: Wire, to_host: MemoryObjectReceiveStream[SessionMessage], unanswered: _Unanswered
) -> None:
    limiter = anyio.CapacityLimiter(1)
    in_thread = partial(anyio.to_thread.run_sync, abandon_on_cancel=True, limiter=limiter)
    async with to_host:
        async for item in to_host:
            if not wire.is_for_nobody(_id_answered(item.message)):
                line = _as_line(item.message)
                await in_thread(wire.send, line)
            unanswered.note_sent(item.message)


def _id_answered(message: JSONRPCMessage) -> object:
    """The id of the request that a message answers, whole or at first; None: of none."""
    match message:
        case JSONRPCNotification(method=front.ACKNOWLEDGED, params={"_meta": {**meta}}):
            return meta.get(front.SUBSCRIPTION)
        case JSONRPCRequest() | JSONRPCNotification():
            return None
        case _:
            return message.id


def _as_line(message: JSONRPCMessage) -> str:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True)
    except ValueError:
        return _LONE_SURROGATE.sub("\ufffd", _as_line_or_error(message))


def _as_line_or_error(message: JSONRPCMessage) -> str:
    try:
        fields = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        fault = ErrorData(code=INTERNAL_ERROR, message=f"the reply cannot be written: {error}")
        id = getattr(message, "id", None)
        return JSONRPCError(jsonrpc="2.0", id=id, error=fault).model_dump_json(exclude_unset=True)
