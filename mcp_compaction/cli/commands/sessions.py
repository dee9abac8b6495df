"""The command that lists sessions: `mcp-compaction sessions`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from mcp_compaction.cli.console.arguments import add_place, check_count
from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.opening import (
    check_home,
    has_store,
    open_place,
    project_of,
    settings_of,
)
from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.cli.console.wording import align_columns, describe_moment
from mcp_compaction.core.wording import plural
from mcp_compaction.model import SessionInfo

DESCRIPTION = """\
List the recorded sessions, the newest first.
Changes: nothing."""
EXAMPLES = ("sessions", "sessions --all", "sessions --project ~/src/shop --json")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--all", action="store_true", help="those of every project")
    parser.add_argument(
        "--limit", metavar="N", type=int, default=50, help="at most so many (default: 50)"
    )
    add_place(parser)


async def run(call: Invocation) -> int:
    """List the sessions of the project, or of all."""
    check_count("--limit", call.args.limit)
    settings = settings_of(call)
    check_home(settings.home)
    found: tuple[SessionInfo, ...] = ()
    paid: list[str] = []  # what a gateway has told of each
    if has_store(settings):
        async with open_place(call) as place:
            project = None if call.args.all else place.project
            found = await place.compactor.sessions(project, call.args.limit)
            paid = [await place.compactor.paid(info) for info in found]
    if call.args.json:
        listed = zip(found, paid, strict=True)
        call.screen.write_json([{**one.model_dump(mode="json"), "paid": p} for one, p in listed])
    elif found:
        _print_rows(found, paid, call.screen, with_project=call.args.all)
    elif call.args.all:
        hint = f"no sessions in {settings.home}; begin: mcp-compaction record FILE"
        call.screen.say(call.complete(hint))
    else:
        hint = (
            f"no sessions of {project_of(call, settings)}; "
            "see those of every project: mcp-compaction sessions --all"
        )
        call.screen.say(call.complete(hint))
    return 0


def _print_rows(
    found: Sequence[SessionInfo], paid: Sequence[str], screen: Screen, with_project: bool
) -> None:
    rows = [_row_of(info, with_project) for info in found]
    for info, told, line in zip(found, paid, align_columns(rows), strict=True):
        rest = line.removeprefix(info.name)
        screen.say(screen.bold(info.name) + rest)
        if told:
            screen.say(f"  {told.partition(chr(10))[0].removeprefix(info.name).strip()}")


def _row_of(info: SessionInfo, with_project: bool) -> list[str]:
    row = [
        info.name,
        plural(info.messages, "message"),
        describe_moment(info.updated),
        _origin_of(info),
    ]
    return [*row, info.project] if with_project else row


def _origin_of(info: SessionInfo) -> str:
    return ", ".join(word for word in (info.host, info.agent, info.traits.model) if word)
