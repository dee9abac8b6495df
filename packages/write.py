"""Writes what the packages of hosts take from elsewhere: the version, the tools, hooks, the icon;
and what hooks read of the files of hosts, which are TOML.

    python packages/write.py

The version stands in `pyproject.toml`; everything that repeats it is written from there.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_compaction.hosts.setup.entries import Launch, entries_for, find_host
from mcp_compaction.lexicon import host_names, read_host

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "packages"
PLUGIN = ROOT / "mcp_compaction/hosts/claude_code/marketplace/mcp-compaction"
OPENCODE = ROOT / "mcp_compaction/hosts/opencode"
FOR_HOOKS = ROOT / "mcp_compaction/lexicon/hosts/hooks.json"
SKILL = "skills/context/SKILL.md"

MANIFESTS = (
    ROOT / "server.json",
    PLUGIN / ".claude-plugin/plugin.json",
    PACKAGES / "codex/.codex-plugin/plugin.json",
    PACKAGES / "gemini/gemini-extension.json",
    PACKAGES / "mcpb/manifest.json",
    OPENCODE / "package.json",
)

_VERSION = re.compile(r'(?<="version": ")[^"]*(?=")')
_SIDE = 512
_PAPER, _INK, _PIN = (246, 243, 236), (38, 50, 66), (214, 84, 60)


def read_version() -> str:
    """The version of the project."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(told["project"]["version"])


def files() -> Iterator[tuple[Path, bytes]]:
    """Every file that is written, with its content."""
    version = read_version()
    for path in MANIFESTS:
        text = _VERSION.sub(version, path.read_text(encoding="utf-8"))
        if path.name == "manifest.json":
            told: dict[str, Any] = json.loads(text)
            text = _as_json({**told, "tools": list(_tools())})
        yield path, text.encode()
    icon = draw_icon()
    yield PLUGIN / ".claude-plugin/icon.png", icon
    yield PACKAGES / "mcpb/icon.png", icon
    yield PACKAGES / "codex/assets/icon.png", icon
    yield PACKAGES / "codex" / SKILL, (PLUGIN / SKILL).read_bytes()
    yield PACKAGES / "codex/hooks/hooks.json", _as_json(_codex_hooks()).encode()
    yield FOR_HOOKS, _as_json(_known_by_hooks()).encode()


def _tools() -> Iterator[dict[str, str]]:
    answers = ROOT / "mcp_compaction/server/first_answers/all-agent.json"
    for tool in json.loads(answers.read_text(encoding="utf-8"))["legacy"]["tools/list"]["tools"]:
        yield {"name": tool["name"], "description": tool["description"].split("\n")[0]}


def _codex_hooks() -> dict[str, Any]:
    hooks: dict[str, Any] = {}
    for entry in entries_for(find_host("codex"), ["hooks"], Launch(words=("mcp-compaction",))):
        hooks.setdefault(str(entry.at[1]), []).append(entry.value)
    return {"hooks": hooks}


def _known_by_hooks() -> dict[str, Any]:
    """What the command `hook` reads of the hosts that tell it more than calls to be checked."""
    found: dict[str, Any] = {}
    for name in host_names():
        host = read_host(name)
        hooks: list[dict[str, str]] = host.get("events", {}).get("hook", [])
        if any(hook["way"] == "command" and hook["moment"] != "check" for hook in hooks):
            found[name] = {"events": host["events"], "setup": {"file": host["setup"]["file"]}}
    return found


def draw_icon() -> bytes:
    """The icon, a PNG: a window whose lines have become few, and a pin that stayed."""
    rows = b"".join(
        b"\0" + b"".join(bytes(_color(x, y)) for x in range(_SIDE)) for y in range(_SIDE)
    )
    head = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _color(x: int, y: int) -> tuple[int, int, int]:
    if not _is_rounded(x, y, 24, 24, 488, 488, 72):
        return (255, 255, 255)
    if not _is_rounded(x, y, 48, 48, 464, 464, 52):
        return _INK
    if (x - 136) ** 2 + (y - 160) ** 2 < 44**2:
        return _PIN
    for left, top, right in ((204, 140, 408), (96, 252, 408), (96, 336, 276)):
        if _is_rounded(x, y, left, top, right, top + 40, 20):
            return _INK
    return _PAPER


def _is_rounded(x: int, y: int, left: int, top: int, right: int, bottom: int, round: int) -> bool:
    if not (left <= x < right and top <= y < bottom):
        return False
    near_x = min(max(x, left + round), right - round)
    near_y = min(max(y, top + round), bottom - round)
    return (x - near_x) ** 2 + (y - near_y) ** 2 <= round**2


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def main() -> None:
    """Write each file that is not as it should be."""
    for path, content in files():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
