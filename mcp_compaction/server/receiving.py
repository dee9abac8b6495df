"""Keeps what machines of a team send on: each message once, in the order of its own store."""

from __future__ import annotations

from pydantic import ValidationError

from mcp_compaction.compactor import Compactor
from mcp_compaction.errors import InputError, UnknownSession
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.sending.parcel import Parcel, SharedPin, SharedPins, incoming_of

_OWN_CHARS = 6  # of the source, behind a name that another machine's session has


async def take_parcel(compactor: Compactor, body: bytes) -> int:
    """Keep what is not known yet of a parcel; how many messages that were."""
    try:
        parcel = Parcel.model_validate_json(body)
    except ValidationError as error:
        raise InputError(
            f"this is no parcel: {error.errors()[0]['msg']}; nothing was kept."
        ) from None
    info = await _open(compactor, parcel)
    # One transaction under the session's row: whoever sends the same meanwhile finds it known.
    return (await compactor.record_transcript(info, incoming_of(parcel), via="host")).new


async def _open(compactor: Compactor, parcel: Parcel) -> SessionInfo:
    """The session of a parcel; a name that is another session's gets some more letters."""
    known = await _find(compactor, parcel, parcel.source)
    if known is not None:
        return known
    parent = await _find(compactor, parcel, parcel.parent) if parcel.parent else None
    for name in (parcel.name, f"{parcel.name}-{parcel.source[:_OWN_CHARS]}", None):
        if name is not None and await _is_taken(compactor, parcel.project, name):
            continue
        key = SessionKey(
            project=parcel.project,
            name=name,
            agent=parcel.agent,
            host=parcel.host,
            host_session=parcel.source,
            parent=None if parent is None else parent.id,
        )
        first = next((one.at for one in parcel.messages if one.at is not None), None)
        info, _ = await compactor.open(key, Traits(owns_window=False), first)
        if info.host_session == parcel.source:
            return info
    raise InputError(f"no session could be opened for {parcel.name}; nothing was kept.")


async def _find(compactor: Compactor, parcel: Parcel, source: str) -> SessionInfo | None:
    return await compactor.find_of_host(parcel.project, source)


async def _is_taken(compactor: Compactor, project: str, name: str) -> bool:
    try:
        await compactor.find(project, name)
    except UnknownSession:
        return False
    return True


async def list_pins(compactor: Compactor, project: str) -> SharedPins:
    """The pins that every session of a project starts with."""
    found = await compactor.project_pins(project)
    return SharedPins(
        pins=tuple(
            SharedPin(number=pin.number, text=pin.text, kind=pin.kind, author=pin.author)
            for pin in found
        )
    )
