"""The command that measures what survives: `mcp-compaction eval`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from mcp_compaction.cli.console.invocation import Invocation, check_count, write_html
from mcp_compaction.cli.console.options import add_summarizer, asked_model
from mcp_compaction.cli.console.screen import make_teller
from mcp_compaction.counters.o200k import EstimateCounter, best_counter
from mcp_compaction.errors import InputError
from mcp_compaction.evals.evaluation import WantedSessions, evaluate
from mcp_compaction.evals.handover_sessions import FEWEST_MESSAGES, find_origins
from mcp_compaction.evals.report import (
    find_faults,
    headlines_of,
    make_document,
    make_page,
    make_tables,
)
from mcp_compaction.evals.results import Report
from mcp_compaction.evals.runner import MOST_ROUNDS
from mcp_compaction.evals.scenarios import EPISODE_TOKENS, MOST_EPISODES
from mcp_compaction.hosts.folders import known_hosts

DESCRIPTION = """\
Measure what survives a compaction, beside what simpler ways keep of the same sessions in the same
number of tokens. Every session is recorded in a store of its own, its window set to its own size,
compressed to each budget, and its whole view is read.
Without a source the sessions are generated, with a planted truth. With one, they are yours: a
host's transcripts, a file or a folder. Each is cut at 60 %, the first part is compressed, and the
rest tells what it was worth: of the names that the agent's next calls pass, how many are still in
view; are files told of as they stand; is what is called next still to be done.
Needs no key, no network and no model; with --summarizer generated sessions are measured once more
with a model's digests, which are really asked for. What is read stays on this machine.
Changes: nothing but the file that --html names; whatever --home and the settings say elsewhere, the
stores are temporary and the settings the default ones."""
EXAMPLES = (
    "eval",
    "eval claude-code",
    "eval ~/.codex/sessions/2026/11 --limit 5",
    "eval chat.jsonl --json",
    "eval --sessions 2 --tokens 6000 --rounds 3",
    "eval --html report.html",
    "eval --sessions 2 --rounds 0 --summarizer anthropic",
    "eval --sessions 0 --locomo locomo10.json --tau gpt-4o-airline.json.gz --json",
)
_NEWEST = 20  # sessions of a source, without --limit
_REFEREE = 4  # seeds


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    wanted = WantedSessions()
    names = ", ".join(host.name for host in known_hosts())
    parser.add_argument(
        "source",
        metavar="HOST|PATH",
        nargs="?",
        help=f"sessions of your own: a host ({names}), a file or a folder",
    )
    parser.add_argument(
        "--sessions",
        metavar="N",
        type=int,
        help=f"how many sessions to generate (default: {wanted.sessions}, with a source none)",
    )
    for flag, default, words in (
        ("--tokens", wanted.tokens, "about how long each of them is"),
        ("--rounds", wanted.rounds, "rounds of the growing session; 0 for none"),
        ("--seed", wanted.seed, "what the generated sessions are drawn from"),
        ("--referee", _REFEREE, "seeds of compaction-conformance-kit, if installed; 0 for none"),
    ):
        parser.add_argument(
            flag, metavar="N", type=int, default=default, help=f"{words} (default: {default})"
        )
    parser.add_argument("--locomo", metavar="FILE", type=Path, help="LoCoMo's chats, as JSON")
    parser.add_argument("--tau", metavar="FILE", type=Path, help="tau-bench runs, as JSON or gzip")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=int,
        help=f"only the first sessions of each file, the newest of a source (default: {_NEWEST})",
    )
    add_summarizer(parser)
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a report with charts")
    parser.add_argument(
        "--counter",
        choices=("auto", "estimate"),
        default="auto",
        help="what counts tokens; auto: exact where its ranks are at hand (default)",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document for programs")


async def run(call: Invocation) -> int:
    """Evaluate, and show what was found."""
    wanted = _parse_wanted(call)
    counter = EstimateCounter() if call.args.counter == "estimate" else best_counter()
    tell = make_teller(quiet=call.args.json)
    report = await evaluate(wanted, counter, tell, asked_model(call, counter), call.screen.bar)
    tell("")
    if not (report.scores or report.handover or report.drift or report.referee):
        left_out = [f"  {note}" for note in report.notes if note.startswith("left out")]
        advice = f"nothing was measured; pass a session of {FEWEST_MESSAGES} messages or more."
        raise InputError("\n".join([advice, *left_out]))
    if call.args.html is not None:
        write_html(call.args.html, make_page(report))
    if call.args.json:
        call.screen.write_json(make_document(report))
    else:
        _show(call, report)
    return 0


def _parse_wanted(call: Invocation) -> WantedSessions:
    args = call.args
    if args.sessions is None:
        args.sessions = 0 if args.source else WantedSessions().sessions
    check_count("--sessions", args.sessions, 0)
    check_count("--tokens", args.tokens, 1_000, MOST_EPISODES * EPISODE_TOKENS)
    check_count("--rounds", args.rounds, 0, MOST_ROUNDS)
    check_count("--referee", args.referee, 0)
    check_count("--limit", args.limit)
    origins = find_origins(args.source, call.environ) if args.source else []
    wanted = WantedSessions(
        seed=args.seed,
        sessions=args.sessions,
        tokens=args.tokens,
        rounds=args.rounds if args.sessions else 0,
        locomo=args.locomo,
        tau=args.tau,
        origins=tuple(origins[: args.limit or _NEWEST]),
        left=max(0, len(origins) - (args.limit or _NEWEST)),
        limit=args.limit,
        referee=args.referee if args.sessions else 0,
    )
    if not (wanted.sessions or wanted.locomo or wanted.tau or wanted.origins):
        raise InputError("there is nothing to measure; pass --sessions, a host or a file.")
    return wanted


def _show(call: Invocation, report: Report) -> None:
    screen = call.screen
    headlines = list(headlines_of(report))
    for one in headlines:
        screen.say(f"{one.words}: {screen.bold(one.figure)}{one.beside}")
    if headlines:
        screen.say()
    for heading, rows in make_tables(report):
        screen.say_table(rows, heading)
        screen.say()
    for line in (*find_faults(report), *report.notes):
        screen.say(line)
    counted = f"tokens counted by {report.counter}, seed {report.seed}"
    screen.say(screen.dim(f"{counted}, {report.seconds:.0f} s"))
    if call.args.html is not None:
        screen.say(f"the report with charts: {call.args.html}")
