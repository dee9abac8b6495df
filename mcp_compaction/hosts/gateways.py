"""The gateways that run now: one small file each, by which servers and hooks know of them.

It holds no credentials, and nothing that was said.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from mcp_compaction.home import GATEWAY
from mcp_compaction.program import is_alive

PROCESS: Final = "COMPACTION_GATEWAY"
"""The environment variable with the process of the gateway that a host talks through."""


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
