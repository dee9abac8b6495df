"""The command that puts a backup in the store's place: `mcp-compaction store restore`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from mcp_compaction.cli.console.invocation import Invocation, add_store
from mcp_compaction.cli.console.opening import settings_of
from mcp_compaction.cli.console.speaker import is_confirmed
from mcp_compaction.core.wording import plural
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.outbox import Outbox
from mcp_compaction.store.restore import check_backup, restore_backup
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.wiring import SystemClock

DESCRIPTION = """\
Put a backup in the store's place: it is checked first, and copied. Refused while any program has
the store open.
Changes: the store, and with it the pins and checks in force; its old files are kept beside it under
a dated name, and the backup stays. It speaks for the user, and so needs a terminal."""
EXAMPLES = (
    "store restore ~/backups/store-2026-11-15.db",
    "store restore /mnt/usb/store.db --yes --json",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="a file that `store backup` has made")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_store(parser)


async def run(call: Invocation) -> int:
    """Check the backup, ask, put it in place, and say where the old files are."""
    store = store_path(settings_of(call).home)
    backup = check_backup(Path(call.args.file).expanduser(), store)
    sessions, messages = plural(backup.sessions, "session"), plural(backup.messages, "message")
    holds = f"{sessions} and {messages}"
    question = f"Replace {store} by a backup with {holds}? Type yes: "
    if not is_confirmed(call, f"this replaces {store} by a backup with {holds}", question):
        call.screen.say("nothing was changed")
        return 1
    with Outbox(store.parent).starting_over():
        kept = restore_backup(backup, store, SystemClock().now())
        restored = await open_store(store)
        await restored.tell_hooks()
        await restored.close()
    if call.args.json:
        call.screen.write_json(
            {
                "store": str(store),
                "sessions": backup.sessions,
                "messages": backup.messages,
                "kept": list(map(str, kept)),
            }
        )
        return 0
    call.screen.say(f"{store} is now the backup with {holds}")
    for file in kept:
        call.screen.say(f"kept aside: {file}")
    return 0
