"""Tells which words in the user's role came from a headless run, where nobody is known to type."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from mcp_compaction.compactor.events import HEADLESS
from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.model import Hit, Message, Pin, SessionInfo
from mcp_compaction.ports import Scope

_NOTE = "headless"


async def headless_moments(work: Workspace, info: SessionInfo) -> Collection[datetime]:
    """When headless runs sent the prompts of a session: a prompt is known by its moment."""
    return {event.at for event in await work.store.events(info.id, HEADLESS)}


def speaker_of(message: Message, moments: Collection[datetime]) -> str:
    """Who says a message, with what is known of how it came: `user, headless`."""
    if message.role == "user" and message.via == "tool":
        return "user, as the agent told it"
    return f"user, {_NOTE}" if _is_headless(message, moments) else message.role


def _is_headless(message: Message, moments: Collection[datetime]) -> bool:
    return message.is_request and message.via == "host" and message.at in moments


async def is_pin_headless(work: Workspace, info: SessionInfo, pin: Pin) -> bool:
    """Whether the words of a pin that binds a session are those of a headless prompt.

    A global pin tells the name of its session without its project, so that it is known only there.
    """
    if pin.source is None or (pin.scope == "global" and pin.session != info.name):
        return False
    said_in = await work.store.find_session(Scope(project=info.project), pin.session)
    moments = await headless_moments(work, said_in) if said_in is not None else ()
    if said_in is None or not moments:
        return False
    found = await work.store.originals(scope_of(said_in), [int(pin.source.removeprefix("m"))])
    return any(_is_headless(one.message, moments) for one in found)


async def note_headless(work: Workspace, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits with a note where their words are those of a headless prompt."""
    said = {(hit.project, hit.session) for hit in hits if _may_be_typed(hit)}
    sent = {
        (project, name, moment)
        for project, name in said
        if (info := await work.store.find_session(Scope(project=project), name)) is not None
        for moment in await headless_moments(work, info)
    }
    return tuple(
        hit.model_copy(update={"note": "; ".join(filter(None, (_NOTE, hit.note)))})
        if _may_be_typed(hit) and (hit.project, hit.session, hit.at) in sent
        else hit
        for hit in hits
    )


def _may_be_typed(hit: Hit) -> bool:
    return hit.role == "user" and hit.ref.startswith("m") and not hit.is_told
