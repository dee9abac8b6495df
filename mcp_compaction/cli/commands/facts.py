"""The command for facts that outlast a session: `mcp-compaction facts`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import NamedTuple

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import OpenedPlace, has_store, open_place, settings_of
from mcp_compaction.cli.console.speaker import refusal_of, speaker_of
from mcp_compaction.cli.console.wording import describe_moment
from mcp_compaction.core.log.pinned import shown_text
from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.model import FactOffer, Pin, SessionInfo

DESCRIPTION = """\
List what the sessions of a project taught that later ones may need: commands that work here, and
what a model that you named found. Each is only offered. What you accept is told to every later
session of the project, as a fact with its day and session, until you drop it or no session has
used it for 90 days. What you drop is not offered again.
Changes: list notes which facts the newest sessions used; accept keeps a fact; drop ends one, or
declines an offer. The last two speak for the user, and so need a terminal: no agent can accept a
fact."""
EXAMPLES = (
    "facts",
    "facts --session tax-2026",
    "facts accept f3a9c1 f77b02",
    "facts drop f3a9c1",
    "facts drop p7",
)

_MOST_SESSIONS = 5  # the newest, whose facts are offered
_MOST_SHOWN = 10


class _Offered(NamedTuple):
    """An offer, and the sessions that it comes from, the newest first."""

    offer: FactOffer
    by: tuple[SessionInfo, ...]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "accept", "drop"),
        default="list",
        help="list: show facts and offers (default); accept: keep offers; drop: end or decline",
    )
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="offers as f3a9c1; with drop also facts as p7"
    )
    add_session(parser, f"the newest {_MOST_SESSIONS} of the project")
    add_place(parser)


async def run(call: Invocation) -> int:
    """List, accept or drop facts."""
    action: str = call.args.action
    ids: list[str] = call.args.ids
    if (action == "list") == bool(ids):
        raise InputError(f"{action} takes {'no ids' if ids else 'the ids that facts lists'}.")
    if action != "list" and speaker_of(call) != "user":
        raise refusal_of("facts are kept and dropped by the user")
    if action == "list" and not has_store(settings_of(call)):
        return _show(call, (), ())
    async with open_place(call) as place:
        sessions = await _sessions_of(place)
        offered = await _offers_of(place, sessions)
        kept = await _facts_of(place)
        if action == "list":
            return _show(call, kept, offered)
        done = [await _change(place, action, one, offered, kept) for one in dict.fromkeys(ids)]
    if call.args.json:
        call.screen.write_json(done)
    else:
        for one in done:
            call.screen.say(f"{call.screen.bold(one['ref'])} {one['done']}: {one['text']}")
    return 0


async def _sessions_of(place: OpenedPlace) -> tuple[SessionInfo, ...]:
    if place.name is not None:
        return (await place.session(),)
    newest = await compactor.list_sessions(place.workspace, place.project, _MOST_SESSIONS)
    return tuple(info for info in newest if info.parent is None)


async def _facts_of(place: OpenedPlace) -> tuple[Pin, ...]:
    pins = await place.workspace.project_pins(place.project)
    return tuple(pin for pin in pins if pin.used is not None)


async def _offers_of(place: OpenedPlace, sessions: Sequence[SessionInfo]) -> tuple[_Offered, ...]:
    found: dict[str, _Offered] = {}
    for info in sessions:
        for offer in await compactor.offered_facts(place.workspace, info):
            known = found.get(offer.id, _Offered(offer, ()))
            found[offer.id] = known._replace(by=(*known.by, info))
    return tuple(found.values())


async def _change(
    place: OpenedPlace, action: str, named: str, offered: Sequence[_Offered], kept: Sequence[Pin]
) -> dict[str, str]:
    """Keep or end what an id names, and say what was done."""
    found = next((one for one in offered if one.offer.id == named), None)
    fact = next((pin for pin in kept if pin.ref == named), None)
    if found is not None and action == "accept":
        pin = (await compactor.keep_fact(place.workspace, found.by[0], found.offer)).pin
        return {
            "ref": pin.ref,
            "done": f"kept until {describe_moment(pin.expires)}, longer while sessions use it",
            "text": pin.text,
        }
    if found is not None:
        for info in found.by:
            await compactor.decline_fact(place.workspace, info, found.offer)
        return {"ref": named, "done": "declined", "text": found.offer.text}
    if fact is not None and action == "drop":
        info = await place.session_or_newest()
        await compactor.unpin(place.workspace, info, named, by="user")
        return {"ref": named, "done": "dropped", "text": fact.text}
    raise UnknownRef(f"no {named} is there to {action}; list what is: mcp-compaction facts")


def _kind_of(offer: FactOffer) -> str:
    return f"{offer.kind} as a {offer.by} tells it" if offer.by else offer.kind


def _show(call: Invocation, kept: Sequence[Pin], offered: Sequence[_Offered]) -> int:
    if call.args.json:
        call.screen.write_json(
            {
                "facts": [pin.model_dump(mode="json") for pin in kept],
                "offered": [
                    {"id": one.offer.id, "session": one.by[0].name, **one.offer.model_dump()}
                    for one in offered
                ],
            }
        )
        return 0
    say = call.screen.say
    if not kept and not offered:
        say("no facts are kept for this project, and its newest sessions offer none")
        return 0
    if kept:
        say("told to every session of this project:")
    for pin in kept:
        say(f"{call.screen.bold(pin.ref)} {shown_text(pin.text)}")
        origin = f"from {pin.session}, " if pin.session else ""
        used = f"last used {describe_moment(pin.used)}, until {describe_moment(pin.expires)}"
        say(f"   {call.screen.dim(f'{origin}kept {describe_moment(pin.at)}, {used}')}")
    if offered:
        say("offered, and told to nobody yet:")
    for offer, by in offered[:_MOST_SHOWN]:
        say(f"{call.screen.bold(offer.id)} {offer.text}")
        say(f"   {call.screen.dim(f'{_kind_of(offer)}, in {offer.ref} of {by[0].name}')}")
    if offered:
        if len(offered) > _MOST_SHOWN:
            say(f"and {len(offered) - _MOST_SHOWN} more: --json lists all")
        say(
            call.complete(
                "keep one: mcp-compaction facts accept ID; or not: mcp-compaction facts drop ID"
            )
        )
    return 0
