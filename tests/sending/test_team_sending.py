"""A store is sent on to a team's server: once, in order, through a network that breaks."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.ports import Scope, Store
from mcp_compaction.settings import Settings, load_settings
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.postgres.store import open_store as open_rows
from mcp_compaction.store.sqlite import open_store as open_file
from mcp_compaction.wiring import open_workspace
from tests.hosts.given_hosts import claude_line
from tests.server.team_server import PROGRAM, migrated_server, new_token, process
from tests.store.postgres_server import Server

pytestmark = pytest.mark.thorough

ROLE = "sent_team"


@pytest.fixture(scope="module")
def postgres() -> Generator[Server]:
    """A database of this module's own."""
    with migrated_server(ROLE) as server:
        yield server


class Laptop:
    """A machine of an owner: its own home, project and store, and the team's server's port."""

    def __init__(self, folder: Path, postgres: Server, same_as: Laptop | None = None) -> None:
        self.folder, self.postgres = folder, postgres
        self.owner = f"ann-{uuid4().hex[:6]}" if same_as is None else same_as.owner
        self.project = folder / "shop"
        self.project.mkdir(parents=True)
        token = asyncio.run(new_token(postgres, self.owner, "shop"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.environ = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "MCP_COMPACTION_TOKEN": token,
            "MCP_COMPACTION_HOOK_SECONDS": "60",
        }
        self.transcript = folder / ".claude/projects/-shop/5a1c.jsonl"
        self.transcript.parent.mkdir(parents=True)

    @property
    def home(self) -> Path:
        """The folder of its store."""
        return self.folder / ".local/share/mcp-compaction"

    def run(self, *words: str, told: bytes = b"", code: int = 0) -> str:
        """The output of a command."""
        done = subprocess.run(
            [*PROGRAM, *words],
            env=self.environ,
            input=told,
            capture_output=True,
            check=False,
            cwd=self.project,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return (done.stdout + done.stderr).decode()

    def say(self, first: int, last: int) -> None:
        """The host writes some lines of the chat, and runs its hook at the end."""
        with self.transcript.open("a", encoding="utf-8") as file:
            for number in range(first, last):
                said = f"Line {number} of the tax return."
                file.write(claude_line(number, said, cwd=str(self.project)) + "\n")
        chat = {"session_id": "5a1c", "transcript_path": str(self.transcript)}
        told = json.dumps({**chat, "cwd": str(self.project)}).encode()
        assert self.run("hook", "claude-code", "SessionEnd", told=told) == ""
        until(lambda: len(self.said_here()) == last)

    def change_rule(self, *, is_pinned: bool) -> None:
        """The user, at a terminal of this machine, pins a rule for the project or releases it."""
        asyncio.run(change_rule(load_settings(self.environ), str(self.project), is_pinned))

    def doctor(self) -> dict[str, Any]:
        """What `doctor` says of the team's server."""
        words = [*PROGRAM, "doctor", "--json"]
        done = subprocess.run(words, env=self.environ, capture_output=True, check=False)
        return json.loads(done.stdout)["team"]

    @contextmanager
    def team(self) -> Generator[None]:
        """The team's server, until it is killed."""
        with process(self.postgres.address_of(ROLE), self.folder / "team", self.port):
            yield

    def said_here(self) -> list[tuple[int, str]]:
        """What the store of this machine holds."""
        if not store_path(self.home).exists():
            return []
        return asyncio.run(read_all(open_file(store_path(self.home))))

    def said_there(self) -> list[tuple[int, str]]:
        """What the team's store holds."""
        return asyncio.run(read_all(open_rows(self.postgres.address, self.owner)))

    def count_there(self) -> int:
        """How many messages of this owner the team's store holds."""
        count = f"SELECT count(*) FROM message WHERE owner = '{self.owner}'"
        place = ("-h", str(self.postgres.folder), "-U", "postgres")
        return int(self.postgres.run("psql", *place, "-Atc", count))


async def change_rule(settings: Settings, project: str, is_pinned: bool) -> None:
    """Pin a rule for a project in a store with one session, or release it."""
    work = await open_workspace(settings)
    (info,) = await compactor.list_sessions(work, project)
    if is_pinned:
        rule = "Never book before the fourth."
        await compactor.pin(work, info, PinWish(rule, by="user", scope="project"))
    else:
        (pin,) = await work.project_pins(project)
        await compactor.unpin(work, info, pin.ref, by="user")
    await work.store.close()


async def read_all(opening: Any) -> list[tuple[int, str]]:
    """All messages of a store with one session, in order."""
    store: Store = await opening
    try:
        sessions = await store.sessions(Scope(project=None), 10)
        assert len(sessions) <= 1
        found: list[tuple[int, str]] = []
        for info in sessions:
            scope = Scope(project=info.project, session=info.id)
            said = await store.originals(scope, limit=100_000)
            found += [(one.message.seq, one.message.raw) for one in said]
        return found
    finally:
        await store.close()


def until(is_so: Any) -> None:
    """Look until it is so; the test's own time limit ends it."""
    while not is_so():
        time.sleep(0.05)


@contextmanager
def host_running(laptop: Laptop) -> Generator[None]:
    """Our server as a host starts it, with the environment that install has written."""
    entry = json.loads((laptop.folder / ".claude.json").read_text())["mcpServers"]["compaction"]
    words = [entry["command"], *entry.get("args", [])]
    environ = {**laptop.environ, **entry.get("env", {})}
    running = subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=laptop.project
    )
    try:
        yield
    finally:
        running.kill()
        running.wait()
        assert running.stdin is not None
        running.stdin.close()


def test_what_hooks_record_arrives_once_and_in_order_though_the_network_breaks(
    postgres: Server, tmp_path: Path
) -> None:
    laptop = Laptop(tmp_path, postgres)
    laptop.run("install", "claude-code", "--server", f"http://127.0.0.1:{laptop.port}")
    laptop.say(0, 3)  # nobody listens
    assert "does not answer" in laptop.run("send", code=1)
    told = laptop.doctor()
    assert told["messages_waiting"] == 3
    assert "does not answer" in told["problems"][0]
    with host_running(laptop):
        with laptop.team():
            until(lambda: laptop.count_there() == 3)
        laptop.say(3, 8)  # it is gone again
        laptop.say(8, 12)
        with laptop.team():
            until(lambda: laptop.count_there() == 12)
            # A pass ends after its messages arrived: only then is the trouble of before forgotten.
            until(lambda: laptop.doctor()["problems"] == [])
            assert laptop.doctor()["messages_waiting"] == 0
    assert laptop.said_there() == laptop.said_here()
    assert [seq for seq, _ in laptop.said_there()] == list(range(1, 13))


def test_a_sender_that_is_killed_in_the_middle_leaves_nothing_out_and_nothing_twice(
    postgres: Server, tmp_path: Path
) -> None:
    laptop = Laptop(tmp_path, postgres)
    laptop.run("install", "codex", "--server", f"http://127.0.0.1:{laptop.port}")
    messages = [{"role": "user", "content": f"Line {n}: {'x' * 900}"} for n in range(1200)]
    lines = "\n".join(map(json.dumps, messages))
    laptop.run("record", "-", "--session", "long", told=lines.encode())
    kills = 0
    with laptop.team():
        while (before := laptop.count_there()) < 800:
            running = subprocess.Popen(
                [*PROGRAM, "send"], env=laptop.environ, stdout=subprocess.DEVNULL
            )
            until(lambda now=before: laptop.count_there() > now)
            running.kill()
            kills += running.wait() < 0
        laptop.run("send")
    assert kills > 0
    assert laptop.said_there() == laptop.said_here()
    assert len(laptop.said_there()) == 1200


def test_a_pin_made_here_reaches_another_machine_and_ends_there_with_it(
    postgres: Server, tmp_path: Path
) -> None:
    ann = Laptop(tmp_path / "ann", postgres)
    other = Laptop(tmp_path / "other", postgres, ann)
    start = {"session_id": "77", "cwd": str(other.project), "source": "startup"}
    told = json.dumps(start).encode()
    for laptop in (ann, other):
        laptop.run("install", "claude-code", "--server", f"http://127.0.0.1:{ann.port}")
        laptop.say(0, 2)
    ann.change_rule(is_pinned=True)
    assert "does not answer" in ann.run("send", code=1)
    assert ann.doctor()["pins_waiting"] == 1
    with ann.team():
        ann.run("send")
        assert ann.doctor()["problems"] == []
        other.run("send")
        shown = other.run("hook", "claude-code", "SessionStart", told=told)
        assert len(re.findall(r"by user: Never book before the fourth", shown)) == 1
        ann.change_rule(is_pinned=False)
        ann.run("send")
        other.run("send")
    assert other.run("hook", "claude-code", "SessionStart", told=told) == ""


def test_pins_of_the_team_are_shown_by_the_hook_of_a_new_chat_until_they_are_released(
    postgres: Server, tmp_path: Path
) -> None:
    laptop = Laptop(tmp_path, postgres)
    laptop.run("install", "claude-code", "--server", f"http://127.0.0.1:{laptop.port}")
    laptop.say(0, 2)
    start = {"session_id": "77", "cwd": str(laptop.project), "source": "startup"}
    told = json.dumps(start).encode()

    address = {"MCP_COMPACTION_STORE": postgres.address, "MCP_COMPACTION_OWNER": laptop.owner}
    there = load_settings({**laptop.environ, **address})
    with laptop.team():
        laptop.run("send")
        asyncio.run(change_rule(there, "shop", is_pinned=True))
        laptop.run("send")
        laptop.run("send")
        shown = laptop.run("hook", "claude-code", "SessionStart", told=told)
        assert len(re.findall(r"by user: Never book before the fourth", shown)) == 1
        asyncio.run(change_rule(there, "shop", is_pinned=False))
        laptop.run("send")
    assert laptop.run("hook", "claude-code", "SessionStart", told=told) == ""
