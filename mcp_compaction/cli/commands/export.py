"""The command that writes a session out: `mcp-compaction store export`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import OpenedPlace, open_place
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.home import new_file
from mcp_compaction.model import SessionInfo

DESCRIPTION = """\
Write a whole session as JSON lines: first what was derived, then each message as it was recorded.
Changes: nothing in the store; --output makes a new file that only you may read."""
EXAMPLES = (
    "store export --session tax-2026 > tax-2026.jsonl",
    "store export --session tax-2026 --output tax-2026.jsonl",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--output", metavar="FILE", help="a new file (default: stdout)")
    add_session(parser)
    add_place(parser)


async def run(call: Invocation) -> int:
    """Write the session line by line."""
    async with open_place(call) as place:
        info = await place.session()
        if call.args.output is None:
            await _write(place.workspace, info, call.screen.write_bytes)
            return 0
        lines = await _write_file(place, info, Path(call.args.output))
    if call.args.json:
        call.screen.write_json({"output": call.args.output, "lines": lines})
    else:
        done = f"exported {info.name} to {call.args.output}: a header and "
        call.screen.say(done + plural(lines - 1, "message"))
    return 0


async def _write_file(place: OpenedPlace, info: SessionInfo, target: Path) -> int:
    try:
        with new_file(target) as file:
            return await _write(place.workspace, info, file.write)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot write {str(target)!r}: {reason}; choose a new file.") from None


async def _write(work: Workspace, info: SessionInfo, write: Callable[[bytes], object]) -> int:
    lines = 0
    async for line in compactor.export(work, info):
        write(line.encode() + b"\n")
        lines += 1
    return lines
