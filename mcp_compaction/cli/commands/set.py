"""The command that sets what is known of one session: `mcp-compaction set`."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import open_place
from mcp_compaction.cli.console.options import add_traits, set_traits, typed_traits
from mcp_compaction.model import SessionInfo

DESCRIPTION = """\
Say what a session's task and agent are like, and which model and window it has. Without options
it only tells what is set.
Changes: what is named, for this session alone; the settings hold for all others."""
EXAMPLES = (
    "set --session tax-2026 --complexity epic",
    "set --session tax-2026 --agent-profile deliberative --window 1000000",
    "set --session tax-2026 --record off",
    "set --session tax-2026",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_traits(parser)
    parser.add_argument(
        "--record", choices=("on", "off"), help="off: nothing more of this chat is kept"
    )
    add_session(parser)
    add_place(parser)


async def run(call: Invocation) -> int:
    """Set what was named, and print what is set now."""
    given = typed_traits(call)
    async with open_place(call) as place:
        info = await set_traits(place.workspace, await place.session(), given)
        if call.args.record is not None:
            await compactor.switch_recording(place.workspace, info, call.args.record == "on")
        is_recorded = not await compactor.is_off(place.workspace, info)
        fill = (await place.workspace.read_window(info)).fill
    if call.args.json:
        call.screen.write_json({**info.model_dump(mode="json"), "is_recorded": is_recorded})
        return 0
    call.screen.say(f"{call.screen.bold(info.name)}: {_describe_traits(info)}")
    if not is_recorded:
        call.screen.say("recording is off: nothing that is said here is kept")
    call.screen.say(call.screen.fill_line(fill))
    return 0


def _describe_traits(info: SessionInfo) -> str:
    traits = info.traits
    known = (
        ("model", traits.model),
        ("window", f"{traits.window_tokens:,} tokens" if traits.window_tokens else None),
        ("complexity", traits.complexity),
        ("agent profile", traits.agent_profile),
    )
    return ", ".join(f"{name} {value or 'not set'}" for name, value in known)
