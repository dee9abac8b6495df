"""`mcp-compaction hook`: what a host runs where no server can hear it; it never stops the host."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.cli import cold_event
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.core.log.pinned import pinned_block, shown_text
from mcp_compaction.home import TROUBLE, state_folder
from mcp_compaction.hosts.folders import note_folders
from mcp_compaction.hosts.hook_notes import note_trouble, read_run, read_trouble
from mcp_compaction.hosts.serving import RunningGateway, ServedChat, note_chat, note_gateway
from mcp_compaction.model import Pin
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace
from tests.hosts.given_hosts import claude_line, make_home

SCRIPT = Path(sys.executable).with_name("mcp-compaction")
RULE = "Never push to main — not\neven once."
PATIENT = {"MCP_COMPACTION_HOOK_SECONDS": "60"}  # however busy the machine is


def run_hook(
    home: Path, told: bytes, *words: str, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a host does."""
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], **PATIENT, **more}
    return subprocess.run(
        [SCRIPT, "hook", *words], input=told, env=environ, capture_output=True, check=False
    )


def run_program(home: Path, *words: str) -> bytes:
    """The output of a command that worked."""
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    done = subprocess.run([SCRIPT, *words], env=environ, capture_output=True, check=True)
    return done.stdout


def start(folder: Path, source: str = "startup") -> bytes:
    """What Claude Code writes to a SessionStart hook."""
    return json.dumps({"session_id": "0f8a", "cwd": str(folder), "source": source}).encode()


async def pin_for_project(home: Path, project: str) -> tuple[Pin, ...]:
    work = await open_workspace(load_settings({"HOME": str(home)}))
    try:
        info, _ = await compactor.open_session(work, SessionKey(project=project))
        await compactor.pin(work, info, PinWish(RULE, by="user", scope="project"))
        await compactor.pin(work, info, PinWish("Only in that session.", by="agent"))
        return await work.project_pins(project)
    finally:
        await work.store.close()


async def pin_in_chat(home: Path, project: str, *texts: str) -> tuple[Pin, ...]:
    work = await open_workspace(load_settings({"HOME": str(home)}))
    try:
        key = SessionKey(project=project, host="claude-code", host_session="0f8a")
        info, _ = await compactor.open_session(work, key)
        for text in texts:
            await compactor.pin(work, info, PinWish(text, by="user"))
        return await work.pins(info)
    finally:
        await work.store.close()


def show(home: Path, folder: Path, **more: str) -> str:
    """What the hook shows after a compaction of Claude Code, with no server there."""
    done = run_hook(home, start(folder, "compact"), "claude-code", "SessionStart", **more)
    answer = json.loads(done.stdout or "{}").get("hookSpecificOutput", {})
    return answer.get("additionalContext", "")


def test_after_a_compaction_the_pins_of_the_chat_stand_again_without_a_server(
    tmp_path: Path,
) -> None:
    project = os.path.realpath(tmp_path)
    asyncio.run(pin_for_project(tmp_path, project))
    pins = asyncio.run(pin_in_chat(tmp_path, project, "Never deploy on a Friday."))
    assert len(pins) == 2
    assert show(tmp_path, tmp_path) == pinned_block(pins)
    named = show(
        tmp_path, tmp_path, MCP_COMPACTION_COUNTER="estimate"
    )  # which says nothing of pins
    assert named == pinned_block(pins)
    off = show(tmp_path, tmp_path, MCP_COMPACTION_RECORD="false")
    assert off == ""


def test_while_a_gateway_shows_the_pins_the_hook_does_not(tmp_path: Path, taken_port: int) -> None:
    project = os.path.realpath(tmp_path)
    asyncio.run(pin_in_chat(tmp_path, project, RULE))
    home = load_settings({"HOME": str(tmp_path)}).home
    chats = {"0f8a": "claude-code"}
    gateway = RunningGateway(os.getpid(), taken_port, project, "", "2026-11-18", chats, {})
    note_gateway(home, gateway)
    assert show(tmp_path, tmp_path) == ""
    note_chat(home, ServedChat("0f8a", os.getpid()))  # whose requests a gateway passes as they are
    assert RULE.split("\n")[0] in show(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("host", "event", "source"),
    [
        ("claude-code", "SessionStart", "startup"),
        ("claude-code", "SessionStart", "compact"),
        ("gemini", "BeforeAgent", ""),
    ],
)
def test_what_shows_pins_loads_nothing_that_a_host_would_wait_for(
    tmp_path: Path, host: str, event: str, source: str
) -> None:
    asyncio.run(pin_for_project(tmp_path, os.path.realpath(tmp_path)))
    code = (
        "import os, sys; from mcp_compaction.cli.main import main\n"
        "streams = (sys.stdout, sys.stderr, sys.stdin)\n"
        f"assert main(['hook', '{host}', '{event}'], *streams, dict(os.environ)) == 0\n"
        "heavy = {'asyncio', 'mcp', 'pydantic', 'mcp_compaction.model', 'tomllib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **PATIENT}
    given = start(tmp_path, source)
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, env=environ, capture_output=True, check=True
    )
    shown, loaded = done.stdout.splitlines()
    assert b"Never push to main" in shown
    assert loaded == b"[]"


def test_a_new_chat_starts_with_the_pins_of_its_project(tmp_path: Path) -> None:
    project = os.path.realpath(tmp_path)
    pins = asyncio.run(pin_for_project(tmp_path, project))
    done = run_hook(tmp_path, start(tmp_path), "claude-code", "SessionStart")
    said: dict[str, Any] = json.loads(done.stdout)["hookSpecificOutput"]
    assert said == {"hookEventName": "SessionStart", "additionalContext": pinned_block(pins)}
    ran = read_run({"HOME": str(tmp_path)}, "claude-code")
    assert ran is not None
    assert ran.event == "SessionStart"
    store = str(load_settings({"HOME": str(tmp_path)}).home)
    words = ("claude-code", "SessionStart", "--home", store)  # as install writes a named store
    assert run_hook(tmp_path / "new", start(tmp_path), *words).stdout == done.stdout
    elsewhere = run_hook(tmp_path, start(tmp_path / "other"), "claude-code", "SessionStart")
    assert elsewhere.stdout == b""


def test_a_chat_that_goes_on_is_told_the_pins_that_do_not_stand_in_it(tmp_path: Path) -> None:
    asyncio.run(pin_for_project(tmp_path, os.path.realpath(tmp_path)))
    transcript = tmp_path / "chat.jsonl"
    told = {**json.loads(start(tmp_path, "resume")), "transcript_path": str(transcript)}
    given = json.dumps(told).encode()
    for said, is_told in (("Hello.", True), (RULE, False)):
        transcript.write_text(json.dumps({"content": said}, ensure_ascii=False), encoding="utf-8")
        shown = run_hook(tmp_path, given, "claude-code", "SessionStart").stdout
        assert (b"Never push to main" in shown) == is_told


def gemini_chat(folder: Path) -> dict[str, str]:
    """What Gemini CLI tells of a chat that it has kept."""
    (transcript, *_) = (folder / "home/.gemini/tmp/shop/chats").glob("*c67f5a60.jsonl")
    header: dict[str, Any] = json.loads(transcript.read_text(encoding="utf-8").split("\n")[0])
    project = os.path.realpath(folder)
    (transcript.parents[1] / ".project_root").write_text(project, encoding="utf-8")
    return {
        "session_id": header["sessionId"],
        "transcript_path": str(transcript),
        "cwd": project,
    }


def count_messages(home: Path, project: str) -> int:
    """The messages of the longest session of a project."""
    listed = run_program(home, "sessions", "--project", project, "--json")
    return max(one["messages"] for one in json.loads(listed))


def test_gemini_gets_the_pins_of_the_project_once_and_its_chat_is_recorded(tmp_path: Path) -> None:
    environ = {**make_home(tmp_path / "home"), "MCP_COMPACTION_COUNTER": "estimate"}
    told = gemini_chat(tmp_path)
    asyncio.run(pin_for_project(tmp_path / "home", told["cwd"]))
    first = cold_event.handle("gemini", "BeforeAgent", told, environ)
    context = json.loads(first)["hookSpecificOutput"]["additionalContext"]
    assert shown_text(RULE) in context
    line = {"id": "u9", "type": "user", "content": [{"text": context}]}
    with Path(told["transcript_path"]).open(
        "a", encoding="utf-8"
    ) as file:  # Gemini CLI keeps what a hook added
        file.write(json.dumps(line) + "\n")
    assert cold_event.handle("gemini", "BeforeAgent", told, environ) == ""
    assert cold_event.handle("gemini", "AfterAgent", told, environ) == ""
    assert count_messages(tmp_path / "home", told["cwd"]) > 1


@pytest.mark.thorough
def test_gemini_is_shown_the_pins_at_once_and_what_was_said_is_recorded_apart(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    make_home(home)
    told = gemini_chat(tmp_path)
    pins = asyncio.run(pin_for_project(home, told["cwd"]))
    first = run_hook(home, json.dumps(told).encode(), "gemini", "BeforeAgent")
    said: dict[str, Any] = json.loads(first.stdout)["hookSpecificOutput"]
    assert said == {"hookEventName": "BeforeAgent", "additionalContext": pinned_block(pins)}
    with Path(told["transcript_path"]).open("a", encoding="utf-8") as file:
        text = {"text": said["additionalContext"]}
        line = {"id": "u9", "type": "user", "content": [text]}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    again = run_hook(home, json.dumps(told).encode(), "gemini", "BeforeAgent")
    assert b"pinned" not in again.stdout
    done = run_hook(home, json.dumps(told).encode(), "gemini", "AfterAgent")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert any(count_messages(home, told["cwd"]) > 1 for _ in range(100))


def test_gemini_is_shown_once_what_a_compression_left_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    told = gemini_chat(tmp_path)
    asyncio.run(pin_for_project(home, told["cwd"]))
    path, given = Path(told["transcript_path"]), json.dumps(told).encode()
    summary = {
        "id": "s1",
        "type": "user",
        "content": [{"text": "<state_snapshot>Said.</state_snapshot>"}],
    }

    def write_anew(*said: dict[str, Any]) -> None:  # as Gemini CLI does where a chat is resumed
        with path.open("a", encoding="utf-8") as file:
            line = {"$set": {"messages": [summary, *said]}}
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")

    def ask() -> str:
        done = run_hook(home, given, "gemini", "BeforeAgent")
        answer = json.loads(done.stdout or "{}").get("hookSpecificOutput", {})
        return answer.get("additionalContext", "")

    def finish_turn() -> None:
        code = "from mcp_compaction.cli.hook import record_apart; record_apart()"
        command = [sys.executable, "-c", code, "gemini", "AfterAgent"]
        environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
        subprocess.run(command, input=given, env=environ, check=True)

    write_anew()
    finish_turn()
    shown = ask()
    assert (shown.count(shown_text(RULE)), shown.count("[records: ")) == (1, 1)
    context = {"text": f"<hook_context>{shown}</hook_context>"}
    write_anew({"id": "u8", "type": "user", "content": [{"text": "And now?"}, context]})
    finish_turn()
    assert ask() == ""


def claude_chat(base: Path, project: Path) -> dict[str, str]:
    """What Claude Code tells of a chat that was written to a folder."""
    path = base / "projects/-shop/5a1c.jsonl"
    path.parent.mkdir(parents=True)
    said = claude_line(0, "You may always push to main.", cwd=str(project))
    path.write_text(f"{said}\n", encoding="utf-8")
    return {"session_id": "5a1c", "transcript_path": str(path), "cwd": str(project)}


def test_the_end_of_a_chat_is_recorded_apart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    told = claude_chat(home / ".claude", tmp_path)
    done = run_hook(home, json.dumps(told).encode(), "claude-code", "SessionEnd")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert any(has_messages(home, told["cwd"]) for _ in range(100))


def has_messages(home: Path, project: str) -> bool:
    """Whether anything of a project is recorded by now."""
    listed = json.loads(run_program(home, "sessions", "--project", project, "--json"))
    return any(one["messages"] for one in listed)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("variable", "moved", "base"),
    [("HOME", "elsewhere", "elsewhere/.claude"), ("CLAUDE_CONFIG_DIR", "else", "else")],
)
def test_a_folder_that_a_variable_moves_is_no_hosts_until_the_user_names_it_at_a_terminal(
    tmp_path: Path, variable: str, moved: str, base: str
) -> None:
    store = tmp_path / "home/.local/share/mcp-compaction"
    users = {"HOME": str(tmp_path / "home"), "MCP_COMPACTION_COUNTER": "estimate"}
    asyncio.run(pin_for_project(tmp_path / "home", os.path.realpath(tmp_path)))
    told = claude_chat(tmp_path / base, tmp_path)
    forged = {**users, "MCP_COMPACTION_HOME": str(store), variable: str(tmp_path / moved)}
    assert cold_event.handle("claude-code", "Stop", told, forged) == ""
    assert count_messages(tmp_path / "home", told["cwd"]) == 0
    (note,) = read_trouble(forged)
    assert note.what.endswith("running in a terminal: mcp-compaction install claude-code")
    note_folders(forged, store)
    cold_event.handle("claude-code", "Stop", told, forged)
    assert count_messages(tmp_path / "home", told["cwd"]) == 1


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (b"", ("claude-code", "SessionStart")),
        (b"\xff{", ("claude-code", "SessionStart")),
        (b"[]", ("claude-code", "SessionStart")),
        (b"{}", ("no-host", "NoEvent")),
        (b"{}", ()),
    ],
)
def test_whatever_a_host_writes_it_ends_well_and_says_nothing(
    tmp_path: Path, told: bytes, words: tuple[str, ...]
) -> None:
    done = run_hook(tmp_path, told, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_damaged_store_does_not_stop_the_host_and_is_noted(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    store.write_bytes(b"not a store" * 500)
    done = run_hook(
        tmp_path,
        start(tmp_path),
        "claude-code",
        "SessionStart",
        MCP_COMPACTION_HOME=str(tmp_path),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert store.read_bytes() == b"not a store" * 500
    (note,) = read_trouble({"HOME": str(tmp_path)})
    assert (note.host, note.event) == ("claude-code", "SessionStart")
    assert "it was not handled" in note.what


@pytest.mark.thorough
def test_a_locked_store_holds_no_host_and_what_was_said_is_recorded_at_the_next_event(
    tmp_path: Path,
) -> None:
    environ = {**make_home(tmp_path / "home"), "MCP_COMPACTION_COUNTER": "estimate"}
    told = gemini_chat(tmp_path)
    asyncio.run(pin_for_project(tmp_path / "home", told["cwd"]))
    store = tmp_path / "home/.local/share/mcp-compaction/store.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        patient = {"MCP_COMPACTION_HOOK_SECONDS": "5"}
        given = json.dumps(told).encode()
        done = run_hook(tmp_path / "home", given, "gemini", "BeforeAgent", **patient)
        other.execute("ROLLBACK")  # the hook has ended, though the lock was still held
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"p1 constraint, by user: Never push to main" in done.stdout  # which a lock lets read
    assert read_trouble(environ) == []
    cold_event.handle("gemini", "AfterAgent", told, environ)
    assert count_messages(tmp_path / "home", told["cwd"]) > 1


def test_notes_of_trouble_are_bounded_and_what_is_broken_in_them_is_left_out(
    tmp_path: Path,
) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    path = TROUBLE.path(state_folder(environ))
    path.parent.mkdir()
    path.write_bytes(b'{"at": 1, "host": "x"}\n[]\n{"torn\n' + b"x" * 2**18 + b"\n")
    note_trouble(environ, "gemini", "AfterAgent", "y" * 5000)
    note_trouble(environ, "gemini", "BeforeAgent", "it was not handled")
    assert [note.event for note in read_trouble(environ)] == ["AfterAgent", "BeforeAgent"]
    assert path.stat().st_size < 2**18
    assert read_trouble({"XDG_STATE_HOME": "/proc/nowhere"}) == []
    note_trouble({"XDG_STATE_HOME": "/proc/nowhere"}, "gemini", "AfterAgent", "nobody can write")
