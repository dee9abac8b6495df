"""The command that sends at once what waits for a team's server: `mcp-compaction team send`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from mcp_compaction.cli.console.invocation import Invocation, add_store
from mcp_compaction.cli.console.opening import settings_of
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.store.outbox import Outbox

DESCRIPTION = """\
Send what is recorded here and waits to the team's server that `install HOST --server URL` named.
The server of a host does so by itself while the host runs; this is for now, or for a timer.
Changes: messages and pins are kept on the team's server too; its pins come here."""
EXAMPLES = ("team send", "team send --json", "team send --home /srv/agents/compaction")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_store(parser)


async def run(call: Invocation) -> int:
    """Send what waits, and say how much it was."""
    from mcp_compaction.sending.sender import send_once  # which loads an HTTP client

    settings = settings_of(call)
    outbox = Outbox(settings.home)
    target = outbox.read()
    if target is None:
        raise InputError(
            "no team's server is named here; first: mcp-compaction install HOST --server URL"
        )
    lock = outbox.lock
    if not lock.try_acquire():
        return _say(call, target.server, 0, (), "another process is sending already")
    try:
        number, refused = await send_once(settings, call.environ, target)
    finally:
        lock.close()
    text = f"{plural(number, 'message')} sent to {target.server}"
    return _say(call, target.server, number, refused, text)


def _say(call: Invocation, server: str, number: int, refused: Sequence[str], text: str) -> int:
    if call.args.json:
        call.screen.write_json({"server": server, "sent": number, "refused": list(refused)})
    else:
        for line in (text, *refused):
            call.screen.say(line)
    return 1 if refused else 0
