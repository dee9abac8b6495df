"""Cuts what was said into pieces that can stand alone: clauses, JSON fields, lines."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import cast

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_LINE, LONGEST_TEXT
from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.decisions import deciding_sentences
from mcp_compaction.core.log.told import is_told
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.text.all_languages import part_in_all
from mcp_compaction.core.text.injection import defuse, is_forged, is_order
from mcp_compaction.core.text.patterns import cuts_at, pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.remarks import QUESTION_MARKS, is_pleasantry, marker_groups
from mcp_compaction.core.text.sentences import is_speech
from mcp_compaction.core.text.words import (
    fold,
    lower_words,
    one_line,
    telling_stem,
    telling_words,
)
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.lexicon.languages import fill_in_all, words_in_all
from mcp_compaction.model import By, Excerpt, Message, Role, Text, ToolCall, ToolResult

_AFTER_STOP = r"(?<=\S[.!?。！？])\s+|\n+"  # in `git add . && git push` nothing ends
ITEM_NUMBER = pattern_of(r"\s*\d{1,3}[.)](?:\s+|$)")
_SENTENCE = cuts_at(_AFTER_STOP)
_ENDS = (".", "!", "?", "。", "！", "？")
OF_USER: tuple[By, ...] = ("user", "reported")

_LINE_END = "\n"
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
        """The words by which a view tells the piece, as they are compared: of a field its value."""
        value = self.text.partition(": ")[2] if self.by == "field" else ""
        return fold(value or self.text)

    @cached_property
    def is_harmless(self) -> bool:
        """Whether it may be shown: what looks like an order or a tag stays in the archive."""
        if self.by == "user":
            return True
        # Whoever shows it defuses it: what stays as it is then poses as nothing.
        is_posing = defuse(self.text) != self.text and is_forged(self.text)
        return not is_posing and not is_order(self.text)


def cost_of(piece: Snippet, count: CountTokens) -> int:
    """The tokens that a piece takes, with its share of a ref."""
    return count(piece.text) + 1


def newest_pieces(
    gone: Sequence[Message], earlier: Iterable[Excerpt], markers: int | None = None
) -> list[Snippet]:
    """The pieces of messages and of what was kept before, the newest message first; each text once,
    where it was said last. Who repeats a user's words does not take them over. An agent's message
    with so many groups of epistemic markers is one piece. In plain talk pieces lose the ends that
    tell nothing."""
    gone = conversation_of(gone)
    talk = is_talk(gone)
    newest_first = sorted((*earlier, *gone), key=lambda one: -one.seq)
    found = [piece for one in newest_first for piece in _pieces_of(one, talk, markers)]
    of_users = {piece.text for piece in found if piece.by in OF_USER}
    once: dict[str, Snippet] = {}
    for piece in found:
        if piece.by in OF_USER or piece.text not in of_users:
            once.setdefault(piece.text, piece)
    return _trim_ends(once.values()) if talk else list(once.values())


def _pieces_of(said: Excerpt | Message, talk: bool, markers: int | None) -> Iterator[Snippet]:
    if isinstance(said, Excerpt):
        for place, text in enumerate(said.pieces):
            yield Snippet(said.seq, place, said.by, text, role=said.role)
        return
    if markers is not None and _is_unsure(said, markers):
        yield Snippet(said.seq, 0, "doubt", one_line(said.text))
        return
    texts = chain.from_iterable(_texts_of(part, said, talk) for part in said.parts)
    for place, (by, text) in enumerate(texts):
        said_so = text.rstrip(",;:") if by == "agent" else text
        yield Snippet(said.seq, place, by, said_so, role=said.role)


def _is_unsure(message: Message, markers: int) -> bool:
    text = message.text
    if message.role != "assistant" or not text or len(text) > LONGEST_ANSWER:
        return False
    return _count_markers(text) >= markers


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


def _texts_of(part: object, message: Message, talk: bool) -> Iterator[tuple[By, str]]:
    """The texts of a part, each on one line: a line of its own could pass for one of ours."""
    match part:
        case Text(text=text):
            yield from _cut_speech(text, message, talk)
        case ToolResult(text=text):
            yield from _fields_or_lines(text)
        case ToolCall(arguments=arguments):
            done = action_of(part)
            if done.kind == "run":
                if done.line:
                    yield "command", one_line(done.line)
            elif done.kind not in ("plan", "task"):  # a digest tells those whole
                for field in _fields_of(arguments, ""):
                    yield "field", field
        case _:
            return


def _cut_speech(text: str, message: Message, talk: bool) -> Iterator[tuple[By, str]]:
    """In talk clauses, else whole sentences."""
    is_users = message.role == "user"
    if talk and not (is_users and is_told(text)):
        for clause in _cut_clauses(text, _clause_cuts()):
            if not is_pleasantry(clause):
                yield "talk", one_line(clause)
    elif is_users:
        by: By = "reported" if message.via == "tool" else "user"
        for sentence in filter(is_speech, _sentences_of(text)):
            yield by, sentence
    else:
        decided = deciding_sentences(text)
        for sentence in _sentences_of(text):
            yield "decision" if _is_among(decided, sentence) else "agent", sentence


def _is_among(decided: Iterable[str], sentence: str) -> bool:
    """Whether a piece is one of the sentences that decide, or begins one that is cut here."""
    is_said = is_speech(sentence) and not sentence.endswith(QUESTION_MARKS)
    return is_said and any(one in sentence or one.startswith(sentence) for one in decided)


@read_once
def _sentences_of(text: str) -> tuple[str, ...]:
    return tuple(one_line(s) for s in _cut_clauses(text, _SENTENCE) if not is_pleasantry(s))


@cache
def _clause_cuts() -> re.Pattern[str]:
    begins, verbs = fill_in_all("clause_begins"), fill_in_all("verb_after_comma")
    return cuts_at(
        _AFTER_STOP,
        rf"(?<=[,;:])\s+(?=(?:{begins}))|(?<!\s)\s+[-–—]\s+(?!\d)|(?<=,)\s+(?=(?:{verbs}))",
    )


def _cut_clauses(text: str, cut: re.Pattern[str]) -> Iterator[str]:
    """Sentences and their larger parts; a part too short to stand alone joins the one before."""
    text = text[: 4 * LONGEST_ANSWER]
    start = end = 0  # of what is held back
    for first, last in _stretches_between(text, cut):
        held = text[start:end]
        if held.rstrip().endswith(_ENDS) or len(text[first:last].split()) >= _FEWEST_WORDS:
            if held.strip():
                yield held.strip()
            start = first
        end = last
    if text[start:end].strip():
        yield text[start:end].strip()


def _stretches_between(text: str, cut: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where the parts between the cuts begin and end, without blank ones; the number of an item
    belongs to what follows it."""
    start = 0
    for match in cut.finditer(text):
        if ITEM_NUMBER.fullmatch(text, start, match.start()):
            continue
        if text[start : match.start()].strip():
            yield start, match.start()
        start = match.end()
    if text[start:].strip():
        yield start, len(text)


@read_once
def _fields_or_lines(text: str) -> tuple[tuple[By, str], ...]:
    """The fields of a result, or its lines."""
    return tuple(_cut_result(text))


def _cut_result(text: str) -> Iterator[tuple[By, str]]:
    if text[:1] in "{[" and len(text) <= LONGEST_TEXT:
        try:
            # Numbers stay as they are written: 1.10 is not 1.1.
            parsed: object = json.loads(text, parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            pass  # cut short, or no JSON after all: its lines will do
        else:
            for field in _fields_of(parsed, ""):
                yield "field", field
            return
    for line in _ends_of(text).splitlines():
        stripped = one_line(line)
        if len(stripped) > 3:
            yield "line", stripped[:LONGEST_LINE]


def _ends_of(text: str) -> str:
    """The beginning and the end of a text, in whole lines; what lies between recall has."""
    if len(text) <= LONGEST_ANSWER:
        return text
    start, end = text[: LONGEST_ANSWER // 2], text[-LONGEST_ANSWER // 2 :]
    return f"{start.rpartition(_LINE_END)[0] or start}\n{end.partition(_LINE_END)[2]}"


def _fields_of(value: object, key: str) -> Iterator[str]:
    """The scalar fields of a JSON value, each with its key."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            yield from _fields_of(inner, name)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _fields_of(inner, key)
    elif value is not None:
        text = one_line(value if isinstance(value, str) else json.dumps(value))
        if text:
            yield one_line((f"{key}: {text}" if key else text)[:LONGEST_LINE])
