"""Records of a session within a limit: what it wants back in a window that somebody else emptied.

Pins come first and whole, then the digests, the newest first and in whole lines, then the index.
The last line says what is not there and how to recall it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from mcp_compaction.core.digest.fit import cost_of_frame, fit, nothing_stays
from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.limits import MOST_TRIED, SHORTEST_PREVIEW
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.pinned import PINNED_LABEL, pinned_block
from mcp_compaction.core.text.refs import runs_of, span_of
from mcp_compaction.core.text.words import shorten
from mcp_compaction.core.window.render import index_block
from mcp_compaction.core.wording import plural
from mcp_compaction.model import Digest, Digested, Excerpt, Message, Pin, PinKind, Session

Size = Callable[[str], int]
"""Measures a text: its characters, or its tokens."""

_SHORT_LAST_LINE = "[records: more by recall_archived]"
# Which pins are shown where not all of them fit.
_KINDS: tuple[PinKind, ...] = ("constraint", "open_task", "fact", "note")


def records_of(session: Session, limit: int, size: Size) -> str:
    """The records of a session as one text, never larger than the limit; empty without any."""
    size = cache(size)  # the same lines are tried for several sizes of the whole
    if not (session.pins or session.info.messages or _digests_newest_first(session)):
        return ""
    room = limit
    while room > 0:
        text = _records_within(session, room, limit, size)
        if size(text) <= limit:
            return text
        room -= size(text) - limit
    return _SHORT_LAST_LINE if size(_SHORT_LAST_LINE) <= limit else ""


def _records_within(session: Session, room: int, limit: int, size: Size) -> str:
    """The records that a room holds, and the line on what it does not."""
    pins = _pins_within(session.pins, room, size)
    shown = [pinned_block(pins)]
    room -= size(shown[0])
    cut: list[str] = []
    digests = _digests_newest_first(session)
    for digest in digests:
        text = render_digest(digest)
        if size(text) > room:
            cut.append(digest.ref)
            left = room - cost_of_frame(digest, size)
            lines = fit(digest.sections, left, size, nothing_stays)
            text = render_digest(digest.model_copy(update={"sections": lines})) if lines else ""
        shown.append(text)
        room -= size(text)
    shown.append(index_block(digests, room, size))
    line = _last_line(session, [pin.ref for pin in session.pins if pin not in pins], cut)
    return "\n".join([*filter(None, shown), line if size(line) <= limit else _SHORT_LAST_LINE])


def _last_line(session: Session, pins: Sequence[str], cut: Sequence[str]) -> str:
    """The line that names the pins that are not shown, the digests not shown whole, and how to
    recall them."""
    runs = runs_of(message.seq for message in session.messages)[-MOST_TRIED:]
    undigested = ", ".join(span_of(*run) for run in runs)
    refs = ", ".join([*pins, *cut])
    said = (
        f"pins in force that did not fit: {', '.join(pins)}" if pins else "",
        f"not shown whole: {', '.join(cut)}" if cut else "",
        f"in no digest: {undigested}" if undigested else "",
        f"{plural(session.info.messages, 'message')} kept word for word",
        f"recall_archived with refs {refs}, or words" if refs else "recall_archived with words",
    )
    return f"[records: {'; '.join(filter(None, said))}]"


def _digests_newest_first(session: Session) -> list[Digest]:
    """The digests in the opposite order of the view that shows them."""
    digests = {digest.number: digest for digest in session.digests}
    shown = [entry.digest for entry in session.view.body if isinstance(entry, Digested)]
    return [digests[number] for number in reversed(shown)]


def _pins_within(pins: Sequence[Pin], room: int, size: Size) -> list[Pin]:
    """As many whole pins as fit, the user's before an agent's, and of each rules before tasks and
    facts."""
    shown: list[Pin] = []
    for pin in sorted(pins, key=lambda pin: (pin.author != "user", _KINDS.index(pin.kind))):
        tried = [one for one in pins if one in shown or one == pin]
        if size(pinned_block(tried)) <= room:
            shown = tried
    return shown


def newest_block(messages: Iterable[Message], limit: int) -> str:
    """What users and agents said in these messages, at most so many characters; empty without any.

    The newest come first into the room and stand last; of one that does not fit, its beginning.
    """
    chosen: list[Excerpt] = []
    for message in sorted(conversation_of(messages), key=lambda one: one.seq, reverse=True):
        if not _is_said(message):
            continue
        whole = [_quote(message, message.text), *chosen]
        if len(excerpts_block(whole)) <= limit:
            chosen = whole
            continue
        room = limit - len(excerpts_block([_quote(message, ""), *chosen]))
        if room < SHORTEST_PREVIEW:
            break
        chosen.insert(0, _quote(message, shorten(message.text, room - len(" …"))))
    return excerpts_block(chosen)


def _is_said(message: Message) -> bool:
    """Whether a user or an agent said it; hosts and tools write in the user's role too."""
    is_users = message.role == "user" and message.via != "tool"
    if PINNED_LABEL in message.text:  # some hosts put what a hook gave beside the user's words
        return False
    return (is_users or message.role == "assistant") and bool(message.text.strip())


def _quote(message: Message, text: str) -> Excerpt:
    return Excerpt(seq=message.seq, by="wanted", role=message.role, pieces=(text,))
