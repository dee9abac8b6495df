"""Writes down what the server answers first, for `front.py`: run it when tools or words change.

python -m mcp_compaction.server.writing
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest, JSONRPCResponse

from mcp_compaction.core.policy import Policy
from mcp_compaction.server.app import build_server
from mcp_compaction.server.front import MODERN, NEWEST_HANDSHAKE, Era, file_of
from mcp_compaction.settings import Settings

SETS = tuple((only_core, by_agent) for only_core in (False, True) for by_agent in (True, False))

_LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_ASKED: dict[Era, tuple[str, ...]] = {
    "legacy": ("initialize", "ping", *_LISTS),
    "modern": ("server/discover", *_LISTS),
}
_CLIENT = {"name": "nobody", "version": "0"}
_GREETING = {"protocolVersion": NEWEST_HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


async def first_answers(
    only_core: bool, by_agent: bool, home: Path
) -> dict[str, dict[str, dict[str, Any]]]:
    """What the SDK answers for a set of tools, in each era; nothing is written to the home."""
    settings = Settings(home=home, policy=Policy(agent_controlled=by_agent))
    return {era: await _ask(settings, only_core, era) for era in _ASKED}


def as_text(answers: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Answers as their file has them."""
    return json.dumps(answers, ensure_ascii=False, indent=1) + "\n"


async def _ask(settings: Settings, only_core: bool, era: Era) -> dict[str, dict[str, Any]]:
    low = build_server(settings, "/p", {}, only_core=only_core)._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    from_server, to_client = anyio.create_memory_object_stream[SessionMessage]()
    found: dict[str, dict[str, Any]] = {}
    async with to_client, low.lifespan(low) as state, anyio.create_task_group() as tasks:
        serve = partial(serve_dual_era_loop, low, lifespan_state=state)
        tasks.start_soon(
            partial(serve, init_options=low.create_initialization_options()),
            from_client,
            from_server,
        )
        for method in _ASKED[era]:
            params = _GREETING if method == "initialize" else {}
            params = {**params, "_meta": _ENVELOPE} if era == "modern" else params
            asked = JSONRPCRequest(jsonrpc="2.0", id=method, method=method, params=params)
            await to_server.send(SessionMessage(asked))
            answer = (await to_client.receive()).message
            assert isinstance(answer, JSONRPCResponse), answer
            found[method] = answer.result
        await to_server.aclose()
    return found


async def _write() -> None:
    with tempfile.TemporaryDirectory() as home:
        for only_core, by_agent in SETS:
            text = as_text(await first_answers(only_core, by_agent, Path(home)))
            path = file_of(only_core, by_agent)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_write())
