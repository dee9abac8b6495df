"""The command that serves the gateway alone: `mcp-compaction gateway`."""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import ArgumentParser

from mcp_compaction.cli.console.invocation import Invocation, add_place
from mcp_compaction.cli.console.opening import project_of, settings_of
from mcp_compaction.cli.console.transcripts import environ_of_hosts
from mcp_compaction.errors import InputError
from mcp_compaction.gateway.forwarding import say_counts
from mcp_compaction.gateway.starting import check_upstream
from mcp_compaction.hosts.serving import running_gateways

DESCRIPTION = """\
Serve a gateway to this machine until it is stopped, or say which ones run (status).
A host whose base URL is the one that is printed has its requests fitted into the window if they
name their chat in a header, as those of Claude Code, Codex, opencode do; others pass as they come.
Changes: records what hosts send; status: nothing."""
EXAMPLES = (
    "gateway --upstream https://api.anthropic.com",
    "gateway --upstream https://api.openai.com --port 8766 --shadow",
    "gateway status",
    "gateway status --json",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", nargs="?", choices=("serve", "status"), default="serve")
    parser.add_argument("--upstream", metavar="URL", help="the base URL that requests go on to")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: a free one")
    parser.add_argument(
        "--shadow", action="store_true", help="change nothing, and report what would be sent"
    )
    add_place(parser)


async def run(call: Invocation) -> int:
    """Serve, or say which gateways run."""
    if call.args.what == "status":
        return _show_status(call)
    from mcp_compaction.gateway.running import GatewayPlace, serve_gateway

    upstream: str | None = call.args.upstream
    if upstream is None:
        raise InputError("name the provider: --upstream https://api.anthropic.com")
    check_upstream(upstream)
    if not 0 <= call.args.port <= 65535:
        raise InputError(
            f"{call.args.port} is no port: pass one from 1 to 65535, or 0 for a free one."
        )
    settings = settings_of(call)
    place = GatewayPlace(settings, project_of(call, settings), is_shadow=call.args.shadow)
    environ_of_hosts(call, settings.home)  # which notes the folders that a variable moves
    serving = serve_gateway(place, {"api": upstream}, call.args.port, call.environ)
    async with serving as (gateway, turns):
        url = gateway.address.url_of("api")
        said = {"base_url": url, "upstream": upstream}
        if turns.trouble:
            sys.stderr.write(f"mcp-compaction: {call.complete(turns.trouble)}\n")
        if call.args.json:
            call.screen.write_json(said)
        else:
            call.screen.say(f"base URL for the host: {url}")
            call.screen.say(f"requests go on to {upstream}; Ctrl-C ends it")
            call.screen.say(
                "fitted are requests that name their chat in a header, as those of Claude Code, "
                "Codex and opencode do; others pass as they come"
            )
        sys.stdout.flush()
        await _wait_for_end()
    if not call.args.json:
        counts = say_counts(turns.tally)
        call.screen.say(f"nothing was changed; {counts}" if place.is_shadow else counts)
        for line in turns.ledger.lines():
            call.screen.say(line)
    return 0


async def _wait_for_end() -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    if sys.platform == "win32":
        await ended.wait()
        return
    for number in numbers:
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    for number in numbers:
        loop.remove_signal_handler(number)


def _show_status(call: Invocation) -> int:
    found = running_gateways(settings_of(call).home)
    if call.args.json:
        call.screen.write_json([one._asdict() for one in found])
        return 0
    for one in found:
        host = f" for {one.host}" if one.host else ""
        call.screen.say(f"process {one.process}{host}, port {one.port}, since {one.started}")
        call.screen.say(f"  project {one.project}; chats: {', '.join(one.chats) or 'none yet'}")
        call.screen.say(f"  {say_counts(one.counts)}")
        if not one.acts:
            call.screen.say("  it changes and records nothing")
    if not found:
        call.screen.say("no gateway runs here; start one: mcp-compaction run -- claude")
    return 0
