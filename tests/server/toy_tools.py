"""The toy's tools: each does one thing that a careless tool might do to the process around it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from mcp.server import MCPServer

print("noise: at import")  # noqa: T201

LONG = 600  # seconds, longer than any test waits for the end


@asynccontextmanager
async def _lifespan(_: MCPServer[None]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        # As closing a database does, this needs the event loop once more.
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        _mark("TOY_CLOSED")


def build() -> MCPServer[None]:
    """The toy server."""
    server = MCPServer[None]("toy", version="1", lifespan=_lifespan, log_level="WARNING")
    for tool in (echo, broken, nap, block, chatter, hog):
        server.add_tool(tool, structured_output=False)
    return server


def echo(text: str) -> str:
    """Answer at once."""
    return text


def broken() -> str:
    """Answer with half of a surrogate pair."""
    return "half \ud83d"


async def nap() -> str:
    """Wait where it can be cancelled."""
    _mark("TOY_STARTED")
    await anyio.sleep(LONG)
    return "rested"


def block() -> str:
    """Wait in a thread, where it cannot be cancelled."""
    _mark("TOY_STARTED")
    time.sleep(LONG)
    return "done"


async def hog() -> str:
    """Keep the event loop from all else, in C code that no signal interrupts."""
    _mark("TOY_STARTED")
    return hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1).hex()


def chatter() -> str:
    """Write wherever there is a way to, and have a child do the same."""
    print("noise: print")  # noqa: T201
    sys.stdout.write("noise: stdout\n")
    sys.stdout.flush()
    os.write(1, b"noise: descriptor 1\n")
    warnings.warn("noise: warning", stacklevel=1)
    child = "import os, sys; print('noise: child', repr(sys.stdin.read())); os.write(1, b'noise')"
    subprocess.run([sys.executable, "-c", child], check=True)
    subprocess.run("echo noise: shell", shell=True, check=True)
    return "said"


def _mark(name: str) -> None:
    if name in os.environ:
        Path(os.environ[name]).touch()
