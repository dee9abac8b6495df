"""The command that keeps a rule in sight: `mcp-compaction pin`."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from datetime import datetime, timedelta

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import OpenedPlace, open_place
from mcp_compaction.cli.console.options import add_tool, typed_as
from mcp_compaction.cli.console.speaker import WHO, refusal_of, refuse_for_agents, speaker_of
from mcp_compaction.cli.console.wording import describe_moment
from mcp_compaction.compactor.checking import checks_for, trial_text
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.core.pins import check_expiry, check_text
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.model import Pin, PinScope, SessionInfo
from mcp_compaction.model.session import AT_TERMINAL
from mcp_compaction.tools.arguments import PinConstraint
from mcp_compaction.tools.pinning import parse_time, wish_of
from mcp_compaction.wiring import SystemClock

DESCRIPTION = f"""\
Keep a rule, an open task or a fact in the model's sight, word for word, until it is released.
Changes: adds a pin; the user's holds in the whole project unless --scope says otherwise. The first
pin of a project begins a session; further ones begin with `record`.
{WHO}"""
EXAMPLES = (
    'pin "Never push to main."',
    'pin "Use the staging key only." --scope session --session tax-2026 --expires 2d',
    'pin "Deploy after Friday." --kind open_task --supersedes p2',
)

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FROM_NOW = re.compile(r"(\d{1,5})([mhdw])")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_tool(
        parser,
        PinConstraint,
        text={"metavar": "TEXT", "help": "the words to keep, exactly"},
        scope={"help": "where it holds (default: project; for an agent: session)"},
        supersedes={"metavar": "REF"},
        expires={"metavar": "WHEN", "help": "until when, as 2026-11-30 or in 30m, 3h, 2d, 1w"},
    )
    add_session(parser, "the only one; for a whole project the newest")
    add_place(parser)


async def run(call: Invocation) -> int:
    """Keep the pin, and say what the block of them costs."""
    args = call.args
    now = SystemClock().now()
    expires, scope = _find_moment(args.expires, now), _scope_of(call)
    asked = typed_as(PinConstraint, args, expires=expires, scope=scope)
    by = speaker_of(call)
    wish = wish_of(asked, by, "terminal" if by == "user" else "command")
    # Checked before a session is made for it, so that a refused pin leaves none behind.
    check_text(wish.text)
    check_expiry(wish.expires, now)
    async with open_place(call, makes_store=args.supersedes is None) as place:
        info, is_new = await _find_or_open(place, wish)
        with refuse_for_agents(f"{args.supersedes or 'this'} is the user's"):
            pinned = await compactor.pin(place.workspace, info, wish)
        offered = [] if args.json else await _offer(call, place, pinned.pin)
    if args.json:
        call.screen.write_json({**pinned.model_dump(mode="json"), "is_new_session": is_new})
        return 0
    pin = pinned.pin
    verb = "pinned" if pinned.is_new else "already pinned"
    if pin.author != "user":
        verb += f" by the {pin.author}"
    until = f", until {describe_moment(pin.expires)}" if pin.expires else ""
    call.screen.say(f"{call.screen.bold(pin.ref)} {verb} ({pin.kind}, {pin.scope}{until})")
    if is_new and info.host == AT_TERMINAL:
        call.screen.say(f"no chat of {info.project} is recorded yet: it holds from the first one")
    elif is_new:
        call.screen.say(f"in the new session {info.name}")
    call.screen.say(f"the pinned block takes {plural(pinned.block_tokens, 'token')}")
    for line in offered:
        call.screen.say(line)
    return 0


async def _offer(call: Invocation, place: OpenedPlace, pin: Pin) -> list[str]:
    """The check that is offered for a rule, and what it would have done; only the user takes it."""
    checks = () if pin.checks else checks_for(pin)
    if not checks:
        return []
    past = trial_text(await compactor.try_checks(place.workspace, place.project, checks))
    offered = [f"offered: {check}" for check in checks]
    take = call.complete(f"take it: mcp-compaction pins check {pin.ref} --accept")
    return ["a check can hold this before a tool runs:", *offered, past, take]


def _scope_of(call: Invocation) -> PinScope | None:
    """The scope of the pin; an agent's, even where it quotes the user, is its own session."""
    asked: PinScope | None = call.args.scope
    if speaker_of(call) == "user":
        return asked
    if asked not in (None, "session"):
        raise refusal_of(f"a {asked} pin binds other sessions")
    return "session"


async def _find_or_open(place: OpenedPlace, wish: PinWish) -> tuple[SessionInfo, bool]:
    """The session the pin is set in; where the project has none, one waits for its first chat,
    unless the pin supersedes another. A name that is not known among others is rather a slip."""
    if wish.supersedes is None and not await compactor.list_sessions(
        place.workspace, place.project, 1
    ):
        waits = place.name is None and wish.scope != "session"
        return await place.open_session(host=AT_TERMINAL if waits else "")
    if wish.scope == "session":
        return await place.session(), False
    return await place.session_or_newest(), False


def _find_moment(text: str | None, now: datetime) -> str | None:
    """The ISO time of a moment, which may be typed as a span from now."""
    if text is not None and (span := _FROM_NOW.fullmatch(text.strip())):
        return (now + timedelta(**{_UNITS[span[2]]: int(span[1])})).isoformat()
    try:
        parse_time(text)
    except InputError:
        raise InputError(f"{text!r} is no moment; write 2026-11-30, 3h or 2d.") from None
    return text
