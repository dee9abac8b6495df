"""The command that says what the model can still see: `mcp-compaction show`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple, get_args

from mcp_compaction.cli.arguments import add_place, add_session
from mcp_compaction.cli.fill_line import fill_line
from mcp_compaction.cli.invocation import Invocation
from mcp_compaction.cli.opening import opened
from mcp_compaction.cli.policy_flags import add_policy
from mcp_compaction.cli.screen import Screen
from mcp_compaction.cli.wording import columns, counted, ranges
from mcp_compaction.core.digest import render_digest
from mcp_compaction.core.plan import kilo
from mcp_compaction.core.render import entries, pinned_block, pins_shown
from mcp_compaction.model import Digested, Entry, Kept, Session, Shape, Trimmed

DESCRIPTION = """\
Say what the model can still see of a session: which messages whole, trimmed or as a digest.
Changes: nothing."""
EXAMPLES = (
    "show --session tax-2026",
    "show --session tax-2026 --full",
    "show --session tax-2026 --json --shape openai > request.json",
)


class Row(NamedTuple):
    """One run of entries that are shown in the same way."""

    how: str
    refs: str
    tokens: str
    note: str


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what may be typed."""
    parser.add_argument(
        "--full", action="store_true", help="with the pins and digests, word for word"
    )
    parser.add_argument(
        "--shape",
        choices=get_args(Shape),
        default="anthropic",
        help="with --json: whose API the request body is for (default: anthropic)",
    )
    add_session(parser)
    add_place(parser)
    add_policy(parser)


async def run(call: Invocation) -> int:
    """Print the view and its boundary, or the body of a request."""
    async with opened(call) as place:
        info = await place.session()
        if call.args.json:
            call.screen.write_json(await place.compactor.context(info, call.args.shape))
            return 0
        session = await place.compactor.load(info)
        fill = await place.compactor.fill(info)
    screen = call.screen
    screen.say(f"{screen.bold(info.name)}: {counted(info.messages, 'message')} in the log")
    screen.say(fill_line(fill, screen))
    for line in columns(list(_rows(session))) if session.messages or session.digests else ():
        screen.say(line)
    screen.say(screen.bold(_boundary(session)))
    if call.args.full:
        _say_records(session, screen)
    return 0


def _rows(session: Session) -> Iterator[Row]:
    """The view in its order; neighbors that are shown alike stand in one row."""
    head = len(session.view.head)
    everything = entries(session.view, session.messages)
    yield from _runs(session, everything[:head], "head")
    pins = pins_shown(session)
    if pins:
        yield Row("pinned", ranges((pin.number for pin in pins), "p"), "", "word for word")
    yield from _runs(session, everything[head:], "")


def _runs(session: Session, shown: tuple[Entry, ...], place: str) -> Iterator[Row]:
    for kind, run in groupby(shown, key=lambda entry: entry.kind):
        members = tuple(run)
        if kind == "digested":
            yield from (_digest(session, e) for e in members if isinstance(e, Digested))
        else:
            yield _messages(
                session, tuple(e for e in members if not isinstance(e, Digested)), place
            )


def _messages(session: Session, run: tuple[Kept | Trimmed, ...], place: str) -> Row:
    sizes = {message.seq: message.tokens for message in session.messages}
    tokens = sum(e.tokens if isinstance(e, Trimmed) else sizes[e.seq] for e in run)
    reasons = {cut.why for e in run if isinstance(e, Trimmed) for cut in e.cuts}
    notes = [place, ", ".join(sorted(reasons))]
    how = "trimmed" if reasons else "whole"
    refs = ranges(entry.seq for entry in run)
    return Row(how, refs, kilo(tokens), "; ".join(note for note in notes if note))


def _digest(session: Session, entry: Digested) -> Row:
    digest = next(d for d in session.digests if d.number == entry.digest)
    stands_for = f"for m{digest.first}..m{digest.last}, {counted(digest.messages, 'message')}"
    thin = ", thinned" if entry.thin else ""
    checked = "" if digest.checked else ", unchecked"
    how = f"{stands_for}, by {digest.author}{thin}{checked}"
    return Row("digest", digest.ref, kilo(digest.tokens), how)


def _boundary(session: Session) -> str:
    """From where on the model sees everything as it was said."""
    if not session.messages and not session.digests:
        return "boundary: nothing is recorded yet"
    everything = entries(session.view, session.messages)
    if all(isinstance(entry, Kept) for entry in everything):
        return "boundary: none; the model sees everything as it was said"
    tail: list[int] = []
    for entry in reversed(everything):
        if not isinstance(entry, Kept):
            break
        tail.append(entry.seq)
    if not tail:
        return "boundary: at the end; nothing newer is whole"
    return f"boundary: m{tail[-1]}; from there on all is whole, the rest comes back by recall"


def _say_records(session: Session, screen: Screen) -> None:
    texts = [pinned_block(pins_shown(session))]
    texts += [render_digest(digest, False) for digest in session.digests]
    for text in filter(None, texts):
        screen.say()
        screen.say(text)
