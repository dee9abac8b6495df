"""Leaves out what a repository's settings of Claude Code say of us: a store that came with it could
hold anybody's words as the user's, and a summarizer of its choice would read the chats.

Standard library only: a host waits for our hooks.
"""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import cast

from mcp_compaction.home import home_of_account

_FILES = (".claude/settings.json", ".claude/settings.local.json")
_OURS = "MCP_COMPACTION_"
_PLACES = (
    "HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "CLAUDE_CONFIG_DIR",
)  # by which a store is found, and chats
_SIGNS = ("CLAUDECODE", "CLAUDE_PROJECT_DIR")  # that Claude Code has started this process


def leave_out_repository(environ: MutableMapping[str, str], folder: Path) -> list[str]:
    """Take out of an environment what settings of the project have put there; gives the names."""
    if not any(sign in environ for sign in _SIGNS):
        return []
    account = home_of_account()
    left: list[str] = []
    for place in {Path(environ.get("CLAUDE_PROJECT_DIR") or folder), folder}:
        said = {name: value for path in _FILES for name, value in _environ_in(place / path).items()}
        own = {account, account if "HOME" in said else environ.get("HOME", account)}
        if str(place) in own:  # the user's own settings
            continue
        for name, value in said.items():
            is_ours = name.startswith(_OURS) or name in _PLACES
            if is_ours and environ.get(name) == value:
                del environ[name]
                left.append(name)
    if "HOME" in left:
        environ["HOME"] = account
    return left


def _environ_in(path: Path) -> dict[str, str]:
    try:
        read: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    settings = cast("dict[str, object]", read) if isinstance(read, dict) else {}
    environ = settings.get("env")
    found = cast("dict[str, object]", environ) if isinstance(environ, dict) else {}
    return {name: str(value) for name, value in found.items()}
