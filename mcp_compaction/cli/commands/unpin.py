"""The command that releases a pin: `mcp-compaction unpin`."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import open_place
from mcp_compaction.cli.console.options import add_tool
from mcp_compaction.cli.console.speaker import WHO, refuse_for_agents, speaker_of
from mcp_compaction.core.log.pinned import shown_text
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.tools.arguments import UnpinConstraint

DESCRIPTION = f"""\
Release a pin: it leaves the model's sight.
Changes: takes the pin out of force; its text stays findable.
{WHO}"""
EXAMPLES = ("unpin p2", "unpin p2 --session tax-2026")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_tool(parser, UnpinConstraint, ref={"metavar": "REF", "help": "the pin to release, as p2"})
    add_session(parser, "whichever of the project has that pin")
    add_place(parser)


async def run(call: Invocation) -> int:
    """Release the pin, and say which words it held."""
    number = number_of(call.args.ref, "p")
    async with open_place(call) as place:
        known = await place.pins_in_force()
        info = known[number][1] if number in known else await place.session_or_newest()
        with refuse_for_agents(f"{call.args.ref} is not the agent's"):
            pin = await compactor.unpin(place.workspace, info, call.args.ref, by=speaker_of(call))
    if call.args.json:
        call.screen.write_json(pin.model_dump(mode="json"))
    else:
        call.screen.say(f"{call.screen.bold(pin.ref)} released: {shown_text(pin.text)}")
    return 0
