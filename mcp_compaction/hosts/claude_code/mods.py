"""The chats that our module inside Claude Code serves: one small file each, beside the store.

By them hooks in other processes and `doctor` know of it. They hold nothing that was said.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mcp_compaction.home import SERVED
from mcp_compaction.hosts.gateways import is_alive


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
    SERVED.write(home, json.dumps(chat._replace(why="")._asdict()), chat.session)


def forget_chat(home: Path, session: str) -> None:
    """Remove the file of a chat that is over."""
    with suppress(OSError):
        SERVED.path(home, session).unlink()


def find_served_chat(home: Path, session: str) -> ServedChat | None:
    """The chat of that id, where the module serves it now."""
    found = next(SERVED.read(home, ServedChat, session), None)
    return found if found is not None and found.is_there else None
