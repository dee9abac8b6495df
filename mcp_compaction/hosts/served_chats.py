"""The chats that a module of ours inside their host serves: one small file each, beside the store.

By them hooks in other processes and `doctor` know of it. They hold nothing that was said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mcp_compaction.home import SERVED
from mcp_compaction.hosts.trouble import note_trouble
from mcp_compaction.program import is_alive

_GONE = (
    "left to the host: the server was not there; to have it again now, type /mcp in that chat and "
    "reconnect it, and all pins go with the next prompt"
)


class ServedChat(NamedTuple):
    """A chat that the module serves, and how it went."""

    session: str  # the host's own id for it
    process: int  # of the server that the module asks
    version: str = ""  # of the host
    ours: int = 0  # compactions that were answered by our view
    hosts: int = 0  # and by the host's own summary, since ours failed
    why: str = ""  # the last one did
    is_interactive: bool = False
    viewed: float = 0.0  # when our view was given last, in seconds

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


def read_chat(home: Path, session: str) -> ServedChat | None:
    """The chat of that id, as the last server that served it has noted."""
    return next(SERVED.read(home, ServedChat, session), None)


def find_served_chat(home: Path, session: str) -> ServedChat | None:
    """The chat of that id, where the module serves it now."""
    found = read_chat(home, session)
    return found if found is not None and found.is_there else None


def note_dead_server(home: Path, host: str, session: str, environ: Mapping[str, str]) -> None:
    """Count a compaction that was left to the host since the server of its chat is gone."""
    found = read_chat(home, session)
    if found is not None and not found.is_there:
        note_trouble(environ, host, "session.compact", _GONE, is_ours=True)
        note_chat(home, found._replace(hosts=found.hosts + 1))
