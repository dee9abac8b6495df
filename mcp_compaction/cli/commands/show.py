"""The command that says what the model can still see: `mcp-compaction show`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import NamedTuple, get_args

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import open_place
from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.text.refs import join_refs, span_of
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill, PartName
from mcp_compaction.core.window.render import entries_of, index_in_view, pins_in_view
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.errors import InputError
from mcp_compaction.model import Digested, Entry, Kept, Session, SessionInfo, Shape, Trimmed

DESCRIPTION = """\
Say what the model can still see of a session: which messages whole, trimmed or as a digest.
With --records print what it needs in a window that its host has emptied: the pins, the digests, the
index, and how to recall the rest.
Changes: nothing."""
EXAMPLES = (
    "show --session tax-2026",
    "show --session tax-2026 --full",
    "show --session tax-2026 --json --shape openai > request.json",
    "show --session tax-2026 --records --max-chars 9000",
)
_MOST_CHARS = 10_000  # as much as Claude Code takes from one hook


class ViewRow(NamedTuple):
    """A stretch of the view: where it stands, how it is shown, its refs and its tokens."""

    place: str
    how: str
    refs: str
    tokens: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens as the fill has them: with what each message takes over its text, and scaled."""

    fill: Fill
    overhead: int
    count: CountTokens

    def __call__(self, tokens: Iterable[int]) -> str:
        """The tokens that messages or digests of these sizes take together."""
        return kilo(self.fill.scaled(sum(n + self.overhead for n in tokens)))

    def size_of(self, name: PartName) -> str:
        """The tokens that one part takes; empty where it takes none."""
        tokens = dict(self.fill.parts)[name]
        return kilo(self.fill.scaled(tokens)) if tokens else ""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--full",
        action="store_true",
        help="every ref, and the text of pins, digests, index and excerpts",
    )
    parser.add_argument(
        "--shape",
        choices=get_args(Shape),
        default="anthropic",
        help="with --json: whose API the request body is for (default: anthropic)",
    )
    parser.add_argument(
        "--records", action="store_true", help="pins, digests and index as one text for the model"
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--max-chars",
        metavar="N",
        type=int,
        help=f"with --records: the most characters (default: {_MOST_CHARS:,})",
    )
    sizes.add_argument(
        "--max-tokens", metavar="N", type=int, help="with --records: the most tokens instead"
    )
    add_session(parser)
    add_place(parser)


async def run(call: Invocation) -> int:
    """Print the view and its boundary, or the body of a request."""
    async with open_place(call) as place:
        info = await place.session()
        if call.args.records:
            text = await _read_records(call, place.workspace, info)
            if call.args.json:
                call.screen.write_json({"session": info.name, "records": text})
            elif text:
                call.screen.say(text)
            return 0
        if call.args.json:
            call.screen.write_json(await compactor.context(place.workspace, info, call.args.shape))
            return 0
        session = await place.workspace.load(info)
        fill = place.workspace.fill_of(session)
        index_limit, count = place.workspace.index_terms(session)
    sizes = Sizes(fill, place.settings.policy.overhead_per_message, count)
    screen = call.screen
    screen.say(f"{screen.bold(info.name)}: {plural(info.messages, 'message')} in the log")
    screen.say(screen.fill_line(fill))
    screen.say_rows(list(_rows_of_view(session, sizes, call.args.full)))
    screen.say(screen.bold(_describe_boundary(session)))
    if call.args.full:
        _say_records(session, index_in_view(session, index_limit, count), screen)
    return 0


async def _read_records(call: Invocation, work: Workspace, info: SessionInfo) -> str:
    """The records of a session within the limit that was typed."""
    if call.args.max_tokens is not None:
        text = await compactor.read_records(work, info, max_tokens=call.args.max_tokens)
    else:
        limit: int = _MOST_CHARS if call.args.max_chars is None else call.args.max_chars
        # Outside JSON the end of the last line is written too.
        limit = limit if call.args.json else max(limit - 1, 0)
        text = await compactor.read_records(work, info, max_chars=limit)
    is_empty = not text and not call.args.json
    if is_empty and await compactor.read_records(work, info, max_chars=_MOST_CHARS):
        raise InputError(
            "no record fits into so little; leave the limit out, or pass a larger one."
        )
    return text


def _rows_of_view(session: Session, sizes: Sizes, full: bool) -> Iterator[ViewRow]:
    """The view in its order: head, pins, digests with what stands between them, the tail."""
    head = session.view.head
    body = entries_of(session.view, session.messages)[len(head) :]
    recent = _whole_tail_of(body)
    of_messages = _rows_of_messages if full else _row_of_messages
    yield from of_messages(session, head, "head", sizes)
    if pins := pins_in_view(session):
        refs = join_refs((pin.number for pin in pins), "p")
        yield ViewRow("pinned", f"{len(pins)} whole", refs, sizes.size_of("pinned"))
    extras = tuple(_rows_of_additions(session, sizes))
    older = body[: len(body) - len(recent)]
    for is_digest, run in groupby(older, key=lambda entry: isinstance(entry, Digested)):
        members = tuple(run)
        if is_digest:
            digests = (entry for entry in members if isinstance(entry, Digested))
            yield from (_row_of_digest(session, entry, sizes) for entry in digests)
            yield from extras
            extras = ()
        else:
            yield from of_messages(session, members, "older", sizes)
    yield from of_messages(session, recent, "recent", sizes)


def _rows_of_additions(session: Session, sizes: Sizes) -> Iterator[ViewRow]:
    """The rows after the first digests: their index, and the excerpts."""
    if index := sizes.size_of("index"):
        yield ViewRow("index", "files, commands and the like, by ref", "", index)
    if promoted := session.view.promoted:
        number = plural(sum(len(one.pieces) for one in promoted), "excerpt")
        seqs = [one.seq for one in promoted]
        refs = span_of(min(seqs), max(seqs))
        yield ViewRow("promoted", f"{number} word for word", refs, sizes.size_of("promoted"))


def _whole_tail_of(shown: Sequence[Entry]) -> tuple[Entry, ...]:
    """The newest messages, back to the first that is not shown as it was said."""
    tail = tuple(takewhile(lambda entry: isinstance(entry, Kept), reversed(shown)))
    return tail[::-1]


def _row_of_messages(
    session: Session, run: Sequence[Entry], place: str, sizes: Sizes
) -> Iterator[ViewRow]:
    """One row, however many messages there are: how many are shown how, the first and the last."""
    whole, trimmed = _tokens_of_whole(session, run), _trimmed_entries_of(run)
    seqs = [*whole, *(entry.seq for entry in trimmed)]
    if seqs:
        numbers = {"whole": len(whole), "trimmed": len(trimmed)}
        how = ", ".join(f"{number:,} {word}" for word, number in numbers.items() if number)
        tokens = (*whole.values(), *(entry.tokens for entry in trimmed))
        yield ViewRow(place, how, span_of(min(seqs), max(seqs)), sizes(tokens))


def _rows_of_messages(
    session: Session, run: Sequence[Entry], place: str, sizes: Sizes
) -> Iterator[ViewRow]:
    """A row for what is whole and one for what is trimmed, with every ref and why."""
    whole, trimmed = _tokens_of_whole(session, run), _trimmed_entries_of(run)
    if whole:
        yield ViewRow(place, f"{len(whole):,} whole", join_refs(whole), sizes(whole.values()))
    if trimmed:
        reasons = Counter(cut.why for entry in trimmed for cut in entry.cuts)
        why = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        refs = join_refs(entry.seq for entry in trimmed)
        size = sizes(entry.tokens for entry in trimmed)
        yield ViewRow(place, f"{len(trimmed):,} trimmed", f"{refs} ({why})", size)


def _tokens_of_whole(session: Session, run: Sequence[Entry]) -> dict[int, int]:
    """The tokens of each message that is shown as it was said."""
    seqs = {entry.seq for entry in run if isinstance(entry, Kept)}
    return {message.seq: message.tokens for message in session.messages if message.seq in seqs}


def _trimmed_entries_of(run: Sequence[Entry]) -> list[Trimmed]:
    return [entry for entry in run if isinstance(entry, Trimmed)]


def _row_of_digest(session: Session, entry: Digested, sizes: Sizes) -> ViewRow:
    digest = next(d for d in session.digests if d.number == entry.digest)
    checked = "" if digest.checked else ", unchecked"
    how = f"{digest.ref} for {plural(digest.messages, 'message')}, by {digest.author}"
    refs = span_of(digest.first, digest.last)
    return ViewRow("digest", f"{how}{checked}", refs, sizes([digest.tokens]))


def _describe_boundary(session: Session) -> str:
    """The boundary: the message from which on the model sees everything as it was said."""
    everything = entries_of(session.view, session.messages)
    tail = _whole_tail_of(everything)
    if not everything:
        return "boundary: nothing is recorded yet"
    if len(tail) == len(everything):
        return "boundary: none; the model sees everything as it was said"
    if not tail or not isinstance(tail[0], Kept):
        return "boundary: at the end; nothing newer is whole"
    return f"boundary: m{tail[0].seq}; from there on all is whole, the rest comes back by recall"


def _say_records(session: Session, index: str, screen: Screen) -> None:
    texts = [pinned_block(pins_in_view(session))]
    texts += [render_digest(digest) for digest in session.digests]
    texts += [index, excerpts_block(session.view.promoted)]
    for text in filter(None, texts):
        screen.say()
        screen.say(text)
