"""The command that undoes a compaction: `mcp-compaction restore`."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import open_place, tell_outcome
from mcp_compaction.cli.console.options import add_tool
from mcp_compaction.tools.arguments import RestoreContext

DESCRIPTION = """\
Undo a compaction: the view before it comes back, with everything said since.
Changes: the session's view; later compactions are undone with it, and named."""
EXAMPLES = ("restore c4", "restore c4 --session tax-2026", "restore c1 --force --json")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_tool(
        parser, RestoreContext, ref={"metavar": "REF", "help": "the compaction to undo, as c4"}
    )
    add_session(parser)
    add_place(parser)


async def run(call: Invocation) -> int:
    """Go back to the view before, and print the receipt."""
    async with open_place(call) as place:
        info = await place.session()
        outcome = await compactor.restore(place.workspace, info, call.args.ref, call.args.force)
    return tell_outcome(call, outcome, info)
