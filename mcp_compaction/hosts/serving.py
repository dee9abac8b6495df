"""The gateways that run now, and the chats that a module of ours inside their host serves: one
small file each, beside the store.

By them servers, hooks in other processes and `doctor` know of both. They hold no credentials, and
nothing that was said.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from mcp_compaction.home import GATEWAY, SERVED
from mcp_compaction.hosts.hook_notes import note_trouble
from mcp_compaction.program import is_alive

_GONE = (
    "left to the host: the server was not there; to have it again now, type /mcp in that chat and "
    "reconnect it, and all pins go with the next prompt"
)

PROCESS: Final = "COMPACTION_GATEWAY"
"""The environment variable with the process of the gateway that a host talks through."""


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


class RunningGateway(NamedTuple):
    """A gateway, and the chats that go through it."""

    process: int
    port: int
    project: str
    host: str  # that it was started for; empty: for whichever
    started: str
    chats: Mapping[str, str]  # the hosts of chats, by the hosts' own ids; the newest is the last
    counts: Mapping[str, int]  # what happened so far
    acts: bool = True  # False: it passes requests as they come, and leaves all else to others

    @property
    def newest_chat(self) -> tuple[str, str] | None:
        """The host and the id of the chat that sent a request last."""
        return next(((host, chat) for chat, host in reversed(tuple(self.chats.items()))), None)


def note_gateway(home: Path, gateway: RunningGateway) -> None:
    """Write the file of a gateway anew; whoever reads it finds it whole."""
    GATEWAY.write(home, json.dumps(gateway._asdict()), str(gateway.process))


def forget_gateway(home: Path, process: int) -> None:
    """Remove the file of a gateway that ends."""
    with suppress(OSError):
        GATEWAY.path(home, str(process)).unlink()


def running_gateways(home: Path) -> tuple[RunningGateway, ...]:
    """The gateways that are there: their processes run, and their ports are taken."""
    names = sorted(path.stem for path in home.glob(GATEWAY.name))
    found = (one for name in names for one in GATEWAY.read(home, RunningGateway, name))
    return tuple(one for one in found if _is_there(one))


def gateway_of_chat(home: Path, chat: str | None) -> RunningGateway | None:
    """The gateway that acts for a chat."""
    return next((one for one in _acting_gateways(home) if chat in one.chats), None)


def gateway_around(home: Path, environ: Mapping[str, str]) -> RunningGateway | None:
    """The gateway that acts for the host that has started this process."""
    process = environ.get(PROCESS)
    if not process:
        return None
    return next((one for one in _acting_gateways(home) if str(one.process) == process), None)


def _acting_gateways(home: Path) -> tuple[RunningGateway, ...]:
    return tuple(one for one in running_gateways(home) if one.acts)


def is_through_gateway(home: Path, environ: Mapping[str, str], chat: str) -> bool:
    """Whether a chat goes through a gateway, or will: its first request may not have come yet."""
    around = gateway_around(home, environ)
    return around is not None or gateway_of_chat(home, chat) is not None


def _is_there(gateway: RunningGateway) -> bool:
    # Another program may have the number of its process by now.
    return is_alive(gateway.process) and _is_taken(gateway.port)


def _is_taken(port: int) -> bool:
    """Whether somebody listens on a port; asked by taking it, so that nobody is disturbed."""
    # Windows gives away what is taken unless told not to; others keep for a while what is free.
    option = "SO_EXCLUSIVEADDRUSE" if sys.platform == "win32" else "SO_REUSEADDR"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
        with suppress(AttributeError):
            attempt.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return True
    return False
