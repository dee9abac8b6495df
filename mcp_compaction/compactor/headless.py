"""The one place that says whether words in the user's role are a person's or a program's.

A host tells how a prompt came. One that a program sent (`claude -p`, the SDK, `codex exec`) is a
program's, unless the user has said at a terminal that such prompts of the project are their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mcp_compaction.compactor.results import HEADLESS
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.model import Event, HeardVia, Hit, Message, NewMessage, SessionInfo
from mcp_compaction.ports import Scope


def set_apart(
    messages: Sequence[NewMessage], via: HeardVia
) -> tuple[tuple[NewMessage, ...], tuple[Event, ...]]:
    """Messages as the store keeps them, and a note of each prompt that a program sent: it is known
    again by its moment, and without one it is hearsay. `via`: where a message does not say."""
    sent = [one for one in messages if (one.via or via) == "program" and _is_prompt(one)]
    hearsay = [one for one in sent if one.at is None]
    kept = (
        one.model_copy(update={"via": "tool" if one in hearsay else None})
        if "program" in (one.via, via) and one.via != "tool"
        else one
        for one in messages
    )
    return tuple(kept), tuple(Event(name=HEADLESS, at=one.at) for one in sent if one.at is not None)


def _is_prompt(message: NewMessage) -> bool:
    return message.role == "user" and all(part.kind != "result" for part in message.parts)


def _sent_in(work: Workspace, info: SessionInfo, events: Sequence[Event]) -> Collection[object]:
    """The moments, or the refs, of the prompts in a session that count as a program's."""
    if not events or work.trusts_headless(info.project):
        return ()
    return {event.detail or event.at for event in events}


async def tell_programs(
    work: Workspace, info: SessionInfo, messages: Sequence[Message]
) -> list[Message]:
    """Messages of a session as they were heard: those that a program sent say so."""
    events = await work.store.events(info.id, HEADLESS) if messages else ()
    return tell_programs_by(work, info, messages, events)


def tell_programs_by(
    work: Workspace, info: SessionInfo, messages: Sequence[Message], events: Sequence[Event]
) -> list[Message]:
    """Messages as they were heard, by the session's notes of what programs sent."""
    sent = _sent_in(work, info, events)
    return [
        one.model_copy(update={"via": "program"})
        if one.is_request and one.via == "host" and (one.ref in sent or one.at in sent)
        else one
        for one in messages
    ]


async def note_headless(work: Workspace, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits with a note where their words are those of a program's prompt."""
    said_in = {(hit.project, hit.session) for hit in hits if _may_be_typed(hit)}
    sent = {
        (project, name): _sent_in(work, info, await work.store.events(info.id, HEADLESS))
        for project, name in said_in
        if (info := await work.store.find_session(Scope(project=project), name)) is not None
    }
    return tuple(
        hit.model_copy(update={"note": "; ".join(filter(None, ("headless", hit.note)))})
        if _may_be_typed(hit) and {hit.ref, hit.at} & {*sent.get((hit.project, hit.session), ())}
        else hit
        for hit in hits
    )


def _may_be_typed(hit: Hit) -> bool:
    return hit.role == "user" and hit.ref.startswith("m") and not hit.is_told
