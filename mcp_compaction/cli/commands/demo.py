"""The command that shows it all at work: `mcp-compaction demo`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.demo import Figures, broken_promises_of, play, tell
from mcp_compaction.errors import InputError
from mcp_compaction.program import as_typed

DESCRIPTION = """\
Start the real server, play a long coding session against it, and show what a compaction does.
Needs no key and no network. Ends with code 1 if a promise did not hold.
Changes: nothing; whatever --home and the settings say elsewhere, the demo has a store of its own,
which is removed at the end unless --keep names a folder for it."""
EXAMPLES = ("demo", "demo --keep payouts", "demo --json")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--keep", metavar="DIR", help="keep the store in this new or empty folder")
    parser.add_argument("--json", action="store_true", help="write the figures for programs")


async def run(call: Invocation) -> int:
    """Play, and tell what came of it."""
    async with _open_home(call.args.keep) as home:
        figures = await play(home, _progress_teller(call))
    faults = broken_promises_of(figures)
    if call.args.json:
        document = figures.model_dump(mode="json")
        call.screen.write_json({**document, "promises": dict(figures.promises())})
    else:
        _show(call.screen, figures, faults)
        _say_what_next(call, figures)
    return 1 if faults else 0


@asynccontextmanager
async def _open_home(keep: str | None) -> AsyncGenerator[Path]:
    if keep is None:
        with TemporaryDirectory(prefix="mcp-compaction-") as folder:
            yield Path(folder)
        return
    folder = Path(keep).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already; pass a new or empty folder to --keep.")
    yield folder


def _progress_teller(call: Invocation) -> Callable[[str], None]:
    """A function that tells a waiting person each step, and a program nothing."""

    def say(words: str) -> None:
        if call.screen.is_terminal and not call.args.json:
            call.screen.say(call.screen.dim(f"  {words}"))
            call.screen.flush()

    return say


def _show(screen: Screen, figures: Figures, faults: list[str]) -> None:
    if screen.is_terminal:
        screen.say()  # after the lines of progress
    for paragraph in tell(figures):
        heading, *lines = paragraph
        screen.say("\n".join([screen.bold(heading), *lines, ""]))
    for fault in faults:
        screen.say(screen.bold(f"BROKEN PROMISE: {fault}"))
    if not faults:
        screen.say(screen.bold(f"all {len(figures.promises())} things that were checked held"))


def _say_what_next(call: Invocation, figures: Figures) -> None:
    screen, program = call.screen, call.program
    screen.say()
    screen.say("to go on:")
    if call.args.keep:
        home = str(Path(call.args.keep).expanduser().absolute())
        where = as_typed(["--home", home, "--project", figures.project])
        screen.say(f"  {program} show {where}")
    screen.say(
        f"  {program} eval audit    what past compactions of your own chats lost; it only reads"
    )
    screen.say(f"  {program} install claude-code    plug it in; other hosts: install --list")
    screen.say(f"  {program} doctor    is everything in order on this machine?")
