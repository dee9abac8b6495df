"""The command that keeps messages: `mcp-compaction record`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import OpenedPlace, open_place, project_of, settings_of
from mcp_compaction.cli.console.options import add_traits, set_traits, typed_traits
from mcp_compaction.cli.console.speaker import read_text, speaker_of
from mcp_compaction.cli.console.transcripts import (
    describe_intake,
    environ_of_hosts,
    intake_as_json,
    take_in,
)
from mcp_compaction.core.text.refs import join_refs
from mcp_compaction.core.text.secrets import masked_line
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.formats import FORMATS, Incoming, read, read_incoming_text
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.transcripts.pieces import Transcript
from mcp_compaction.model import SessionInfo, Shape, Traits, Via
from mcp_compaction.ports import Recorded

DESCRIPTION = """\
Keep messages, byte for byte, in a session's log. A transcript of a host is recognized and taken in
as `import` does it; exports of other programs are refused.
Changes: appends what is not yet known; the session is made where it is new.
Without a terminal, or from stdin, who said what is kept as the agent's word: no rule in it can
become the user's."""
EXAMPLES = (
    "record chat.jsonl --session tax-2026",
    "record request.json --session tax-2026 --model claude-sonnet-4-5 --window 200000",
    "record - --session tax-2026 --after m41 < newest.json",
    "record chat.jsonl --session tax-2026 --complexity epic --agent-profile verbose",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default="-",
        help="JSON or JSON lines in the shape of Anthropic's Messages, OpenAI's chat or Responses "
        "API: a message, a list, or a whole request body; - or nothing: stdin",
    )
    add_session(parser, "a new one, its name made up")
    parser.add_argument("--after", metavar="REF", help="the known message they follow, as m41")
    add_traits(parser)
    parser.add_argument(
        "--shape", choices=tuple(FORMATS), help="the shape, where it should not be guessed"
    )
    add_place(parser)


async def run(call: Invocation) -> int:
    """Record what was given, and say which refs it got."""
    args = call.args
    _check_allowed(call)
    given = typed_traits(call)
    if transcripts := _transcripts_in(call):
        return await _take_in(call, transcripts, given)
    came = _with_shape(read_incoming_text(read_text(args.file, call.stdin)), args.shape)
    async with open_place(call, makes_store=args.after is None) as place:
        other = (
            await compactor.find_named(place.workspace, None, place.name) if place.name else None
        )
        info, is_new = await _find_or_open(place, call, given)
        via: Via = "host" if speaker_of(call) == "user" else "tool"
        recorded = await compactor.record(place.workspace, info, came, args.after, via)
        info = await compactor.find_session(place.workspace, place.project, info.name)
        if args.json:
            call.screen.write_json(
                {
                    "session": info.model_dump(mode="json"),
                    "is_new": is_new,
                    "refs": list(recorded.refs),
                    **recorded.model_dump(mode="json", include={"new", "diverged", "masked"}),
                }
            )
            return 0
        for line in _describe_recorded(info, is_new, recorded):
            call.screen.say(line)
        if is_new and other is not None and other.project != place.project:
            call.screen.say(
                f"another project, {other.project}, has a session of that name too; to add to it "
                f"instead: --project {other.project}"
            )
        call.screen.say(call.screen.fill_line((await place.workspace.read_window(info)).fill))
    return 0


def _transcripts_in(call: Invocation) -> list[Transcript]:
    path = Path(call.args.file)
    if not path.is_file():
        return []
    return transcripts_at(path, environ_of_hosts(call, settings_of(call).home))


async def _take_in(
    call: Invocation, transcripts: list[Transcript], given: dict[str, object]
) -> int:
    """Record a host's transcript, whose messages have a place and a shape of their own."""
    args = call.args
    if args.after is not None or args.shape is not None:
        raise InputError(f"{args.file} is a transcript; leave out --after and --shape.")
    if args.session is not None and len(transcripts) > 1:
        raise InputError(f"{args.file} holds {len(transcripts)} sessions; leave out --session.")
    async with open_place(call, makes_store=True) as place:
        intake = await take_in(call, place, transcripts, args.session)
        for info in [taken.session for _, taken in intake.taken if taken.session is not None]:
            known = await compactor.find_session(place.workspace, info.project, info.name)
            await set_traits(place.workspace, known, given)
    if args.json:
        call.screen.write_json(intake_as_json(intake))
    else:
        for line in describe_intake(call, intake):
            call.screen.say(line)
    return 1 if intake.failed else 0


def _check_allowed(call: Invocation) -> None:
    settings = settings_of(call)
    project = project_of(call, settings)
    if not settings.records(project):
        raise InputError(
            f"recording is off for {project}: the setting `record` is false for it; "
            "set it to true, or pass another --project."
        )


def _with_shape(came: Incoming, shape: Shape | None) -> Incoming:
    if shape is None:
        return came
    for message in came.messages:
        read(shape, message.raw)
    messages = tuple(m.model_copy(update={"shape": shape}) for m in came.messages)
    return came.model_copy(update={"messages": messages})


async def _find_or_open(
    place: OpenedPlace, call: Invocation, given: dict[str, object]
) -> tuple[SessionInfo, bool]:
    """The session to record in; one that must follow a known message is never made."""
    if call.args.after is not None:
        info, is_new = await place.session(), False
    else:
        info, is_new = await place.open_session(Traits.model_validate(given))
    return await set_traits(place.workspace, info, given), is_new


def _describe_recorded(info: SessionInfo, is_new: bool, recorded: Recorded) -> list[str]:
    where = f"the new session {info.name}" if is_new else info.name
    known = len(recorded.seqs) - recorded.new
    lines = [f"recorded {plural(recorded.new, 'message')} in {where}: {join_refs(recorded.seqs)}"]
    if not recorded.seqs:
        lines = [f"recorded no message in {where}"]
    if known:
        were = "was" if known == 1 else "were"
        lines.append(f"{plural(known, 'message')} of these {were} known already")
    if recorded.diverged is not None:
        lines.append(f"what was sent differs from m{recorded.diverged}, which stays as it was said")
    if recorded.masked:
        lines.append(masked_line(recorded.masked))
    return lines
