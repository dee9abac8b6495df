"""What the tests of hosts start from: files that the hosts wrote, and a compactor to record them.

The files in `real/` were written by Claude Code 2.1.325, Codex 0.166.0, Gemini CLI 0.61.0 and
opencode 1.18.33 to a scripted model, and were shortened.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.recording import RecordedPart, project_of_chat, record_new
from mcp_compaction.hosts.transcripts.pieces import Transcript
from mcp_compaction.model import SessionInfo
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace

REAL = Path(__file__).parent / "real"
SHOP = "/home/ann/shop"
CHATS = ".claude/projects/-home-ann-shop"


def make_home(home: Path) -> Mapping[str, str]:
    """Put the files of all hosts where the hosts keep them; the environment that says so."""
    shutil.copytree(REAL / "claude-code", home / ".claude")
    shutil.copytree(REAL / "codex", home / ".codex")
    shutil.copytree(REAL / "gemini", home, dirs_exist_ok=True)
    database = home / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((REAL / "opencode.sql").read_text(encoding="utf-8"))
    return {"HOME": str(home)}


def found_in(environ: Mapping[str, str], host: str | None = None) -> list[Transcript]:
    """The transcripts of a host, or of all."""
    hosts = [one for one in known_hosts() if host in (None, one.name)]
    paths = [path for one in hosts for path in one.find_transcripts(environ)]
    return [found for path in paths for found in transcripts_at(path, environ)]


@asynccontextmanager
async def workspace_in(folder: Path) -> AsyncGenerator[Workspace]:
    """A workspace on a store of the test's own."""
    environ = {"HOME": str(folder), "MCP_COMPACTION_HOME": str(folder / "store")}
    work = await open_workspace(load_settings({**environ, "MCP_COMPACTION_COUNTER": "estimate"}))
    try:
        yield work
    finally:
        await work.store.close()


async def record(work: Workspace, transcript: Transcript) -> RecordedPart:
    """Record what is new in a transcript."""
    return await record_new(
        work, transcript, lambda chat: project_of_chat(transcript, chat) or SHOP
    )


async def record_all(work: Workspace, transcripts: Iterable[Transcript]) -> list[RecordedPart]:
    """Record what is new in each of these."""
    return [await record(work, transcript) for transcript in transcripts]


class Said(NamedTuple):
    """A message of the log, as far as tests look at it."""

    role: str
    via: str
    text: str


async def said_in(work: Workspace, info: SessionInfo) -> list[Said]:
    """All messages of a session, with the beginnings of what they say."""
    lines = [json.loads(line) async for line in compactor.export(work, info)]
    if len(lines) == 1:
        return []
    found = await compactor.originals(work, info, f"m1..m{len(lines) - 1}")
    return [
        Said(
            one.message.role,
            one.message.via,
            " ".join(
                getattr(part, "text", "") or getattr(part, "name", "") for part in one.message.parts
            )[:40].split("\n")[0],
        )
        for one in found
    ]


def dump(folder: Path) -> list[str]:
    """All that the store holds but the moments of recording and the search's own tables."""
    with closing(sqlite3.connect(folder / "store/store.db")) as connection:
        rows: list[str] = []
        for table, columns in (
            ("message", "session, seq, role, shape, host_id, content, chain, at, via, raw"),
            ("session", "id, name, project, agent, host, host_session, parent, last_seq, traits"),
            ("event", "session, name, at, detail"),
            ("passage", "session, kind, number, ordinal, role, text"),
            ("transcript", "address, session, position, tail"),
        ):
            found = connection.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}")
            rows += [f"{table} {row}" for row in found]
    return rows


def claude_line(number: int, text: str, **more: Any) -> str:
    """A line of Claude Code with a prompt."""
    return json.dumps(
        {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "isSidechain": False,
            "sessionId": "5a1c",
            "cwd": SHOP,
            "timestamp": "2026-11-15T14:03:00.000Z",
            "message": {"role": "user", "content": text},
            **more,
        }
    )


def write_chat(environ: Mapping[str, str], lines: Iterable[str], name: str = "5a1c") -> Path:
    """Write a transcript of Claude Code where it belongs."""
    path = Path(environ["HOME"]) / CHATS / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path
