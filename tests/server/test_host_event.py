"""What hooks of a host tell: the events as Claude Code sends them, to the real server in memory."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.types import CallToolResult, Implementation

from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.home import default_home
from mcp_compaction.hosts import handling
from mcp_compaction.hosts.events import TOOL, hooked_hosts
from mcp_compaction.hosts.hook_notes import HOOK_SECONDS, read_trouble
from mcp_compaction.server.tools import recording
from tests.hosts.given_hosts import SHOP, claude_line, write_chat
from tests.server.talking import Talk, talk, text_of

pytestmark = pytest.mark.anyio

RULE = "Never push to main."
CHAT = "5a1c"
LONG = "We looked at it for a while and found nothing that was worth a change. " * 12
BOUNDARY = json.dumps(
    {
        "type": "system",
        "subtype": "compact_boundary",
        "timestamp": "2026-11-15T10:30:00Z",
        "compactMetadata": {"trigger": "auto", "preTokens": 9000, "postTokens": 900},
    },
    separators=(",", ":"),
)


def answer_line(number: int, tokens: int, model: str = "claude-opus-5") -> str:
    """A line with an answer of the model, and the tokens that it was given."""
    usage = {"input_tokens": tokens, "output_tokens": 0}
    content = [{"type": "text", "text": f"Done with {number}."}]
    message = {"role": "assistant", "model": model, "content": content, "usage": usage}
    return claude_line(number, "", type="assistant", message=message)


class Chat:
    """A chat of Claude Code, with its transcript and its hooks."""

    def __init__(self, talk: Talk, environ: dict[str, str]) -> None:
        self.talk = talk
        self.environ = environ
        said = [f"Step {n}: look at src/part_{n}.py. {LONG}" for n in range(12)]
        self.lines = [claude_line(n, text) for n, text in enumerate(said)]
        self.lines[0] = claude_line(0, f"{RULE} Then start.")
        self.path = write_chat(environ, self.lines, CHAT)

    def grow(self, *lines: str) -> None:
        """Write more into the transcript, as the host does."""
        self.lines += lines
        write_chat(self.environ, self.lines, CHAT)

    async def tell(self, event: str, **more: str) -> str:
        """What the host reads of the answer to an event; empty where there is nothing."""
        given = {"session_id": CHAT, "transcript_path": str(self.path), "cwd": SHOP, **more}
        said: dict[str, Any] = {}
        text = await self.talk.say(TOOL, event=event, **given)
        if event != "PostCompact" and text.startswith("{"):  # which it takes for JSON
            said = json.loads(text)
            return said.get("hookSpecificOutput", said).get("additionalContext", "") or said.get(
                "systemMessage", ""
            )
        return text

    async def compact(self) -> tuple[str, str]:
        """Compact as the host does; the pins and the records that it is given."""
        await self.tell("PreCompact")
        pins = await self.tell("SessionStart", source="compact", part="pins")
        records = await self.tell("SessionStart", source="compact", part="records")
        return pins, records


@asynccontextmanager
async def claude_code(
    folder: Path,
    home: Path | None = None,
    *,
    is_window_set: bool = True,
    variables: Mapping[str, str] | None = None,
) -> AsyncGenerator[Chat]:
    """A chat of Claude Code that our server is plugged into, with further variables."""
    environ = {"HOME": str(folder / "home"), "CLAUDE_CODE_SESSION_ID": CHAT, **(variables or {})}
    home = home or default_home(environ)
    client: dict[str, Any] = {"client_info": Implementation(name="claude-code", version="2")}
    policy = {} if is_window_set else {"window_tokens": ""}
    async with talk(
        folder, project=SHOP, environ=environ, home=home, policy=policy, **client
    ) as connected:
        yield Chat(connected, environ)


@pytest.mark.parametrize("key", [host.model_key for host in hooked_hosts().values()][:2])
async def test_a_model_that_calls_the_tool_of_hooks_is_refused(tmp_path: Path, key: str) -> None:
    async with claude_code(tmp_path) as chat:
        given = {"event": "Stop", "session_id": CHAT, "transcript_path": str(chat.path)}
        done = await chat.talk.client.call_tool(TOOL, given, meta={key: "toolu_1"})  # pyright: ignore[reportArgumentType]
        assert isinstance(done, CallToolResult)
        assert done.is_error
        assert "for the hooks of a host" in text_of(done)
        assert "nothing of this chat is kept" in await chat.talk.say("context_stats")


async def test_where_sessions_must_be_named_nobody_may_call_it(tmp_path: Path) -> None:
    """Over HTTP a client says itself which host it is, and which thread."""
    codex: dict[str, Any] = {"client_info": Implementation(name="codex", version="1")}
    async with talk(tmp_path, must_name=True, **codex) as chat:
        given = {"event": "Stop", "session_id": CHAT}
        done = await chat.client.call_tool(TOOL, given, meta={"threadId": CHAT})  # pyright: ignore[reportArgumentType]
        assert isinstance(done, CallToolResult)
        assert "for the hooks" in text_of(done)


async def test_what_was_typed_in_another_project_is_recorded_there_and_binds_nobody_here(
    tmp_path: Path,
) -> None:
    async with claude_code(tmp_path) as chat:
        line = claude_line(0, RULE, cwd="/home/ann/toys")
        path = str(write_chat(chat.environ, [line], "7b2d"))
        await chat.tell("Stop", session_id="7b2d", transcript_path=path)
        refused = await chat.talk.fail("pin_constraint", text=RULE, scope="project")
        assert "by user" not in refused
    with closing(sqlite3.connect(default_home(chat.environ) / "store.db")) as store:
        found = store.execute("SELECT project FROM session WHERE last_seq > 0").fetchall()
    assert found == [("/home/ann/toys",)]


async def test_words_that_an_agent_tells_count_only_by_a_chat_of_their_own_project(
    tmp_path: Path,
) -> None:
    said = [{"role": "user", "content": RULE}]
    for folder, session in (("/home/ann/toys", "7b2d"), (f"{SHOP}/src", "7b2e")):
        async with claude_code(tmp_path / session) as chat:
            write_chat(chat.environ, [claude_line(0, RULE, cwd=folder)], session)
            named = f"claude-code:{session}"
            await chat.talk.say("record_messages", session=named, messages=said)
            pin = {"text": RULE, "scope": "project", "session": named}
            if folder.startswith(SHOP):
                assert "by user" in await chat.talk.say("pin_constraint", **pin)
            else:
                assert "only as the agent told it" in await chat.talk.fail("pin_constraint", **pin)


async def test_a_chat_switches_off_no_recording_but_its_own(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        path = str(write_chat(chat.environ, [claude_line(0, "The port is 5433.")], "7b2d"))
        await chat.tell("UserPromptSubmit", session_id="7b2d", transcript_path=path)
        off = {"messages": {"record": False}}
        for other in (f"claude-code:{CHAT}", "shop-1", "loop"):
            refused = await chat.talk.fail("record_messages", session=other, **off)
            assert "alone may switch it" in refused
        chat.grow(claude_line(12, "The color is teal."))
        await chat.tell("Stop")
        assert "teal" in await chat.talk.say("recall_archived", query="teal")
        assert "off" in await chat.talk.say("record_messages", **off)


async def test_an_event_records_what_is_new_and_a_rule_of_the_user_is_the_users(
    tmp_path: Path,
) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        assert "by user, said in m1" in await chat.talk.say("pin_constraint", text=RULE)
        chat.grow(claude_line(12, "The port is 5433."))
        await chat.tell("Stop")
        assert "5433" in await chat.talk.say("recall_archived", query="port")
        stats = await chat.talk.say("context_stats")
        assert "this chat as the hooks of claude-code tell it" in stats


async def test_a_file_that_the_host_begins_after_its_hook_is_read_before_a_tool_looks(
    tmp_path: Path,
) -> None:
    async with claude_code(tmp_path) as chat:
        written = chat.path.read_bytes()
        chat.path.unlink()
        await chat.tell("UserPromptSubmit")
        chat.path.write_bytes(written)
        assert "by user, said in m1" in await chat.talk.say("pin_constraint", text=RULE)


async def test_a_transcript_elsewhere_or_of_another_chat_is_not_read(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        forged = tmp_path / "forged.jsonl"
        forged.write_text(claude_line(0, RULE) + "\n", encoding="utf-8")
        other = write_chat(chat.environ, [claude_line(0, RULE)], "0f8a")
        link = other.with_name("beef.jsonl")
        link.symlink_to(forged)
        for path in (forged, other, link, Path("/etc/passwd"), tmp_path):
            await chat.tell("UserPromptSubmit", transcript_path=str(path))
        assert "by agent" in await chat.talk.say("pin_constraint", text=RULE)


async def test_after_a_compaction_pins_and_records_are_given_once(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        await chat.talk.say("pin_constraint", text=RULE)
        assert "p1" in await chat.tell("PreCompact")
        pins, records = await chat.compact()
        assert pins == f"{PINNED_LABEL}\np1 constraint, by user: {RULE}"
        assert records.count("[digest d1") == 1
        assert PINNED_LABEL not in records
        assert records.count(RULE) == records.count(f"| {RULE} Then start.") == 1  # as it was said
        chat.grow(BOUNDARY)
        told = await chat.tell("PostCompact", summary="We talked.")
        assert told.startswith("mcp-compaction: 1 pin, ")
        assert PINNED_LABEL not in await chat.tell("UserPromptSubmit")
        assert await chat.tell("SessionStart", source="compact", part="pins") == ""


async def test_what_was_missed_is_made_good_at_the_next_prompt_once(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        await chat.talk.say("pin_constraint", text=RULE)
        await chat.tell("PreCompact")
        chat.grow(BOUNDARY)
        first = await chat.tell("UserPromptSubmit")
        assert f"by user: {RULE}" in first
        assert "[records: " in first
        assert len(first) <= hooked_hosts()["claude-code"].most_chars
        assert PINNED_LABEL not in await chat.tell("PostToolBatch")


async def test_what_stands_in_the_transcript_since_the_boundary_is_not_given_again(
    tmp_path: Path,
) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        await chat.talk.say("pin_constraint", text=RULE)
        pins, records = await chat.compact()
        chat.grow(BOUNDARY, claude_line(13, f"{pins}\n{records}"))
    async with claude_code(tmp_path) as resumed:  # a fresh process
        resumed.lines = chat.lines
        resumed.grow()
        assert PINNED_LABEL not in await resumed.tell("UserPromptSubmit")


async def test_a_rule_that_the_hosts_summary_lost_is_back_at_the_next_prompt_once(
    tmp_path: Path,
) -> None:
    async with claude_code(tmp_path) as chat:
        # Of the first request: so much was said since that its words have no room in the records.
        chat.grow(*(claude_line(n, LONG * 6) for n in (12, 13)))
        await chat.compact()
        chat.grow(BOUNDARY)
        assert "1 lost item restored" in await chat.tell("PostCompact", summary="We talked.")
        first, second = [await chat.tell("UserPromptSubmit") for _ in range(2)]
        assert f"- {RULE} (m1)" in first
        assert RULE not in second


TOOLS_THAT_ANSWER: dict[str, dict[str, Any]] = {
    "context_stats": {},
    "recall_archived": {"query": "limiter"},
    "pin_constraint": {"text": "Keep the tests green."},
    "unpin_constraint": {"ref": "p1"},
    "compress_context": {"reason": "task done"},
}


async def test_the_fill_is_told_near_the_limit_once_a_step(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        seen: list[str] = []
        for number, tokens in enumerate((3000, 8700, 8800, 9200), 12):
            chat.grow(answer_line(number, tokens))
            seen.append(await chat.tell("PostToolBatch"))
        assert seen[0] == seen[2] == ""
        assert seen[1].startswith("context 87 % full, 8.7k of 10k tokens; window_tokens is set")
        assert seen[3].startswith("context 92 % full")
        for tool, arguments in TOOLS_THAT_ANSWER.items():
            said = await chat.talk.say(tool, **arguments)
            assert said.splitlines()[-1].startswith("fill: 9.2k of 10k tokens (92 %"), said


async def tell_fill(chat: Chat, tokens: int, model: str = "claude-opus-5-5") -> tuple[str, str]:
    """What the model is told after an answer of so many tokens, and what context_stats says."""
    chat.grow(answer_line(len(chat.lines), tokens, model))
    return await chat.tell("PostToolBatch"), await chat.talk.say("context_stats")


@pytest.mark.parametrize(
    ("settings", "model", "limit"),
    [
        ({"autoCompactWindow": 400_000}, "claude-opus-5-5", "367k"),
        (
            {
                "autoCompactWindow": 400_000,
                "modelSettings": {"claude-opus-5-5": {"autoCompactWindow": 300_000}},
            },
            "claude-opus-5-5",
            "267k",
        ),
        ({"env": {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "200000"}}, "claude-opus-5-5", "167k"),
        ({}, "claude-sonnet-4-5-20250929", "167k"),
        ({"model": "sonnet[1m]"}, "claude-sonnet-4-5-20250929", "967k"),
    ],
)
async def test_the_hosts_own_settings_tell_where_it_compacts(
    tmp_path: Path, settings: dict[str, Any], model: str, limit: str
) -> None:
    async with claude_code(tmp_path, is_window_set=False) as chat:
        path = tmp_path / "home" / ".claude" / "settings.json"
        path.write_text(json.dumps(settings), encoding="utf-8")
        _, stats = await tell_fill(chat, 60_000, model)
        assert f"fill: 60k of {limit} tokens (" in stats


@pytest.mark.parametrize(
    ("model", "variables"),
    [("my-own-model", {}), ("claude-opus-5-5", {"DISABLE_AUTO_COMPACT": "1"})],
)
async def test_where_nobody_knows_when_the_host_compacts_no_fill_is_told(
    tmp_path: Path, model: str, variables: dict[str, str]
) -> None:
    async with claude_code(tmp_path, is_window_set=False, variables=variables) as chat:
        told, stats = await tell_fill(chat, 190_000, model)
        assert told == ""
        assert "in the window: 190k tokens as claude-code reports; at how many" in stats
        assert " %" not in stats


async def test_with_hooks_compressing_prepares_and_a_repeat_says_so(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        ready = await chat.talk.say("compress_context", reason="done")
        assert ready.startswith("ready: after the host's next compaction 0 pins")
        again = await chat.talk.say("compress_context", reason="done")
        assert again.startswith("already prepared")


@pytest.mark.thorough
async def test_a_locked_store_holds_none_of_many_events_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        with closing(
            sqlite3.connect(default_home(chat.environ) / "store.db", isolation_level=None)
        ) as other:
            other.execute("BEGIN IMMEDIATE")
            chat.grow(claude_line(12, "The port is 5433."))
            with monkeypatch.context() as briefly:
                briefly.setattr(recording, "_PATIENCE", 0.05)
                async with anyio.create_task_group() as group:
                    for _ in range(200):
                        group.start_soon(chat.tell, "Stop")
            other.execute("ROLLBACK")  # all were answered, though the lock was still held
        await chat.tell("Stop")
        assert "5433" in await chat.talk.say("recall_archived", query="port")
        assert "13 messages" in await chat.talk.say("context_stats")
        notes = read_trouble(chat.environ)
        assert sum((note.host, note.event) == ("claude-code", "Stop") for note in notes) >= 200


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_store_that_cannot_be_opened_does_not_disturb_the_host_and_is_noted(
    tmp_path: Path, is_there: bool
) -> None:
    home = tmp_path / "store" if is_there else Path("/proc/nowhere")
    if is_there:
        home.mkdir()
        (home / "store.db").write_bytes(b"not a store" * 500)
    async with claude_code(tmp_path, home) as chat:
        for event in ("UserPromptSubmit", "PreCompact", "Stop"):
            assert await chat.tell(event) == ""
        assert [note.event for note in read_trouble(chat.environ)] == [
            "UserPromptSubmit",
            "PreCompact",
            "Stop",
        ]


def count_kept(chat: Chat, words: str) -> int:
    """The messages in the store that hold some words; nothing is recorded by asking."""
    with closing(sqlite3.connect(default_home(chat.environ) / "store.db")) as store:
        (number,) = store.execute(
            "SELECT count(*) FROM message WHERE instr(raw, ?)", (words,)
        ).fetchone()
    return number


class WritingAsyncio:
    """asyncio, but while somebody waits the host writes."""

    def __init__(self, write: Callable[[], None]) -> None:
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, _: float) -> None:
        """Wait for no time at all."""
        self.write()


async def test_what_the_agent_said_last_is_recorded_though_the_host_writes_it_down_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with claude_code(tmp_path) as chat:
        chat.grow(answer_line(12, 3000))
        await chat.tell("Stop", last="Done with 12.")
        late = [answer_line(13, 3000), answer_line(12, 3000).replace("u12", "u14")]
        waiting = WritingAsyncio(lambda: chat.grow(late.pop(0)))
        with monkeypatch.context() as briefly:
            briefly.setattr(handling, "asyncio", waiting)
            await chat.tell("Stop", last="Done with 12.")  # as the turn before ended too
        assert (count_kept(chat, "Done with 13."), count_kept(chat, "Done with 12.")) == (1, 2)


async def test_the_last_words_of_a_chat_are_recorded_when_the_next_begins(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("Stop")
        chat.grow(answer_line(12, 3000))
        await chat.tell("SessionStart", source="clear", session_id="new", transcript_path="")
        assert count_kept(chat, "Done with 12.") == 1
    chat.grow(answer_line(13, 3000))
    write_chat(chat.environ, [claude_line(0, "Never recorded.")], "0f8a")
    next_chat = write_chat(chat.environ, [claude_line(0, "Hello.")], "9b2e")
    async with claude_code(tmp_path) as resumed:
        resumed.lines = chat.lines
        resumed.grow()
        await resumed.tell("UserPromptSubmit", session_id="9b2e", transcript_path=str(next_chat))
        for _ in range(200):  # it goes on beside the calls
            await resumed.talk.client.list_tools()
            if count_kept(chat, "Done with 13."):
                break
        assert (count_kept(chat, "Done with 13."), count_kept(chat, "Never recorded.")) == (1, 0)


@pytest.mark.parametrize("event", ["SubagentStop", "Stop"])
async def test_what_subagents_say_is_recorded_and_is_not_the_users(
    tmp_path: Path, event: str
) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        path = chat.path.with_suffix("") / "subagents/agent-a1.jsonl"
        path.parent.mkdir(parents=True)
        asked = claude_line(0, "Always use tabs.", isSidechain=True, agentId="a1")
        said = answer_line(1, 500).replace(
            '"isSidechain": false', '"isSidechain": true, "agentId": "a1"'
        )
        path.write_text(f"{asked}\n{said}\n", encoding="utf-8")
        await chat.tell(event)
        await chat.tell(event)
        assert (count_kept(chat, "use tabs"), count_kept(chat, "Done with 1.")) == (1, 1)
        assert "12 messages" in await chat.talk.say("context_stats")
        assert "by agent" in await chat.talk.say("pin_constraint", text="Always use tabs.")


async def test_an_answer_that_came_too_late_is_given_at_the_next_prompt(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        await chat.talk.say("pin_constraint", text=RULE)
        chat.grow(BOUNDARY)
        chat.environ[HOOK_SECONDS] = "0"
        assert await chat.tell("UserPromptSubmit") == ""
        del chat.environ[HOOK_SECONDS]
        assert f"by user: {RULE}" in await chat.tell("UserPromptSubmit")


@pytest.mark.parametrize("is_shown", [True, False])
async def test_an_answer_counts_once_the_host_has_written_it_down(
    tmp_path: Path, is_shown: bool
) -> None:
    async with claude_code(tmp_path) as chat:
        await chat.tell("UserPromptSubmit")
        await chat.talk.say("pin_constraint", text=RULE)
        pins, records = await chat.compact()
        chat.grow(BOUNDARY)
        assert PINNED_LABEL not in await chat.tell("UserPromptSubmit")
        chat.grow(claude_line(13, f"{pins}\n{records}" if is_shown else "Hello."))
        await chat.tell("Stop")
        assert (PINNED_LABEL in await chat.tell("UserPromptSubmit")) is not is_shown


async def test_after_a_compaction_the_newest_words_are_back_though_no_digest_holds_them(
    tmp_path: Path,
) -> None:
    async with claude_code(tmp_path) as chat:
        chat.grow(claude_line(12, "We keep sessions in Redis, port 6380."), answer_line(13, 3000))
        _, records = await chat.compact()
        assert "in no digest: " in records
        assert "m13 user\n| We keep sessions in Redis, port 6380.\nm14 assistant\n" in records
        assert len(records) <= hooked_hosts()["claude-code"].most_chars


async def test_a_rule_that_only_the_newest_words_quote_is_given_as_a_pin(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        chat.grow(claude_line(12, RULE))
        await chat.tell("UserPromptSubmit")
        await chat.talk.say("pin_constraint", text=RULE)
        _, records = await chat.compact()
        assert f"| {RULE}" in records
        chat.grow(BOUNDARY, claude_line(13, records))  # the pins did not come in time
    async with claude_code(tmp_path) as resumed:
        resumed.lines = chat.lines
        resumed.grow()
        assert f"by user: {RULE}" in await resumed.tell("UserPromptSubmit")
