"""What each host wrote is recorded as it was said, and as whose word it is."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import HOST_COMPACTED
from mcp_compaction.core.compaction.drafts import draft_of_host
from mcp_compaction.core.log.conversation import has_conversation, host_summary_in
from mcp_compaction.hosts.finding import own_transcript, subagents_of
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.transcripts import claude_code
from mcp_compaction.model import JsonObject, SummaryRequest
from mcp_compaction.ports import SessionKey
from tests.hosts.given_hosts import SHOP, found_in, make_home, record_all, said_in, workspace_in

pytestmark = pytest.mark.anyio

U, A, T = "user", "assistant", "tool"
CLAUDE_CODE = [
    (U, "host", "First prompt: never push to main."),
    (A, "host", "Two files at once."),
    (A, "host", "I look at both."),
    (A, "host", "Bash"),
    (A, "host", "Bash"),
    (U, "host", "two"),
    (U, "host", "one"),
    (A, "host", "Agent"),
    (U, "host", "Async agent launched successfully. (This"),
    (A, "host", "turn one done"),
    (U, "tool", "This session is being continued from a p"),
    (U, "tool", "<local-command-caveat>The command below "),
    (U, "host", "<command-name>/compact</command-name>"),
    (U, "tool", "<local-command-stdout>Compacted </local-"),
    (U, "tool", "<task-notification>"),
    (A, "host", "turn two done"),
    (U, "host", "second"),
    (A, "host", "turn three done"),
    (U, "host", "third"),
    (A, "host", "[script ended]"),
]
QUEUED = [
    (U, "host", "Wait for it."),
    (A, "host", "Bash"),
    (U, "host", "one"),
    (U, "host", "And never use port 80."),
    (A, "host", "Bash"),
    (U, "host", "two"),
    (A, "host", "turn one done"),
]
CODEX = [
    (U, "tool", "<environment_context>"),
    (U, "host", "First prompt: never push to main."),
    (A, "host", "echo"),
    (A, "host", "echo"),
    (T, "host", "Wall time: 0.0041 seconds"),
    (T, "host", "Wall time: 0.0028 seconds"),
    (A, "host", "spawn_agent"),
    (T, "host", "unsupported call: spawn_agent"),
    (A, "host", "There are 41 stripes."),
    (U, "host", "second"),
    (A, "host", "turn one done"),
    (U, "tool", "Another language model started to solve "),
    (U, "host", "third"),
    (A, "host", "turn two done"),
]
CODEX_WITH_AGENT = [
    (U, "tool", "<environment_context>"),
    (U, "host", "First prompt: never push to main."),
    (A, "host", "I ask another."),
    (A, "host", "spawn_agent"),
    (T, "host", '{"agent_id":"01a1e197-5fd5-7f01-8364-0f9'),
    (A, "host", "echo"),
    (T, "host", "Wall time: 0.0048 seconds"),
    (U, "tool", "<subagent_notification>"),
    (A, "host", "turn two done"),
    (U, "host", "second"),
    (A, "host", "turn three done"),
]
CODEX_AGENT = [
    (U, "tool", "<environment_context>"),
    (U, "tool", "COUNT THE STRIPES of the zebra."),
    (A, "tool", "turn one done"),
]
AGENT = [(U, "tool", "COUNT THE STRIPES of the zebra."), (A, "tool", "There are 41 stripes.")]
GEMINI = [
    (U, "host", "<session_context>"),
    (U, "host", "First prompt: never push to main."),
    (A, "host", "I look at both."),
    (A, "host", "mcp_toy_echo"),
    (A, "host", "mcp_toy_echo"),
    (U, "host", "<untrusted_context>"),
    (U, "host", "<untrusted_context>"),
    (A, "host", "turn one done"),
    (U, "host", "second"),
    (A, "host", "turn two done"),
    (U, "host", "third"),
    (A, "host", "turn three done"),
]
GEMINI_COMPRESSED = [
    (U, "host", "<session_context>"),
    (U, "host", "First prompt: never push to main. zebra "),
    (A, "host", "one is done"),
    (U, "tool", "<state_snapshot>zebras</state_snapshot>"),
    (U, "host", "second"),
    (A, "host", "two is done"),
    (U, "tool", "<state_snapshot>zebras</state_snapshot>"),
    (U, "host", "third"),
    (A, "host", "turn three done"),
]
OPENCODE = [
    (U, "host", '"First prompt: never push to main."'),
    (A, "host", "I look at both. toy_echo toy_echo"),
    (U, "host", "MARK_ECHO one MARK_ECHO two"),
    (A, "host", "task"),
    (U, "host", '<task id="ses_e1e7f05a4ffem4zndZzf3jEN9V'),
    (A, "host", "There are 41 stripes."),
    (U, "host", "second"),
    (A, "host", "turn one done"),
    (A, "host", "There are 41 stripes."),
    (U, "tool", "Continue if you have next steps, or stop"),
    (A, "host", "turn two done"),
    (U, "host", "third"),
    (A, "host", "turn three done"),
]


class Expected(NamedTuple):
    """A session as it should be recorded."""

    said: list[tuple[str, str, str]]
    parent: int | None  # which session of the host started it
    compactions: list[str]
    used: int  # tokens, as the host was told


EXPECTED = {
    "claude-code": [
        Expected(CLAUDE_CODE, None, ["manual, 985020 -> 2606 tokens"], 20_535),
        Expected(QUEUED, None, [], 19_752),
        Expected(AGENT, 0, [], 13_193),
    ],
    "codex": [
        Expected(CODEX, None, ["history"], 11_038),
        Expected(CODEX_WITH_AGENT, None, [], 11_216),
        Expected(CODEX_AGENT, 1, [], 8_431),
    ],
    "gemini": [
        Expected(GEMINI, None, [], 13_901),
        Expected(GEMINI_COMPRESSED, None, ["history"] * 2, 13_691),
    ],
    "opencode": [Expected(OPENCODE, None, ["auto"], 8_777), Expected(AGENT, 0, [], 7_077)],
}


def compactions_in(folder: Path, session: int) -> list[str]:
    """What the host's own compactions of a session were."""
    with closing(sqlite3.connect(folder / "store/store.db")) as connection:
        found = connection.execute(
            "SELECT detail FROM event WHERE session = ? AND name = ?", (session, HOST_COMPACTED)
        )
        return [detail for (detail,) in found]


def test_of_every_host_it_is_known_what_its_transcripts_say() -> None:
    assert EXPECTED.keys() == {host.name for host in known_hosts()}


@pytest.mark.parametrize("host", EXPECTED)
async def test_a_hosts_own_transcripts_are_recorded_as_it_wrote_them(
    host: str, tmp_path: Path
) -> None:
    environ = make_home(tmp_path / "home")
    async with workspace_in(tmp_path) as work:
        taken = await record_all(work, found_in(environ, host))
        infos = [one.session for one in taken if one.session is not None]
        assert [one.skipped for one in taken] == [0] * len(EXPECTED[host])
        for info, (said, parent, compactions, used) in zip(infos, EXPECTED[host], strict=True):
            assert [tuple(one) for one in await said_in(work, info)] == said
            assert (info.project, info.host) == (SHOP, host)
            assert info.parent == (None if parent is None else infos[parent].id)
            assert compactions_in(tmp_path, info.id) == compactions
            assert abs((await work.read_window(info)).fill.tokens - used) <= 2


@pytest.mark.parametrize(
    ("host", "number", "summary"),
    [
        ("claude-code", 0, "We talked about zebras."),
        ("codex", 0, "summary: zebras."),  # which is read as a heading
        ("gemini", 1, "zebras"),
        ("opencode", 0, "There are 41 stripes."),
    ],
)
async def test_the_summary_of_a_hosts_own_compaction_is_nobodys_word_and_told_as_its_models(
    tmp_path: Path, host: str, number: int, summary: str
) -> None:
    environ = make_home(tmp_path / "home")
    async with workspace_in(tmp_path) as work:
        info = (await record_all(work, found_in(environ, host)))[number].session
        assert info is not None
        session = await work.load(info)
        held = [message for message in session.messages if host_summary_in(message)]
        assert {host_summary_in(message) for message in held} == {summary}
        assert not has_conversation(held)
        said = session.messages
        span = SummaryRequest(first=1, last=said[-1].seq, messages=said, max_tokens=1_000)
        told = draft_of_host(span, session)
        assert told is not None
        items = [item for _, items in told.sections for item in items]
        assert [(item.text, item.by) for item in items] == [
            (summary.removeprefix("summary: "), "model")
        ]
        assert all(item.doubt.startswith("in the host's summary") for item in items)


async def test_a_recorded_chat_is_the_one_that_its_hosts_server_is_asked_for(
    tmp_path: Path,
) -> None:
    environ = make_home(tmp_path / "home")
    chats = {
        "claude-code": "5be46bcb-6e3b-49d3-b199-f553f845df7d",
        "codex": "01a1e180-9222-72d3-b9a0-968050c64eb7",
    }
    async with workspace_in(tmp_path) as work:
        for host, chat in chats.items():
            taken = await record_all(work, found_in(environ, host))
            assert await work.store.find_host_session(SHOP, chat, host) is not None
            key = SessionKey(project=SHOP, host=host, host_session=chat)
            info, is_new = await compactor.open_session(work, key)
            assert not is_new
            assert taken[0].session is not None
            assert info.id == taken[0].session.id


@pytest.mark.parametrize("place", ["s1/subagents/agent-a1.jsonl", "agent-a1.jsonl"])
def test_the_chat_that_a_subagent_of_claude_code_serves_is_found_in_both_layouts(
    place: str,
) -> None:
    line: JsonObject = {"type": "user", "isSidechain": True, "agentId": "a1", "sessionId": "s1"}
    chat = claude_code.chat_of(iter([line]), Path("projects/shop") / place)
    assert chat.parent_file == Path("projects/shop/s1.jsonl")


def test_the_subagents_of_a_codex_chat_are_found_by_the_parents_they_name(tmp_path: Path) -> None:
    started = {"t0": None, "t1": "t0", "t2": "other", "t3": "t1", "other": None}
    paths: dict[str, Path] = {}
    for hour, (thread, parent) in enumerate(started.items(), 20):
        # A chat goes on past midnight: its subagents lie in the folder of another day.
        day, name = (17, hour) if hour < 24 else (18, hour - 24)
        folder = tmp_path / f".codex/sessions/2026/11/{day}"
        folder.mkdir(parents=True, exist_ok=True)
        paths[thread] = folder / f"rollout-2026-11-{day}T{name:02}-00-00-{thread}.jsonl"
        source = {"subagent": {"thread_spawn": {"parent_thread_id": parent}}} if parent else "exec"
        line = {"type": "session_meta", "payload": {"id": thread, "source": source}}
        paths[thread].write_text(json.dumps(line) + "\n", encoding="utf-8")
    environ = {"HOME": str(tmp_path)}
    chat = own_transcript(paths["t0"], environ)
    assert chat is not None
    found = [one.path for one in subagents_of(chat, environ)]
    assert found == [paths["t1"], paths["t3"]]
