"""The checks of one pin, at a terminal: shown, set, tried on the past, lifted."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction import compactor
from mcp_compaction.checks.check import PinCheck, read_checks
from mcp_compaction.checks.file import allow_once
from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.opening import open_place, settings_of
from mcp_compaction.cli.console.speaker import refusal_of, speaker_of
from mcp_compaction.compactor.checking import checks_for, trial_text
from mcp_compaction.compactor.results import Trial
from mcp_compaction.core.log.pinned import shown_text
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.model import Pin

_FEW_TRIED, _MOST_TRIED = 5, 50  # calls of the past that are shown


async def check_pin(call: Invocation) -> int:
    """Show, set, try or lift the checks of one pin."""
    if not call.args.ref:
        raise InputError("name the pin: mcp-compaction pins check p2.")
    args, number = call.args, number_of(call.args.ref, "p")
    is_change = args.accept or args.set or args.remove
    if (is_change or args.once) and speaker_of(call) != "user":
        raise refusal_of(f"the checks of {args.ref} are the user's")
    async with open_place(call) as place:
        known = await place.pins_in_force()
        if number not in known:
            refs = ", ".join(pin.ref for pin, _ in known.values()) or "none"
            raise UnknownRef(f"no pin {args.ref} in force here; there are: {refs}.")
        pin, info = known[number]
        offered = checks_for(pin)
        if args.once:
            allow_once(settings_of(call).home, number)
            call.screen.say(f"{pin.ref} lets the next call past, within ten minutes")
            return 0
        if args.accept and not offered:
            raise InputError(f"nothing is offered for {pin.ref}; write one with --set.")
        unread: Sequence[str] = ()
        if is_change:
            lines = "" if args.remove else "\n".join(args.set or map(str, offered))
            checks = await compactor.set_checks(place.workspace, info, pin.ref, lines, by="user")
        else:
            checks, unread = read_checks(pin.checks.splitlines())
        tried = await compactor.try_checks(place.workspace, place.project, checks or offered)
    _show_checks(call, pin, checks, () if checks else offered, tried)
    if unread and not args.json:
        call.screen.say(f"   no check, and holding nothing: {'; '.join(unread)}; --set writes anew")
    return 0


def _show_checks(
    call: Invocation,
    pin: Pin,
    checks: Sequence[PinCheck],
    offered: Sequence[PinCheck],
    tried: Trial,
) -> None:
    if call.args.json:
        told = {"pin": pin.ref, "checks": list(map(str, checks))}
        past = tried.model_dump(mode="json")
        call.screen.write_json({**told, "offered": list(map(str, offered)), "past": past})
        return
    call.screen.say(f"{call.screen.bold(pin.ref)} {shown_text(pin.text)}")
    for check in checks:
        call.screen.say(f"   check: {check}")
    for check in offered:
        call.screen.say(f"   offered: {check}")
    if offered:
        call.screen.say(call.complete(f"   take it: mcp-compaction pins check {pin.ref} --accept"))
    if checks or offered:
        most = _MOST_TRIED if getattr(call.args, "try") else _FEW_TRIED
        call.screen.say(f"   {trial_text(tried, most)}")
    else:
        call.screen.say("   no check; --set writes one")
