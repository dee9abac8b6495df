"""The command that finds what was said: `mcp-compaction recall`."""

from __future__ import annotations

import re
import shlex
import textwrap
from argparse import ArgumentParser
from collections.abc import Sequence

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import OpenedPlace, open_place
from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.cli.console.wording import describe_moment
from mcp_compaction.compactor.results import Quote, Recalled
from mcp_compaction.core.recall.answer import join_neighbors
from mcp_compaction.core.recall.query import read_query, shorten_query
from mcp_compaction.core.text.injection import defuse_lines
from mcp_compaction.core.text.refs import parse_refs
from mcp_compaction.core.text.words import one_line
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.model import Hit, SessionInfo
from mcp_compaction.ports import Original

_IS_REF = re.compile(r"[mdp]\d+(?:~\d+|\.\.m\d+)?,?")
_MOST_AROUND = 20
_MOST_CHARS = 240  # of a message beside a passage: what was going on, no more

DESCRIPTION = """\
Find what was said, word for word, whether or not the model still sees it.
Changes: nothing; what had left the window is counted as recalled, for `stats`."""
EXAMPLES = (
    "recall rate limit staging key --session tax-2026",
    'recall "role:user since:2026-11-01 deploy" --scope project',
    "recall staging key --around 2 --session tax-2026",
    "recall m42",
    "recall --refs m42~3 --raw --session tax-2026",
    "recall --refs toolu_01A,d1,p2 --session tax-2026",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "query",
        metavar="QUERY",
        nargs="*",
        help="words and identifiers, or refs as m42; role:user, tool:Bash, since:2026-11-01 and "
        "until:… narrow it",
    )
    parser.add_argument(
        "--refs",
        metavar="REFS",
        help="messages (m42, m42~3, m12..m40 or the id of a tool call), digests (d1) and pins (p2)",
    )
    parser.add_argument(
        "--raw", action="store_true", help="with --refs: the messages' own JSON, byte for byte"
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
    parser.add_argument(
        "--around",
        metavar="N",
        type=int,
        default=0,
        help="show the start of N messages before and after each passage (default: 0)",
    )
    add_session(parser)
    add_place(parser)


async def run(call: Invocation) -> int:
    """Print the passages that answer best, or the messages of the refs."""
    args = call.args
    query: list[str] = args.query
    if query and not args.refs and all(map(_IS_REF.fullmatch, query)):
        query, args.refs = [], " ".join(query)
    if bool(query) == bool(args.refs):
        raise InputError("pass words to look for, or refs such as m42; one of the two.")
    if args.raw and not args.refs:
        raise InputError("--raw needs --refs; pass the ref of a hit, as --refs m42.")
    if args.skip < 0 or (args.max_tokens is not None and args.max_tokens <= 0):
        raise InputError("--skip and --max-tokens are counts; pass a positive number.")
    if args.refs and (args.skip or args.max_tokens is not None):
        raise InputError(
            "--skip and --max-tokens are for words to look for; what refs name is shown whole: "
            "leave them out."
        )
    _check_around(args.around, args.scope, bool(args.refs), args.json)
    async with open_place(call) as place:
        if args.refs:
            await _show_quotes(call, place)
        else:
            await _search(call, place, " ".join(query))
    return 0


def _check_around(around: int, scope: str, has_refs: bool, as_json: bool) -> None:
    if not 0 <= around <= _MOST_AROUND:
        raise InputError(f"--around is a count up to {_MOST_AROUND}; pass --around 2.")
    if around and (has_refs or as_json or scope == "all"):
        raise InputError(
            "--around is for passages of one project, to be read; with --refs write m42~2, else "
            "leave out --json and --scope all."
        )


async def _search(call: Invocation, place: OpenedPlace, query: str) -> None:
    args, screen = call.args, call.screen
    found = await compactor.recall(
        place.workspace,
        await _find_viewpoint(call, place),
        query,
        scope=args.scope,
        max_tokens=args.max_tokens,
        skip=args.skip,
    )
    if args.json:
        screen.write_json(found.model_dump(mode="json"))
        return
    if not found.hits:
        screen.say(_explain_nothing_found(found, query, args.skip))
    terms = read_query(query).terms
    around = _Around(place, screen, args.around, found.hits)
    for hit in join_neighbors(found.hits):
        before, after = await around.neighbors_of(hit)
        around.say("before", before)
        screen.say(screen.bold(_label_of_hit(hit, args.scope != "session")))
        text = defuse_lines(hit.text) if hit.ref.startswith("m") else hit.text
        screen.say(screen.highlight(text, terms))
        around.say("after", after)
    if found.more:
        is_again = found.after < args.skip + len(found.hits)
        first = " begins with one too long for this page and repeats some" if is_again else ""
        left = plural(found.more, "more passage")
        screen.say(screen.dim(f"{left}: --skip {found.after}{first}, or --max-tokens for more"))
    for words, why in (
        (found.nowhere, "stands nowhere there"),
        (found.too_common, "too common, only the newest places were ranked"),
    ):
        if words and found.hits:
            screen.say(screen.dim(f"{', '.join(map(repr, map(shorten_query, words)))}: {why}"))


def _explain_nothing_found(found: Recalled, query: str, skip: int) -> str:
    asked = repr(shorten_query(query))
    if skip:
        return f"no more passages for {asked}; leave out --skip to see the first."
    line = f"nothing found for {asked} among {plural(found.messages, 'message')}"
    if found.suggestion:
        return f"{line}; try: recall {shlex.quote(found.suggestion)}"
    further = {"session": "project or all", "project": "all"}.get(found.scope)
    wider = f", or look further with --scope {further}" if further else ""
    return f"{line}; try fewer or other words{wider}."


class _Around:
    """Says what was said before and after passages, each message once."""

    def __init__(
        self, place: OpenedPlace, screen: Screen, number: int, hits: Sequence[Hit]
    ) -> None:
        self._place = place
        self._screen = screen
        self._number = number
        self._told = {(hit.session, hit.ref) for hit in hits}

    async def neighbors_of(self, hit: Hit) -> tuple[list[Quote], list[Quote]]:
        """The messages before and after a passage that nothing else here shows."""
        if not self._number or not hit.ref.startswith("m"):
            return [], []
        work = self._place.workspace
        session = await compactor.find_session(work, self._place.project, hit.session)
        found = await compactor.quote(work, session, f"{hit.ref}~{self._number}")
        seq = int(hit.ref[1:])
        fresh = [one for one in found if (hit.session, one.ref) not in self._told]
        self._told |= {(hit.session, one.ref) for one in fresh}
        before = [one for one in fresh if int(one.ref[1:]) < seq]
        return before, [one for one in fresh if one not in before]

    def say(self, where: str, quotes: Sequence[Quote]) -> None:
        """The start of each, on a line of its own."""
        for quote in quotes:
            words = one_line(quote.text) or "(no words)"
            fitted = textwrap.shorten(words, _MOST_CHARS, placeholder=" …")
            self._screen.say(self._screen.dim(f"  {where} | {quote.ref} {quote.of}: {fitted}"))


async def _find_viewpoint(call: Invocation, place: OpenedPlace) -> SessionInfo:
    """The session a search starts from; any will do for one that looks further."""
    scope: str = call.args.scope
    if scope == "session" and not call.args.json:
        return await place.session_told(call.screen)
    if scope == "all" and place.name is None:
        anywhere = await compactor.list_sessions(place.workspace, None, 1)
        if anywhere:
            return anywhere[0]
    return await place.session_or_newest()


async def _show_quotes(call: Invocation, place: OpenedPlace) -> None:
    screen = call.screen
    plain = call.args.json or call.args.raw
    info = await (place.session_or_newest() if plain else place.session_told(screen))
    asked = parse_refs(call.args.refs)
    if call.args.raw and (asked.digests or asked.pins):
        raise InputError("--raw gives messages only; leave it out, or write --refs m42.")
    found = await compactor.recall_refs(place.workspace, info, call.args.refs)
    whole = {quote.ref: quote for quote in found}.values()  # a message may be more than one
    if call.args.json and not call.args.raw:
        screen.write_json([_document_of(quote, info) for quote in whole])
        return
    for quote in whole if call.args.raw else found:
        if call.args.raw and isinstance(quote.source, Original):
            screen.write_bytes(quote.source.message.raw.encode() + b"\n")
        else:
            screen.say(screen.bold(_label_of(quote)))
            screen.say(_safe_text_of(quote))


def _document_of(quote: Quote, info: SessionInfo) -> dict[str, object]:
    document = quote.source.model_dump(mode="json")
    if isinstance(quote.source, Original):
        return document
    return {"session": info.name, type(quote.source).__name__.lower(): document}


def _safe_text_of(quote: Quote) -> str:
    """The text of a quote, harmless to a model: digests and pins were made so when stored."""
    return defuse_lines(quote.text) if isinstance(quote.source, Original) else quote.text


def _label_of(quote: Quote) -> str:
    when = "" if quote.at is None else f" {describe_moment(quote.at)}"
    return f"[{quote.ref} {quote.of}{when}]"


def _label_of_hit(hit: Hit, with_session: bool) -> str:
    session = f"{hit.session} " if with_session else ""
    notes = [hit.note] if hit.note else []
    notes += [f"also {', '.join(hit.also)}"] if hit.also else []
    notes = ["as the agent told it", *notes] if hit.is_told else notes
    return f"[{session}{hit.ref} {hit.role} {'; '.join([describe_moment(hit.at), *notes])}]"
