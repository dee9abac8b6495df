"""The command that says whose the prompts of programs are: `mcp-compaction trust`."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction.cli.console.invocation import Invocation, add_place
from mcp_compaction.cli.console.opening import check_home, project_of, settings_of
from mcp_compaction.cli.console.speaker import refusal_of, speaker_of
from mcp_compaction.store.noted import headless_projects, trust_headless

DESCRIPTION = """\
Say that prompts which a program sends are your own words: those of `claude -p`, of the Agent SDK
and of `codex exec`. Else they are the program's: a pin of them holds in its session alone, and
never changes one of yours. Without an argument it lists the projects for which you have said so.
Changes: notes the project beside the store, or with --off no longer; pins stay as they are. It
speaks for the user, and so needs a terminal."""
EXAMPLES = ("trust headless", "trust headless --off", "trust")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what", nargs="?", choices=("headless",), help="the prompts of programs, in this project"
    )
    parser.add_argument("--off", action="store_true", help="they are the program's again")
    add_place(parser)


async def run(call: Invocation) -> int:
    """Note the project, where one is to be, and list those that are noted."""
    settings = settings_of(call)
    if call.args.what is not None:
        if speaker_of(call) != "user":
            raise refusal_of("this says whose words prompts are")
        check_home(settings.home)
        trust_headless(settings.home, project_of(call, settings), not call.args.off)
    projects = sorted(headless_projects(settings.home))
    if call.args.json:
        call.screen.write_json({"headless": projects})
        return 0
    for project in projects:
        call.screen.say(f"headless: prompts that a program sends are yours in {project}")
    if not projects:
        call.screen.say("headless: prompts that a program sends are nowhere yours")
    return 0
