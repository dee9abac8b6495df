"""A store that may only be read: hooks do not disturb the host, and what was said is not lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import Implementation

from mcp_compaction.hosts.events import TOOL
from mcp_compaction.hosts.hook_notes import read_trouble
from tests.hosts.given_hosts import claude_line, write_chat
from tests.hosts.live import pin_for_project
from tests.server.talking import Talk

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="modes of files of POSIX"),
]

CHAT = "5a1c"
RULE = "Never push to main."
_AS_A_USER = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from rootless import obey_modes
obey_modes()
from mcp_compaction.cli.main import run
run()
"""


def as_a_user(*words: str) -> list[str]:
    """The program with these words, bound by the modes of files even where root runs the tests."""
    rootless = str(Path(__file__).parents[1] / "store")
    return [sys.executable, "-c", _AS_A_USER, rootless, *words]


@contextmanager
def only_to_read(store: Path) -> Generator[None]:
    """Let nobody write to a store."""
    paths = [*store.iterdir(), store]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path in reversed(paths):
            path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.fixture
async def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has a pin for a project."""
    home = tmp_path / "home"
    (tmp_path / "project").mkdir()
    await pin_for_project(tmp_path / "project", home, RULE)
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "CLAUDE_PROJECT_DIR": str(tmp_path / "project"),
        "CLAUDE_CODE_SESSION_ID": CHAT,
        "MCP_COMPACTION_HOOK_SECONDS": "60",  # however busy the machine is
    }


def store_of(environ: dict[str, str]) -> Path:
    """The folder of the store."""
    return Path(environ["HOME"]) / ".local/share/mcp-compaction"


async def test_a_command_shows_the_pins_of_a_store_that_may_only_be_read(
    environ: dict[str, str],
) -> None:
    told = {"session_id": "0f8a", "cwd": environ["CLAUDE_PROJECT_DIR"], "source": "startup"}
    command = as_a_user("hook", "claude-code", "SessionStart")
    before = (store_of(environ) / "store.db").read_bytes()
    with only_to_read(store_of(environ)):
        done = subprocess.run(
            command, input=json.dumps(told).encode(), env=environ, capture_output=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert RULE.encode() in done.stdout
    assert (store_of(environ) / "store.db").read_bytes() == before


@pytest.mark.thorough
async def test_a_server_answers_hooks_beside_it_and_records_as_soon_as_it_may(
    environ: dict[str, str],
) -> None:
    line = claude_line(0, "The port is 5433.", cwd=environ["CLAUDE_PROJECT_DIR"])
    path = write_chat(environ, [line])
    told = {"session_id": CHAT, "transcript_path": str(path), "cwd": "/p"}
    serve = StdioServerParameters(command=sys.executable, args=as_a_user("serve")[1:], env=environ)
    who = Implementation(name="claude-code", version="2")
    async with Client(serve, client_info=who) as client:
        host = Talk(client)
        with only_to_read(store_of(environ)):
            await host.say("context_stats")  # which loads the SDK: only then hooks are handled
            for event in ("UserPromptSubmit", "Stop"):
                assert await host.say(TOOL, event=event, **told) == "{}"
        assert {note.event for note in read_trouble(environ)} == {"UserPromptSubmit", "Stop"}
        for _ in range(2):  # at the first one the store is opened anew
            await host.say(TOOL, event="Stop", **told)
        assert "5433" in await host.say("recall_archived", query="port")
