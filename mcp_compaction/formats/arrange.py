"""The order every provider demands: what was called, its results directly after, then the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mcp_compaction.model import JsonObject

_REACH = 64  # a batch whose results are strewn over more messages is not put together again


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """One rendered message and what it has to do with calls and results."""

    obj: JsonObject
    said: bool  # by the assistant
    binds: bool = False  # holds calls or thinking: belongs to the assistant messages next to it
    leads: bool = False  # holds thinking that must come before the first call of its turn
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


@dataclass(slots=True)
class Group:
    """One assistant turn with the results of its calls, and what was said before the next one."""

    said: list[RenderedMessage] = field(default_factory=list[RenderedMessage])
    answers: list[RenderedMessage] = field(default_factory=list[RenderedMessage])
    others: list[RenderedMessage] = field(default_factory=list[RenderedMessage])

    def unanswered_calls(self) -> Iterator[tuple[RenderedMessage, str]]:
        """The calls that no result in this group belongs to."""
        answered = [call for piece in self.answers for call in piece.results]
        for piece in self.said:
            for call in piece.calls:
                if call in answered:
                    answered.remove(call)
                else:
                    yield piece, call


@dataclass(slots=True)
class _Matches:
    breaks: set[int] = field(default_factory=set[int])
    until: dict[int, int] = field(default_factory=dict[int, int])
    orphans: dict[int, set[int]] = field(default_factory=dict[int, set[int]])


def find_orphans(pieces: Sequence[RenderedMessage]) -> dict[int, set[int]]:
    """The results without a call they could belong to, by the position of their piece."""
    return _match(pieces).orphans


def group_pieces(pieces: Sequence[RenderedMessage]) -> list[Group]:
    """The pieces in provider order; a batch whose results came in between is put together again."""
    matches = _match(pieces)
    found = [Group()]
    end = -1
    for position, piece in enumerate(pieces):
        group = found[-1]
        if piece.said:
            belongs = position <= end or _continues(group, piece)
            if position in matches.breaks or not belongs:
                found.append(group := Group())
            group.said.append(piece)
            end = max(end, matches.until.get(position, -1))
        elif piece.results:
            group.answers.append(piece)
        else:
            group.others.append(piece)
    return found


def _continues(group: Group, piece: RenderedMessage) -> bool:
    if not group.said or group.answers or group.others:
        return False
    return piece.binds or group.said[-1].binds


def _match(pieces: Sequence[RenderedMessage]) -> _Matches:
    found = _Matches()
    waiting: dict[str, int] = {}
    batch: set[str] = set()
    has_led = was_interrupted = False
    for position, piece in enumerate(pieces):
        if piece.said:
            # Once a user spoke and the model went on, an id is used again or a new turn is
            # begun with thinking, a late result answers nothing any more.
            is_new = bool(waiting) and piece.leads and not has_led
            if was_interrupted or is_new or not batch.isdisjoint(piece.calls):
                found.breaks.add(position)
                waiting.clear()
                has_led = False
            has_led = has_led or piece.leads
            batch = batch.union(piece.calls) if waiting else set(piece.calls)
            waiting |= dict.fromkeys(piece.calls, position)
            was_interrupted = False
            continue
        strays: set[int] = set()
        for number, call in enumerate(piece.results):
            caller = waiting.pop(call, None)
            if caller is None or position - caller > _REACH:
                strays.add(number)
            else:
                found.until[caller] = position
        if strays:
            found.orphans[position] = strays
        if len(strays) == len(piece.results):
            was_interrupted = bool(waiting)
        has_led = has_led and bool(waiting)
    return found


def find_pairing_problems(
    pieces: Sequence[RenderedMessage], *, one_assistant: bool = False, one_answer: bool = False
) -> Iterator[str]:
    """The faults in calls and results that a provider would refuse, in words."""
    waiting: dict[str, int] = {}
    is_closed = False
    for number, piece in enumerate(pieces, 1):
        if waiting and not piece.results and (is_closed or not piece.said):
            yield from _complain_of_unanswered(waiting)
        if piece.said:
            for call in piece.calls:
                if call in waiting:
                    yield f"message {number}: call {call} was already made in this batch"
                waiting[call] = number
            is_closed = one_assistant and bool(piece.calls)
        for call in piece.results:
            if waiting.pop(call, None) is None:
                yield f"message {number}: result {call} does not follow a call of that id"
        if piece.results:
            is_closed = True
            if one_answer and number < len(pieces):
                yield from _complain_of_unanswered(waiting)


def _complain_of_unanswered(waiting: dict[str, int]) -> Iterator[str]:
    for call, number in waiting.items():
        yield f"message {number}: call {call} has no result directly after it"
    waiting.clear()
