"""Keeps what machines of a team send on: each message once, in the order of its own store."""

from __future__ import annotations

from contextlib import suppress

from anyio import to_thread
from pydantic import ValidationError

from mcp_compaction import compactor
from mcp_compaction.compactor.checking import read_checks
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.sessions import read_name
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError, UnknownRef, UnknownSession
from mcp_compaction.formats import Incoming
from mcp_compaction.model import SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.sending.parcel import (
    Parcel,
    SentPin,
    SharedPin,
    SharedPins,
    TakenParcel,
    incoming_of,
)

_OWN_CHARS = 6  # of the source, behind a name that another machine's session has


async def take_parcel(work: Workspace, body: bytes, reach: str = "") -> TakenParcel:
    """Keep what is not known yet of a parcel; `reach`: the one project it may touch, or all."""
    parcel, came = await to_thread.run_sync(_read, body)
    check_project(parcel.project, reach)
    await _release(work, parcel, reach)  # first: what takes a pin's place may need its room
    if not parcel.messages and not parcel.pins:
        return TakenParcel(new=0)
    info = await _open(work, parcel)
    # One transaction under the session's row: whoever sends the same meanwhile finds it known.
    recorded = await compactor.record_transcript(work, info, came, via="host")
    pins: dict[int, int] = {}
    refused: dict[int, str] = {}
    for pin in parcel.pins:
        try:
            if reach and pin.scope == "global":
                raise InputError(_too_far(reach))
            pins[pin.number] = await _pin(work, info, pin)
        except InputError as error:
            refused[pin.number] = str(error)
    return TakenParcel(new=recorded.new, pins=pins, refused=refused)


def _read(body: bytes) -> tuple[Parcel, Incoming]:
    try:
        parcel = Parcel.model_validate_json(body)
    except ValidationError as error:
        raise InputError(
            f"this is no parcel: {error.errors()[0]['msg']}; nothing was kept."
        ) from None
    return parcel, incoming_of(parcel)


def check_project(project: str, reach: str) -> None:
    """Refuse a project that a token does not reach."""
    if reach and project != reach:
        raise InputError(_too_far(reach))


def _too_far(reach: str) -> str:
    return (
        f"this token reaches only the project {reach}; send with one that reaches all: "
        "mcp-compaction team token add NAME --owner OWNER"
    )


async def _pin(work: Workspace, info: SessionInfo, pin: SentPin) -> int:
    """Keep a pin; one that comes again has the number that it got before."""
    read_checks(pin.checks)  # a pin whose checks are none is not kept without them
    done = await compactor.pin(
        work,
        info,
        PinWish(
            pin.text,
            by=pin.author,
            kind=pin.kind,
            scope=pin.scope,
            expires=pin.expires,
            channel="team",
        ),
    )
    if done.pin.checks != pin.checks and (done.is_new or done.pin.channel == "team"):
        await compactor.set_checks(work, info, done.pin.ref, pin.checks, by="user")
    return done.pin.number


async def _release(work: Workspace, parcel: Parcel, reach: str) -> None:
    """Release pins that a machine has sent and released; those of others stay as they are."""
    info = await _find(work, parcel, parcel.source)
    # A pin of the project outlives its session.
    near = (info,) if info is not None else await compactor.list_sessions(work, parcel.project, 1)
    for one in near if parcel.released else ():
        there = [pin for pin in await work.pins(one) if pin.channel == "team"]
        sent = {pin.number for pin in there if not reach or pin.scope != "global"}
        for number in sent.intersection(parcel.released):
            with suppress(UnknownRef):  # another request has just done so
                await compactor.unpin(work, one, f"p{number}", by="user")


async def _open(work: Workspace, parcel: Parcel) -> SessionInfo:
    """The session of a parcel; a name that is another session's gets some more letters."""
    known = await _find(work, parcel, parcel.source)
    if known is not None:
        return known
    parent = await _find(work, parcel, parcel.parent) if parcel.parent else None
    for name in (parcel.name, f"{parcel.name}-{parcel.source[:_OWN_CHARS]}", None):
        if name is not None and await _is_taken(work, parcel.project, name):
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
        info, _ = await compactor.open_session(work, key, Traits(owns_window=False), first)
        if info.host_session == parcel.source:
            return info
    raise InputError(f"no session could be opened for {parcel.name}; nothing was kept.")


async def _find(work: Workspace, parcel: Parcel, source: str) -> SessionInfo | None:
    return await work.store.find_host_session(parcel.project, source)


async def _is_taken(work: Workspace, project: str, name: str) -> bool:
    """Whether a name is another session's, or none."""
    try:
        await compactor.find_session(work, project, read_name(name))
    except UnknownSession:
        return False
    except InputError:
        pass  # no session may be called so
    return True


async def list_pins(work: Workspace, project: str) -> SharedPins:
    """The pins that every session of a project starts with."""
    found = await work.project_pins(project)
    return SharedPins(
        pins=tuple(
            SharedPin(
                number=pin.number,
                text=pin.text,
                kind=pin.kind,
                author="user" if pin.author == "user" else "agent",
                checks=pin.checks,
            )
            for pin in found
        )
    )
