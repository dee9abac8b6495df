"""The command that lists pins: `mcp-compaction pins`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcp_compaction.cli.console.invocation import (
    MOST_SESSIONS,
    Invocation,
    add_place,
    add_session,
    plain_place,
)
from mcp_compaction.cli.console.wording import describe_moment
from mcp_compaction.core.log.pinned import WAYS, pinned_block, shown_text
from mcp_compaction.projects import find_project
from mcp_compaction.store.listing import PinLine, list_pins

if TYPE_CHECKING:
    from mcp_compaction.model import Pin
import json
import os
from io import UnsupportedOperation
from threading import Thread
from typing import NamedTuple, TextIO, cast

DESCRIPTION = """\
List the pins in force: who said what, when, by which way, and for how long.
Run by a host as a SessionStart hook it prints the pins of that chat and its project, for the model.
With check REF: show the checks by which a pin holds calls of tools before they run, and what is
offered for it; --try tells what they would have done in the recorded past.
Changes: nothing by itself; --accept, --set, --remove and --once change what a pin holds. They speak
for the user, and so need a terminal: no agent can set, widen or lift a check."""
EXAMPLES = (
    "pins",
    "pins --session tax-2026",
    "pins --json",
    "pins check p2",
    "pins check p2 --accept",
    'pins check p2 --set "deny Bash: git push main" "must tests before Bash: git commit"',
    "pins check p2 --try",
    "pins check p2 --once",
    "pins check p2 --remove",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "check"), default="list", help="default: list"
    )
    parser.add_argument("ref", nargs="?", metavar="REF", help="with check: the pin, as p2")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--accept", action="store_true", help="set what is offered")
    change.add_argument("--set", nargs="+", metavar="CHECK", help="set these checks, one a word")
    change.add_argument("--remove", action="store_true", help="take the checks away")
    change.add_argument("--once", action="store_true", help="let the next call past, in 10 minutes")
    change.add_argument("--try", action="store_true", help="try them on the recorded past")
    add_session(parser, "all of the project")
    add_place(parser)


def look(call: Invocation) -> int | None:
    """List the pins from the store's rows alone; None where it takes more."""
    place = plain_place(call)
    may_be_hook = call.args.session is None and not call.stdin.isatty()
    if place is None or may_be_hook or call.args.action == "check":
        return None
    found = list_pins(place.home, place.project, call.args.session, MOST_SESSIONS)
    if not found:
        return None
    _print_pins(call, found)
    return 0


async def run(call: Invocation) -> int:
    """List the pins."""
    if call.args.action == "check":
        from mcp_compaction.cli.console.pin_checks import check_pin

        return await check_pin(call)
    from mcp_compaction.cli.console.opening import has_store, open_place, settings_of

    hook = read_hook_input(call.stdin) if call.args.session is None else None
    if hook is not None:
        return await _print_for_host(call, hook)
    pins: list[Pin] = []
    if has_store(settings_of(call)):
        async with open_place(call) as place:
            pins += (pin for pin, _ in (await place.pins_in_force()).values())
            pins += () if pins else await place.workspace.project_pins(place.project)
    if call.args.json:
        call.screen.write_json([pin.model_dump(mode="json") for pin in pins])
        return 0
    if not pins:
        call.screen.say(call.complete("no pins in force; add one: mcp-compaction pin TEXT"))
    _print_pins(call, pins)
    return 0


def _print_pins(call: Invocation, pins: Iterable[Pin | PinLine]) -> None:
    for pin in pins:
        call.screen.say(f"{call.screen.bold(f'p{pin.number}')} {shown_text(pin.text)}")
        call.screen.say(f"   {call.screen.dim(_describe_pin(pin))}")
        for line in pin.checks.splitlines():
            call.screen.say(f"   check: {line}")


async def _print_for_host(call: Invocation, hook: HookInput) -> int:
    """Print the pins of the chat that a host names; nothing where there are none."""
    from mcp_compaction import compactor
    from mcp_compaction.cli.console.opening import has_store, open_place, settings_of
    from mcp_compaction.hosts.known import project_of_host

    settings = settings_of(call)
    if not has_store(settings):
        return 0
    if not call.args.project and not settings.project:
        call.args.project = find_project(project_of_host(call.environ), hook.folder)
    async with open_place(call) as place:
        ours = place.workspace
        info = await ours.store.find_host_session(place.project, hook.session)
        pins = await (ours.pins(info) if info else ours.project_pins(place.project))
        block = pinned_block(pin for pin in pins if pin.kind != "note")
        if block:
            call.screen.write_json(
                {"hookSpecificOutput": {"hookEventName": hook.event, "additionalContext": block}}
            )
        if block and info is not None and hook.source == "compact":
            await compactor.put_pins_back(ours, info)
    return 0


def _describe_pin(pin: Pin | PinLine) -> str:
    place = f"session {pin.session}" if pin.scope == "session" else pin.scope
    source = f", said in {pin.source} of {pin.session}" if pin.source else ""
    way = "" if pin.channel == "message" else f" {WAYS[pin.channel]}"
    until = f", until {describe_moment(pin.expires)}" if pin.expires else ""
    kind = pin.kind.replace("_", " ")
    return f"{kind}, {place}, by the {pin.author}{way}, {describe_moment(pin.at)}{source}{until}"


_MOST_BYTES = 2**20
_PATIENCE_SECONDS = 5.0  # a host writes at once; a script may leave its stdin open and silent


class HookInput(NamedTuple):
    """The chat a hook was run for, with its folder and the reason."""

    session: str
    event: str
    folder: str
    source: str  # of a SessionStart: startup, resume, clear or compact


def read_hook_input(stdin: TextIO) -> HookInput | None:
    """The input a host wrote; None where no host runs this."""
    if stdin.isatty():
        return None
    try:
        # A folder's name may hold bytes that are no text, and a host may write them as they are.
        given: object = json.loads(_read(stdin).decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    fields = cast("dict[str, object]", given)
    session, event = fields.get("session_id"), fields.get("hook_event_name")
    if not (isinstance(session, str) and session and isinstance(event, str)):
        return None
    folder, source = fields.get("cwd"), fields.get("source")
    return HookInput(
        session,
        event,
        folder if isinstance(folder, str) else "",
        source if isinstance(source, str) else "",
    )


def _read(stdin: TextIO) -> bytes:
    """The whole of stdin, or as much as came in time."""
    try:
        end = stdin.fileno()
    except (OSError, UnsupportedOperation, ValueError):
        return stdin.buffer.read(_MOST_BYTES)
    chunks: list[bytes] = []

    def fill() -> None:
        # Not by the stream: its lock, held by a waiting thread, would stop the interpreter's exit.
        while sum(map(len, chunks)) < _MOST_BYTES and (chunk := os.read(end, 2**16)):
            chunks.append(chunk)

    reader = Thread(target=fill, daemon=True)
    reader.start()
    reader.join(_PATIENCE_SECONDS)
    return b"".join(chunks)
