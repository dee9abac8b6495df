"""The command that copies all sessions into another store: `mcp-compaction team copy`."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import AsyncExitStack

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.opening import settings_of
from mcp_compaction.cli.console.screen import make_teller
from mcp_compaction.cli.console.speaker import refusal_of, speaker_of
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.store.copying import copy_rows
from mcp_compaction.wiring import open_rows_of

DESCRIPTION = """\
Copy all sessions of a store into another one, from a file to a team's PostgreSQL or back, and
compare each there by its hashes: log, views, digests, pins, receipts. Names and refs stay. Run it
again after it was interrupted: it goes on, and copies nothing twice. MCP_COMPACTION_OWNER says
whose rows of a team's store are meant.
Changes: adds to the store after --to, unless a session there is another one of the same name; the
store after --from stays as it is, and so does that of --home, unless it is named. It speaks for the
user, and so needs a terminal."""
EXAMPLES = (
    "team copy --from ~/.local/share/mcp-compaction/store.db --to postgresql://server@db.lan/compaction",
    "team copy --from postgresql://server@db.lan/compaction --to ./store.db",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    what = "a file, or an address as postgresql://…"
    parser.add_argument(
        "--from", dest="source", metavar="STORE", required=True, help=f"the store to read: {what}"
    )
    parser.add_argument(
        "--to", dest="target", metavar="STORE", required=True, help=f"the store to add to: {what}"
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")
    parser.set_defaults(home=None)


async def run(call: Invocation) -> int:
    """Copy and compare, and say what was done."""
    if call.args.source == call.args.target:
        raise InputError("--from and --to are the same store; name another one after --to.")
    if speaker_of(call) != "user":
        raise refusal_of("this adds to the pins and sessions of a store")
    settings = settings_of(call)
    tell = make_teller(quiet=call.args.json or not call.screen.is_terminal)

    def show(done: int, total: int, words: str) -> None:
        percent = 100 * done / max(1, total)
        tell(f"{call.screen.bar(percent)}{percent:3.0f} %, {words}")

    async with AsyncExitStack() as opened:
        source = await open_rows_of(call.args.source, settings, to_read=True)
        opened.push_async_callback(source.close)
        target = await open_rows_of(call.args.target, settings, to_read=False)
        opened.push_async_callback(target.close)
        try:
            copied = await copy_rows(source, target, show)
        finally:
            tell("")
    if call.args.json:
        call.screen.write_json(copied._asdict())
        return 0
    sessions, messages = plural(copied.sessions, "session"), plural(copied.messages, "message")
    call.screen.say(f"copied {sessions} with {messages}, and {plural(copied.pins, 'pin')}")
    if copied.already:
        call.screen.say(f"{plural(copied.already, 'session')} of the same content were there")
    call.screen.say("all are in the target as in the source, by their hashes")
    return 0
