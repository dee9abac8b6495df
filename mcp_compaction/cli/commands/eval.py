"""The command that measures what survives: `mcp-compaction eval`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.waiting import make_teller
from mcp_compaction.cli.console.wording import align_columns
from mcp_compaction.counters.estimate import EstimateCounter
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.errors import InputError
from mcp_compaction.evals.asked import Asked
from mcp_compaction.evals.evaluation import Wanted, evaluate
from mcp_compaction.evals.page import make_page
from mcp_compaction.evals.report import find_faults, make_document, make_tables
from mcp_compaction.evals.results import Report
from mcp_compaction.ports import TokenCounter
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import summarizer_of

DESCRIPTION = """\
Measure what survives a compaction, beside what simpler ways keep of the same sessions in the same
number of tokens. Every session is recorded in a store of its own, its window set to its own size,
compressed to each budget, and its whole view is read. Needs no key, no network and no model; with
--summarizer the same is measured once more with a model's digests, which are really asked for.
Changes: nothing but the file that --html names; whatever --home and the settings say elsewhere, the
stores are temporary and the settings the default ones."""
EXAMPLES = (
    "eval",
    "eval --sessions 2 --tokens 6000 --rounds 3",
    "eval --html report.html",
    "eval --sessions 2 --rounds 0 --summarizer anthropic",
    "eval --sessions 0 --locomo locomo10.json --tau gpt-4o-airline.json.gz --json",
)
_REFEREE = 4  # seeds


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    wanted = Wanted()
    for flag, default, words in (
        ("--sessions", wanted.sessions, "how many sessions to generate; 0 for none"),
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
        "--transcript",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="a session of your own, as JSON lines; may be given again",
    )
    parser.add_argument(
        "--limit", metavar="N", type=int, help="only the first sessions of each file"
    )
    parser.add_argument(
        "--summarizer",
        metavar="NAME",
        help="measure a model too: anthropic, openai or auto, set up by the summarizer settings",
    )
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
    wanted = _parse_wanted(call.args)
    counter = EstimateCounter() if call.args.counter == "estimate" else best_counter()
    tell = make_teller(quiet=call.args.json)
    report = await evaluate(wanted, counter, tell, _model_of(call, counter))
    tell("")
    if call.args.html is not None:
        _write(call.args.html, make_page(report))
    if call.args.json:
        call.screen.write_json(make_document(report))
    else:
        _show(call, report)
    return 0


def _parse_wanted(args: Namespace) -> Wanted:
    for flag in ("sessions", "tokens", "rounds", "referee"):
        least = 1_000 if flag == "tokens" else 0
        if getattr(args, flag) < least:
            raise InputError(f"--{flag} {getattr(args, flag)} is too few; pass {least:,} or more.")
    wanted = Wanted(
        seed=args.seed,
        sessions=args.sessions,
        tokens=args.tokens,
        rounds=args.rounds,
        locomo=args.locomo,
        tau=args.tau,
        transcripts=tuple(args.transcript),
        limit=args.limit,
        referee=args.referee if args.sessions else 0,
    )
    if not (wanted.sessions or wanted.locomo or wanted.tau or wanted.transcripts):
        raise InputError("there is nothing to measure; pass --sessions, or a file.")
    return wanted


def _model_of(call: Invocation, counter: TokenCounter) -> Asked | None:
    """The model that writes digests beside the rules, from the user's own settings."""
    name: str | None = call.args.summarizer
    if name is None:
        return None
    settings = load_settings(call.environ, {"summarizer": name})
    if settings.summarizer_model is None or settings.summarizers == ("extractive",):
        raise InputError(
            f"--summarizer {name} asks no model; pass anthropic or openai, and set "
            "MCP_COMPACTION_SUMMARIZER_MODEL."
        )
    return Asked(summarizer_of(settings, counter.count), settings.summarizer_model)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; pass another --html.") from None


def _show(call: Invocation, report: Report) -> None:
    for heading, rows in make_tables(report):
        call.screen.say(call.screen.bold(heading))
        for line in align_columns(rows):
            call.screen.say(f"  {line}")
        call.screen.say()
    for line in (*find_faults(report), *report.notes):
        call.screen.say(line)
    counted = f"tokens counted by {report.counter}, seed {report.seed}"
    call.screen.say(call.screen.dim(f"{counted}, {report.seconds:.0f} s"))
    if call.args.html is not None:
        call.screen.say(f"the report with charts: {call.args.html}")
