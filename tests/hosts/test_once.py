"""A message is recorded once, whichever ways bring it, and however often."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction import compactor
from mcp_compaction.audit.auditing import cases_of
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.formats import FORMATS, read_incoming
from mcp_compaction.formats.identity import unwrap_text, words_in
from mcp_compaction.hosts.chat import HostChats
from mcp_compaction.hosts.claude_code.rows import ChatRows
from mcp_compaction.hosts.claude_code.whole import list_whole_chat
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.recording import open_chat
from mcp_compaction.hosts.transcripts.files import FileTranscript
from mcp_compaction.model import Message, SessionInfo
from mcp_compaction.ports import HOST_COMPACTED, SessionKey
from mcp_compaction.view_service.views import ServedViews
from tests.hosts.given_hosts import (
    SHOP,
    found_in,
    make_home,
    record,
    said_in,
    workspace_in,
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


def views_on(work: Workspace, environ: Mapping[str, str]) -> ServedViews:
    """The views of a plugin, without a limit."""

    async def opened() -> Workspace:
        return work

    return ServedViews(opened, HostChats(SHOP, environ), limit=60.0)


@pytest.mark.parametrize("kept", [0, 2, 5])
async def test_after_opencodes_own_compaction_each_of_its_rows_is_recorded_once(
    tmp_path: Path, kept: int
) -> None:
    environ = make_home(tmp_path / "home")
    messages = messages_of_opencode(environ)
    async with workspace_in(tmp_path / "alone") as work:
        taken = await record(work, found_in(environ, "opencode")[0])
        assert taken.session is not None
        alone = await said_in(work, taken.session)
    async with workspace_in(tmp_path) as work:
        views = views_on(work, environ)
        for end in (-1, None, None):  # its newest answer comes with the second
            window = after_compaction(messages, kept)[:end]
            told: Any = await views.view_for("opencode", OPENCODE, window)
            ids = [one["id"] for one in told["show"] if "id" in one]
            assert ids == [one["info"]["id"] for one in window]
        info = await work.store.find_host_session(SHOP, OPENCODE)
        assert info is not None
        assert await said_in(work, info) == alone


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
    # Of a command that was typed just before, and is no copy.
    row(16, {"role": "user", "content": CAVEAT}, at="2026-11-15T14:03:59.800Z", isMeta=True),
]


LEFT: dict[str, tuple[str, Json, int]] = {
    "as it was": ("Begin.", {"promptSource": "typed", "at": "2026-11-15T14:03:01.000Z"}, 0),
    "as it was built anew": ("Begin.", {}, 0),
    "a record": (f"{PINNED_LABEL}\np1 constraint, by user: Yes", {}, 0),
    "the host's summary": ("We talked.", {"isCompactSummary": True}, 1),
}


@pytest.mark.parametrize("way", LEFT)
async def test_a_compaction_that_left_no_summary_of_the_host_is_not_told_as_the_hosts(
    tmp_path: Path, way: str
) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    text, marks, hosts = LEFT[way]
    first = row(11, {"role": "user", "content": text}, **marks)
    own = [
        boundary("2026-11-15T14:03:30.000Z"),
        row(10, {"role": "user", "content": "We met."}, isCompactSummary=True),
    ]
    left = [boundary(), first, built(12, "assistant", "yes")]
    path = write_chat(environ, [*CHAT, *own, *left, *LATER])
    (transcript,) = transcripts_at(path, environ)
    assert [one.is_ours for one in cases_of(transcript)] == [False, not hosts]
    async with workspace_in(tmp_path) as work:
        info = (await record(work, transcript)).session
        assert info is not None
        events = (await compactor.read_stats(work, info)).events
        assert dict(events).get(HOST_COMPACTED, 0) == 1 + hosts


LATER = [line.replace("14:03", "14:05") for line in (typed(21, "yes"), answered(22, "yes"))]


def test_a_whole_chat_has_once_what_compactions_wrote_down_again(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    path = write_chat(environ, [*CHAT, *AGAIN, *LATER])
    (transcript,) = transcripts_at(path, environ)
    assert isinstance(transcript, FileTranscript)
    rows = ChatRows(path)
    rows.read()
    current = rows.list_current()
    whole = list_whole_chat(transcript, current)
    texts = [unwrap_text(one.message["content"]) for one in whole]
    assert texts == ["Begin.", "yes", "Sure?", "yes", "yes", "yes", "yes", "yes"]
    assert [one for one in whole if one in current] == current  # by which the host knows them


async def test_a_chat_that_is_written_down_again_with_new_ids_is_recorded_once(
    tmp_path: Path,
) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    path = write_chat(environ, CHAT)
    (transcript,) = transcripts_at(path, environ)
    async with workspace_in(tmp_path) as work:
        taken = await record(work, transcript)
        assert taken.session is not None
        rows = ChatRows(path)
        rows.read()
        await compactor.fit(work, taken.session, [one.message for one in rows.list_current()])
        write_chat(environ, [*CHAT, *AGAIN])
        await record(work, transcript)
        rows.read()
        given = [one.message for one in rows.list_current()]
        assert (await compactor.fit(work, taken.session, given)).recorded.new == 0
        write_chat(environ, [*CHAT, *AGAIN, *LATER])
        await record(work, transcript)
        rows.read()
        given = [one.message for one in rows.list_current()]
        assert (await compactor.fit(work, taken.session, given)).recorded.new == 0
        said = [one.text for one in await said_in(work, taken.session)]
        once = ["Begin.", "yes", "Sure?", "yes", "yes", "yes", *[CAVEAT[:40]] * 2, "yes", "yes"]
        assert said == once


# Any ways, in any order

WORDS = ("yes", "ok", "continue")  # few: people do say the same again
WAYS = ("talk", "work", "transcript", "request", "other form", "agent tells", "compaction")


class AnyWays:
    """A chat of Claude Code that comes by several ways."""

    def __init__(self, work: Workspace, environ: Mapping[str, str]) -> None:
        self.workspace, self.environ = work, environ
        self.said: list[Json] = []  # each message once, in order
        self.lines: list[str] = []
        self.window: list[int] = []  # the places of those that the host has in its window
        self.info: SessionInfo | None = None

    def say(self, *messages: Json) -> None:
        """Say something: the host writes it down."""
        for message in messages:
            self.window.append(len(self.said))
            self.said.append(message)
            self.lines.append(self.line(len(self.said), message))

    def line(self, number: int, message: Json, again: str = "") -> str:
        at = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(minutes=number)
        more = {"promptSource": "typed"} if isinstance(message["content"], str) else {}
        own = {"uuid": f"u{number}{again}", "madeBy": "model", **more}
        return row(number, message, at=at.isoformat(), **own)

    def talk(self, word: str) -> None:
        reply = WORDS[(WORDS.index(word) + 1) % len(WORDS)]
        answer = [{"type": "text", "text": reply}]
        self.say({"role": "user", "content": word}, {"role": "assistant", "content": answer})

    def work(self, word: str) -> None:
        call: Json = {"type": "tool_use", "id": f"t{len(self.said)}", "name": "Read", "input": {}}
        result: Json = {"type": "tool_result", "tool_use_id": call["id"], "content": word}
        self.say({"role": "assistant", "content": [call]}, {"role": "user", "content": [result]})

    async def transcript(self, _: str) -> None:
        (found,) = transcripts_at(write_chat(self.environ, self.lines), self.environ)
        self.info = (await record(self.workspace, found)).session or self.info

    async def open(self) -> SessionInfo:
        key = SessionKey(project=SHOP, host="claude-code", host_session="5a1c")
        self.info = self.info or (await open_chat(self.workspace, key))[0]
        return self.info

    async def request(self, _: str) -> None:
        """The host's request passes a gateway."""
        given = [self.said[place] for place in self.window]
        told = FitOptions(is_hearsay=True, relieve=False)
        fitted = await compactor.fit(self.workspace, await self.open(), given, told)
        assert [one for one in fitted.messages if one in self.said] == given

    async def other_form(self, _: str) -> None:
        """It passes as a request of another provider."""
        given = [in_chat_form(self.said[place]) for place in self.window]
        told = FitOptions(is_hearsay=True, relieve=False)
        await compactor.fit(self.workspace, await self.open(), given, told)

    async def agent_tells(self, _: str) -> None:
        """The agent hands over what it has in its window."""
        came = read_incoming({"messages": [self.said[place] for place in self.window]})
        await compactor.record(self.workspace, await self.open(), came, via="tool")

    def compaction(self, word: str) -> None:
        """The host compacts, and writes what stays down once more behind its summary."""
        turns = 1 + WORDS.index(word) % 2
        number, kept = len(self.said), self.window[-2 * turns :]
        at = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(minutes=number, seconds=30)
        self.lines.append(boundary(at.isoformat()))
        self.say({"role": "user", "content": f"What was done up to {number}."})
        again = f" {len(self.lines)}"
        self.lines += [self.line(place + 1, self.said[place], again) for place in kept]
        self.window = [number, *kept]

    async def come(self, way: str, word: str) -> None:
        done = getattr(self, way.replace(" ", "_"))(word)
        if done is not None:
            await done


def in_chat_form(message: Json) -> Json:
    """A message as it is in a chat completion."""
    match message["content"]:
        case [{"type": "tool_use", "id": call, "name": name}]:
            made = {"id": call, "type": "function", "function": {"name": name, "arguments": "{}"}}
            return {"role": "assistant", "content": None, "tool_calls": [made]}
        case [{"type": "tool_result", "tool_use_id": call, "content": text}]:
            return {"role": "tool", "tool_call_id": call, "content": text}
        case [{"type": "text", "text": text}] | str(text):
            return {"role": message["role"], "content": text}
        case _:
            raise AssertionError(message)


async def follow_ways(folder: Path, ways: Sequence[tuple[str, str]]) -> None:
    async with workspace_in(folder) as work:
        chat = AnyWays(work, {"HOME": str(folder / "home")})
        chat.talk("ok")
        for way, word in ways:
            await chat.come(way, word)
        await chat.transcript("")
        await chat.come("request", "")
        info = await chat.open()
        newest = (await work.load(info)).info.messages
        log = await compactor.originals(work, info, f"m1..m{newest}")
        found = [words_in(one.message) for one in log]
        said = [words_in(one) for one in messages_of(chat.said)]
        assert sorted(found) == sorted(said)
        if "compaction" not in dict(
            ways
        ):  # behind which a request tells nothing of what was before
            assert found == said


def messages_of(said: Sequence[Json]) -> list[Message]:
    """The messages of a chat as the log has them."""
    read = [FORMATS["anthropic"].read(one, "it") for one in said]
    return [
        Message(seq=n, role=role, parts=parts, shape="anthropic", raw="{}")
        for n, (role, parts) in enumerate(read, start=1)
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WAYS), st.sampled_from(WORDS)), max_size=12))
def test_whichever_ways_bring_a_message_it_is_recorded_once_and_none_is_lost(
    ways: list[tuple[str, str]],
) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(follow_ways(Path(folder), ways))
