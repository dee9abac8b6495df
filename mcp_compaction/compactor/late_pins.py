"""Shows pins that were made outside the conversation once, after what the user says next."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core.window.history import is_in
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.model import LatePins, Message, Pin, Session

_MOST_LOOKED_AT = 50  # newest messages among which one is that the caller still has
_MOST_SINCE = 10_000  # messages in which a pin's words are looked for


async def show_late_pins(work: Workspace, window: Session) -> bool:
    """Show the pins that nothing in the window tells of, if the user spoke last; says whether."""
    view = window.view
    known = {*view.pinned, *(number for one in view.late_pins for number in one.pins)}
    new = [pin for pin in window.pins if pin.number not in known]
    if not view.is_begun or not new:
        return False
    newest = await _messages_after(work, window, window.info.messages - _MOST_LOOKED_AT)
    if not newest or not newest[-1].is_request:
        return False
    shown = _texts_of(await _messages_after(work, window, view.upto))
    new = [pin for pin in new if not _is_shown(pin, shown)]
    if not new:
        return False
    stored = await work.store.view(window.info.id, view.version)
    one = LatePins(after=newest[-1].seq, pins=tuple(pin.number for pin in new))
    changed = stored.model_copy(update={"late_pins": (*stored.late_pins, one)})
    # Overtaken: shown the next time.
    return await work.store.save_view(window.info.id, changed, stored.version)


async def _messages_after(work: Workspace, window: Session, number: int) -> list[Message]:
    """The messages after a number that the caller still has."""
    found = await work.store.originals(
        scope_of(window.info), after=max(0, number), limit=_MOST_SINCE
    )
    return [one.message for one in found if not is_in(window.view.gone, one.message.seq)]


def _texts_of(messages: Sequence[Message]) -> str:
    originals = [parse_object(message.raw, message.ref) for message in messages]
    return json.dumps(originals, ensure_ascii=False)


def _is_shown(pin: Pin, texts: str) -> bool:
    """Whether a pin's words stand there already: where it was said, or in the call that made it."""
    words = json.dumps(pin.text, ensure_ascii=False)[1:-1]
    in_arguments = json.dumps(words, ensure_ascii=False)[1:-1]  # which are JSON in JSON
    return words in texts or in_arguments in texts
