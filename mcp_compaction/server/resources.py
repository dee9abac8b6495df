"""Resources to read: sessions, the context to send, pins, digests, originals, and the page that a
host may show beside context_stats."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from mcp_compaction import compactor
from mcp_compaction.compactor.gauge import Stats
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.receipt import receipt_text
from mcp_compaction.core.digest.render import render_or_label
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.wording import kilo
from mcp_compaction.model import SessionInfo
from mcp_compaction.server.state import State, errors_as, state_of

Ctx = Context[State]

_JSON = "application/json"
_TEXT = "text/plain"
_MOST_SESSIONS = 50


def register(server: MCPServer[State], state: State) -> None:
    """Publish the resources."""

    @errors_as(ResourceNotFoundError)
    async def sessions() -> str:
        """The sessions of this project, the newest first."""
        work = await state.workspace()
        found = await compactor.list_sessions(work, state.project, _MOST_SESSIONS)
        return json.dumps([info.model_dump(mode="json") for info in found], ensure_ascii=False)

    for uri, title, kind, read in (
        ("compaction://sessions", "Sessions of this project", _JSON, sessions),
        ("compaction://{session}/context", "What the model should see now", _JSON, context),
        ("compaction://{session}/pinned", "The pinned block", _TEXT, pinned),
        ("compaction://{session}/digests", "All digests", _TEXT, digests),
        ("compaction://{session}/messages/{ref}", "A message, byte for byte", _JSON, message),
        ("compaction://{session}/receipts/{ref}", "A receipt", _TEXT, receipt),
        (URI, "The context window", MIME_TYPE, app),
    ):
        server.resource(uri, title=title, mime_type=kind)(read)


async def _find_session(ctx: Ctx, name: str) -> tuple[Workspace, SessionInfo]:
    state = state_of(ctx)
    work = await state.workspace()
    return work, await compactor.find_session(work, state.project, name)


async def app() -> str:
    """The page that a host may show beside what context_stats answers."""
    return read_app()


@errors_as(ResourceNotFoundError)
async def context(session: str, ctx: Ctx) -> str:
    """What the model should see now, in the Messages API's shape, ready to send."""
    work, info = await _find_session(ctx, session)
    return json.dumps(await compactor.context(work, info), ensure_ascii=False)


@errors_as(ResourceNotFoundError)
async def pinned(session: str, ctx: Ctx) -> str:
    """The pinned block of a session, word for word."""
    work, info = await _find_session(ctx, session)
    return pinned_block(p for p in await work.pins(info) if p.kind != "note")


@errors_as(ResourceNotFoundError)
async def digests(session: str, ctx: Ctx) -> str:
    """All digests ever made of a session, oldest first."""
    work, info = await _find_session(ctx, session)
    return "\n\n".join(map(render_or_label, await work.store.digests(info.id)))


@errors_as(ResourceNotFoundError)
async def message(session: str, ref: str, ctx: Ctx) -> str:
    """The original JSON of a message, byte for byte."""
    work, info = await _find_session(ctx, session)
    number = number_of(ref, "m")
    found = await compactor.originals(work, info, f"m{number}")
    return found[0].message.raw


@errors_as(ResourceNotFoundError)
async def receipt(session: str, ref: str, ctx: Ctx) -> str:
    """What a compaction did."""
    work, info = await _find_session(ctx, session)
    number = number_of(ref, "c")
    for known in await compactor.receipts(work, info):
        if known.compaction == number:
            return receipt_text(known, state_of(ctx).mode(ctx, info), info.name)
    raise ResourceNotFoundError(f"no compaction {ref} in {session}; read its digests instead.")


URI: Final = "ui://mcp-compaction/window"
MIME_TYPE: Final = "text/html;profile=mcp-app"
KEY: Final = "mcp-compaction/window"


def read_app() -> str:
    """The page, which is whole in itself and loads nothing."""
    return files("mcp_compaction.server").joinpath("window_app.html").read_text(encoding="utf-8")


def facts_of(stats: Stats) -> dict[str, Any]:
    """What the page shows of a session."""
    last = stats.last
    sizes = "" if last is None else f"{last.ref} {kilo(last.before)} -> {kilo(last.after)} tokens"
    pins = [
        {"ref": pin.ref, "kind": pin.kind, "by": pin.author, "text": pin.text} for pin in stats.pins
    ]
    fill = {"percent": round(stats.fill.percent, 1), "window": stats.fill.window}
    return {KEY: {**fill, "pins": pins, "last": sizes}}
