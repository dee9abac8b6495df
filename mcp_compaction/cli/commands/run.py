"""The command that runs a host through the gateway: `mcp-compaction run -- claude`."""

from __future__ import annotations

import re
import sys
from argparse import REMAINDER, ArgumentParser
from collections.abc import Iterator, Sequence

from mcp_compaction.cli.console.invocation import Invocation, add_place
from mcp_compaction.cli.console.opening import flags_of, project_of, settings_of
from mcp_compaction.cli.console.transcripts import environ_of_hosts
from mcp_compaction.errors import InputError
from mcp_compaction.gateway.forwarding import COMPACTED, STILL_REFUSED, say_counts
from mcp_compaction.gateway.running import GatewayPlace, Ran, run_host
from mcp_compaction.gateway.starting import check_upstream
from mcp_compaction.program import lasting_command

DESCRIPTION = """\
Run a host (claude, codex, opencode) with a gateway between it and its model, for this process only.
Its requests are recorded; when the agent compresses or the window fills, the next one is smaller.
The exit code is the host's; what there is to tell at the end is on stderr.
Changes: records what the host sends; sets nothing in the host's own settings."""
EXAMPLES = (
    "run -- claude",
    "run -- codex",
    "run --shadow -- claude --continue",
    "run --upstream https://llm.example.com -- claude",
    "run -- opencode",
)
_PROVIDER = re.compile(r"(?P<name>[^:/=]+)=(?P<url>.*)", re.DOTALL)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--shadow", action="store_true", help="change nothing, and report what would be sent"
    )
    parser.add_argument(
        "--upstream",
        action="append",
        default=[],
        metavar="URL",
        help="the base URL that requests go on to, whatever settings say; for opencode NAME=URL, "
        "once for each provider",
    )
    add_place(parser)
    parser.usage = "%(prog)s [options] -- HOST …"
    parser.add_argument("host", nargs=REMAINDER, metavar="-- HOST …", help="the host's command")


async def run(call: Invocation) -> int:
    """Run the host, and say at the end what came of it."""
    words: list[str] = call.args.host
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise InputError("name the host after two dashes: mcp-compaction run -- claude")
    upstreams = _read_upstreams(call.args.upstream)
    settings = settings_of(call)
    place = GatewayPlace(settings, project_of(call, settings), is_shadow=call.args.shadow)
    # The server that the host starts has to know what was typed here.
    typed = {
        f"MCP_COMPACTION_{name.upper()}": str(value)
        for name, value in flags_of(call).items()
        if name != "home"
    }
    environ = {**call.environ, **typed}
    environ_of_hosts(call, settings.home)  # which notes the folders that a variable moves

    def tell(line: str) -> None:
        sys.stderr.write(f"mcp-compaction: {call.complete(line)}\n")

    server = (*lasting_command(), "serve")
    ran = await run_host(place, words, environ, server, tell, upstreams)
    for line in _lines_of(ran, is_shadow=place.is_shadow):
        tell(line)
    return ran.code


def _read_upstreams(typed: Sequence[str]) -> dict[str, str]:
    """The base URLs that were typed, by provider; the one without a name has an empty one."""
    found: dict[str, str] = {}
    for word in typed:
        named = _PROVIDER.fullmatch(word)
        name, url = (named["name"], named["url"]) if named else ("", word)
        found[name] = check_upstream(url)
    return found


def _lines_of(ran: Ran, *, is_shadow: bool) -> Iterator[str]:
    yield from ran.start.notes
    if not ran.requests:
        yield (
            "no request came through the gateway: the host uses another base URL than it was "
            "given. Nothing was recorded."
        )
        return
    counts = say_counts(ran.turns.tally)
    yield f"nothing was changed; {counts}" if is_shadow else counts
    if ran.turns.tally[STILL_REFUSED]:
        yield (
            "the provider went on refusing the thinking of a request: from then on all went out as "
            "they came, without the thinking that was made behind a view of ours."
        )
    elif ran.turns.is_aside:
        yield (
            "the provider refuses this login for requests that were changed on the way: they went "
            "out as they came. With an API key they can be smaller."
        )
    yield from ran.turns.ledger.lines()
    if ran.turns.tally[COMPACTED]:
        yield f"the host's own history is longer than the window now. To go on {ran.start.resume}."
