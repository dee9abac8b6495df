"""Shows messages again that had left the window, and keeps them there while there is room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.log.content import whole_text
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Excerpt, Kept, Message, Session, Trimmed, View


def wanted_excerpts(excerpts: Iterable[Excerpt]) -> tuple[Excerpt, ...]:
    """The excerpts that are whole messages somebody asked for."""
    return tuple(one for one in excerpts if one.by == "wanted")


def messages_shown_whole(session: Session) -> set[int]:
    """The messages that a session's view shows whole, in their place or again."""
    view = session.view
    entries = (*view.head, *view.body, *view.since)
    cut = {entry.seq for entry in entries if isinstance(entry, Trimmed)}
    again = {one.seq for one in wanted_excerpts(view.promoted)}
    return ({message.seq for message in session.messages} - cut) | again


def show_again(session: Session, messages: Sequence[Message]) -> View:
    """The view with these messages whole: in their place where they were cut, else as a quotation.

    A call without its result is no valid history, so what a digest stands for never goes back in
    among the messages.
    """
    view = session.view
    asked = {message.seq for message in messages}
    in_place = {message.seq for message in session.messages}
    again = [quote_message(message) for message in messages if message.seq not in in_place]
    others = [one for one in view.promoted if one.seq not in asked]
    return view.model_copy(
        update={
            "head": tuple(Kept(seq=e.seq) if e.seq in asked else e for e in view.head),
            "body": tuple(
                Kept(seq=e.seq) if isinstance(e, Trimmed) and e.seq in asked else e
                for e in view.body
            ),
            "since": tuple(e for e in view.since if e.seq not in asked),
            "promoted": tuple(sorted([*others, *again], key=lambda one: one.seq)),
        }
    )


def keep_whole(
    excerpts: Iterable[Excerpt], recalled: Iterable[Excerpt], room: int, count: CountTokens
) -> tuple[tuple[Excerpt, ...], int]:
    """The newest messages that the agent keeps and the room holds, then those recalled most in a
    third of what is left, and what all of them cost."""
    newest = sorted(wanted_excerpts(excerpts), key=lambda one: -one.seq)
    kept, used = _add_fitting((), newest, room, count)
    limit = used + max(0, room - used) // 3  # rules and decisions come before what nobody keeps
    kept, used = _add_fitting(kept, recalled, limit, count)
    return kept, used


def _add_fitting(
    kept: tuple[Excerpt, ...], more: Iterable[Excerpt], limit: int, count: CountTokens
) -> tuple[tuple[Excerpt, ...], int]:
    """The excerpts with as many more as the limit holds, and what all of them cost."""
    used = count(excerpts_block(kept)) if kept else 0
    for one in more:
        grown = tuple(sorted((one, *kept), key=lambda excerpt: excerpt.seq))
        cost = count(excerpts_block(grown))
        if cost <= limit:
            kept, used = grown, cost
    return kept, used


def quote_message(message: Message) -> Excerpt:
    """A whole message as an excerpt that somebody asked for."""
    role = "tool" if message.results else message.role
    return Excerpt(seq=message.seq, by="wanted", role=role, pieces=(whole_text(message),))
