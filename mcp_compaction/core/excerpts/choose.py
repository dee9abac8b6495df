"""Chooses excerpts for the room below the target: the user's newest, doubts, then the newest; in
plain talk those that say most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mcp_compaction.core.excerpts.cover import choose_by_cover, features_of
from mcp_compaction.core.excerpts.paging import keep_whole
from mcp_compaction.core.excerpts.pieces import OF_USER, Snippet, cost_of, newest_pieces
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


def choose_excerpts(
    sources: Sources, shown: str, room: int, count: CountTokens
) -> tuple[Excerpt, ...]:
    """The best excerpts that the room holds, of what a view does not show already.

    Messages that were asked for again come before all others, those recalled again and again in
    a share of the room.
    """
    wanted, cost = keep_whole(sources.earlier, sources.recalled, room, count)
    room -= cost or count(LABEL)
    if room <= 0:
        return wanted
    said = Haystack(fold("\n".join([shown, *(text for one in wanted for text in one.pieces)])))
    is_work = any(message.calls for message in sources.gone)
    found = newest_pieces(sources.gone, sources.kept, sources.markers)
    of_users = [
        piece
        for piece in found
        if piece.by in OF_USER and (is_work or not piece.text.endswith(QUESTION_MARKS))
    ]
    chosen, used = _choose_newest(of_users, said, room // 2, count)
    in_doubt = [piece for piece in found if piece.by == "doubt"]
    in_doubt.sort(key=lambda piece: -len(marker_groups(piece.text)))
    doubts, cost = _choose_newest(in_doubt, said, room // 3, count)
    chosen, used = [*chosen, *doubts], used + cost
    taken = {piece.text for piece in chosen}
    rest = [piece for piece in found if piece.text not in taken and piece.by != "doubt"]
    if is_work:
        rest.sort(key=lambda piece: _RANKS.get(piece.by, 1))
        chosen += _choose_newest(rest, said, room - used, count)[0]
    else:
        chosen += _choose_of_talk(rest, said, chosen, room - used, count)
    return (*wanted, *_excerpts_in_order(_pieces_that_fit(chosen, room, count)))


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
