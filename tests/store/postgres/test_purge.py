"""What is forgotten leaves the tables' files once they are rewritten, by who owns them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from mcp_compaction.model import NewPin
from mcp_compaction.store.postgres.database import migrate
from mcp_compaction.store.postgres.store import open_store
from tests.hosts.terminal import user_input
from tests.store.given_store import CANARY, KEY, NOW, PROJECT, add_pin, batch, history, new_session
from tests.store.postgres_server import WHY_NOT, Server, find_programs, running_server

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

PROGRAM = (sys.executable, "-P", "-c", "from mcp_compaction.cli.main import run; run()")


def files_with_canary(server: Server) -> list[Path]:
    """The files of tables that hold the canary, once all pages are written."""
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(b"CHECKPOINT")
    files = [path for path in (server.data / "base").rglob("*") if path.is_file()]
    needles = (CANARY.encode(), CANARY.lower().encode())
    return [path for path in files if any(needle in path.read_bytes() for needle in needles)]


async def test_forget_with_purge_leaves_nothing_in_the_tables_files(tmp_path: Path) -> None:
    if find_programs() is None:
        pytest.skip(WHY_NOT)

    def forget(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        own = {"MCP_COMPACTION_STORE": address, "MCP_COMPACTION_HOME": str(tmp_path)}
        environ = {**os.environ, **own, "MCP_COMPACTION_OWNER": "ann"}
        typed = ["forget", *arguments, "--project", PROJECT, "--yes"]
        command = [*PROGRAM, *typed]
        with user_input() as stdin:
            return subprocess.run(
                command, stdin=stdin, env=environ, check=False, capture_output=True, text=True
            )

    with running_server() as server:
        await migrate(server.address, grant_to="no_owner")
        store = await open_store(server.address, "ann")
        session = await new_session(store)
        await store.append(session, batch(*history("one", f"it is {CANARY}", "three")), NOW)
        pin = NewPin(text=f"keep {CANARY}", kind="fact", scope="session", author="user")
        await add_pin(store, session, pin, NOW)
        await store.close()
        refused = forget(server.address_of("no_owner"), str(KEY.name), "--purge")
        assert "Nothing was forgotten" in refused.stderr
        plain = forget(server.address, str(KEY.name), "m2")
        assert "until --purge rewrites them" in plain.stdout
        assert files_with_canary(server) != []
        purged = forget(server.address, str(KEY.name), "--purge")
        assert (purged.returncode, purged.stderr) == (0, "")
        assert "bytes may still lie in the write-ahead log" in purged.stdout
        assert files_with_canary(server) == []
