"""Reads refs as a model writes them: `m42`, `m42~3`, `m12..m40`, `d1`, `p2`, the id of a call; and
writes those of many messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mcp_compaction.core.limits import LONGEST_LINE, MOST_LOOKED_AT
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.errors import InputError
from mcp_compaction.model import Run, Value

_REF = pattern_of(r"m(\d{1,12})(?:~(\d{1,2})|\.\.m?(\d{1,12}))?")
_OTHER = pattern_of(r"([dp])(\d{1,12})")
_SLIP = pattern_of(r"\d+|[mdp](?:\d*|\d*[~.].*)")  # meant as a ref, but written wrongly
_CALL = pattern_of(r"\w[\w.:|/+=-]{1,255}", re.ASCII)
_MOST = 1_000
HOW = "write m42, m42~3, m12..m40, d1, p2 or the id of a tool call."


class Ref(Value):
    """One ref, with the messages it names; those around it are welcome but not demanded."""

    text: str
    first: int
    last: int
    around: int = 0

    @property
    def seqs(self) -> range:
        """The numbers of all messages it may bring."""
        return range(max(1, self.first - self.around), self.last + self.around + 1)


class Refs(Value):
    """What a list of refs asks for, by kind, each thing once."""

    messages: tuple[Ref, ...] = ()
    digests: tuple[int, ...] = ()
    pins: tuple[int, ...] = ()
    calls: tuple[str, ...] = ()  # the host's own ids of tool calls

    @property
    def seqs(self) -> tuple[int, ...]:
        """The numbers of all messages that are named by number, in order."""
        return tuple(sorted({seq for ref in self.messages for seq in ref.seqs}))


def parse_refs(text: str) -> Refs:
    """The refs of a text, separated by commas or spaces."""
    words = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if not words:
        raise InputError("no ref was given; pass one such as m42.")
    others = {word: match for word in words if (match := _OTHER.fullmatch(word))}
    calls = tuple(word for word in words if word not in others and _is_call(word))
    found = Refs(
        messages=tuple(_read_ref(word) for word in words if word not in (*others, *calls)),
        digests=_numbers_in(others.values(), "d"),
        pins=_numbers_in(others.values(), "p"),
        calls=calls,
    )
    if len(found.seqs) > _MOST or len(calls) > MOST_LOOKED_AT:
        raise InputError(
            f"that is more than {_MOST} messages or {MOST_LOOKED_AT} tool calls at once; ask for "
            "fewer, such as m12..m40."
        )
    return found


def parse_span(text: str) -> tuple[int, int]:
    """A span such as `m12..m40`."""
    ref = _read_ref(text.strip())
    if ref.around or ".." not in text:
        raise InputError(f"{text!r} is no span; write it as m12..m40.")
    return ref.first, ref.last


def number_of(ref: str, letter: str) -> int:
    """The number of a ref of one kind, such as 4 of `c4`."""
    match = re.fullmatch(rf"{letter}?(\d{{1,12}})", ref.strip())
    if match is None:
        raise InputError(f"{ref!r} is no such ref; write it as {letter}4.")
    return int(match.group(1))


def _is_call(word: str) -> bool:
    return _SLIP.fullmatch(word) is None and _CALL.fullmatch(word) is not None


def _numbers_in(matches: Iterable[re.Match[str]], letter: str) -> tuple[int, ...]:
    return tuple(sorted({int(match[2]) for match in matches if match[1] == letter}))


def _read_ref(word: str) -> Ref:
    match = _REF.fullmatch(word)
    if match is None:
        raise InputError(f"{word[:LONGEST_LINE]!r} is no ref; {HOW}")
    first = int(match.group(1))
    last = int(match.group(3) or first)
    if last < first:
        raise InputError(f"{word!r} ends before it begins; write m{last}..m{first}.")
    if last - first >= _MOST:
        raise InputError(f"{word!r} names no span of at most {_MOST} messages; write m12..m40.")
    return Ref(text=word, first=first, last=last, around=int(match.group(2) or 0))


def runs_of(numbers: Iterable[int]) -> tuple[Run, ...]:
    """The runs that some numbers make up, in order."""
    runs: list[Run] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)


def join_refs(numbers: Iterable[int], letter: str = "m") -> str:
    """Refs in order, with neighbors drawn together: `m1, m4..m9`."""
    return ", ".join(span_of(first, last, letter) for first, last in runs_of(numbers))


def span_of(first: int, last: int, letter: str = "m") -> str:
    """The first ref and the last, whatever is missing between them: `m102..m235`; or the one."""
    return f"{letter}{first}" if first == last else f"{letter}{first}..{letter}{last}"
