"""Chooses excerpts of plain talk for the room below the target: doubts, then what says most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from mcp_compaction.core.excerpts.cover import choose_by_cover, features_of
from mcp_compaction.core.excerpts.pieces import Snippet, cost_of, newest_pieces
from mcp_compaction.core.excerpts.render import LABEL, excerpts_block
from mcp_compaction.core.text.haystack import Haystack
from mcp_compaction.core.text.remarks import marker_groups
from mcp_compaction.core.text.words import fold, telling_words
from mcp_compaction.core.tokens import CHARS_OF_A_LARGE_TOKEN, CountTokens
from mcp_compaction.model import By, Excerpt, Message, Role


def choose_excerpts(
    gone: Sequence[Message],
    earlier: Iterable[Excerpt],
    shown: str,
    room: int,
    count: CountTokens,
    markers: int | None = None,
) -> tuple[Excerpt, ...]:
    """The best pieces of talk that the room holds, of what a view does not show already."""
    room -= count(LABEL)
    if room <= 0:
        return ()
    said = Haystack(fold(shown))
    found = newest_pieces(gone, earlier, markers)
    in_doubt = [piece for piece in found if piece.by == "doubt"]
    in_doubt.sort(key=lambda piece: -len(marker_groups(piece.text)))
    chosen, used = _choose_newest(in_doubt, said, room // 3, count)
    rest = [piece for piece in found if piece.by != "doubt"]
    chosen += _choose_of_talk(rest, said, chosen, room - used, count)
    return _excerpts_in_order(_pieces_that_fit(chosen, room, count))


def _choose_of_talk(
    found: Sequence[Snippet],
    said: Haystack,
    chosen: Sequence[Snippet],
    room: int,
    count: CountTokens,
) -> list[Snippet]:
    """The pieces of talk that add most to what a view says, with the ends they were stripped of
    where all are in and room is left."""
    rest = [piece for piece in found if not said.holds(piece.told)]
    covered = Counter(telling_words(said.text))
    for piece in chosen:
        covered.update(features_of(piece))
    return _restore_ends(choose_by_cover(rest, covered, room, count), room, count)


def _excerpts_in_order(chosen: Iterable[Snippet]) -> tuple[Excerpt, ...]:
    """The excerpts by message and place; pieces in a row of one author are one excerpt."""
    in_order = sorted(chosen, key=lambda piece: (piece.seq, piece.place))
    return tuple(
        Excerpt(seq=seq, by=by, role=role, pieces=tuple(piece.text for piece in run))
        for (seq, by, role), run in groupby(in_order, key=_source_of)
    )


def _source_of(piece: Snippet) -> tuple[int, By, Role | None]:
    """The message of a piece, and whose words it is; of talk, who speaks."""
    return piece.seq, piece.by, piece.role if piece.by == "talk" else None


def _choose_newest(
    newest_first: Iterable[Snippet], said: Haystack, room: int, count: CountTokens
) -> tuple[list[Snippet], int]:
    """The newest pieces that fit and that a view does not show, and what they cost."""
    chosen: list[Snippet] = []
    left = room
    for piece in newest_first:
        if left <= room // 100:
            break  # what is left is not worth looking for
        if len(piece.text) > left * CHARS_OF_A_LARGE_TOKEN or said.holds(piece.told):
            continue
        if (cost := cost_of(piece, count)) <= left and piece.is_harmless:
            chosen.append(piece)
            left -= cost
    return chosen, room - left


def _pieces_that_fit(chosen: list[Snippet], room: int, count: CountTokens) -> list[Snippet]:
    """The chosen pieces without the last, until they fit: tokens joined are not quite their sum."""
    room += count(LABEL)
    while chosen and (over := _count_lines(chosen, count) - room) > 0:
        over += over // 8  # each round lays the whole block out anew: a little more ends it sooner
        while chosen and over > 0:
            over -= cost_of(chosen.pop(), count)
    return chosen


def _count_lines(chosen: Sequence[Snippet], count: CountTokens) -> int:
    """The tokens of a block, line by line: most lines stay as they are when others give way."""
    block = excerpts_block(_excerpts_in_order(chosen))
    return sum(map(count, block.splitlines(keepends=True)))


def _restore_ends(chosen: Sequence[Snippet], room: int, count: CountTokens) -> list[Snippet]:
    """The pieces with the ends they were stripped of, where all are in and room is left."""
    if not any(piece.whole for piece in chosen):
        return list(chosen)
    left = room - _count_lines(chosen, count)
    grown: dict[int, Snippet] = {}
    longer = ((count(p.whole) - count(p.text), n, p) for n, p in enumerate(chosen) if p.whole)
    for cost, number, piece in sorted(longer, key=lambda one: one[:2]):
        left -= cost
        if left < 0:
            break
        grown[number] = replace(piece, text=piece.whole, whole="")
    return [grown.get(number, piece) for number, piece in enumerate(chosen)]
