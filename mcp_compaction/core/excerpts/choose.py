"""Chooses excerpts for the room below the target: the user's newest, doubts, then the newest; in
plain talk those that say most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mcp_compaction.core.excerpts.cover import choose_by_cover, features_of
from mcp_compaction.core.excerpts.paging import keep_whole
from mcp_compaction.core.excerpts.pieces import (
    Snippet,
    cost_of,
    cut_pieces,
    newest_doubts,
    newest_pieces,
)
from mcp_compaction.core.excerpts.render import LABEL, excerpts_block
from mcp_compaction.core.text.haystack import Haystack
from mcp_compaction.core.text.remarks import QUESTION_MARKS, marker_groups
from mcp_compaction.core.text.words import fold, telling_words
from mcp_compaction.core.tokens import CHARS_OF_A_LARGE_TOKEN, CountTokens
from mcp_compaction.model import By, Digest, Excerpt, Item, Message, Role, SectionName

_RANKS: dict[By, int] = {"decision": 0, "line": 2}


@dataclass(frozen=True)
class Sources:
    """What excerpts are chosen from."""

    gone: tuple[Message, ...]  # that left the window
    earlier: tuple[Excerpt, ...] = ()
    recalled: tuple[Excerpt, ...] = ()  # messages that were asked for again and again
    markers: int | None = None  # groups of epistemic markers that make a message a doubt

    @property
    def kept(self) -> list[Excerpt]:
        """What was kept before, word for word."""
        return [one for one in self.earlier if one.by != "wanted"]


@dataclass(frozen=True)
class Choice:
    """Excerpts that were chosen: whole messages, and pieces in the order they were chosen in."""

    wanted: tuple[Excerpt, ...] = ()
    pieces: tuple[Snippet, ...] = ()

    @property
    def excerpts(self) -> tuple[Excerpt, ...]:
        """The excerpts as a view shows them."""
        return (*self.wanted, *_excerpts_in_order(self.pieces))


def choose_excerpts(sources: Sources, shown: str, room: int, count: CountTokens) -> Choice:
    """The best excerpts that the room holds, of what a view does not show already.

    Messages that were asked for again come before all others, those recalled again and again in
    a share of the room.
    """
    wanted, room = _choose_wanted(sources, room, count)
    if room <= 0:
        return Choice(wanted)
    shown = _add_texts(shown, wanted)
    said = Haystack(fold(shown))
    is_work = any(message.calls for message in sources.gone)
    of_users = [
        piece
        for piece in newest_pieces(sources.gone, sources.kept, is_users=True)
        if is_work or not piece.text.endswith(QUESTION_MARKS)
    ]
    chosen, used = _choose_newest(of_users, said, room // 2, count)
    doubts, cost = _choose_doubts(sources, said, room // 3, count)
    chosen, used = [*chosen, *doubts], used + cost
    if not is_work:
        chosen += _choose_of_talk(sources, said, chosen, room - used, count)
    else:
        taken = {piece.text for piece in chosen}
        found = [
            piece
            for piece in newest_pieces(sources.gone, sources.kept, sources.markers)
            if piece.text not in taken and piece.by != "doubt"
        ]
        found.sort(key=lambda piece: _RANKS.get(piece.by, 1))
        chosen += _choose_newest(found, said, room - used, count)[0]
    return Choice(wanted, _pieces_that_fit(chosen, room, count))


def _choose_of_talk(
    sources: Sources, said: Haystack, chosen: Sequence[Snippet], room: int, count: CountTokens
) -> list[Snippet]:
    """The pieces of talk that add most to what a view says, with the ends they were stripped of
    where all are in and room is left."""
    taken = {piece.text for piece in chosen}
    found = cut_pieces(sources.gone, sources.kept, sources.markers)
    rest = [
        piece
        for piece in found
        if piece.text not in taken and piece.by != "doubt" and not said.holds(piece.told)
    ]
    covered = Counter(telling_words(said.text))
    for piece in chosen:
        covered.update(features_of(piece))
    return _restore_ends(choose_by_cover(rest, covered, room, count), room, count)


def excerpts_of_digests(digests: Iterable[Digest]) -> tuple[Excerpt, ...]:
    """The lines of digests as excerpts: what a merge leaves out may still find room."""
    found: list[Excerpt] = []
    for digest in digests:
        for name, items in digest.sections:
            for item in items:
                by = _speaker_of(name, item)
                if by is not None and _is_whole(item, by):
                    found.append(Excerpt(seq=int(item.refs[-1][1:]), by=by, pieces=(item.text,)))
    return tuple(found)


def _speaker_of(section: SectionName, item: Item) -> By | None:
    """Whose words an item is; None where it is ours altogether."""
    if section in _SPEAKERS and (item.value is None or item.value.kind == "request"):
        is_told = item.value is not None and item.value.status == "told"
        return "reported" if is_told else _SPEAKERS[section]
    return None


_SPEAKERS: dict[SectionName, By] = {"DECISIONS": "decision", "FACTS": "answer", "GOAL": "user"}


def _is_whole(item: Item, by: By) -> bool:
    """Whether an item is a sentence of the span as it was said, and still stands."""
    is_ours = item.provenance == "extracted" or by == "user"
    from_span = is_ours and bool(item.refs) and item.refs[-1][0] == "m"
    return from_span and not item.superseded and not item.text.endswith("…")


def _choose_wanted(
    sources: Sources, room: int, count: CountTokens
) -> tuple[tuple[Excerpt, ...], int]:
    """The whole messages that the room holds, and the room that they leave for pieces."""
    wanted, cost = keep_whole(sources.earlier, sources.recalled, room, count)
    return wanted, room - (cost or count(LABEL))


def _add_texts(shown: str, wanted: Iterable[Excerpt]) -> str:
    return "\n".join([shown, *(text for one in wanted for text in one.pieces)])


def _excerpts_in_order(chosen: Iterable[Snippet]) -> tuple[Excerpt, ...]:
    """The excerpts by message and place; pieces in a row of one author are one excerpt."""
    return tuple(
        Excerpt(seq=seq, by=by, role=role, pieces=tuple(piece.text for piece in run))
        for (seq, by, role), run in groupby(_sort_by_place(chosen), key=_source_of)
    )


def _source_of(piece: Snippet) -> tuple[int, By, Role | None]:
    """The message of a piece, and whose words it is; of talk, who speaks."""
    return piece.seq, piece.by, piece.role if piece.by == "talk" else None


def _sort_by_place(pieces: Iterable[Snippet]) -> list[Snippet]:
    return sorted(pieces, key=lambda p: (p.seq, p.place))


def _choose_doubts(
    sources: Sources, said: Haystack, room: int, count: CountTokens
) -> tuple[list[Snippet], int]:
    """The pieces most in doubt that fit, and what they cost."""
    found = newest_doubts(sources.gone, sources.kept, sources.markers)
    groups = {piece: len(marker_groups(piece.text)) for piece in found}
    return _choose_newest(sorted(found, key=lambda p: (-groups[p], -p.seq)), said, room, count)


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


def _pieces_that_fit(chosen: list[Snippet], room: int, count: CountTokens) -> tuple[Snippet, ...]:
    """The chosen pieces without the last, until they fit: tokens joined are not quite their sum."""
    room += count(LABEL)
    while chosen and (over := _count_lines(chosen, count) - room) > 0:
        over += over // 8  # each round lays the whole block out anew: a little more ends it sooner
        while chosen and over > 0:
            over -= cost_of(chosen.pop(), count)
    return tuple(chosen)


def _count_lines(chosen: Sequence[Snippet], count: CountTokens) -> int:
    """The tokens of a block, line by line: most lines stay as they are when others give way."""
    block = excerpts_block(_sort_by_place(chosen))
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
