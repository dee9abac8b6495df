"""The pins a command may mean: those of one session, or of all sessions of the project."""

from __future__ import annotations

from mcp_compaction.cli.console.looking import MOST_SESSIONS
from mcp_compaction.cli.console.opening import OpenedPlace
from mcp_compaction.model import Pin, SessionInfo


async def pins_in_force(place: OpenedPlace) -> dict[int, tuple[Pin, SessionInfo]]:
    """Each pin by its number, with a session it holds in."""
    if place.name is not None:
        sessions = (await place.session(),)
    else:
        sessions = await place.compactor.sessions(place.project, MOST_SESSIONS)
    found: dict[int, tuple[Pin, SessionInfo]] = {}
    for info in sessions:
        for pin in await place.compactor.pins(info):
            found.setdefault(pin.number, (pin, info))
    return dict(sorted(found.items()))
