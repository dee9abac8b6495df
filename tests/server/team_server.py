"""Server processes of a team, on a real PostgreSQL, and clients with a token."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_compaction.store.postgres import database
from mcp_compaction.store.postgres.tokens import TokenIdentity, add_token
from tests.server.talking import Era, Talk
from tests.sessions import NOW
from tests.store.postgres_server import WHY_NOT, Server, find_programs, running_server

PROGRAM = (sys.executable, "-P", "-c", "from mcp_compaction.cli.main import run; run()")


@contextmanager
def migrated_server(role: str) -> Generator[Server]:
    """A database of a test module's own, for servers of this role."""
    if find_programs() is None:
        pytest.skip(WHY_NOT)
    with running_server() as server:
        asyncio.run(database.migrate(server.address, grant_to=role))
        yield server


@contextmanager
def process(address: str, home: Path, port: int = 0) -> Generator[int]:
    """A server process; the port it listens on."""
    home.mkdir(parents=True, exist_ok=True)
    told = home / "stderr"  # a file: a pipe that nobody reads would stop it
    with told.open("w", encoding="utf-8") as file:
        running = subprocess.Popen(
            [*PROGRAM, "serve", "--http", "--port", str(port)],
            env=environ_for(address, home),
            stderr=file,
        )
    try:
        while (found := re.search(r":(\d+)/mcp", told.read_text(encoding="utf-8"))) is None:
            assert running.poll() is None, told.read_text(encoding="utf-8")
            time.sleep(0.02)
        wait_until_ready(int(found[1]))
        yield int(found[1])
    finally:
        running.kill()  # as a machine that is gone, which no promise may depend on
        running.wait()


def environ_for(address: str, home: Path) -> dict[str, str]:
    """The environment of a process that works on a team's store."""
    own = {"MCP_COMPACTION_STORE": address, "MCP_COMPACTION_HOME": str(home)}
    return {**os.environ, **own}


def wait_until_ready(port: int) -> None:
    """Ask until the process answers that its store does."""
    with httpx2.Client(timeout=60) as http:
        while True:
            with suppress(httpx2.TransportError):
                if http.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                    return
            time.sleep(0.02)  # whoever starts needs the processor


async def new_token(server: Server, owner: str, project: str = "team") -> str:
    """A token for an owner."""
    name, identity = f"of-{uuid4().hex}", TokenIdentity(owner, project)
    async with database.opened(server.address) as team:
        return await team.write("", lambda tx: add_token(tx, name, identity, NOW))


@asynccontextmanager
async def talking(port: int, token: str, era: Era) -> AsyncGenerator[Talk]:
    """A client with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
        async with Client(transport, mode=era) as client:
            yield Talk(client)
