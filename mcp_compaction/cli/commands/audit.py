"""The command that tells what past compactions lost: `mcp-compaction eval audit`."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, date, datetime, time
from pathlib import Path

from mcp_compaction.audit.auditing import HOSTS, MOST, WantedAudit, audit_sources
from mcp_compaction.audit.report import (
    HOW,
    Audit,
    full_lines,
    headline_of,
    hosts_own,
    lines_of,
    make_page,
    name_of,
    table_of,
    total_of,
    worst_chat,
)
from mcp_compaction.cli.console.invocation import Invocation, check_count, write_html
from mcp_compaction.cli.console.options import add_transcripts
from mcp_compaction.cli.console.screen import make_teller
from mcp_compaction.errors import InputError
from mcp_compaction.program import as_typed

DESCRIPTION = """\
Tell what the compactions of your past chats lost and cost, from the transcripts that hosts keep.
For each compaction: which rules, open tasks, paths, commands, ids and numbers still stood in the
host's summary or in what it kept; which of them the rest of the chat needed again; what was read,
run or said again; what the summary says that nobody had said; how long you waited and what it cost;
and what our own view of the same size would have kept.
Needs no key, no network and no model. Claude Code removes transcripts after 30 days, unless
`cleanupPeriodDays` in its settings says otherwise.
Changes: nothing but the file that --html names; whatever --home and the settings say, the store is
not touched."""
EXAMPLES = (
    "eval audit",
    "eval audit claude-code --since 2026-11-01",
    "eval audit ~/.codex/sessions/2026/11 --limit 10",
    "eval audit --show 3f2a91c0",
    "eval audit --html audit.html",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_transcripts(parser, HOSTS, MOST)
    parser.add_argument("--since", metavar="DAY", help="only compactions from this day on, in UTC")
    parser.add_argument("--show", metavar="CHAT", help="one chat in full, by the start of its id")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page with all of it")
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")


async def run(call: Invocation) -> int:
    """Audit, and show what was found."""
    check_count("--limit", call.args.limit)
    tell = make_teller(quiet=call.args.json)
    wanted = WantedAudit(
        sources=tuple(call.args.sources) or HOSTS,
        since=_read_since(call.args.since),
        most=call.args.limit or MOST,
        chat=call.args.show or "",
    )
    audit = await audit_sources(
        wanted,
        call.environ,
        lambda percent, words: tell(f"{call.screen.bar(percent)}{words}"),
    )
    tell("")
    if call.args.html is not None:
        write_html(call.args.html, make_page(audit))
    if call.args.json:
        call.screen.write_json(audit.model_dump(mode="json"))
    elif call.args.show:
        _show_chat(call, audit)
    else:
        _show_all(call, audit)
    return 0


def _read_since(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        raise InputError(f"--since {text!r} is no day; pass one such as 2026-11-01.") from None


def _show_all(call: Invocation, audit: Audit) -> None:
    screen = call.screen
    screen.say(screen.bold(headline_of(audit)))
    if not audit.findings:
        for line in lines_of(audit):
            screen.say(line)
        if not audit.chats:
            screen.say("No chat was found where Claude Code, Codex and opencode keep them; name a")
            screen.say("folder of transcripts, or plug in and come back: install --list")
            return
        screen.say("Nothing was compacted here. What a compaction would lose of your chats:")
        screen.say(f"  {call.program} eval claude-code")
        return
    screen.say_table(table_of(total_of(hosts_own(audit))))
    for line in lines_of(audit):
        screen.say(line)
    screen.say()
    for line in HOW:
        screen.say(screen.dim(line))
    worst = worst_chat(hosts_own(audit))
    if worst is not None:
        screen.say()
        typed = as_typed(["eval", "audit", *call.args.sources, "--show", worst.chat.split(" ")[0]])
        screen.say(f"the worst of them in full: {call.program} {typed}")
        back = as_typed(["uncompact", worst.chat.split(" ")[0]])
        screen.say(f"its own words back:        {call.program} {back}")
    if call.args.html is not None:
        screen.say(f"the page: {call.args.html}")


def _show_chat(call: Invocation, audit: Audit) -> None:
    screen = call.screen
    found = [one for one in audit.findings if one.chat.startswith(call.args.show)]
    if not found:
        raise InputError(
            f"no compaction in a chat {call.args.show!r}; `eval audit` lists what there is."
        )
    for one in found:
        screen.say(screen.bold(name_of(one)))
        screen.say_table(table_of(one.counts))
        for line in full_lines(one):
            screen.say(f"  {line}")
        screen.say()
