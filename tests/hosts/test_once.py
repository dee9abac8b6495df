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
from mcp_compaction.hosts.claude_code.rows import ChatRows
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.view_service.views import ServedViews
from tests.hosts.given_hosts import (
    SHOP,
    compactor_in,
    found_in,
    make_home,
    record,
    said_in,
    write_chat,
)

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


# Claude Code


def row(number: int, said: Json, **more: Any) -> str:
    """A line of Claude Code; all that a compaction builds is of one moment."""
    moment = more.pop("at", f"2026-11-15T14:03:{number:02}.000Z")
    told = {"type": said["role"], "uuid": f"u{number}", "sessionId": "5a1c", "cwd": SHOP}
    told |= {"version": "2.1.327", "timestamp": moment, "isSidechain": False, "message": said}
    return json.dumps({**told, **more})


def typed(number: int, text: str) -> str:
    """A prompt that a person typed."""
    return row(number, {"role": "user", "content": text}, promptSource="typed")


def answered(number: int, text: str) -> str:
    """An answer, with what only its first row has."""
    blocks = [{"type": "text", "text": text}]
    said = {"id": f"msg_{number}", "model": "m", "role": "assistant", "content": blocks}
    return row(number, said, madeBy="model")


def built(number: int, role: str, text: str, at: str = "2026-11-15T14:04:00.000Z") -> str:
    """A row that stands after a compaction for one that was there before."""
    blocks = [{"type": "text", "text": text}]
    return row(number, {"role": role, "content": blocks}, at=at, madeBy="other")


def boundary(at: str = "2026-11-15T14:04:00.002Z") -> str:
    """The line of a compaction."""
    told = {"type": "system", "subtype": "compact_boundary", "uuid": f"b {at}", "timestamp": at}
    return json.dumps({**told, "compactMetadata": {"trigger": "manual"}})


CAVEAT = "<local-command-caveat>Caveat: the command was run by hand.</local-command-caveat>"
CHAT = [
    typed(1, "Begin."),
    answered(2, "yes"),
    typed(3, "Sure?"),
    answered(4, "yes"),
    typed(5, "yes"),
    answered(6, "yes"),
    row(7, {"role": "user", "content": CAVEAT}, isMeta=True),
]
AGAIN = [
    boundary(),
    row(11, {"role": "user", "content": "Begin."}, at="2026-11-15T14:03:01.000Z"),
    built(12, "assistant", "yes"),
    row(13, {"role": "user", "content": "yes"}, at="2026-11-15T14:03:05.000Z"),
    built(14, "assistant", "yes"),
    built(15, "user", CAVEAT),
]


LATER = [line.replace("14:03", "14:05") for line in (typed(21, "yes"), answered(22, "yes"))]


def test_of_equal_answers_that_a_compaction_keeps_each_is_its_own(tmp_path: Path) -> None:
    path = tmp_path / "5a1c.jsonl"
    path.write_text("\n".join([*CHAT, *AGAIN, ""]), encoding="utf-8")
    rows = ChatRows(path)
    rows.read()
    said = [one.message.get("id") for one in rows.list_current()]
    assert said == [None, "msg_4", None, "msg_6"]


async def test_a_chat_that_is_written_down_again_with_new_ids_is_recorded_once(
    tmp_path: Path,
) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    path = write_chat(environ, CHAT)
    (transcript,) = transcripts_at(path, environ)
    async with compactor_in(tmp_path) as compactor:
        taken = await record(compactor, transcript)
        assert taken.session is not None
        rows = ChatRows(path)
        rows.read()
        await compactor.fit(taken.session, [one.message for one in rows.list_current()])
        write_chat(environ, [*CHAT, *AGAIN])
        await record(compactor, transcript)
        rows.read()
        given = [one.message for one in rows.list_current()]
        assert (await compactor.fit(taken.session, given)).recorded.new == 0
        write_chat(environ, [*CHAT, *AGAIN, *LATER])
        await record(compactor, transcript)
        rows.read()
        given = [one.message for one in rows.list_current()]
        assert (await compactor.fit(taken.session, given)).recorded.new == 0
        said = [one.text for one in await said_in(compactor, taken.session)]
        once = ["Begin.", "yes", "Sure?", "yes", "yes", "yes", CAVEAT[:40], "yes", "yes"]
        assert said == once
