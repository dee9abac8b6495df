"""Cuts plain talk into pieces that can stand alone, and chooses those for the room below the
target: doubts, then what says most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from itertools import chain, groupby, pairwise
from typing import NamedTuple

from mcp_compaction.core.excerpts.render import LABEL, excerpts_block
from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.all_languages import is_pleasantry, marker_groups, part_in_all
from mcp_compaction.core.text.injection import defuse, is_forged, is_order
from mcp_compaction.core.text.patterns import cuts_at, pattern_of
from mcp_compaction.core.text.sentences import ends_sentence
from mcp_compaction.core.text.words import (
    Haystack,
    fold,
    lower_words,
    one_line,
    telling_in_order,
    telling_stem,
    telling_words,
)
from mcp_compaction.core.tokens import CHARS_OF_A_LARGE_TOKEN, CountTokens
from mcp_compaction.lexicon.languages import words_in_all
from mcp_compaction.model import By, Excerpt, Message, Role

_CUT = cuts_at(r"(?<=\S[.!?。！？])\s+|\n+")  # in `git add . && git push` nothing ends
ITEM_NUMBER = pattern_of(r"\s*\d{1,3}[.)](?:\s+|$)")
_ENDS = (".", "!", "?", "。", "！", "？")
_FEWEST_WORDS = 4
_FEW = 2  # words at an end that stay: to break a phrase costs more than they do
_COMMON = 0.1  # a word said in more of the messages than this tells none of them apart

# Each begins with a plain sign, so that a search passes over all the others at once.
NUMBER = pattern_of(r"\d(?<!\w\d)[\d,.:/%-]*\b")
NAME = pattern_of(r"[A-Z](?:(?<=[a-z,] [A-Z])[a-z]+\b|(?<!\w[A-Z])[a-z]+(?: [A-Z][a-z]+)+\b)")
_QUOTE = pattern_of(r"\"[^\"]{2,60}\"")

_GOOD_ENOUGH = 0.95
_FULL = 0.99  # of the room: what is left is not worth looking for
_DECAY = 0.3  # a word said again is worth this much each time
_LENGTH = 0.7  # long pieces pay for their length, but not in full
_PAIR = 0.15  # two telling words side by side, against one


@dataclass(frozen=True, eq=False)
class Snippet:
    """A piece of a message, word for word."""

    seq: int
    place: int
    by: By
    text: str
    whole: str = ""  # with the ends that tell nothing, where they were left out
    role: Role | None = None  # who speaks

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words that say something, sorted: sums of floats depend on the order."""
        return telling_words(self.text)

    @property
    def told(self) -> str:
        """The words by which a view tells the piece, as they are compared."""
        return fold(self.text)

    @cached_property
    def is_harmless(self) -> bool:
        """Whether it may be shown: what looks like an order or a tag stays in the archive."""
        # Whoever shows it defuses it: what stays as it is then poses as nothing.
        is_posing = defuse(self.text) != self.text and is_forged(self.text)
        return not is_posing and not is_order(self.text)


def cost_of(piece: Snippet, count: CountTokens) -> int:
    """The tokens that a piece takes, with its share of a ref."""
    return count(piece.text) + 1


def newest_pieces(
    gone: Sequence[Message], earlier: Iterable[Excerpt], markers: int | None = None
) -> list[Snippet]:
    """The pieces of talk and of what was kept before, the newest message first; each text once,
    where it was said last. An agent's message with so many groups of epistemic markers is one
    piece. Pieces lose the ends that tell nothing."""
    newest_first = sorted((*earlier, *conversation_of(gone)), key=lambda one: -one.seq)
    once: dict[str, Snippet] = {}
    for one in newest_first:
        for piece in _pieces_of(one, markers):
            once.setdefault(piece.text, piece)
    return _trim_ends(once.values())


def _pieces_of(said: Excerpt | Message, markers: int | None) -> Iterator[Snippet]:
    if isinstance(said, Excerpt):
        for place, text in enumerate(said.pieces):
            yield Snippet(said.seq, place, said.by, text, role=said.role)
        return
    text = said.text
    if markers is not None and said.role == "assistant" and is_unsure(text, markers):
        yield Snippet(said.seq, 0, "doubt", one_line(text))
        return
    sentences = (one for one in _cut_sentences(text) if not is_pleasantry(one))
    for place, sentence in enumerate(map(one_line, sentences)):
        yield Snippet(said.seq, place, "talk", sentence, role=said.role)


def is_unsure(text: str, markers: int) -> bool:
    """Whether a text holds so many groups of epistemic markers."""
    return len(text) <= LONGEST_ANSWER and _count_markers(text) >= markers


@read_once
def _count_markers(text: str) -> int:
    return len(marker_groups(text))


def _trim_ends(found: Collection[Snippet]) -> list[Snippet]:
    said_by: dict[int, set[str]] = {}
    for piece in found:
        said_by.setdefault(piece.seq, set()).update(piece.words)
    said_in = Counter(chain.from_iterable(said_by.values()))
    most = max(2, _COMMON * sum(map(bool, said_by.values())))
    common = {word for word, messages in said_in.items() if messages > most}
    trimmed: list[Snippet] = []
    for piece in found:
        text = _trim(piece.text, common) if piece.by == "talk" else piece.text
        if text == piece.text:
            trimmed.append(piece)
        elif text:
            trimmed.append(replace(piece, text=text, whole=piece.text))
    return trimmed


def _trim(text: str, common: Collection[str]) -> str:
    """A text without the words at both ends that tell nothing; what negates always stays."""
    words = text.split()
    first, last = 0, len(words)
    while first < last and _tells_nothing(words[first], common):
        first += 1
    while last > first and _tells_nothing(words[last - 1], common):
        last -= 1
    if first == last:
        return ""
    if first < _FEW:
        first = 0
    if len(words) - last <= _FEW:
        last = len(words)
    return " ".join(words[first:last]).rstrip(",;:.!")


def _tells_nothing(word: str, common: Collection[str]) -> bool:
    return all(part in common for part in _meanings_in(word)) and not _turns_the_meaning(word)


@lru_cache(maxsize=65_536)
def _meanings_in(word: str) -> tuple[str, ...]:
    """What the parts of a joined word stand for where they say something."""
    parts = lower_words(word)
    manner = tuple(words_in_all("endings_of_manner"))
    return tuple(told for p in parts if not p.endswith(manner) and (told := telling_stem(p)))


@lru_cache(maxsize=65_536)
def _turns_the_meaning(word: str) -> bool:
    return part_in_all("turns_the_meaning").search(word) is not None


def _cut_sentences(text: str) -> Iterator[str]:
    """The sentences of a text; one too short to stand alone joins an open line before it."""
    text = text[: 4 * LONGEST_ANSWER]
    start = end = 0  # of what is held back
    for first, last in _stretches_between(text):
        held = text[start:end]
        if held.rstrip().endswith(_ENDS) or len(text[first:last].split()) >= _FEWEST_WORDS:
            if held.strip():
                yield held.strip()
            start = first
        end = last
    if text[start:end].strip():
        yield text[start:end].strip()


def _stretches_between(text: str) -> Iterator[tuple[int, int]]:
    """Where the parts between the cuts begin and end, without blank ones; the number of an item
    belongs to what follows it."""
    start = 0
    for match in _CUT.finditer(text):
        if ITEM_NUMBER.fullmatch(text, start, match.start()):
            continue
        if "\n" not in match[0] and not ends_sentence(text, match.start()):
            continue
        if text[start : match.start()].strip():
            yield start, match.start()
        start = match.end()
    if text[start:].strip():
        yield start, len(text)


class _Candidate(NamedTuple):
    """A piece, and what it is worth before anything is covered."""

    piece: Snippet
    features: tuple[str, ...]
    weight: float


def choose_by_cover(
    found: Sequence[Snippet], covered: Counter[str], room: int, count: CountTokens
) -> list[Snippet]:
    """The pieces that add most to the words that are covered already, in a room."""
    choices = list(map(_weigh, found))
    worths = {f: _PAIR if " " in f else 1.0 for choice in choices for f in choice.features}
    gains = worths | {f: worths[f] * _DECAY**n for f, n in covered.items() if f in worths}

    def worth(choice: _Candidate) -> float:
        return sum(map(gains.__getitem__, choice.features)) * choice.weight

    queue = [(-worth(choice), number) for number, choice in enumerate(choices)]
    heapify(queue)
    chosen: list[Snippet] = []
    used = 0
    while queue and used <= _FULL * room:
        _, number = heappop(queue)
        choice = choices[number]
        value = -worth(choice)
        if value >= 0:
            continue
        # Good enough is taken: weighing all anew for the very best would take ten times as long.
        if queue and value > queue[0][0] * _GOOD_ENOUGH:
            heappush(queue, (value, number))
            continue
        cost = cost_of(choice.piece, count)
        if used + cost <= room and choice.piece.is_harmless:
            chosen.append(choice.piece)
            covered.update(choice.features)
            gains.update((f, worths[f] * _DECAY ** covered[f]) for f in choice.features)
            used += cost
    return chosen


def features_of(piece: Snippet) -> tuple[str, ...]:
    """The words of a piece that say something, and those that stand side by side."""
    pairs = {f"{a} {b}" for a, b in pairwise(telling_in_order(piece.text)) if a and b}
    return (*piece.words, *sorted(pairs))


def _weigh(piece: Snippet) -> _Candidate:
    text = piece.text
    asks = 0.4 if text.endswith("?") else 1.0
    weight = _count_facts(text) * asks / (len(text) / 4 + 1) ** _LENGTH
    return _Candidate(piece, features_of(piece), weight)


def _count_facts(text: str) -> float:
    """How much a text tells by its numbers, names and quotations; 1 without any."""
    number = ITEM_NUMBER.match(text)  # which counts the items and tells nothing
    text = text[number.end() :] if number else text
    names = 0 if text.islower() else len(NAME.findall(text))  # most lines name nobody
    return (
        1
        + 0.3 * min(2, len(NUMBER.findall(text)))
        + 0.8 * min(2, names)
        + 0.6 * bool('"' in text and _QUOTE.search(text))
    )


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
    rest = [piece for piece in found if piece.by != "doubt" and not said.holds(piece.told)]
    covered = Counter(telling_words(said.text))
    for piece in chosen:
        covered.update(features_of(piece))
    chosen += _restore_ends(choose_by_cover(rest, covered, room - used, count), room - used, count)
    return _excerpts_in_order(_pieces_that_fit(chosen, room, count))


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
