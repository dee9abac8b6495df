"""Copies all sessions of a store into another one.

It goes by rows, table by table, since the ports would make sessions anew: with other times, views
and receipts, and in another order. A session is written in one transaction, so that a copy that was
killed goes on where it ended: what is there whole is compared and left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mcp_compaction.errors import InputError, StoreError
from mcp_compaction.store.row_tables import (
    Inventory,
    KeptPin,
    ListedSession,
    LooseRows,
    RowStore,
    SessionName,
)

OnProgress = Callable[[int, int, str], None]  # messages done, of how many, and what comes now

_HAPPENS = ("event", "model_call")  # to who only looks at a session, which stays the same one


class Copied(NamedTuple):
    """How many sessions, messages and pins one copy has written, or found there."""

    sessions: int  # written now
    messages: int
    already: int  # sessions that were there, and are the same
    pins: int


async def copy_rows(source: RowStore, target: RowStore, on_progress: OnProgress) -> Copied:
    """Copy what is not in the target yet, and compare all of it there by its hashes.

    Nothing is written where a session or pin of the target is another one than the source's.
    """
    # The pins first: whatever is made meanwhile, the session of each is among the sessions.
    loose, loose_there = await source.read_loose_rows(), await target.read_loose_rows()
    has, there = await source.inventory(), await target.inventory()
    known = {one.name: one.id for one in there.sessions}
    total, done = sum(one.messages for one in has.sessions), 0

    _refuse_taken(has, there)
    _refuse_other_pins(loose.pins, loose_there.pins)
    for one in has.sessions:
        if one.name in known:
            on_progress(done, total, f"comparing {one.name.name}")
            await _compare(source, one, target, known[one.name])
            done += one.messages
    new = [one for one in _parents_first(has.sessions) if one.name not in known]
    for one in new:
        on_progress(done, total, f"copying {one.name.name}")
        await _copy_session(source, target, one)
        done += one.messages
    on_progress(done, total, "copying pins")
    pins = await _copy_loose(target, loose, loose_there)
    return Copied(
        sessions=len(new),
        messages=sum(one.messages for one in new),
        already=len(has.sessions) - len(new),
        pins=pins,
    )


def _refuse_taken(has: Inventory, there: Inventory) -> None:
    """Refuse where a host or a transcript already leads to another session of the target."""
    by_host = {(one.name.project, one.host): one.name for one in there.sessions}
    for one in has.sessions:
        other = (
            one.name if one.host is None else by_host.get((one.name.project, one.host), one.name)
        )
        if other != one.name:
            raise _taken_error(one.name, f"its host's session is {other.name} there")
    for address, name in has.transcripts.items():
        if there.transcripts.get(address, name) != name:
            raise _taken_error(name, "its transcript is recorded in another session there")


def _taken_error(name: SessionName | None, why: str) -> InputError:
    named = "a forgotten session" if name is None else f"{name.name} of {name.project}"
    return InputError(
        f"{named}: {why}; nothing was copied. Forget the one there, or copy to an empty store: "
        "another file, or another MCP_COMPACTION_OWNER."
    )


def _refuse_other_pins(pins: Iterable[KeptPin], there: Iterable[KeptPin]) -> None:
    """Refuse where a number is another pin's in the target: refs stay what they are."""
    known = {pin.number: pin for pin in there}
    for pin in pins:
        other = known.get(pin.number)
        if other is not None and pin.hash() != other.hash():
            raise InputError(
                f"p{pin.number} is another pin in the target, and refs are kept as they are; "
                "nothing was copied. Copy to an empty store: another file, or another "
                "MCP_COMPACTION_OWNER."
            )


async def _compare(source: RowStore, one: ListedSession, target: RowStore, there: int) -> None:
    ours = (await source.read_rows(one.id)).hashes()
    theirs = (await target.read_rows(there)).hashes()
    differing = [
        part for part, found in ours.items() if theirs[part] != found and part not in _HAPPENS
    ]
    if differing:
        raise InputError(
            f"the target already holds a session {one.name.name} of {one.name.project}, and it is "
            f"another one (its {', '.join(differing)} differ); nothing was copied. Forget the one "
            "that you do not need, then copy again: mcp-compaction store forget NAME"
        )


def _parents_first(sessions: Iterable[ListedSession]) -> list[ListedSession]:
    waiting = {one.name: one for one in sessions}
    ordered: list[ListedSession] = []
    while waiting:
        ready = [one for one in waiting.values() if one.parent not in waiting]
        for one in ready or list(waiting.values()):
            ordered.append(waiting.pop(one.name))
    return ordered


async def _copy_session(source: RowStore, target: RowStore, one: ListedSession) -> None:
    rows = await source.read_rows(one.id)
    kept = await target.write_rows(rows)
    if (await target.read_rows(kept)).hashes() != rows.hashes():
        raise _damaged_error(f"session {one.name.name} of {one.name.project}")


async def _copy_loose(target: RowStore, loose: LooseRows, there: LooseRows) -> int:
    """Copy the pins and forgotten transcripts that are not there; how many pins that were."""
    known = {pin.number for pin in there.pins}
    new = tuple(pin for pin in loose.pins if pin.number not in known)
    marks = {row[0] for row in there.transcripts}
    transcripts = tuple(row for row in loose.transcripts if row[0] not in marks)
    await target.write_loose_rows(LooseRows(new, loose.last_pin, transcripts))
    kept = {pin.number: pin for pin in (await target.read_loose_rows()).pins}
    for pin in loose.pins:
        if kept[pin.number].hash() != pin.hash():
            raise _damaged_error(f"p{pin.number}")
    return len(new)


def _damaged_error(what: str) -> StoreError:
    return StoreError(
        f"{what} did not arrive as it was: its hashes differ. The source is as before; see the "
        "target with mcp-compaction doctor, then copy to an empty store."
    )
