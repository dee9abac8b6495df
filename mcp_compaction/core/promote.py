"""Fills the room below the target with the passages that say most: a greedy cover of rare words."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import log
from typing import cast

from mcp_compaction.core.parts import Count
from mcp_compaction.model import Message, Promoted, Text, ToolCall, ToolResult

LABEL = "[kept word for word from the digests above]"

_CLAUSE = re.compile(
    r"(?<=[.!?。！？])\s+|\n+|(?<=[。！？])"
    r"|(?<=[,;:])\s+(?=(?:and|but|so|because|which|who|where|when|while|although|then|since|as)\b)"
    r"|\s+[-–—]\s+|(?<=,)\s+(?=\w+ed\b|\w+ing\b)"
)
_WORD = re.compile(r"\w+")
_FACT = re.compile(
    r"\b\d[\d,.:/%-]*\b|\b[A-Z][a-z]+(?: [A-Z][a-z]+)+\b|\"[^\"]{2,60}\""
    r"|\b(?:never|always|must|not|no longer|decided|because|instead|prefer|until|deadline)\b"
)
_SMALL_TALK = re.compile(
    r"^(?:\w+: )?(?:hey|hi|hello|wow|thanks|thank you|awesome|great|cool|yeah|sounds|glad|bye"
    r"|take care|that's (?:great|awesome|so)|so (?:cool|nice|glad))\b",
    re.I,
)
_STOP = frozenset(
    _WORD.findall(
        """a about after again all also am an and any are as at be because been before being but by
        can could did do does doing down for from further had has have having he her here hers him
        his how i if in into is it its just me more most my no nor not now of off on once only or
        other our out over own s same she should so some such t than that the their them then there
        these they this those through to too under until up very was we were what when where which
        while who whom why will with you your d ll m re ve don"""
    )
)
_FEWEST_WORDS = 4
_MOST_CHARS = 4_000  # of one part: what is longer is a dump, and recall has it
_LONGEST = 300
_REF_TOKENS = 3
_GOOD_ENOUGH = 0.85
_DECAY = 0.5  # a word said again is worth half as much each time
_LENGTH = 0.8  # long pieces pay for their length, but not in full


@dataclass(frozen=True, slots=True)
class _Piece:
    seq: int
    place: int
    text: str
    words: tuple[str, ...]  # sorted: a sum of floats depends on their order
    cost: float
    weight: float


def promote(
    gone: Sequence[Message],
    earlier: Sequence[Promoted],
    shown: str,
    room: int,
    count: Count,
) -> tuple[Promoted, ...]:
    """The best pieces of what left the window, and of those kept before, that the room holds."""
    # Each text once, where it was said last.
    places = dict((*_kept_before(earlier), *_said(gone)))
    pieces = [_piece(*place, text) for text, place in places.items()]
    room -= count(LABEL) + 4
    if room <= 0 or not pieces:
        return ()
    chosen = _cover(pieces, Counter(set(_words(shown))), room, count)
    # Tokens of joined pieces are a little more than their sum: the last chosen gives way.
    while chosen and count(promoted_block(_in_order(chosen))) > room + count(LABEL):
        chosen = chosen[: -max(1, len(chosen) // 50)]
    return _in_order(chosen)


def _in_order(chosen: Iterable[_Piece]) -> tuple[Promoted, ...]:
    by_message: dict[int, list[_Piece]] = {}
    for piece in chosen:
        by_message.setdefault(piece.seq, []).append(piece)
    return tuple(
        Promoted(seq=seq, pieces=tuple(p.text for p in sorted(found, key=lambda p: p.place)))
        for seq, found in sorted(by_message.items())
    )


def promoted_block(promoted: Iterable[Promoted]) -> str:
    """The pieces as one record, a line a message; empty without any."""
    lines = [f"m{p.seq} {' … '.join(p.pieces)}" for p in promoted]
    return "\n".join([LABEL, *lines]) if lines else ""


def _cover(
    pieces: Sequence[_Piece], covered: Counter[str], room: int, count: Count
) -> list[_Piece]:
    rarity = _rarity(pieces)

    def worth(piece: _Piece) -> float:
        gain = sum(rarity[word] * _DECAY ** covered[word] for word in piece.words)
        return gain * piece.weight

    queue = [(-worth(piece), number) for number, piece in enumerate(pieces)]
    heapify(queue)
    chosen: list[_Piece] = []
    seen: set[int] = set()
    used = 0
    while queue:
        _, number = heappop(queue)
        piece = pieces[number]
        value = -worth(piece)
        if value >= 0:
            continue
        # Good enough is taken: weighing all anew for the very best would take ten times as long.
        if queue and value > queue[0][0] * _GOOD_ENOUGH:
            heappush(queue, (value, number))
            continue
        if used + piece.cost * 0.8 > room:
            if used > 0.97 * room:
                break
            continue
        cost = count(piece.text) + (1 if piece.seq in seen else _REF_TOKENS)
        if used + cost <= room:
            chosen.append(piece)
            seen.add(piece.seq)
            covered.update(piece.words)
            used += cost
    return chosen


def _rarity(pieces: Sequence[_Piece]) -> dict[str, float]:
    """How telling a word is: the fewer messages say it, the more."""
    said_in: dict[str, set[int]] = {}
    for piece in pieces:
        for word in piece.words:
            said_in.setdefault(word, set()).add(piece.seq)
    messages = len({piece.seq for piece in pieces})
    return {word: log(1 + messages / (1 + len(where))) for word, where in said_in.items()}


def _kept_before(earlier: Iterable[Promoted]) -> Iterator[tuple[str, tuple[int, int]]]:
    for promoted in earlier:
        for place, text in enumerate(promoted.pieces):
            yield text, (promoted.seq, place)


def _said(messages: Iterable[Message]) -> Iterator[tuple[str, tuple[int, int]]]:
    for message in messages:
        texts = (text for part in message.parts for text in _texts(part))
        for place, text in enumerate(texts):
            yield text, (message.seq, place)


def _piece(seq: int, place: int, text: str) -> _Piece:
    cost = len(text) / 4 + 1
    facts = 1 + 0.2 * min(3, len(_FACT.findall(text)))
    small_talk = 0.6 if text.endswith("?") or _SMALL_TALK.match(text) else 1.0
    weight = facts * small_talk / cost**_LENGTH
    return _Piece(seq, place, text, tuple(sorted(set(_words(text)))), cost, weight)


def _words(text: str) -> Iterator[str]:
    return (w for w in _WORD.findall(text.lower()) if len(w) > 1 and w not in _STOP)


def _texts(part: object) -> Iterator[str]:
    match part:
        case Text(text=text):
            yield from _clauses(text)
        case ToolResult(text=text):
            yield from _fields_or_lines(text[:_MOST_CHARS])
        case ToolCall(arguments=arguments):
            yield from _fields(arguments, "")
        case _:
            return


def _clauses(text: str) -> Iterator[str]:
    """Sentences and their larger parts; a part too short to stand alone joins the one before."""
    held = ""
    for part in _CLAUSE.split(text[: 4 * _MOST_CHARS]):
        if not part or not part.strip():
            continue
        ends = held.rstrip().endswith((".", "!", "?"))
        if held and (ends or len(part.split()) >= _FEWEST_WORDS):
            yield held.strip()
            held = part
        else:
            held = f"{held} {part}" if held else part
    if held.strip():
        yield held.strip()


def _fields_or_lines(text: str) -> Iterator[str]:
    if text[:1] in "{[":
        try:
            parsed: object = json.loads(text)
        except (ValueError, RecursionError):
            pass  # cut short, or no JSON after all: its lines will do
        else:
            yield from _fields(parsed, "")
            return
    for line in text.splitlines():
        stripped = " ".join(line.split())
        if len(stripped) > 3:
            yield stripped[:_LONGEST]


def _fields(value: object, key: str) -> Iterator[str]:
    """The scalar fields of a JSON value, each with its key."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            yield from _fields(inner, name)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _fields(inner, key)
    elif value is not None and value != "":
        text = f"{key}: {value}" if key else str(value)
        yield " ".join(text.split())[:_LONGEST]
