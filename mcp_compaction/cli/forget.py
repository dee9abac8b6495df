"""The command that removes for good: `mcp-compaction forget`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator

from mcp_compaction.cli.arguments import add_store
from mcp_compaction.cli.invocation import Invocation
from mcp_compaction.cli.opening import Place, opened
from mcp_compaction.cli.reading import read_answer
from mcp_compaction.cli.wording import counted
from mcp_compaction.errors import InputError
from mcp_compaction.ports import Forgotten, Scope

DESCRIPTION = """\
Remove a message, a session or a whole project so that no byte of it is left.
Changes: deletes for good, with all that was made from it; no undo, and older backups keep it."""
EXAMPLES = (
    "forget tax-2026",
    "forget tax-2026 m42 --yes",
    "forget --project --yes",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what may be typed."""
    parser.add_argument("session", metavar="SESSION", nargs="?", help="the session's name")
    parser.add_argument("ref", metavar="REF", nargs="?", help="only this message of it, as m42")
    parser.add_argument(
        "--project",
        metavar="PATH",
        nargs="?",
        const="",
        help="with SESSION: the project it is in; without: forget this whole project",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_store(parser)


async def run(call: Invocation) -> int:
    """Ask, remove, and say what was removed."""
    args = call.args
    if args.session is None and args.project is None:
        raise InputError("say what to forget: SESSION, SESSION REF, or --project for all of it.")
    async with opened(call) as place:
        what, scope = await _meant(place, args.ref)
        if not (args.yes or _confirmed(call, what)):
            call.screen.say("nothing was forgotten")
            return 1
        forgotten = await place.compactor.forget(scope, args.ref)
    if forgotten == Forgotten():
        raise InputError(
            f"there was nothing of {what}; see what is recorded: mcp-compaction sessions --all"
        )
    if args.json:
        call.screen.write_json(forgotten.model_dump(mode="json"))
        return 0
    for line in _lines(what, forgotten):
        call.screen.say(line)
    return 0


async def _meant(place: Place, ref: str | None) -> tuple[str, Scope]:
    if place.name is None:
        return f"the whole project {place.project}", Scope(project=place.project)
    info = await place.session()
    scope = Scope(project=info.project, session=info.id)
    if ref is None:
        return f"session {info.name} with {counted(info.messages, 'message')}", scope
    await place.compactor.originals(info, ref)
    return f"{ref} of session {info.name}", scope


def _confirmed(call: Invocation, what: str) -> bool:
    if not (call.stdin.isatty() and call.screen.is_terminal):
        raise InputError(f"forgetting {what} cannot be undone; pass --yes to do it.")
    call.screen.say(f"Forget {what}? This cannot be undone. Type yes: ")
    call.screen.flush()
    return read_answer(call.stdin).lower() == "yes"


def _lines(what: str, forgotten: Forgotten) -> Iterator[str]:
    numbers = {
        "session": forgotten.sessions,
        "message": forgotten.messages,
        "pin": forgotten.pins,
        "digest line": forgotten.digest_lines,
    }
    removed = ", ".join(counted(number, noun) for noun, number in numbers.items() if number)
    yield f"forgotten: {what}"
    yield f"removed: {removed}"
    if forgotten.kept_pins:
        pins = ", ".join(forgotten.kept_pins)
        yield f"still pinned, said there: {pins}; release with: mcp-compaction unpin REF"
