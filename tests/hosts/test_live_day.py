"""A day with each real host: it compacts by itself, the chat goes on in another process, and every
row of the transcript is recorded once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcp_compaction import formats
from mcp_compaction.formats.identity import words_in
from mcp_compaction.model import Message
from mcp_compaction.ports import HOST_COMPACTED
from tests.hosts.given_hosts import found_in, record_all, workspace_in
from tests.hosts.live import Codex, Gemini, OpenCode, needs_hosts
from tests.hosts.live_mod import PIN, RULE, ModdedClaude, read
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model
from tests.hosts.test_live_hosts import wait_for

pytestmark = needs_hosts


def words_in_store(folder: Path) -> list[tuple[str, ...]]:
    """What each message says that is recorded, sorted; of those that say anything."""
    (path,) = folder.rglob("store.db")
    with closing(sqlite3.connect(path)) as store:
        rows = store.execute("SELECT seq, role, shape, raw FROM message").fetchall()
    said = [
        words_in(
            Message(seq=seq, role=role, shape=shape, raw=raw, parts=formats.read(shape, raw)[1])
        )
        for seq, role, shape, raw in rows
    ]
    return sorted(filter(None, said))


def count_compactions(folder: Path) -> int:
    """How often its host has compacted the chat, as its transcript tells."""
    (path,) = folder.rglob("store.db")
    ask = "SELECT count(*) FROM event WHERE name = ?"
    with closing(sqlite3.connect(path)) as store:
        return store.execute(ask, (HOST_COMPACTED,)).fetchone()[0]


def words_in_transcripts(folder: Path, host: str) -> list[tuple[str, ...]]:
    """The same of the host's transcripts, which a store of its own is given at once."""
    environ = {"HOME": str(folder / "home")}

    async def read_all() -> None:
        async with workspace_in(folder / "alone") as work:
            await record_all(work, found_in(environ, host))

    asyncio.run(read_all())
    return words_in_store(folder / "alone")


def spend_with_claude_code(folder: Path, model: ScriptedModel) -> None:
    """Ours, its own while we are away, ours in a continued chat, and all of it back."""
    host = ModdedClaude(folder, model)
    host.run(RULE, "/compact", "Second prompt.")
    host.is_plugged_in = model.waits_for_us = False
    host.flags = ["--continue"]
    model.add(Step("third answer"))
    host.run("/compact", "Third prompt.")
    host.is_plugged_in = model.waits_for_us = True
    model.add(host.wait_for_server(), Step("fourth answer"), Step("fifth answer"))
    host.run("Fourth prompt.", "/compact", "Fifth prompt.")
    model.add(host.wait_for_server(), Step("sixth answer"), Step("seventh answer"))
    host.run("Sixth prompt.", "/uncompact", "/compact", "Seventh prompt.")


def spend_with_codex(folder: Path, model: ScriptedModel) -> None:
    """Its own compaction, then two runs that resume the chat."""
    host = Codex(folder, model)
    host.run(RULE)
    model.add(Step("second answer", reported=985_000), Step("third answer"), Step("fourth answer"))
    for prompt in ("Second prompt.", "Third prompt.", "Fourth prompt."):
        host.run(prompt, resumes=True)


def spend_with_gemini(folder: Path, model: ScriptedModel) -> None:
    """Its own compression, then two runs that resume the chat."""
    host = Gemini(folder, model)
    host.run(RULE)
    host.run("Look around. " * 2000, resumes=True)
    model.add(*(Step(f"{word} answer") for word in ("second", "third", "fourth")))
    host.compresses_at = 0.001
    host.run("Second prompt.", resumes=True)
    host.compresses_at = 0.5
    for prompt in ("Third prompt.", "Fourth prompt."):
        host.run(prompt, resumes=True)


def spend_with_opencode(folder: Path, model: ScriptedModel) -> None:
    """Its own compaction, then two runs that resume the chat."""
    host = OpenCode(folder, model)
    host.run(RULE)
    model.add(Step("second answer", reported=195_000))
    model.add(*(Step(f"{word} answer") for word in ("third", "fourth", "fifth")))
    for prompt in ("Second prompt.", "Third prompt.", "Fourth prompt."):
        host.run(prompt, resumes=True)


DAYS: dict[str, Callable[[Path, ScriptedModel], None]] = {
    "claude-code": spend_with_claude_code,
    "codex": spend_with_codex,
    "gemini": spend_with_gemini,
    "opencode": spend_with_opencode,
}


@pytest.mark.parametrize("host", DAYS)
def test_after_a_day_each_row_of_the_transcript_is_recorded_once(tmp_path: Path, host: str) -> None:
    reads = [read(n) for n in range(3)] if host == "claude-code" else []
    with serve_model(ScriptedModel(PIN, *reads, Step("first answer"))) as model:
        if host == "claude-code":
            model.add(Step("second answer"))
        DAYS[host](tmp_path, model)
    told = words_in_transcripts(tmp_path, host)
    assert count_compactions(tmp_path / "home") >= (4 if host == "claude-code" else 1)
    assert any("Fourth prompt." in word for words in told for word in words)
    said = [words for words in told if not words[0].startswith('user ["<')]
    assert len(said) == len({*said})  # but for commands nothing was said twice
    wait_for(lambda: len(words_in_store(tmp_path / "home")) >= len(told))
    assert words_in_store(tmp_path / "home") == told
