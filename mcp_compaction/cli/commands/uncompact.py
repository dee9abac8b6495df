"""The command that gives a chat its own words back: `mcp-compaction uncompact`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator

from mcp_compaction import compactor
from mcp_compaction.audit.auditing import cases_of
from mcp_compaction.cli.console.invocation import Invocation, add_place
from mcp_compaction.cli.console.opening import OpenedPlace, open_place, settings_of
from mcp_compaction.cli.console.transcripts import environ_of_hosts, take_in
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.finding import transcripts_of_hosts
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.hosts.transcripts.pieces import Transcript
from mcp_compaction.model import Ask, SessionInfo
from mcp_compaction.program import as_typed

DESCRIPTION = """\
Give a chat that its host has compacted its own words back: they are still in the host's transcript.
All of it is recorded, the host's summary too, and becomes a session that any chat can go on from:
whole where it fits the window, else as our view, with everything in the archive.
Changes: appends what is not yet known of that chat; where it is larger than the window, compacts
it here, which `restore` undoes. The host's files stay as they are."""
EXAMPLES = ("uncompact 3f2a91c0", "uncompact 3f2a91c0 --json")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("chat", metavar="CHAT", help="the host's id of the chat, or its beginning")
    add_place(parser)


async def run(call: Invocation) -> int:
    """Take the chat in, and say how to go on from it."""
    transcript = _find(call)
    compactions = sum(not case.is_ours for case in cases_of(transcript))
    async with open_place(call, makes_store=True) as place:
        intake = await take_in(call, place, [transcript])
        if intake.failed:
            raise InputError(intake.failed[0])
        (_, taken), *_ = intake.taken
        known = await place.workspace.store.find_transcript(transcript.address)
        info = taken.session or (known.session if known is not None else None)
        if info is None:
            raise InputError(
                f"nothing of {call.args.chat} is recorded: it was forgotten, or `record` is off."
            )
        tokens = await _fit(place, info)
    if call.args.json:
        told = {"session": info.name, "project": info.project, "compactions": compactions}
        call.screen.write_json({**told, "new": taken.new, "tokens": tokens})
        return 0
    for line in _lines(call, info, compactions, tokens):
        call.screen.say(line)
    return 0


def _find(call: Invocation) -> Transcript:
    start: str = call.args.chat
    trusted = environ_of_hosts(call, settings_of(call).home)
    every, _ = transcripts_of_hosts(known_hosts(), call.environ, trusted)
    found = [one for one in every if _is_named(one, start)]
    if not start or not found:
        raise InputError(
            f"no chat {start!r} in the hosts' folders; `eval audit` lists what there is."
        )
    if len(found) > 1:
        names = ", ".join(str(one.chat().session) for one in found[:5])
        raise InputError(f"{start!r} begins several chats: {names}; write more of one.")
    return found[0]


def _is_named(transcript: Transcript, start: str) -> bool:
    chat = transcript.chat()
    return not chat.is_subagent and (chat.session or "").startswith(start)


async def _fit(place: OpenedPlace, info: SessionInfo) -> int:
    """Make the session fit its window; the tokens of its view."""
    fill = (await place.workspace.read_window(info)).fill
    if fill.percent > 100:
        await compactor.compress(
            place.workspace, info, Ask(reason="its host's chat is larger than a window")
        )
        fill = (await place.workspace.read_window(info)).fill
    return fill.tokens


def _lines(call: Invocation, info: SessionInfo, compactions: int, tokens: int) -> Iterator[str]:
    many = plural(compactions, "compaction")
    yield f"{info.name}: all {plural(info.messages, 'message')}, from before {many} by its host"
    yield f"its window: {kilo(tokens)} tokens"
    yield f'to go on, say in a fresh chat: "continue {info.name}"'
    typed = as_typed(["show", "--session", info.name, "--project", info.project])
    yield f"to read it: {call.program} {typed}"
