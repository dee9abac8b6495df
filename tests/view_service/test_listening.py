"""The view service on loopback: who may ask it, and what it answers."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_compaction.view_service.listening import serve_views

pytestmark = pytest.mark.anyio


async def answer(path: str, body: dict[str, Any]) -> object:
    """Answer one path with what came."""
    if path != "/echo":
        raise LookupError(path)
    return {"came": body}


async def ask(place: Path, path: str, **told: Any) -> tuple[int, Any]:
    """Ask as a program does that has read the file; the status and the answer."""
    return await send(place, path, json.dumps(told).encode())


async def send(place: Path, path: str, body: bytes, **changes: str) -> tuple[int, Any]:
    """Send one request, with what is wrong with it; who is refused is told nothing else."""
    known = json.loads(place.read_text())
    head = f"{changes.get('method', 'POST')} {path} HTTP/1.1\r\n"
    head += f"Host: {known['url'].removeprefix('http://')}\r\n"
    head += f"Connection: close\r\nAuthorization: Bearer {changes.get('token', known['token'])}\r\n"
    head += f"Content-Length: {changes.get('size', len(body))}\r\n\r\n"
    port = int(known["url"].rpartition(":")[2])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(head.encode() + body)
        data = b""
        async for chunk in stream:
            data += chunk
    first, _, rest = data.partition(b"\r\n")
    status, told = int(first.split()[1]), rest.partition(b"\r\n\r\n")[2]
    return status, json.loads(told) if status == 200 else None


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file in a folder of the user's own."""
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    return folder / "views.json"


async def test_who_has_read_the_file_is_answered(place: Path) -> None:
    async with serve_views([place], answer, limit=0.3):
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert json.loads(place.read_text())["limit_ms"] == 300
        assert await ask(place, "/echo", n="ä") == (200, {"came": {"n": "ä"}})
    assert not place.exists()


async def test_in_a_folder_that_others_can_read_nothing_is_served(place: Path) -> None:
    place.parent.chmod(0o755)
    async with serve_views([place], answer, limit=0.3):
        assert not place.exists()


async def test_without_the_folder_nothing_is_served(place: Path) -> None:
    async with serve_views([place.parent / "none" / "views.json"], answer, limit=0.3):
        assert not place.exists()
