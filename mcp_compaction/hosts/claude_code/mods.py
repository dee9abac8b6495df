"""The chats that our module inside Claude Code serves: one small file each, beside the store.

By them hooks in other processes and `doctor` know of it. They hold nothing that was said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from mcp_compaction.hosts.gateways import is_alive

FOLDER: Final = "claude-code-mod"
"""In the store's folder: a file for each chat, named by the host's id for it."""


class ServedChat(NamedTuple):
    """A chat that the module serves, and how it went."""

    session: str  # the host's own id for it
    process: int  # of the server that the module asks
    version: str = ""  # of the host
    ours: int = 0  # compactions that were answered by our view
    hosts: int = 0  # and by the host's own summary, since ours failed
    why: str = ""  # the last one did
    is_interactive: bool = False

    @property
    def is_there(self) -> bool:
        """Whether its server runs."""
        return is_alive(self.process)


def note_chat(home: Path, chat: ServedChat) -> None:
    """Write the file of a chat anew; whoever reads it finds it whole."""
    folder = home / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = _path_of(home, chat.session)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(chat._asdict()), encoding="utf-8")
    fresh.replace(path)


def forget_chat(home: Path, session: str) -> None:
    """Remove the file of a chat that is over."""
    with suppress(OSError):
        _path_of(home, session).unlink()


def find_served_chat(home: Path, session: str) -> ServedChat | None:
    """The chat of that id, where the module serves it now."""
    found = _read(_path_of(home, session))
    return found if found is not None and found.is_there else None


def _path_of(home: Path, session: str) -> Path:
    name = "".join(sign for sign in session if sign.isalnum() or sign in "-_")
    return home / FOLDER / f"{name or 'none'}.json"


def _read(path: Path) -> ServedChat | None:
    try:
        told: object = json.loads(path.read_text(encoding="utf-8"))
        return ServedChat(**cast("Mapping[str, Any]", told))
    except (OSError, ValueError, TypeError):
        return None
