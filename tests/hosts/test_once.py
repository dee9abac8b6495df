"""A message is recorded once, whichever ways bring it, and however often."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.compactor import Compactor
from mcp_compaction.hosts.chat import HostChats
from mcp_compaction.view_service.views import ServedViews
from tests.hosts.given_hosts import SHOP, compactor_in, found_in, make_home, record, said_in

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
OPENCODE = "ses_e1e7f1d1bffe8TkSI7CaOykNXz"


def messages_of_opencode(environ: Mapping[str, str]) -> list[Json]:
    """The messages of the chat as its plugin is given them, in the order they were said."""
    path = Path(environ["HOME"], ".local/share/opencode/opencode.db")
    ask = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    with closing(sqlite3.connect(path)) as store:
        return [
            {"info": {**json.loads(data), "id": own_id}, "parts": parts_of(store, own_id)}
            for own_id, data in store.execute(ask, (OPENCODE,)).fetchall()
        ]


def parts_of(store: sqlite3.Connection, message: str) -> list[Json]:
    """The parts of a message of opencode."""
    ask = "SELECT data FROM part WHERE message_id = ? ORDER BY id"
    return [json.loads(data) for (data,) in store.execute(ask, (message,))]


def after_compaction(messages: Sequence[Json], kept: int) -> list[Json]:
    """The window after opencode's own compaction: its summary, what it keeps, what came since."""
    (at,) = (n for n, one in enumerate(messages) if one["info"].get("summary") is True)
    asked = at - 1
    return [*messages[asked : at + 1], *messages[asked - kept : asked], *messages[at + 1 :]]


def views_on(compactor: Compactor, environ: Mapping[str, str]) -> ServedViews:
    """The views of a plugin, without a limit."""

    async def opened() -> Compactor:
        return compactor

    return ServedViews(opened, HostChats(SHOP, environ), limit=60.0)


@pytest.mark.parametrize("kept", [0, 2, 5])
async def test_after_opencodes_own_compaction_each_of_its_rows_is_recorded_once(
    tmp_path: Path, kept: int
) -> None:
    environ = make_home(tmp_path / "home")
    messages = messages_of_opencode(environ)
    async with compactor_in(tmp_path / "alone") as compactor:
        taken = await record(compactor, found_in(environ, "opencode")[0])
        assert taken.session is not None
        alone = await said_in(compactor, taken.session)
    async with compactor_in(tmp_path) as compactor:
        views = views_on(compactor, environ)
        for end in (-1, None, None):  # its newest answer comes with the second
            window = after_compaction(messages, kept)[:end]
            told: Any = await views.view_for_opencode(OPENCODE, window)
            ids = [one["id"] for one in told["show"] if "id" in one]
            assert ids == [one["info"]["id"] for one in window]
        info = await compactor.find_of_host(SHOP, OPENCODE)
        assert info is not None
        assert await said_in(compactor, info) == alone
