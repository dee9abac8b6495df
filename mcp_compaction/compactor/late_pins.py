"""Shows pins that were made outside the conversation once, after what the user says next."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core.log.conversation import is_own_call
from mcp_compaction.core.log.spoken_rules import Requests
from mcp_compaction.core.window.history import is_in
from mcp_compaction.model import LatePins, Message, Pin, Session, ToolCall

_MOST_LOOKED_AT = 50  # newest messages among which one is that the caller still has
_MOST_SINCE = 10_000  # messages in which a pin's words are looked for
_BY_CALL = ("tool", "dialog", "message")  # the channels of pins that an agent asked for
_QUOTES = ('"', "'", "`")  # around a text in a program


async def show_late_pins(work: Workspace, window: Session) -> bool:
    """Show the pins that nothing in the window tells of, if the user spoke last; says whether."""
    view = window.view
    new = waiting_pins(work, window)
    if not new:
        return False
    newest = await _messages_after(work, window, window.info.messages - _MOST_LOOKED_AT)
    if not newest or not newest[-1].is_request or newest[-1].results:
        return False
    since = await _messages_after(work, window, view.upto)
    said = await work.threads.run(_find_said, new, since)
    found = _find_said_before(work, window).union(said)
    work.said_pins.keep(window.info.id, (_start_of(window), found))
    new = [pin for pin in new if pin.number not in said]
    if not new:
        return False
    stored = await work.store.view(window.info.id, view.version)
    one = LatePins(after=newest[-1].seq, pins=tuple(pin.number for pin in new))
    changed = stored.model_copy(update={"late_pins": (*stored.late_pins, one)})
    # Overtaken: shown the next time.
    return await work.store.save_view(window.info.id, changed, stored.version)


def waiting_pins(work: Workspace, window: Session) -> list[Pin]:
    """The pins in force that nothing in a window is known to tell of, once it has begun."""
    view = window.view
    if not view.is_begun:
        return []
    known = {*view.pinned, *(number for one in view.late_pins for number in one.pins)}
    known |= _find_said_before(work, window)
    return [pin for pin in window.pins if pin.number not in known]


def _find_said_before(work: Workspace, window: Session) -> frozenset[int]:
    """The pins that messages were found to tell of; none where the caller has changed what it has
    since then."""
    start, pins = work.said_pins.get(window.info.id, (None, frozenset[int]()))
    return pins if start == _start_of(window) else frozenset[int]()


def _start_of(window: Session) -> object:
    return window.view.gone, window.view.reworded, window.view.upto


async def _messages_after(work: Workspace, window: Session, number: int) -> list[Message]:
    """The messages after a number that the caller still has."""
    found = await work.store.originals(
        scope_of(window.info), after=max(0, number), limit=_MOST_SINCE
    )
    return [one.message for one in found if not is_in(window.view.gone, one.message.seq)]


def _find_said(pins: Sequence[Pin], messages: Sequence[Message]) -> set[int]:
    """The pins that some messages tell of: a user said them, or a call made them."""
    requests = Requests(messages)
    return {
        pin.number
        for pin in pins
        if _is_said(pin, requests) or any(_makes(message, pin) for message in messages)
    }


def _is_said(pin: Pin, requests: Requests) -> bool:
    saying = requests.saying_of(pin.text)
    return saying is not None and saying.is_spoken


def _makes(message: Message, pin: Pin) -> bool:
    """Whether a message has the call that made a pin."""
    return pin.channel in _BY_CALL and any(
        _has_text(call, pin.text.strip()) for call in message.calls if is_own_call(call)
    )


def _has_text(call: ToolCall, text: str) -> bool:
    program = str(call.arguments.get("input", ""))
    is_whole = str(call.arguments.get("text", "")).strip() == text
    return is_whole or any(f"{quote}{text}{quote}" in program for quote in _QUOTES)
