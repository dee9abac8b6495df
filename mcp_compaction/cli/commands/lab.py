"""The command that shows strategies side by side on one session: `mcp-compaction eval lab`."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place
from mcp_compaction.cli.console.opening import has_store, open_place, settings_of
from mcp_compaction.cli.console.options import add_summarizer, asked_model
from mcp_compaction.cli.console.screen import make_teller
from mcp_compaction.core.wording import plural
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.errors import InputError
from mcp_compaction.evals.handover_sessions import RealSession, find_origins, read_newest_session
from mcp_compaction.evals.lab import Result, Strategy, compare, strategies
from mcp_compaction.home import new_file
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.program import as_typed

DESCRIPTION = """\
See the strategies side by side on one session: what each leaves in the window, and what of it can
still be read. The session is cut at 60 %; its first part is compressed by each strategy, and the
rest tells which names were used later.
  ours             what compress does, by default and to a target
  archive          the same without prose: refs, counts and the index
  force            even where it hardly pays, as a user's /compact
  microcompact     old tool results become previews, all else stays
  session-memory   only the facts that a next session would be offered
  ladder, subagent, supervisor, lab
                   the presets, as `--preset` sets them; lab keeps the first request and the
                   newest messages, and summarizes all between
  newest-lines, first-last, names-newest
                   plain ways to spend as many tokens as ours do
Each cell says how many of the rules, open tasks, error lines, commands and paths of the first part
stand in the view, and how many of the names that later calls pass.
Needs no key, no network and no model; --summarizer adds views whose digests a model writes.
Changes: nothing; whatever --home and the settings say elsewhere, the stores are temporary and the
settings the default ones."""
EXAMPLES = (
    "eval lab chat.jsonl",
    "eval lab chat.jsonl --show ours-10",
    "eval lab claude-code",
    "eval lab tax-2026",
    "eval lab chat.jsonl --only ours-25 lab newest-lines-25",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source",
        metavar="SESSION|FILE",
        help="a recorded session, by its name or words of its title; messages, an export or a "
        "host's transcript; of a host or a folder the newest",
    )
    parser.add_argument("--show", metavar="NAME", help="show the view of one strategy instead")
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these strategies")
    add_summarizer(parser)
    add_place(parser)


async def run(call: Invocation) -> int:
    """Compress by each strategy, and show what came of it."""
    session = await _read(call)
    counter = best_counter()
    model = asked_model(call, counter)
    wanted = _choose(list(strategies(model)), call.args.show, call.args.only)
    tell = make_teller(quiet=call.args.json)
    results: list[Result] = []
    async for result in compare(
        session,
        wanted,
        counter,
        model,
        lambda name: tell(f"{call.screen.bar(100 * len(results) / len(wanted))}{name}"),
    ):
        results.append(result)
    tell("")
    if call.args.json:
        call.screen.write_json(
            {
                "session": session.name,
                "source": session.source,
                "messages": len(session.early),
                "strategies": [result.model_dump(mode="json") for result in results],
            }
        )
    elif call.args.show:
        _show_view(call, results[-1])
    else:
        _show_table(call, session, results)
    return 0


async def _read(call: Invocation) -> RealSession:
    """The messages of the file, or of the session of that name where there is no such file."""
    source: str = call.args.source
    is_host = any(host.name == source for host in known_hosts())
    if is_host or Path(source).expanduser().exists() or not has_store(settings_of(call)):
        return read_newest_session(find_origins(source, call.environ))
    call.args.session = source
    async with open_place(call) as place:
        info = await place.session()
        with TemporaryDirectory(prefix="mcp-compaction-") as folder:
            file = Path(folder) / "session.jsonl"
            with new_file(file) as written:
                async for line in compactor.export(place.workspace, info):
                    written.write(line.encode() + b"\n")
            session = read_newest_session(find_origins(str(file), call.environ))
    return replace(session, name=info.name)


def _choose(known: list[Strategy], shown: str | None, only: list[str] | None) -> list[Strategy]:
    names = [shown] if shown else only
    if names is None:
        return known
    by_name = {strategy.name: strategy for strategy in known}
    for name in names:
        if name not in by_name:
            raise InputError(
                f"there is no strategy {name!r}; pass one of these: {', '.join(by_name)}."
            )
    chosen = [strategy for strategy in known if strategy.name in names]
    # A plain way is given as many tokens as our view has.
    needed = {s.percent for s in chosen if s.plain_way}
    beside = [s for s in known if s.name.startswith("ours-") and s.percent in needed]
    return [s for s in beside if s not in chosen] + chosen


def _show_table(call: Invocation, session: RealSession, results: list[Result]) -> None:
    screen = call.screen
    heads = [f"{what} ({of})" for what, _, of in results[0].kept]
    rows = [("", "tokens", "", *heads)]
    for one in results:
        share = f"{100 * one.tokens / one.of_tokens:.0f} %"
        cells = [str(kept) for _, kept, _ in one.kept]
        rows.append((one.name, f"{one.tokens:,}", share, *cells))
    cut = "the first 60 %" if session.later else "all"
    size = f"{plural(len(session.early), 'message')}, {results[0].of_tokens:,} tokens"
    screen.say_table(rows, f"{session.name}: {cut}, {size}")
    for one in results:
        if one.note:
            # What follows is advice to who may compress again.
            screen.say(f"{one.name}: {one.note.partition(' Go on')[0]}")
    screen.say()
    typed = as_typed(["eval", "lab", call.args.source, "--show", "ours-10"])
    screen.say(f"to read a view: {call.program} {typed}")


def _show_view(call: Invocation, result: Result) -> None:
    screen = call.screen
    head = f"{result.name}, {result.description}: {result.tokens:,} of {result.of_tokens:,} tokens"
    screen.say(screen.bold(head))
    for line in result.view:
        screen.say()
        screen.say(f"{screen.dim(f'[{line.role}] ')}{line.text}" if line.role else line.text)
