"""The server that opencode starts, when its plugin asks it for views."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Implementation

from mcp_compaction.home import default_home
from mcp_compaction.hosts.serving import PROCESS, RunningGateway, note_gateway
from tests.hosts.given_hosts import SHOP, make_home
from tests.server.talking import talk
from tests.view_service.test_listening import ask
from tests.view_service.test_views import history

pytestmark = pytest.mark.anyio

OPENCODE = Implementation(name="opencode", version="1.18.33")


async def test_a_plugin_gets_views_and_the_name_that_makes_calls_mean_its_chat(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    place = folder / "views.json"
    environ = {"HOME": str(tmp_path), "MCP_COMPACTION_VIEWS": str(place)}
    environ["MCP_COMPACTION_VIEW_TIMEOUT_SECONDS"] = "60"
    async with talk(tmp_path, environ=environ, client_info=OPENCODE) as host:
        status, told = await ask(place, "/opencode/view", session="ses_1", messages=history(2))
        assert status == 200
        before = _size(told)
        wish: dict[str, Any] = {"reason": "read", "force": True, "target_percent": 20}
        said = await host.say("compress_context", session=told["session"], **wish)
        assert "window: smaller from your next step" in said
        _, told = await ask(place, "/opencode/view", session="ses_1", messages=history(2))
        assert _size(told) < before
        assert (await ask(place, "/opencode/record", session="ses_1"))[0] == 200
        assert (await ask(place, "/opencode/view", messages=[]))[0] == 404


async def test_a_call_that_names_the_hosts_own_chat_means_it_before_any_view_of_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    place = folder / "views.json"
    environ = {"HOME": str(tmp_path), "MCP_COMPACTION_VIEWS": str(place)}
    environ["MCP_COMPACTION_VIEW_TIMEOUT_SECONDS"] = "60"
    async with talk(tmp_path, environ=environ, client_info=OPENCODE) as host:
        refused = await host.fail("context_stats", session="opencode:ses_1")
        assert "nothing of this chat is kept yet" in refused
        await host.say("pin_constraint", text="Only tabs.", session="opencode:ses_1")
        await host.say("pin_constraint", text="Only spaces.", session="opencode:ses_2")
        _, told = await ask(place, "/opencode/view", session="ses_1", messages=history(2))
        stats = await host.say("context_stats", session=told["session"])
        assert ("Only tabs." in stats, "Only spaces." in stats) == (True, False)


async def test_a_plugin_gets_no_view_while_a_gateway_shows_one(
    tmp_path: Path, taken_port: int
) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    place = folder / "views.json"
    environ = {"HOME": str(tmp_path), "MCP_COMPACTION_VIEWS": str(place)}
    gateway = RunningGateway(os.getpid(), taken_port, "/shop", "opencode", "2026-11-16", {}, {})
    note_gateway(tmp_path / "store", gateway)
    environ[PROCESS] = str(os.getpid())
    environ["MCP_COMPACTION_VIEW_TIMEOUT_SECONDS"] = "60"
    async with talk(tmp_path, environ=environ):
        asked = await ask(place, "/opencode/view", session="ses_1", messages=history(2))
        assert asked == (200, None)


async def test_what_the_agent_said_last_is_recorded_when_the_host_ends(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "private"
    folder.mkdir(mode=0o700)
    environ = {**make_home(home), "MCP_COMPACTION_VIEWS": str(folder / "views.json")}
    database, chat = home / ".local/share/opencode/opencode.db", "ses_e1e7f1d1bffe8TkSI7CaOykNXz"
    store = default_home(environ)
    environ["MCP_COMPACTION_VIEW_TIMEOUT_SECONDS"] = "60"
    async with talk(tmp_path, environ=environ, project=SHOP, home=store):
        await ask(folder / "views.json", "/opencode/record", session=chat)
        with closing(sqlite3.connect(database)) as opencode:
            about = {"role": "assistant", "time": {"created": 1794784709000, "completed": 1}}
            part = {"type": "text", "text": "The last word is giraffe."}
            row = ("msg_2", chat, 1794784709000, 1794784709000, json.dumps(about))
            opencode.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
            row = ("prt_2", "msg_2", chat, 1794784709000, 1794784709000, json.dumps(part))
            opencode.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
            opencode.commit()  # nobody tells of it: the host ends
    with closing(sqlite3.connect(store / "store.db")) as kept:
        said = [raw for (raw,) in kept.execute("SELECT raw FROM message")]
    assert sum("The last word is giraffe." in raw for raw in said) == 1


def _size(told: Any) -> int:
    whole = sum(len(str(message)) for message in history(2)) // 3
    cut = sum(whole - len(text) for text in told["outputs"].values())
    return sum(whole if "id" in entry else len(entry["text"]) for entry in told["show"]) - cut
