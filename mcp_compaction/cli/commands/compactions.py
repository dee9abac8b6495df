"""The command that sets hosts' past compactions beside ours: `mcp-compaction eval compactions`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from mcp_compaction.audit.auditing import HOSTS, MOST, WantedAudit
from mcp_compaction.audit.beside import HOW, measure_compactions
from mcp_compaction.audit.beside_report import (
    document_of,
    headline_of,
    lines_of,
    page_of,
    tables_of,
)
from mcp_compaction.cli.console.invocation import Invocation, check_count, write_html
from mcp_compaction.cli.console.options import add_transcripts
from mcp_compaction.cli.console.screen import make_teller
from mcp_compaction.errors import InputError

DESCRIPTION = """\
Set the compactions that hosts have made of your chats beside ours, from the transcripts that they
keep. For each: how much of what the agent then used, said and read again stood in the host's
summary, in our view of the same size and of the size that our module leaves, and in six plain ways
to fill as many tokens; what stands there that nobody had said; and what each took.
The page has both texts side by side where the host's had more.
Needs no key, no network and no model. What is read stays on this machine.
Changes: nothing but the file that --html names; whatever --home and the settings say, the store is
not touched."""
EXAMPLES = (
    "eval compactions",
    "eval compactions claude-code --html compactions.html",
    "eval compactions ~/chats --limit 5 --json",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_transcripts(parser, HOSTS, MOST)
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page with both texts")
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")


async def run(call: Invocation) -> int:
    """Measure what hosts' own compactions left, and show it."""
    check_count("--limit", call.args.limit)
    tell, screen = make_teller(quiet=call.args.json), call.screen
    wanted = WantedAudit(sources=tuple(call.args.sources) or HOSTS, most=call.args.limit or MOST)
    report = await measure_compactions(
        wanted, call.environ, lambda percent, words: tell(f"{screen.bar(percent)}{words}")
    )
    tell("")
    if not report.found:
        raise InputError(
            "no compaction of a host was found with enough said after it; name another host or "
            "path, or measure whole sessions: eval claude-code"
        )
    if call.args.html is not None:
        write_html(call.args.html, page_of(report))
    if call.args.json:
        screen.write_json(document_of(report))
        return 0
    screen.say(screen.bold(headline_of(report)))
    for heading, rows in tables_of(report):
        screen.say()
        screen.say_table(rows, heading)
    screen.say()
    for line in lines_of(report):
        screen.say(line)
    screen.say()
    for line in HOW:
        screen.say(screen.dim(line))
    if call.args.html is not None:
        screen.say(f"the page, with both texts side by side: {call.args.html}")
    return 0
