"""The command that lists pins: `mcp-compaction pins`."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction.cli.arguments import add_place, add_session
from mcp_compaction.cli.invocation import Invocation
from mcp_compaction.cli.opening import opened
from mcp_compaction.cli.pins_in_force import pins_in_force
from mcp_compaction.cli.wording import moment
from mcp_compaction.model import Pin

DESCRIPTION = """\
List the pins in force: who said what, when, and for how long.
Changes: nothing."""
EXAMPLES = ("pins", "pins --session tax-2026", "pins --json")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what may be typed."""
    add_session(parser, "all of the project")
    add_place(parser)


async def run(call: Invocation) -> int:
    """List the pins."""
    async with opened(call) as place:
        pins = [pin for pin, _ in (await pins_in_force(place)).values()]
    if call.args.json:
        call.screen.write_json([pin.model_dump(mode="json") for pin in pins])
        return 0
    if not pins:
        call.screen.say(call.complete("no pins in force; add one: mcp-compaction pin TEXT"))
    for pin in pins:
        call.screen.say(f"{call.screen.bold(pin.ref)} {pin.text}")
        call.screen.say(f"   {call.screen.dim(_about(pin))}")
    return 0


def _about(pin: Pin) -> str:
    place = f"session {pin.session}" if pin.scope == "session" else pin.scope
    source = f", said in {pin.source} of {pin.session}" if pin.source else ""
    until = f", until {moment(pin.expires)}" if pin.expires else ""
    kind = pin.kind.replace("_", " ")
    return f"{kind}, {place}, by the {pin.author}, {moment(pin.at)}{source}{until}"
