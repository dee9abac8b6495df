"""Chooses excerpts for the room below the target: the user's, then those that say most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import chain, groupby, pairwise
from math import log
from typing import NamedTuple

from mcp_compaction.core.digest.text import ASKED, BEFORE, TOLD
from mcp_compaction.core.excerpts.paging import keep_whole
from mcp_compaction.core.excerpts.pieces import OF_USER, Piece, cut_pieces
from mcp_compaction.core.excerpts.render import LABEL, excerpts_block
from mcp_compaction.core.log.decisions.supersede import mark_superseded
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.haystack import Haystack
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.language import ENGLISH, languages_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.remarks import marker_groups
from mcp_compaction.core.text.signs import shows_sign, signs_of
from mcp_compaction.core.text.words import fold, telling_in_order, telling_words
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.lexicon.languages import head_of
from mcp_compaction.model import By, Digest, Excerpt, Item, Message, SectionName

_NUMBER = pattern_of(r"\b\d[\d,.:/%-]*\b")
_NAME = pattern_of(r"(?<=[a-z,] )[A-Z][a-z]+\b|\b[A-Z][a-z]+(?: [A-Z][a-z]+)+\b")
_QUOTE = pattern_of(r"\"[^\"]{2,60}\"")
_USER_SHARE = 50  # percent of the room for what the user said, where that is little
_FEW_WORDS = 3  # a user who says less than these mostly answers what is settled by now
_DOUBT_SHARE = 30  # percent of the room for what the agent was unsure of
_DECISION_SHARE = 80  # percent of what is left then for what was decided
_ANSWER_SHARE = 50  # and of what is left then for what the agent answered
_LAST_RUN = 10  # commands: what was run last is mostly run again, with another argument
_RUN_SHARE = 30  # percent of what is left then for them
_REF_TOKENS = 1  # about: near messages share a ref
_BETWEEN_TOKENS = 2  # about, of what parts two pieces of one line
_TITLES_TOKENS = 4  # about, of the parts' titles
_LINE_SHARE = 40  # percent of what is left for lines of code and logs
_GOOD_ENOUGH = 0.95
_ROUGHLY = 0.8  # a piece whose guessed cost is this far over the room need not be counted
_SAMPLE = 100  # pieces, by which the language of all is told
_FULL = 0.99  # of the room: what is left is not worth looking for

# Found on LoCoMo's first five chats and tau's first runs: `mcp-compaction eval` is the measure.
_DECAY = 0.3  # a word said again is worth this much each time
_LENGTH = 0.7  # long pieces pay for their length, but not in full
_PAIR = 0.15  # two telling words side by side, against one
_WORTH: dict[By, float] = {
    "user": 1.5,
    "reported": 1.5,
    "doubt": 1.0,
    "decision": 3.0,
    "answer": 2.0,
    "agent": 1.0,
    "command": 2.0,
    "field": 1.0,
    "line": 0.3,
    "talk": 1.0,
}
_RUN_AGAIN = 2.0  # a command that was run more than once, against another
_ONCE = 0.8  # a word of only one message is more often a slip than a subject


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A piece, and what it is worth before anything is covered."""

    piece: Piece
    features: tuple[str, ...]
    weight: float
    cost: float


class _Turns(NamedTuple):
    """Where talk takes a turn, in the languages of the pieces."""

    languages: tuple[str, ...]
    words: frozenset[str]

    def are_in(self, text: str) -> bool:
        # Most pieces have none of the words: a look at their letters is cheaper than reading them.
        return any(word in text for word in self.words) and shows_sign("turn", text, self.languages)


def choose_excerpts(
    gone: Sequence[Message],
    earlier: Sequence[Excerpt],
    shown: str,
    room: int,
    count: CountTokens,
    markers: int | None = None,
    overtaken: Collection[str] = (),
    recalled: Sequence[Excerpt] = (),
) -> tuple[Excerpt, ...]:
    """The best excerpts of what left the window, and of earlier ones, that the room holds; none of
    what users stated and later changed.

    Messages that were asked for again come before all others, those `recalled` again and again in
    a share of the room.
    """
    wanted, cost = keep_whole(earlier, recalled, room, count)
    room -= cost or count(LABEL)
    room -= _TITLES_TOKENS
    if room <= 0:
        return wanted
    shown = "\n".join([shown, *(text for one in wanted for text in one.pieces)])
    earlier = [one for one in earlier if one.by != "wanted"]
    found = cut_pieces(gone, earlier, markers)
    said = Haystack(fold(shown))
    superseded = _superseded_decisions(found)
    found = [
        p
        for p in found
        if id(p) not in superseded
        and not said.holds(fold(_telling_part(p)))
        and not _is_overtaken(p, overtaken)
    ]
    chosen, used = _choose_of_users(_pieces_by(found, *OF_USER), room * _USER_SHARE // 100, count)
    doubts, cost = _choose_doubts(_pieces_by(found, "doubt"), room * _DOUBT_SHARE // 100, count)
    chosen, used = [*chosen, *doubts], used + cost
    decided, cost = _choose_newest(
        _pieces_by(found, "decision"), (room - used) * _DECISION_SHARE // 100, count
    )
    chosen, used = [*chosen, *decided], used + cost
    answers, cost = _choose_newest(
        _pieces_by(found, "answer"), (room - used) * _ANSWER_SHARE // 100, count
    )
    chosen, used = [*chosen, *answers], used + cost
    last, cost = _choose_newest(
        _pieces_by(found, "command")[-_LAST_RUN:], (room - used) * _RUN_SHARE // 100, count
    )
    chosen, used = [*chosen, *last], used + cost
    taken = {id(piece) for piece in chosen}
    covered = Counter(telling_words(shown))
    for piece in chosen:
        covered.update(_features_of(piece))
    rest = [piece for piece in found if id(piece) not in taken and piece.by != "doubt"]
    chosen += _choose_by_cover(rest, covered, room - used, count)
    chosen = _restore_ends(chosen, room, count)
    return (*wanted, *_excerpts_in_order(_drop_until_it_fits(chosen, room + count(LABEL), count)))


def excerpts_of_digests(digests: Iterable[Digest]) -> tuple[Excerpt, ...]:
    """The lines of digests as excerpts: what a merge leaves out may still find room."""
    found: list[Excerpt] = []
    for digest in digests:
        for name, items in digest.sections:
            for item in items:
                by, text = _speaker_of_line(name, item.text)
                if not _is_whole(item, by):
                    continue
                if by is not None:
                    found.append(Excerpt(seq=int(item.refs[-1][1:]), by=by, pieces=(text,)))
    return tuple(found)


def _speaker_of_line(section: SectionName, text: str) -> tuple[By | None, str]:
    """Whose words a line is, without the words of ours; None where it is ours altogether."""
    if section == "DECISIONS":
        return "decision", text
    if section == "FACTS":
        return "answer", text
    if section == "GOAL" and not text.startswith(TOLD):
        return "user", text.removeprefix(BEFORE)
    if text.startswith(TOLD):
        return "reported", text.removeprefix(TOLD)
    return ("user", text.removeprefix(ASKED)) if text.startswith(ASKED) else (None, text)


def _telling_part(piece: Piece) -> str:
    """The words by which a view tells a piece: of a field its value."""
    return piece.text.partition(": ")[2] or piece.text if piece.by == "field" else piece.text


def _is_whole(item: Item, by: By | None) -> bool:
    """Whether an item is a sentence of the span as it was said, and still stands."""
    is_ours = item.provenance == "extracted" or by == "user"
    from_span = is_ours and bool(item.refs) and item.refs[-1][0] == "m"
    return from_span and not item.superseded and not item.text.endswith("…")


def _excerpts_in_order(chosen: Iterable[Piece]) -> tuple[Excerpt, ...]:
    """The excerpts by message and place; pieces in a row of one author are one excerpt."""
    ordered = sorted(chosen, key=lambda p: (p.seq, p.place))
    return tuple(
        Excerpt(seq=seq, by=by, pieces=tuple(piece.text for piece in run))
        for (seq, by), run in groupby(ordered, key=lambda p: (p.seq, p.by))
    )


def _pieces_by(found: Iterable[Piece], *by: By) -> list[Piece]:
    return sorted((p for p in found if p.by in by), key=lambda p: (p.seq, p.place))


def _choose_of_users(
    found: Sequence[Piece], room: int, count: CountTokens
) -> tuple[list[Piece], int]:
    """The newest of what users said; words such as "go on" only where the others leave room."""
    telling = [piece for piece in found if _says_something(piece)]
    few = [piece for piece in found if not _says_something(piece)]
    chosen, used = _choose_newest(telling, room, count)
    more, cost = _choose_newest(few, room - used, count)
    return [*chosen, *more], used + cost


def _says_something(piece: Piece) -> bool:
    text = piece.text
    if len(piece.words) >= _FEW_WORDS or _NUMBER.search(text) or _NAME.search(text):
        return True
    per_word = min((head_of(code).letters_per_word for code in languages_of(text)), default=0)
    return per_word > 0 and sum(map(str.isalpha, text)) >= _FEW_WORDS * per_word


def _choose_doubts(
    found: Sequence[Piece], room: int, count: CountTokens
) -> tuple[list[Piece], int]:
    """The pieces most in doubt, whole or by their phrases alone, and what they cost."""
    chosen: list[Piece] = []
    left = room
    groups = {id(piece): marker_groups(piece.text) for piece in found}
    for piece in sorted(found, key=lambda p: (-len(groups[id(p)]), -p.seq)):
        named = ", ".join(f'"{phrase}"' for phrase in groups[id(piece)].values())
        for shorter in (piece, replace(piece, text=named or piece.text)):
            if (cost := _cost_of(shorter, count)) <= left and _is_harmless(shorter):
                chosen.append(shorter)
                left -= cost
                break
    return chosen, room - left


def _superseded_decisions(found: Iterable[Piece]) -> set[int]:
    """The decisions that a later one has taken back."""
    made = _pieces_by(found, "decision")
    settled = mark_superseded([Item(text=piece.text) for piece in made])
    return {id(piece) for piece, item in zip(made, settled, strict=True) if item.superseded}


def _is_overtaken(piece: Piece, overtaken: Collection[str]) -> bool:
    """Whether a piece is a statement that was overtaken, or part of one."""
    said = fold(piece.text) if overtaken else ""
    return any(said in statement or statement in said for statement in overtaken)


def _choose_newest(
    found: Sequence[Piece], room: int, count: CountTokens
) -> tuple[list[Piece], int]:
    """The newest pieces that fit, and what they cost."""
    chosen: list[Piece] = []
    left = room
    for piece in sorted(found, key=lambda p: (-p.seq, p.place)):
        if (cost := _cost_of(piece, count)) <= left and _is_harmless(piece):
            chosen.append(piece)
            left -= cost
    return chosen, room - left


def _is_harmless(piece: Piece) -> bool:
    """Whether a piece may be shown: what looks like an order or a tag stays in the archive."""
    return piece.by == "user" or not is_planted(piece.text)


def _drop_until_it_fits(chosen: list[Piece], room: int, count: CountTokens) -> list[Piece]:
    """The chosen pieces without the last, until they fit: tokens joined are not quite their sum."""
    while chosen and (over := count(excerpts_block(_excerpts_in_order(chosen))) - room) > 0:
        while chosen and over > 0:
            over -= _cost_of(chosen.pop(), count) + _BETWEEN_TOKENS
    return chosen


def _restore_ends(chosen: Sequence[Piece], room: int, count: CountTokens) -> list[Piece]:
    """The pieces with the ends they were stripped of, where all are in and room is left."""
    if not any(piece.whole for piece in chosen):
        return list(chosen)
    left = room - count(excerpts_block(_excerpts_in_order(chosen)))
    grown: dict[int, Piece] = {}
    longer = ((count(p.whole) - count(p.text), n, p) for n, p in enumerate(chosen) if p.whole)
    for cost, number, piece in sorted(longer, key=lambda one: one[:2]):
        left -= cost
        if left < 0:
            break
        grown[number] = replace(piece, text=piece.whole, whole="")
    return [grown.get(number, piece) for number, piece in enumerate(chosen)]


def _cost_of(piece: Piece, count: CountTokens) -> int:
    return count(piece.text) + _REF_TOKENS


def _choose_by_cover(
    found: Sequence[Piece], covered: Counter[str], room: int, count: CountTokens
) -> list[Piece]:
    languages = languages_of("\n".join(piece.text for piece in found[:_SAMPLE])) or (ENGLISH,)
    turns = _Turns(
        languages, frozenset(w for one in languages for w in signs_of(one, "turn").needed)
    )
    newness = _newness_of_messages(found)
    choices = [_weigh(piece, turns, newness[piece.seq]) for piece in found]
    worths = _worth_of_words(choices)
    gains = worths | {f: worths[f] * _DECAY**n for f, n in covered.items() if f in worths}

    def worth(choice: _Candidate) -> float:
        return sum(map(gains.__getitem__, choice.features)) * choice.weight

    queue = [(-worth(choice), number) for number, choice in enumerate(choices)]
    heapify(queue)
    chosen: list[Piece] = []
    used = 0
    lines = room * _LINE_SHARE // 100
    while queue:
        _, number = heappop(queue)
        choice = choices[number]
        value = -worth(choice)
        if value >= 0:
            continue
        # Good enough is taken: weighing all anew for the very best would take ten times as long.
        if queue and value > queue[0][0] * _GOOD_ENOUGH:
            heappush(queue, (value, number))
            continue
        if used > _FULL * room:
            break
        cost = _cost_of(choice.piece, count) if used + choice.cost * _ROUGHLY <= room else room + 1
        is_line = choice.piece.by == "line"
        if used + cost <= room and not (is_line and cost > lines) and _is_harmless(choice.piece):
            chosen.append(choice.piece)
            covered.update(choice.features)
            gains.update((f, worths[f] * _DECAY ** covered[f]) for f in choice.features)
            used += cost
            lines -= cost if is_line else 0
    return chosen


def _worth_of_words(choices: Sequence[_Candidate]) -> dict[str, float]:
    """How telling a word is: in work the fewer messages say it, the more; in talk all alike."""
    said_by: dict[int, set[str]] = {}
    for choice in choices:
        said_by.setdefault(choice.piece.seq, set()).update(choice.features)
    said_in = Counter(chain.from_iterable(said_by.values()))
    is_talk = any(choice.piece.by == "talk" for choice in choices)
    worth = {
        number: 1.0 if is_talk else _rarity_of(number, len(said_by))
        for number in set(said_in.values())
    }
    return {
        name: worth[number] * _PAIR if " " in name else worth[number]
        for name, number in said_in.items()
    }


def _rarity_of(said_in: int, messages: int) -> float:
    worth = log(1 + messages / (1 + said_in))
    return worth * _ONCE if said_in == 1 else worth


def _newness_of_messages(found: Sequence[Piece]) -> dict[int, float]:
    """How much each message counts by its age: work goes on where it stands, so that the oldest
    count a quarter of the newest; in talk all count alike."""
    numbers = sorted({piece.seq for piece in found})
    if any(piece.by == "talk" for piece in found):
        return dict.fromkeys(numbers, 1.0)
    return {seq: (0.5 + 0.5 * n / len(numbers)) ** 2 for n, seq in enumerate(numbers)}


def _weigh(piece: Piece, turns: _Turns, newness: float) -> _Candidate:
    text = piece.text
    cost = len(text) / 4 + 1
    names = 0 if text.islower() else len(_NAME.findall(text))  # most lines name nobody
    facts = (
        1
        + 0.3 * min(2, len(_NUMBER.findall(text)))
        + 0.8 * min(2, names)
        + 0.6 * bool('"' in text and _QUOTE.search(text))
        + 0.15 * turns.are_in(text)
    )
    small_talk = 0.4 if text.endswith("?") or pattern_of_kind("small-talk").match(text) else 1.0
    again = _RUN_AGAIN if piece.uses > 1 else 1.0
    weight = facts * small_talk * newness * again * _WORTH[piece.by] / cost**_LENGTH
    return _Candidate(piece, _features_of(piece), weight, cost)


def _features_of(piece: Piece) -> tuple[str, ...]:
    """The words of a piece, and those that stand side by side."""
    said = telling_in_order(piece.text)
    pairs = {f"{a} {b}" for a, b in pairwise(said) if a and b}
    return (*piece.words, *sorted(pairs))
