"""The command that removes for good: `mcp-compaction store forget`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_store
from mcp_compaction.cli.console.opening import OpenedPlace, open_place, settings_of
from mcp_compaction.cli.console.speaker import is_confirmed, says_yes
from mcp_compaction.cli.console.transcripts import environ_of_hosts
from mcp_compaction.cli.console.wording import describe_moment
from mcp_compaction.core.log.content import texts_by_speaker, words_of
from mcp_compaction.core.text.words import fold, one_line
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError, UnknownRef, UnknownSession
from mcp_compaction.home import REPLACED, forget_files, state_folder
from mcp_compaction.hosts.recording import note_chat_as_recorded
from mcp_compaction.model import Message, SessionInfo, Twin, Twins
from mcp_compaction.ports import Forgotten, Scope
from mcp_compaction.program import as_typed
from mcp_compaction.settings import Settings
from mcp_compaction.store.outbox import Outbox
from mcp_compaction.tools.answers import start_of
from mcp_compaction.tools.pinning import parse_time
from mcp_compaction.wiring import team_address

_MOST_SESSIONS = 1_000_000  # all there are
_PAGE = 500  # messages read at a time
_SHOWN = 70  # characters of each in the list

DESCRIPTION = """\
Remove messages, a session or a whole project so that no byte of it is left. Other messages that
hold all that a forgotten one said are named; at a terminal they can be forgotten with it.
Of a team's store the rows go, and it says where bytes may lie; --purge rewrites the tables, too.
Changes: deletes for good, with all that was made from it; no undo, and older backups keep it. It
speaks for the user, and so needs a terminal."""
EXAMPLES = (
    "store forget tax-2026",
    "store forget tax-2026 m42 --yes",
    "store forget tax-2026 m42 m57",
    'store forget tax-2026 --matching "hotel in Lisbon" --before 2026-10-01',
    "store forget --project --yes",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("session", metavar="SESSION", nargs="?", help="the session's name")
    parser.add_argument("refs", metavar="REF", nargs="*", help="only these messages of it, as m42")
    parser.add_argument(
        "--project",
        metavar="PATH",
        nargs="?",
        const="",
        help="with SESSION: the project it is in; without: forget this whole project",
    )
    parser.add_argument("--matching", metavar="TEXT", help="only messages of SESSION with this")
    parser.add_argument(
        "--before", metavar="DATE", help="only messages of SESSION said before it, as 2026-10-01"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--purge",
        action="store_true",
        help="of a team's store: rewrite its tables as well, as the role that owns them",
    )
    add_store(parser)


async def run(call: Invocation) -> int:
    """Ask, remove, and say what was removed and where the same text still stands."""
    args = call.args
    if args.session is None and args.project is None:
        raise InputError("say what to forget: SESSION, SESSION REF, or --project for all of it.")
    is_picked = args.matching is not None or args.before is not None
    if is_picked and (args.session is None or args.refs):
        raise InputError("--matching and --before pick messages of a session: pass SESSION alone.")
    settings = settings_of(call)
    if args.purge:
        await _check_purge(settings)
    async with open_place(call) as place:
        if is_picked:
            args.refs = await _pick(call, place)
        code = await _forget(call, place)
    if code == 0:
        forget_files(state_folder(call.environ))
        for path in () if args.json else sorted(REPLACED.find(settings.home)):
            call.screen.say(f"{path} is an older copy of the store and keeps it: remove that file")
    if code == 0 and settings.store is not None:
        forget_files(settings.home)  # the store of a team does not know this folder
        await _tell_bytes(call, settings)
    target = Outbox(settings.home).read() if settings.store is None else None
    if code == 0 and target is not None and not args.json:
        call.screen.say(
            f"what had been sent to {target.server} is still there: forget it there too"
        )
    return code


async def _forget(call: Invocation, place: OpenedPlace) -> int:
    args = call.args
    what, scope = await _find_target(place, args.refs)
    twins = await find_twins(place, args.refs)
    also = f"; {where_twins_stand(twins, place.project)}" if twins.found else ""
    question = f"Forget {what}? This cannot be undone{also}. Type yes: "
    if not is_confirmed(call, f"forgetting {what} cannot be undone", question):
        call.screen.say("nothing was forgotten")
        return 1
    if not args.refs:
        await _leave_transcripts_behind(call, place, scope)
    forgotten = await compactor.forget(place.workspace, scope, *args.refs)
    if forgotten == Forgotten():
        raise InputError(
            f"there was nothing of {what}; see what is recorded: mcp-compaction sessions --all"
        )
    if args.json:
        listed = as_document(twins, place.project)
        call.screen.write_json({**forgotten.model_dump(mode="json"), **listed})
        return 0
    for line in _describe_removed(what, forgotten):
        call.screen.say(call.complete(line, with_session=bool(args.refs)))
    if twins.found:
        await _tell_twins(call, place, twins)
    return 0


async def _leave_transcripts_behind(call: Invocation, place: OpenedPlace, scope: Scope) -> None:
    """Note where the hosts' transcripts of what is forgotten end: what they tell of it, and was not
    recorded yet, never is."""
    environ = environ_of_hosts(call, place.settings.home)
    for info in await compactor.list_sessions(place.workspace, place.project, _MOST_SESSIONS):
        if scope.session in (None, info.id):
            await note_chat_as_recorded(place.workspace, info, environ, is_to_go=True)


async def _check_purge(settings: Settings) -> None:
    """Refuse to purge where it cannot be done, before anything is forgotten."""
    if settings.store is None:
        raise InputError(
            "--purge is for a team's store; a file keeps no byte of what is forgotten."
        )
    address = team_address(settings)
    from mcp_compaction.store.postgres.database import check_may_purge

    await check_may_purge(address)


async def _tell_bytes(call: Invocation, settings: Settings) -> None:
    """Say where bytes of what no query finds any more may lie; purge the tables if asked to."""
    if call.args.purge:
        from mcp_compaction.store.postgres.database import purge

        await purge(team_address(settings))
    if not call.args.json:
        where = "" if call.args.purge else "the tables' pages until --purge rewrites them, "
        call.screen.say(
            f"bytes may still lie in {where}the write-ahead log, replicas and dumps of the database"
        )


async def _pick(call: Invocation, place: OpenedPlace) -> list[str]:
    """The messages of a session that hold a text and were said before a day, shown in a list."""
    info = await place.session(by_title=False)
    before, wanted = parse_time(call.args.before), fold(call.args.matching or "")
    found: list[Message] = []
    for start in range(1, info.messages + 1, _PAGE):
        span = f"m{start}..m{min(start + _PAGE - 1, info.messages)}"
        originals = await compactor.originals(place.workspace, info, span)
        found += [o.message for o in originals if _is_meant(o.message, wanted, before, info)]
    if not found:
        raise InputError(f"no message of {info.name} is so; nothing was forgotten.")
    if not call.args.json:
        for message in found:
            when = describe_moment(message.at) if message.at else "no date"
            who = ", ".join(dict(texts_by_speaker(message, {})))
            said = one_line(_text_of(message))
            call.screen.say(f"{message.ref}  {when}  {who}: {start_of(said, _SHOWN)}")
    return [message.ref for message in found]


def _is_meant(message: Message, wanted: str, before: datetime | None, info: SessionInfo) -> bool:
    # A message without a date was said before its session was last used.
    is_early = before is None or (message.at or info.updated) < before
    return is_early and wanted in fold(_text_of(message))


def _text_of(message: Message) -> str:
    return "\n".join(map(words_of, message.parts))


async def _find_target(place: OpenedPlace, refs: Sequence[str]) -> tuple[str, Scope]:
    if place.name is None:
        return f"the whole project {place.project}", Scope(project=place.project)
    try:
        info = await place.session(by_title=False)
    except UnknownSession as unknown:
        raise UnknownSession(
            str(unknown).replace("; name one of: ", "; SESSION is one of: ")
        ) from None
    scope = Scope(project=info.project, session=info.id)
    if not refs:
        return f"session {info.name} with {plural(info.messages, 'message')}", scope
    for ref in refs:
        try:
            await compactor.originals(place.workspace, info, ref)
        except UnknownRef as unknown:
            wanted, _, _ = str(unknown).partition(";")
            raise UnknownRef(f"{wanted}; find the ref: mcp-compaction recall WORDS") from None
    return f"{', '.join(refs)} of session {info.name}", scope


async def _tell_twins(call: Invocation, place: OpenedPlace, twins: Twins) -> None:
    """Say where the same text still stands; a person who is asked can have it forgotten there."""
    call.screen.say(where_twins_stand(twins, place.project))
    refs = refs_by_session(twins, place.project)
    if refs and not call.args.yes and says_yes(call, "Forget these too? Type yes: "):
        for session, numbers in refs.items():
            info = await compactor.find_session(place.workspace, place.project, session)
            scope = Scope(project=info.project, session=info.id)
            forgotten = await compactor.forget(place.workspace, scope, *numbers)
            for line in _describe_removed(f"{', '.join(numbers)} of session {session}", forgotten):
                call.screen.say(call.complete(line))
        return
    for session, numbers in refs.items():
        typed = as_typed(["store", "forget", session, *numbers])
        hint = f"to forget them there: mcp-compaction {typed}"
        call.screen.say(call.complete(hint))


def _describe_removed(what: str, forgotten: Forgotten) -> Iterator[str]:
    numbers = {
        "session": forgotten.sessions,
        "message": forgotten.messages,
        "pin": forgotten.pins,
        "digest line": forgotten.digest_lines,
    }
    removed = ", ".join(plural(number, noun) for noun, number in numbers.items() if number)
    yield f"forgotten: {what}"
    yield f"removed: {removed}"
    if forgotten.kept_pins:
        first, *_ = pins = forgotten.kept_pins
        said = f"still pinned, said there: {', '.join(pins)}"
        yield f"{said}; release with: mcp-compaction unpin {first}"


async def find_twins(place: OpenedPlace, refs: Sequence[str]) -> Twins:
    """The other messages that hold all that these say, in every project."""
    if not refs:
        return Twins()
    info = await place.session(by_title=False)
    going = [Twin(project=info.project, session=info.name, ref=ref) for ref in refs]
    found: list[Twin] = []
    more = 0
    for ref in refs:
        # The command line speaks for the owner of this machine, who may see all projects.
        twins = await compactor.twins(place.workspace, info, ref, Scope(project=None))
        found += [twin for twin in twins.found if twin not in (*going, *found)]
        more += twins.more
    return Twins(found=tuple(found), more=more)


def refs_by_session(twins: Twins, project: str) -> dict[str, list[str]]:
    """The refs of the twins in one project, by the name of their session."""
    refs: dict[str, list[str]] = {}
    for twin in twins.found:
        if twin.project == project:
            refs.setdefault(twin.session, []).append(twin.ref)
    return refs


def where_twins_stand(twins: Twins, project: str) -> str:
    """A sentence that names the twins of one project and counts those of others."""
    places = [
        f"{', '.join(refs)} of {session}"
        for session, refs in refs_by_session(twins, project).items()
    ]
    places += [
        f"{plural(number, 'message')} of another project, {other}"
        for other, number in _count_elsewhere(twins, project).items()
    ]
    more = f" and in {plural(twins.more, 'message')} more" if twins.more else ""
    return f"the same text also stands in {' and in '.join(places)}{more}"


def as_document(twins: Twins, project: str) -> dict[str, object]:
    """The twins for programs: those of one project by ref, those of others counted."""
    return {
        "twins": [
            {"session": twin.session, "ref": twin.ref}
            for twin in twins.found
            if twin.project == project
        ],
        "twins_elsewhere": dict(_count_elsewhere(twins, project)),
        "more_twins": twins.more,
    }


def _count_elsewhere(twins: Twins, project: str) -> Counter[str]:
    return Counter(twin.project for twin in twins.found if twin.project != project)
