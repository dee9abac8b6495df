"""The command that copies the store: `mcp-compaction store backup`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from mcp_compaction.cli.console.invocation import Invocation, add_store
from mcp_compaction.cli.console.opening import open_place
from mcp_compaction.errors import InputError
from mcp_compaction.program import as_typed

DESCRIPTION = """\
Copy the whole store, with every session of every project, to a new file while it is in use.
Changes: makes a new file that only you may read; the store stays as it is."""
EXAMPLES = ("store backup ~/backups/store-2026-11-15.db", "store backup /mnt/usb/store.db --json")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="the file to make; it may not exist yet")
    add_store(parser)


async def run(call: Invocation) -> int:
    """Write the copy, and say how large it is and how to use it."""
    target = Path(call.args.file).expanduser()
    if not target.absolute().parent.is_dir():
        folder = target.absolute().parent
        raise InputError(f"there is no folder {folder}; make it, or pass another FILE.")
    async with open_place(call) as place:
        await place.workspace.store.backup(target)
    size = target.stat().st_size
    if call.args.json:
        call.screen.write_json({"file": str(target), "bytes": size})
    else:
        call.screen.say(f"backed up to {target}: {size:,} bytes")
        typed = as_typed([str(target.absolute())])
        call.screen.say(call.complete(f"to use it: mcp-compaction store restore {typed}"))
    return 0
