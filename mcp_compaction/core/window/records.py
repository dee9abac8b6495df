"""Records of a session within a limit: what it wants back in a window that somebody else emptied.

Pins come first and whole, then the digests, the newest first and in whole lines, then the index.
The last line says what is not there and how to recall it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from mcp_compaction.core.digest.fit import fit, nothing_stays
from mcp_compaction.core.digest.render import must_stay, render_digest
from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.window.history import runs_of
from mcp_compaction.core.window.render import index_block
from mcp_compaction.core.wording import plural
from mcp_compaction.model import Digest, Digested, Item, Pin, PinKind, SectionName, Session

Size = Callable[[str], int]
"""Measures a text: its characters, or its tokens."""
Stays = Callable[[SectionName, Item], bool]

_SHORT_LAST_LINE = "[records: more by recall_archived]"
# Which pins are shown where not all of them fit.
_KINDS: tuple[PinKind, ...] = ("constraint", "open_task", "fact", "note")


@dataclass(frozen=True, slots=True)
class _Records:
    """The records chosen so far, and what is not among them."""

    messages: int
    undigested: str  # the messages that the view shows themselves
    pins_out: tuple[Pin, ...]
    digests_out: tuple[tuple[str, int], ...]  # each with the lines that are not shown
    index_out: int  # characters
    pinned: str = ""
    digests: tuple[str, ...] = ()
    index: str = ""
    is_last_line_short: bool = False

    def last_line(self) -> str:
        """The line that says what is not shown, and how to recall it."""
        if self.is_last_line_short:
            return _SHORT_LAST_LINE
        pins = [pin.ref for pin in self.pins_out]
        cut = [f"{plural(lines, 'line')} of {ref}" for ref, lines in self.digests_out]
        if self.index_out:
            cut.append(f"{plural(self.index_out, 'character')} of the index")
        refs = ", ".join([*pins, *(ref for ref, _ in self.digests_out)])
        said = (
            f"pins in force that did not fit: {', '.join(pins)}" if pins else "",
            f"not shown: {', '.join(cut)}" if cut else "",
            f"in no digest: {self.undigested}" if self.undigested else "",
            f"{plural(self.messages, 'message')} kept word for word",
            f"recall_archived with refs {refs}, or words" if refs else "recall_archived with words",
        )
        return f"[records: {'; '.join(filter(None, said))}]"

    def text_within(self, limit: int, size: Size) -> str | None:
        """The records as one text; None where the limit does not hold them."""
        shown = [text for text in (self.pinned, *self.digests, self.index) if text]
        text = "\n".join([*shown, self.last_line()])
        return text if size(text) <= limit else None


def records_of(session: Session, limit: int, size: Size) -> str:
    """The records of a session as one text, never larger than the limit; empty without any."""
    size = cache(size)  # the same lines are tried for several sizes of the whole
    digests = _digests_newest_first(session)
    if not (session.pins or digests or session.info.messages):
        return ""
    whole_index = index_block(digests, _size_of_everything(digests), len)
    chosen = _Records(
        messages=session.info.messages,
        undigested=_name_undigested(session),
        pins_out=session.pins,
        digests_out=tuple((digest.ref, _count_lines(digest)) for digest in digests),
        index_out=len(whole_index),
    )
    most = limit if session.pins else limit // 10  # it names pins that do not fit
    if size(chosen.last_line()) > most:
        chosen = replace(chosen, is_last_line_short=True)
    chosen = _add_pins(chosen, session.pins, limit, size)
    chosen = _add_digests(chosen, digests, limit, size)
    chosen = _add_index(chosen, digests, whole_index, limit, size)
    return chosen.text_within(limit, size) or ""


def _digests_newest_first(session: Session) -> list[Digest]:
    """The digests in the opposite order of the view that shows them."""
    digests = {digest.number: digest for digest in session.digests}
    shown = [entry.digest for entry in session.view.body if isinstance(entry, Digested)]
    return [digests[number] for number in reversed(shown)]


def _name_undigested(session: Session) -> str:
    """The messages that the view shows in no digest, neighbors drawn together: `m1, m77..m82`."""
    runs = runs_of(message.seq for message in session.messages)
    return ", ".join(f"m{a}" if a == b else f"m{a}..m{b}" for a, b in runs[-MOST_TRIED:])


def _add_pins(chosen: _Records, pins: Sequence[Pin], limit: int, size: Size) -> _Records:
    """The records with as many whole pins as fit: all of them, or the user's before an
    agent's, and of each rules before tasks and facts."""
    everything = replace(chosen, pinned=pinned_block(pins), pins_out=())
    if everything.text_within(limit, size) is not None:
        return everything
    shown: list[Pin] = []
    for pin in sorted(pins, key=lambda pin: (pin.author != "user", _KINDS.index(pin.kind))):
        tried = [one for one in pins if one in shown or one == pin]
        left = tuple(one for one in pins if one not in tried)
        more = replace(chosen, pinned=pinned_block(tried), pins_out=left)
        if more.text_within(limit, size) is not None:
            chosen, shown = more, tried
    return chosen


def _add_digests(chosen: _Records, digests: Sequence[Digest], limit: int, size: Size) -> _Records:
    """The records with the digests that fit; the first that does not is cut at whole lines."""
    for digest in digests:
        more = _with_digest(chosen, digest, digest)
        if more.text_within(limit, size) is None:
            return _add_part_of_digest(chosen, digest, limit, size)
        chosen = more
    return chosen


def _add_part_of_digest(chosen: _Records, digest: Digest, limit: int, size: Size) -> _Records:
    """The records with the lines of a digest that fit, those that must stay before the others."""
    for stays in (must_stay, nothing_stays):

        def fill_room(room: int, stays: Stays = stays) -> _Records:
            sections = fit(digest.sections, room, size, stays)
            if not sections:
                return chosen
            return _with_digest(chosen, digest, digest.model_copy(update={"sections": sections}))

        more = _fill_most_room(chosen, fill_room, limit, size)
        if more is not chosen:
            return more
    return chosen


def _with_digest(chosen: _Records, digest: Digest, part: Digest) -> _Records:
    """The records with a part of the next digest, which may be the whole of it."""
    lines = _count_lines(digest) - _count_lines(part)
    left = ((digest.ref, lines),) if lines else ()
    return replace(
        chosen,
        digests=(*chosen.digests, render_digest(part)),
        digests_out=(*left, *chosen.digests_out[1:]),
    )


def _add_index(
    chosen: _Records, digests: Sequence[Digest], whole: str, limit: int, size: Size
) -> _Records:
    """The records with the part of the index that fits."""

    def fill_room(room: int) -> _Records:
        index = index_block(digests, room, size)
        left = max(0, len(whole) - len(index))
        return replace(chosen, index=index, index_out=left) if index else chosen

    return _fill_most_room(chosen, fill_room, limit, size)


def _fill_most_room(
    chosen: _Records, fill_room: Callable[[int], _Records], limit: int, size: Size
) -> _Records:
    """The records with what fills the largest room that keeps them within the limit.

    The room is searched for, because lines joined to a text take more than each by itself.
    """
    least, most = 0, limit
    while least < most:
        room = (least + most + 1) // 2
        more = fill_room(room)
        if more.text_within(limit, size) is None:
            most = room - 1
        else:
            least, chosen = room, more
    return chosen


def _count_lines(digest: Digest) -> int:
    return sum(len(items) for _, items in digest.sections)


def _size_of_everything(digests: Sequence[Digest]) -> int:
    """A number of characters that no index of these digests reaches."""
    things = [item for digest in digests for item in digest.index]
    return 1_000 + sum(
        100 + 2 * len(item.text + item.note) + len("".join(item.refs)) for item in things
    )
