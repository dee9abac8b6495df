"""The command that finds what was said: `mcp-compaction recall`."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction.cli.arguments import add_place, add_session
from mcp_compaction.cli.invocation import Invocation
from mcp_compaction.cli.opening import Place, opened
from mcp_compaction.cli.wording import counted, moment
from mcp_compaction.core.parts import text_of
from mcp_compaction.core.question import read_query
from mcp_compaction.errors import InputError
from mcp_compaction.model import Hit, Message, SessionInfo

DESCRIPTION = """\
Find what was said, word for word, whether or not the model still sees it.
Changes: nothing; what had left the window is counted as recalled, for `stats`."""
EXAMPLES = (
    "recall rate limit staging key --session tax-2026",
    'recall "role:user since:2026-11-01 deploy" --scope project',
    "recall --refs m42~3 --raw --session tax-2026",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what may be typed."""
    parser.add_argument(
        "query",
        metavar="QUERY",
        nargs="*",
        help="words and identifiers; role:user, tool:Bash, since:2026-11-01, until:… narrow it",
    )
    parser.add_argument("--refs", metavar="REFS", help="messages by ref: m42, m42~3, m12..m40")
    parser.add_argument(
        "--raw", action="store_true", help="with --refs: the originals, byte for byte"
    )
    parser.add_argument(
        "--scope",
        choices=("session", "project", "all"),
        default="session",
        help="how far to look (default: session)",
    )
    parser.add_argument("--max-tokens", metavar="N", type=int, help="the size of the answer")
    parser.add_argument(
        "--skip", metavar="N", type=int, default=0, help="passages already seen (default: 0)"
    )
    add_session(parser)
    add_place(parser)


async def run(call: Invocation) -> int:
    """Print the passages that answer best, or the messages of the refs."""
    args = call.args
    if bool(args.query) == bool(args.refs):
        raise InputError("pass words to look for, or --refs m42; one of the two.")
    if args.raw and not args.refs:
        raise InputError("--raw needs --refs; pass the ref of a hit, as --refs m42.")
    if args.skip < 0 or (args.max_tokens is not None and args.max_tokens <= 0):
        raise InputError("--skip and --max-tokens are counts; pass a positive number.")
    async with opened(call) as place:
        if args.refs:
            await _show_originals(call, place)
        else:
            await _search(call, place, " ".join(args.query))
    return 0


async def _search(call: Invocation, place: Place, query: str) -> None:
    args, screen = call.args, call.screen
    found = await place.compactor.recall(
        await _viewpoint(place, args.scope),
        query,
        scope=args.scope,
        max_tokens=args.max_tokens,
        skip=args.skip,
    )
    if args.json:
        screen.write_json(found.model_dump(mode="json"))
        return
    if not found.hits:
        wider = "" if args.scope == "all" else ", or look further with --scope project or all"
        screen.say(f"nothing found for {query!r}; try fewer or other words{wider}.")
    terms = read_query(query).terms
    for hit in found.hits:
        screen.say(screen.bold(_hit_label(hit, args.scope != "session")))
        screen.say(screen.highlight(hit.text, terms))
    if found.more:
        skip = args.skip + len(found.hits)
        more = f"{counted(found.more, 'more passage')}: --skip {skip}, or --max-tokens for more"
        screen.say(screen.dim(more))


async def _viewpoint(place: Place, scope: str) -> SessionInfo:
    """The session a search starts from; any will do for one that looks further."""
    if scope == "session":
        return await place.session()
    if scope == "all" and place.name is None:
        anywhere = await place.compactor.sessions(None, 1)
        if anywhere:
            return anywhere[0]
    return await place.any_session()


async def _show_originals(call: Invocation, place: Place) -> None:
    found = await place.compactor.recall_refs(await place.session(), call.args.refs)
    if call.args.raw:
        for original in found:
            call.screen.write_bytes(original.message.raw.encode() + b"\n")
    elif call.args.json:
        call.screen.write_json([original.model_dump(mode="json") for original in found])
    else:
        for original in found:
            message = original.message
            call.screen.say(call.screen.bold(_label(message)))
            call.screen.say("\n".join(text_of(part) for part in message.parts))


def _label(message: Message) -> str:
    when = "" if message.at is None else f" {moment(message.at)}"
    return f"[{message.ref} {message.role}{when}]"


def _hit_label(hit: Hit, with_session: bool) -> str:
    session = f"{hit.session} " if with_session else ""
    return f"[{session}{hit.ref} {hit.role} {moment(hit.at)}]"
