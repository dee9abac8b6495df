"""What is shown of a long request: what it asks for, before its examples and its pastes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from mcp_compaction.core.window.preview import cut_back, note_of_size
from mcp_compaction.core.window.request_pieces import Piece, Worth, read_pieces

_START_SHARE, _END_SHARE = 33, 20  # percent, for how it begins and for what its end asks
_LARGEST_GAP = 24  # characters that may as well be shown as be left out
_MARK = "[...]"


class Request(NamedTuple):
    """A text that somebody asks something in, in pieces, with lines of it that always stay."""

    text: str
    pieces: tuple[Piece, ...]
    lines: tuple[str, ...]


def read_request(text: str, lines: Sequence[str]) -> Request:
    """A text, read once for as many previews of it as are tried."""
    return Request(text, read_pieces(text, frozenset(lines)), tuple(dict.fromkeys(lines)))


def preview_request(request: Request, ref: str, chars: int) -> str:
    """In about so many characters how a request begins, what it asks for and what it names, in its
    order, around a note of its size; and those of its lines that stay."""
    pieces = _cut_long(request.pieces, chars)
    shown = _lay_out(pieces, _choose(pieces, chars), note_of_size(request.text, ref))
    hidden = [line for line in request.lines if line in request.text and line not in shown]
    return "\n".join([shown, *sorted(hidden, key=request.text.find)])


def _choose(pieces: Sequence[Piece], chars: int, barred: Collection[int] = frozenset()) -> set[int]:
    """The pieces that are shown: how it begins, what it asks last and what its end asks, then what
    is worth most; and of those that stay the ones beside them. What would only lead to something
    hidden leaves its room to others, and room that is left is used for what stands next."""
    start = _start_of(pieces, chars * _START_SHARE // 100)
    end = range(len(pieces) - _reach(pieces[::-1], chars * _END_SHARE // 100), len(pieces))
    asked_last = (n for n in end if pieces[n].worth == Worth.ASKED)
    by_worth = sorted(range(len(pieces)), key=lambda n: (pieces[n].worth, not pieces[n].asks, n))
    last = _asked_last(pieces)
    kept = {n for n, piece in enumerate(pieces) if piece.worth == Worth.KEPT}
    leading = {n for n in kept if pieces[n].leads}
    chosen = kept.intersection(start)
    room = chars
    for number in (0, last, *start, *asked_last, *by_worth):
        if number in chosen or number in kept or number in barred:
            continue
        piece = pieces[number]
        cost = len(piece.text)
        if number not in start and number - 1 not in chosen and number - 1 not in leading:
            is_scrap = cost <= _LARGEST_GAP and piece.shape != "heading"
            if number != last and (is_scrap or not piece.stands_alone):
                continue
            cost += len(_MARK)
        if cost <= room:
            chosen.add(number)
            room -= cost
    headings = {n for n in chosen if pieces[n].shape == "heading"}
    chosen |= _neighbours_of(chosen - headings, sorted(kept))
    alone = frozenset(_left_alone(pieces, chosen, kept.union(start)))
    if alone and not barred:
        return _choose(pieces, chars, alone)
    return _filled(pieces, chosen - alone, room, alone.union(barred))


def _filled(
    pieces: Sequence[Piece], chosen: set[int], room: int, barred: Collection[int]
) -> set[int]:
    """The chosen pieces, and those right behind one of them for which there is room."""
    for number in range(1, len(pieces)):
        cost = len(pieces[number].text)
        is_next = number - 1 in chosen and number not in chosen and number not in barred
        if is_next and cost <= room and not pieces[number].leads:
            chosen.add(number)
            room -= cost
    return chosen


def _asked_last(pieces: Sequence[Piece]) -> int:
    """The last piece that asks for something, whatever its shape, and is neither kept anyway nor
    only leads to what is asked; or else the first piece."""
    asking = (n for n, piece in enumerate(pieces) if piece.asks and not piece.leads)
    return max((n for n in asking if pieces[n].worth != Worth.KEPT), default=0)


def _start_of(pieces: Sequence[Piece], chars: int) -> range:
    """The first pieces, in about so many characters, with what the last of them leads to."""
    end = max(1, _reach(pieces, chars))
    while end < len(pieces) and pieces[end - 1].leads:
        end += 1
    return range(end)


def _neighbours_of(chosen: Collection[int], kept: Sequence[int]) -> set[int]:
    """Those that stand beside a chosen one, or beside one that does."""
    shown = set(chosen)
    for order, step in ((kept, -1), (kept[::-1], 1)):
        for number in order:
            if number + step in shown:
                shown.add(number)
    return shown


def _reach(pieces: Sequence[Piece], chars: int) -> int:
    """How many pieces from the first on take no more than so many characters."""
    return bisect_right(list(accumulate(len(piece.text) for piece in pieces)), chars)


def _left_alone(
    pieces: Sequence[Piece], chosen: Collection[int], needed: Collection[int]
) -> Iterator[int]:
    """The chosen pieces that only lead to what is not shown."""
    is_next_shown = is_section_shown = False
    for number in range(len(pieces) - 1, -1, -1):
        piece = pieces[number]
        is_alone = (
            not is_section_shown if piece.shape == "heading" else piece.leads and not is_next_shown
        )
        is_shown = number in chosen
        if is_shown and is_alone and number not in needed and not _is_task(piece):
            is_shown = False
            yield number
        is_next_shown = is_shown
        is_section_shown = piece.shape != "heading" and (is_shown or is_section_shown)


def _is_task(piece: Piece) -> bool:
    return piece.shape == "item" and piece.worth == Worth.ASKED


def _cut_long(pieces: Sequence[Piece], chars: int) -> list[Piece]:
    """The pieces, where what is asked last and the first one are in two if they are too long to be
    shown together in so many characters."""
    last = _asked_last(pieces)
    if last == 0:
        return _cut_at(pieces, 0, chars)
    shorter = _cut_at(pieces, last, chars // 2)
    return _cut_at(shorter, 0, chars - len(shorter[last].text) - len(_MARK))


def _cut_at(pieces: Sequence[Piece], number: int, chars: int) -> list[Piece]:
    piece = pieces[number]
    if piece.worth == Worth.KEPT or len(piece.text) <= chars:
        return list(pieces)
    start = piece._replace(text=cut_back(piece.text[:chars]))
    text = piece.text[len(start.text) :]
    rest = piece._replace(text=text, worth=Worth.ASIDE, stands_alone=False, asks=False)
    return [*pieces[:number], start, rest, *pieces[number + 1 :]]


def _lay_out(pieces: Sequence[Piece], chosen: Collection[int], note: str) -> str:
    """The pieces in order, with a mark wherever some are left out; the first says how to go on."""
    shown: list[str] = []
    gap: list[str] = []
    mark = note
    for number, piece in enumerate(pieces):
        if number not in chosen:
            gap.append(piece.text)
            continue
        hidden = "".join(gap)
        if len(hidden) > _LARGEST_GAP:
            hidden = f"{mark}\n"
            shown[-1:] = [f"{text.rstrip()}\n" for text in shown[-1:]]
            mark = _MARK
        shown += (hidden, piece.text)
        gap.clear()
    whole = "".join(shown).rstrip()
    return f"{whole}\n{note}" if gap and mark is note else whole
