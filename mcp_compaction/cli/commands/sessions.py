"""The command that lists sessions: `mcp-compaction sessions`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_compaction.cli.console.invocation import Invocation, add_place, check_count, plain_place
from mcp_compaction.cli.console.screen import Screen, align_columns
from mcp_compaction.cli.console.wording import describe_moment
from mcp_compaction.core.wording import plural
from mcp_compaction.model.session import AT_TERMINAL
from mcp_compaction.store.listing import SessionLine, list_sessions

if TYPE_CHECKING:
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


def look(call: Invocation) -> int | None:
    """List the sessions from the store's rows alone; None where it takes more."""
    check_count("--limit", call.args.limit)
    place = plain_place(call)
    if place is None:
        return None
    found = list_sessions(place.home, None if call.args.all else place.project, call.args.limit)
    found = [session for session in found or () if not _waits(session.origin[0], session.messages)]
    if not found:
        return None
    _print_rows(found, call.screen, with_project=call.args.all)
    return 0


async def run(call: Invocation) -> int:
    """List the sessions of the project, or of all."""
    from mcp_compaction import compactor
    from mcp_compaction.cli.console import opening
    from mcp_compaction.compactor.results import paid_in

    check_count("--limit", call.args.limit)
    settings = opening.settings_of(call)
    opening.check_home(settings.home)
    found: tuple[SessionInfo, ...] = ()
    paid: list[str] = []  # what a gateway has told of each
    if opening.has_store(settings):
        async with opening.open_place(call) as place:
            project = None if call.args.all else place.project
            every = await compactor.list_sessions(place.workspace, project, call.args.limit)
            found = tuple(info for info in every if not _waits(info.host, info.messages))
            paid = [paid_in(await place.workspace.store.events(info.id)) for info in found]
    if call.args.json:
        listed = zip(found, paid, strict=True)
        call.screen.write_json([{**one.model_dump(mode="json"), "paid": p} for one, p in listed])
    elif found:
        rows = [_listed(info, told) for info, told in zip(found, paid, strict=True)]
        _print_rows(rows, call.screen, with_project=call.args.all)
    elif call.args.all:
        hint = f"no sessions in {settings.home}; begin: mcp-compaction record FILE"
        call.screen.say(call.complete(hint))
    else:
        hint = (
            f"no sessions of {opening.project_of(call, settings)}; "
            "see those of every project: mcp-compaction sessions --all"
        )
        call.screen.say(call.complete(hint))
    return 0


def _waits(host: str, messages: int) -> bool:
    """Whether a session only holds a pin until the first chat of its project."""
    return host == AT_TERMINAL and not messages


def _listed(info: SessionInfo, paid: str) -> SessionLine:
    origin = (info.host, info.agent, info.traits.model or "")
    return SessionLine(
        info.name, info.project, info.messages, info.updated, origin, paid, info.title
    )


def _print_rows(found: Sequence[SessionLine], screen: Screen, with_project: bool) -> None:
    rows = [
        (
            session.name,
            f'"{session.title}"' if session.title else "",
            plural(session.messages, "message"),
            describe_moment(session.updated),
            ", ".join(filter(None, session.origin)),
            *[session.project] * with_project,
        )
        for session in found
    ]
    for session, line in zip(found, align_columns(rows), strict=True):
        screen.say(screen.bold(session.name) + line.removeprefix(session.name))
        if session.paid:
            told = session.paid.partition("\n")[0].removeprefix(session.name)
            screen.say(f"  {told.strip()}")
