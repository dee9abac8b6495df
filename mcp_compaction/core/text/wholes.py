"""Tells which words of a text are its writer's own and mean the same alone.

A sentence is governed by the headings over it, by what a list it stands in begins with, and by the
sentences beside it that point at it: "Never do these", "That was the old rule". Form decides; of
the words of languages only those are known that point, and those that an order begins with.

The texts given here have been through `unify_lines`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from mcp_compaction.core.limits import MOST_LOOKED_AT, MOST_TRIED
from mcp_compaction.core.text.all_languages import part_in_all
from mcp_compaction.core.text.injection import UNSEEN
from mcp_compaction.core.text.patterns import INLINE_CODE, QUOTED, any_of, pattern_of
from mcp_compaction.core.text.words import one_line, space_pairs, telling_words
from mcp_compaction.lexicon.languages import fill_in_all

_LINE_ENDS = pattern_of("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANK = pattern_of(r"[^\S\n]")
_SEEN = pattern_of(r"\S")
# A fence is closed by one that is at least as long, or by the end.
_FENCED_BLOCK = pattern_of(
    r"^ *(`{3,}|~{3,}|(?:\"{3}|'{3})(?= *$)).*?(?:^ *\1[`~\"']* *$|\Z)", re.M | re.S
)
_QUOTATION = pattern_of(  # that begins a line and ends one
    r"^ *(?:\"[^\"]{1,9999}\"|“[^”]{1,9999}”|«[^»]{1,9999}»|„[^“”]{1,9999}[“”]"
    r"|「[^」]{1,9999}」) *$",
    re.M,
)
_STRUCK = pattern_of(r"(?<!~)~~(?!~)[^~]{1,2000}~~(?!~)")
_QUOTED_LINE = pattern_of(r"^ *>.*$", re.M)
# A turn of a pasted chat: from a line that names its speaker to the next blank one.
_TURN = pattern_of(
    r"^ *(?:\[?m?\d+\]?:? +)?(?:user|human|assistant|system|ai|agent) *:.*(?:\n(?=.*\S).*)*",
    re.I | re.M,
)
# What follows such a line to the end of the message is somebody else's text.
_SOURCES = (
    r"(?:logs?|outputs?|errors?|traceback|trace|readme|docs?|documentation|page|article|e?-?mail"
    r"|message|ticket|issue|comment|transcript|diff|response|website|paste|pasted)\b"
)
_OWN_RULES = r"(?!.*\b(?:rules?|guidelines?|requirements?|constraints?|conventions?)\b)"
_ANNOUNCED = pattern_of(
    r"^ *(?:here(?:'s|’s| is| are)|this is|below|see|look at|from|according to)\b[^\n]{0,80}?\b"
    rf"{_SOURCES}[^\n]{{0,60}}: *$"
    rf"|^ *+{_OWN_RULES}(?:\w+ ){{0,4}}?{_SOURCES}[^\n.!?:]{{0,60}}: *$"
    r"|^ *(?:(?:it|he|she|they|someone|somebody)\b[^\n.!?:]{0,40}"
    r"\b(?:says?|said|writes|wrote|reads|sent)|on [^\n]{5,120} wrote) *: *$"
    r"|^ *-{2,} *(?:forwarded|original|begin)\b[^\n]*$",
    re.M | re.I,
)
_OPENING_TAG = pattern_of(r"<([A-Za-z][\w:.-]{0,40})(?: [^<>\n]{0,200})?>")


_Span = tuple[int, int]


@lru_cache(maxsize=8)  # each rule of a long message asks for the same
def unify_lines(text: str) -> str:
    """A text with one kind of line end, one kind of blank, and no sign that nobody sees."""
    return _BLANK.sub(" ", _LINE_ENDS.sub("\n", UNSEEN.sub("", text)))


def mask_passed_on(text: str) -> tuple[str, str]:
    """A text without the lines that its writer quotes, pastes or strikes out rather than says; and
    the same with lines drawn through what is quoted within a line. Both are as long as it was."""
    passed_on = (_FENCED_BLOCK, _QUOTATION, _QUOTED_LINE, _TURN)
    blocks = [found.span() for p in passed_on for found in p.finditer(text)]
    if announced := _ANNOUNCED.search(text):
        blocks.append((announced.end(), len(text)))
    within = [*_tagged_elements(text)]
    within += (found.span() for p in (INLINE_CODE, QUOTED, _STRUCK) for found in p.finditer(text))
    over_lines = [span for span in within if "\n" in text[slice(*span)]]
    own = _put(" ", text, (*blocks, *over_lines))
    return own, _put("_", own, within)


def _put(sign: str, text: str, spans: Iterable[_Span]) -> str:
    """A text with a sign in the place of all that can be seen in some stretches of it."""
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        parts += (text[done:start], _SEEN.sub(sign, text[max(start, done) : end]))
        done = max(done, end)
    return "".join((*parts, text[done:]))


def _tagged_elements(text: str) -> Iterator[_Span]:
    """Elements: from the first opening of a name to its last closing."""
    seen: set[str] = set()
    for tag in _OPENING_TAG.finditer(text):
        if tag[1] in seen:
            continue
        seen.add(tag[1])
        close = text.rfind(f"</{tag[1]}")
        if close > tag.start():
            yield (tag.start(), text.find(">", close) + 1 or len(text))


_SIGN = pattern_of(  # of a list, before the words of an item
    r"(?:[-*+–—•‣⁃·∙\u25a0-\u25ff]|"
    r"\(?(?:\d{1,3}|[a-z]|[ivx]{1,4}|[一二三四五六七八九十]{1,3})(?:[.)）]|(?=、)))(?:[ \t]+|、)"
    r"(?:\[[ x~]\][ \t]+)?",
    re.I,
)
_SAYS = pattern_of(r"[^\W_]|[\u2190-\u24ff\u2600-\U0010ffff]")  # ❌ says as much as a word
HEADING = pattern_of(r"(#{1,6}) |(?:\*\*|__)[^*_]+(?:\*\*|__):?$")
_LOWEST = "#######"  # the rank of a heading that has none
_BLANK_LINE = pattern_of(r"\n\s*\n")
_STOPS = (".", "!", "?", "。", "！", "？")
_OPEN = (":", "：", "?", "？")
_FEWEST_WORDS = 4  # of a sentence that may say something by itself

Kind = Literal["heading", "prose", "item"]


class Standing(NamedTuple):
    """How a text holds some words."""

    how: Literal["said", "part", "passed on"]
    whole: str = ""  # of a part: the words that mean the same alone


class _Unit(NamedTuple):
    """A sentence, or a line that is none, in the folded text."""

    text: str
    start: int
    sign: int  # how long the sign of a list is that stands before it
    block: int

    @property
    def outer(self) -> int:
        return self.start - self.sign

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class _Block(NamedTuple):
    """A heading, a paragraph or one item of a list: lines that belong together."""

    kind: Kind
    depth: int  # of a heading its rank; below these prose; then items, by how far they are set in
    units: range


class LaidOutText:
    """A text with its white space folded, read as blocks and units."""

    def __init__(self, text: str) -> None:
        """Read the lines of a text."""
        self._raw = text
        self._units: list[_Unit] = []
        self._blocks: list[_Block] = []
        own, masked = mask_passed_on(text)
        folded: list[str] = []
        unquoted: list[str] = []
        begin = 0
        for kind, depth, start, end in _blocks_of(own):
            first = len(self._units)
            folded.append(one_line(own[start:end]))
            unquoted.append(one_line(masked[start:end]))
            self._units += self._units_of(kind, folded[-1], unquoted[-1], begin)
            self._blocks.append(_Block(kind, depth, range(first, len(self._units))))
            begin += len(folded[-1]) + 1
        self._folded, self._masked = " ".join(folded), " ".join(unquoted)
        self._starts = [unit.start for unit in self._units]
        self._ends = [unit.end for unit in self._units]
        self._heads = self._find_heads()
        self._apart: dict[int, bool] = {}  # whether the sentences of a block say the same alone

    def _units_of(self, kind: Kind, folded: str, masked: str, begin: int) -> Iterator[_Unit]:
        sign = _SIGN.match(folded) if kind == "item" else None
        before = sign.end() if sign else 0
        for start, end in _sentences_in(folded, masked, before):
            signed = before if start == before else 0
            yield _Unit(folded[start:end], begin + start, signed, len(self._blocks))

    # How it holds some words

    def standing_of(self, words: str) -> Standing | None:
        """How the text holds these words, as whole sentences or as a part; None: it does not."""
        wanted = one_line(words)
        if not _has_words(wanted):
            return None
        if wanted == one_line(self._raw) and _has_words(self._masked):
            return Standing("said")
        standing: Standing | None = None
        for start, end in islice(_places_of(wanted, self._folded), MOST_TRIED):
            found = self._standing_at(start, end)
            if found.how == "said":
                return found if self._is_laid_out_as(words) else Standing("part", wanted)
            standing = found if standing is None or standing.how == "passed on" else standing
        if standing is None and self._is_with_its_head(wanted):
            return Standing("said") if self._is_laid_out_as(words) else Standing("part", wanted)
        if standing is None and next(iter(_places_of(wanted, one_line(self._raw))), None):
            return Standing("passed on")
        return standing

    def _standing_at(self, start: int, end: int) -> Standing:
        if not _has_words(self._masked[start:end]):
            return Standing("passed on")
        first = bisect_right(self._ends, start)
        touched = range(first, max(first + 1, bisect_left(self._starts, end)))
        begun, last = self._units[touched[0]], self._units[touched[-1]]
        # The stop may be left out; without its question mark a question is none.
        ends = (last.end, last.end - last.text.endswith((".", "!", "。", "！")))
        is_cut = start not in (begun.start, begun.outer) or end not in ends
        whole = self._whole_of(touched)
        if not is_cut and whole <= set(touched):
            return Standing("said")
        return Standing("part", self._text_of(whole))

    def _is_with_its_head(self, wanted: str) -> bool:
        """Whether words are a part with all that governs it, without what stands between."""
        held = (n for n, unit in enumerate(self._units) if unit.text in wanted)
        for number in islice(held, MOST_TRIED):
            for part in ((number,), self._blocks[self._units[number].block].units):
                whole = self._whole_of(part)
                unsigned = " ".join(self._units[one].text for one in sorted(whole))
                if wanted in (one_line(self._text_of(whole)), unsigned):
                    return True
        return False

    def _text_of(self, numbers: Iterable[int]) -> str:
        """The words of some units, those of a block on one line."""
        lines: dict[int, list[str]] = {}
        for unit in map(self._units.__getitem__, sorted(numbers)):
            lines.setdefault(unit.block, []).append(self._folded[unit.outer : unit.end])
        return "\n".join(map(" ".join, lines.values()))

    def _is_laid_out_as(self, words: str) -> bool:
        """Whether some words have a blank line only where the text ends a line: another one would
        part what belongs together."""
        ends = {line.split()[-1] for line in self._raw.split("\n") if line.strip()}
        return all(above.split()[-1] in ends for above in _BLANK_LINE.split(words.strip())[:-1])

    # What governs them

    def _whole_of(self, numbers: Iterable[int]) -> set[int]:
        """These units with all that governs them; what only announces, with what it announces.
        Where that is very much, only the beginning of it is looked for."""
        known = set(numbers)
        most = len(known) + MOST_LOOKED_AT
        seen: set[int] = set()
        places = {self._units[number].block for number in known}
        while places and len(known) <= most:
            seen |= places
            known |= {more for place in places for more in self._beside(place, most)}
            places = {self._units[number].block for number in known} - seen
            newest = max(known)
            place = self._units[newest].block
            is_last = newest == self._blocks[place].units[-1]
            if not places and is_last and self._heads[place + 1 : place + 2] == [place]:
                places = {place + 1}  # it announces the block after its own
                known.add(newest + 1)
        return known

    def _beside(self, place: int, most: int) -> Iterator[int]:
        """The units that govern those of a block, and those that it cannot be parted from."""
        head = self._heads[place]
        if head is not None:
            units = self._blocks[head].units
            yield from units if self._blocks[head].kind == "heading" else units[-1:]
        units = self._blocks[place].units
        if not self._is_apart(place):
            yield from units[: most + 1]
        following = place + 1
        if following < len(self._blocks) and self._blocks[following].kind != "heading":
            first = self._blocks[following].units[0]
            text = self._units[first].text
            if _leans(text) and not _is_order(text):
                yield first

    def _is_apart(self, place: int) -> bool:
        """Whether each sentence of a block says the same alone; read once, however many ask."""
        if place not in self._apart:
            units = self._blocks[place].units
            texts = (self._units[one].text for one in units)
            self._apart[place] = len(units) == 1 or all(map(_stands_by_itself, texts))
        return self._apart[place]

    def _find_heads(self) -> list[int | None]:
        """For each block the one that governs it: the heading over it, what its list begins with,
        or what points at it; what points at a paragraph points at those after it, too."""
        heads: list[int | None] = []
        over: list[int] = []
        for place, block in enumerate(self._blocks):
            while over and self._blocks[over[-1]].depth >= block.depth:
                over.pop()
            head = over[-1] if over else None
            if block.kind == "prose" and place and self._blocks[place - 1].kind != "heading":
                if self._points_on(place - 1):
                    head = place - 1
                elif self._blocks[place - 1].kind == "prose":
                    head = heads[-1]
            heads.append(head)
            over.append(place)
        return heads

    def _points_on(self, place: int) -> bool:
        """Whether the last words of a block may be about the paragraph after it."""
        # An item alone may be a heading by number.
        is_listed = place > 0 and all(
            one.kind == "item" for one in self._blocks[place - 1 : place + 1]
        )
        return _points_on(self._units[self._blocks[place].units[-1]].text, is_listed)


# Blocks and sentences


def _has_words(line: str) -> bool:
    return _SAYS.search(line) is not None


def _blocks_of(text: str) -> Iterator[tuple[Kind, int, int, int]]:
    """The blocks of a text: kind, depth, and where they begin and end."""
    kind: Kind = "prose"
    depth = margin = offset = begin = end = 0
    for line in (*text.split("\n"), ""):
        words = line.strip()
        is_open = begin < end
        has_words = _has_words(words)
        heading = HEADING.match(words)
        indent = len(line) - len(line.lstrip())
        # What is set in under an open line hangs on it as an item does.
        hangs = is_open and kind == "prose" and indent > margin + 1
        is_item = not heading and (
            _SIGN.match(words) is not None
            or (hangs and not text[begin:end].rstrip().endswith(_STOPS))
        )
        if is_open and (not has_words or heading or is_item or kind == "heading"):
            yield kind, depth, begin, end
            begin = end = 0
        if has_words:
            if begin == end:
                begin, margin = offset, indent
                kind = "heading" if heading else "item" if is_item else "prose"
                rank = len(heading[1] or _LOWEST) if heading else len(_LOWEST) + 1
                depth = rank + (1 + indent if is_item else 0)
            end = offset + len(line)
        offset += len(line) + 1


@cache
def _abbreviated() -> re.Pattern[str]:
    return any_of(rf"(?:^|[\s(])(?:\w|{fill_in_all('possible_abbreviations')})\.$")


_STOP = pattern_of(r"(?<! )[.!?](?= |$)|[。！？]")


def _sentences_in(folded: str, masked: str, start: int) -> Iterator[tuple[int, int]]:
    for stop in _STOP.finditer(masked, start):
        end = stop.end()
        following = folded[end : end + 1]
        if following in _STOPS or _abbreviated().search(folded, max(0, end - 12), end):
            continue
        yield start, end
        start = end + (following == " ")
    if start < len(folded):
        yield start, len(folded)


def _places_of(wanted: str, folded: str) -> Iterator[tuple[int, int]]:
    """Where these words stand as whole words."""
    start = folded.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        before, after = folded[start - 1 : start] if start else "", folded[end : end + 1]
        if not (_goes_on(before, wanted[0]) or _goes_on(wanted[-1], after)):
            yield start, end
        start = folded.find(wanted, end)


def _goes_on(one: str, other: str) -> bool:
    """Whether two signs are inside one word; of a wide script nobody can tell."""
    return one.isascii() and other.isascii() and one.isalnum() and other.isalnum()


# What points


@lru_cache(maxsize=1_024)
def _stands_by_itself(text: str) -> bool:
    """Whether a sentence means the same without the sentences beside it, and they without it."""
    if _is_order(text):
        return not _BEGUN_LIST.match(text)
    return not (
        _BEGUN_LIST.match(text)
        or text.endswith((":", "："))
        or _is_fragment(text)
        or part_in_all("points_on").search(text)
        or _leans(text)
    )


_BEGUN_LIST = pattern_of(r"(?:\S+ ){0,2}\S+[:：] \S|(?:\S+ ){0,2}\S+：")  # "Forbidden: do this."


def _is_order(text: str) -> bool:
    """Whether a sentence is an order that points at nothing, or a greeting."""
    if part_in_all("greets").match(text):
        return True
    order = part_in_all("stands_beside").match(text)
    return (
        order is not None
        and bool(telling_words(text))  # "Do not." waits for others
        and not text.endswith(_OPEN)
        and part_in_all("points").search(text) is None
    )


def _is_fragment(text: str) -> bool:
    return len(space_pairs(text).split()) < _FEWEST_WORDS


def _leans(text: str) -> bool:
    """Whether a sentence goes on from another one, or points at it."""
    return bool(part_in_all("leans").match(text) or part_in_all("points").search(text))


def _points_on(text: str, is_item: bool) -> bool:
    """Whether the last words before a paragraph may be about the paragraph."""
    if text.endswith((":", "：")):
        return True
    if is_item or _is_order(text):
        return False
    is_open = not text.endswith(_STOPS)
    return is_open or _is_fragment(text) or part_in_all("points_on").search(text) is not None
