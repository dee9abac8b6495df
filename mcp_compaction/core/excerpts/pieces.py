"""Cuts talk into pieces that can stand alone: sentences, and messages that voice doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.all_languages import is_pleasantry, marker_groups, part_in_all
from mcp_compaction.core.text.injection import defuse, is_forged, is_order
from mcp_compaction.core.text.patterns import cuts_at, pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.sentences import ends_sentence
from mcp_compaction.core.text.words import (
    fold,
    lower_words,
    one_line,
    telling_stem,
    telling_words,
)
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.lexicon.languages import words_in_all
from mcp_compaction.model import By, Excerpt, Message, Role

_CUT = cuts_at(r"(?<=\S[.!?。！？])\s+|\n+")  # in `git add . && git push` nothing ends
ITEM_NUMBER = pattern_of(r"\s*\d{1,3}[.)](?:\s+|$)")
_ENDS = (".", "!", "?", "。", "！", "？")
_FEWEST_WORDS = 4
_FEW = 2  # words at an end that stay: to break a phrase costs more than they do
_COMMON = 0.1  # a word said in more of the messages than this tells none of them apart


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
