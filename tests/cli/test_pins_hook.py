"""`mcp-compaction pins` as a host's SessionStart hook: the pins of that chat, for the model."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace
from tests.cli.conftest import Shell

SCRIPT = Path(sys.executable).with_name("mcp-compaction")


def told(source: str, **more: str) -> bytes:
    """What Claude Code writes to a SessionStart hook."""
    fields = {"session_id": "0f8a", "cwd": "/nowhere", "hook_event_name": "SessionStart"}
    return json.dumps({**fields, "source": source, **more}).encode()


@asynccontextmanager
async def workspace_of(shell: Shell) -> AsyncGenerator[Workspace]:
    """The workspace of a program that works on the shell's store."""
    work = await open_workspace(
        load_settings({**shell.environ, "MCP_COMPACTION_HOME": str(shell.home)})
    )
    try:
        yield work
    finally:
        await work.store.close()


async def pin_in_chats(shell: Shell) -> None:
    async with workspace_of(shell) as work:
        project = os.path.realpath(shell.folder / "project")
        for host_session, text in (("0f8a", "Mine alone."), ("77aa", "Another chat's.")):
            key = SessionKey(project=project, host="claude-code", host_session=host_session)
            info, _ = await compactor.open_session(work, key, Traits(owns_window=False))
            await compactor.pin(work, info, PinWish(text, by="agent"))
        await compactor.pin(work, info, PinWish("For the project.", by="user", scope="project"))
        other, _ = await compactor.open_session(work, SessionKey(project="/elsewhere"))
        await compactor.pin(work, other, PinWish("Another project's.", by="user", scope="project"))


@pytest.fixture
def chat(shell: Shell) -> Shell:
    """A shell whose project has two chats of Claude Code, a pin in each, and one of its own."""
    asyncio.run(pin_in_chats(shell))  # as the commands do, which run a loop of their own
    return shell


def shown(shell: Shell, stdin: bytes) -> str:
    """What the host is asked to show the model: both Claude Code and Codex read this form."""
    (answer,) = json.loads(shell.done("pins", stdin=stdin)).items()
    name, fields = answer
    assert (name, fields["hookEventName"]) == ("hookSpecificOutput", "SessionStart")
    return fields["additionalContext"]


async def session_of_the_chat(shell: Shell) -> SessionInfo:
    project = os.path.realpath(shell.folder / "project")
    async with workspace_of(shell) as work:
        info = await work.store.find_host_session(project, "0f8a")
    assert info is not None
    return info


def test_it_prints_only_the_pins_of_that_chat_and_its_project(chat: Shell) -> None:
    assert shown(chat, told("compact")) == (
        f"{PINNED_LABEL}\n"
        "p1 constraint, by agent: Mine alone.\n"
        "p3 constraint, by user: For the project."
    )


def test_only_after_a_compaction_is_it_noted_that_pins_were_put_back(chat: Shell) -> None:
    for source in ("startup", "clear", "resume"):
        chat.done("pins", stdin=told(source))
        assert asyncio.run(session_of_the_chat(chat)).traits.mode == "plain"
    chat.done("pins", stdin=told("compact"))
    assert asyncio.run(session_of_the_chat(chat)).traits.mode == "hooks"


def test_without_a_store_it_says_nothing_and_makes_none(shell: Shell) -> None:
    ran = shell("pins", stdin=told("startup"))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert not shell.home.exists()


def test_the_project_is_the_hosts_word_else_the_git_top_of_its_folder(
    chat: Shell, tmp_path: Path
) -> None:
    project = Path(os.path.realpath(chat.folder / "project"))
    (project / "deep" / "er").mkdir(parents=True)
    (project / ".git").mkdir()
    environ = {**chat.environ, "PATH": os.environ["PATH"]}
    del environ["MCP_COMPACTION_PROJECT"]
    for host, folder in (({"CLAUDE_PROJECT_DIR": str(project)}, "/"), ({}, f"{project}/deep/er")):
        ran = subprocess.run(
            [str(SCRIPT), "pins", "--home", str(chat.home)],
            input=told("compact", cwd=folder),
            env={**environ, **host},
            cwd=tmp_path,
            capture_output=True,
            check=True,
        )
        assert b"Mine alone." in ran.stdout
        assert b"Another" not in ran.stdout


@pytest.mark.thorough
def test_a_silent_open_stdin_is_not_waited_for_forever(chat: Shell) -> None:
    environ = {**chat.environ, "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        [str(SCRIPT), "pins", "--home", str(chat.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert b"Mine alone." in running.stdout.read()  # ends by itself: nothing was written
        assert running.stderr.read() == b""
        assert running.wait() == 0
