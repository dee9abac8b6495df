"""Chooses what of a long text stands for it: the lines of a result that answer its call, the
sentences of a message that tell most. Nothing is reworded."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_LINE, LONGEST_TEXT, MOST_LOOKED_AT
from mcp_compaction.core.log.call_entries import CallEntry
from mcp_compaction.core.log.commands import is_search
from mcp_compaction.core.log.content import compact_json, words_of
from mcp_compaction.core.log.endings import causes_of, ending_of, is_run_of_tests, telling_lines
from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.text.signs import find_rules, find_sign
from mcp_compaction.core.text.wholes import HEADING
from mcp_compaction.core.text.words import one_line, shorten, telling_words
from mcp_compaction.model import JsonValue, ToolCall

LINE_NUMBER = pattern_of(r"^[ \t]*\d{1,6}(?:→|\t|\||: )", re.M)
_LEFT_OUT, _NEXT_LINE = " … ", " / "
_LINES_LEFT_OUT = " …\n"
_SENTENCE_END = pattern_of(r"(?<=[.!?。！？])\s+")
_FENCED = pattern_of(r"```.*?(?:```|\Z)", re.S)
_DIGITS = pattern_of(r"\d+")
_EXACT = pattern_of(r"\d|\w[/_.]\w|[a-z][A-Z]|`")
_NO_OUTPUT = pattern_of(r"(?:\((?:no|empty) (?:output|content|result)s?\))?", re.I)
_FEW = 3  # units, of which each tells something
_SILENT = ("write", "plan", "task")  # calls whose result says no more than that they ended
_NEW, _OLD = ("new_string", "new_str"), ("old_string", "old_str")  # what edits are given


def answer_of(entry: CallEntry, most: int) -> str:
    """What a call was answered, in so many characters: how it ended where it was not done, what
    failed of a run of tests, else the lines that tell most; blank where there is no more to it."""
    if entry.result is None:
        return "no result seen"
    if entry.ending in ("refused", "interrupted", "timed out"):
        return entry.ending
    if entry.ending == "running":
        return "runs" if entry.action.kind == "run" else ""
    if entry.ending == "failed" or (entry.action.kind == "run" and is_run_of_tests(entry.result)):
        causes = causes_of(entry.result) if entry.ending == "failed" else ()
        told = dict.fromkeys(filter(None, (ending_of(entry.result), *causes)))
        harmless = "; ".join(one for one in told if not is_planted(one))
        return shorten(harmless or entry.ending, most)
    if entry.changed_nothing:
        return "changed nothing"
    if entry.action.kind == "edit":
        return shorten(_first_new_line(entry.call), most)
    if entry.action.kind in _SILENT:
        return ""
    if entry.result.has_media and not entry.result.text.strip():
        return "an image"
    if _NO_OUTPUT.fullmatch(entry.result.text.strip()):
        looks = entry.action.kind != "run" or is_search(entry.action.target, by_output=True)
        return "nothing" if looks else ""
    return telling_part(entry.result.text, most, frozenset(telling_words(words_of(entry.call))))


def _first_new_line(call: ToolCall) -> str:
    """The first line that an edit brings in; blank where it says so in no known way."""
    given = call.arguments
    new, old = (
        next((value for key in keys if isinstance(value := given.get(key), str)), "")
        for keys in (_NEW, _OLD)
    )
    was = set(map(str.strip, old.splitlines()))
    brought = (line.strip() for line in new.splitlines() if line.strip() not in was)
    return next(
        (line for line in brought if any(map(str.isalnum, line)) and not is_planted(line)), ""
    )


def shorten_answer(told: str, most: int, call: str) -> str:
    """An answer as it was told before, in fewer characters: whole units of it."""
    if len(told) <= most:
        return told
    units = told.replace(_LEFT_OUT, "\n").replace(_NEXT_LINE, "\n")
    return telling_part(units, most, frozenset(telling_words(call)), _LEFT_OUT)


def telling_part(
    text: str, most: int, asked: frozenset[str] = frozenset(), joint: str = _NEXT_LINE
) -> str:
    """The units of a text that tell most, in their order, as many as so many characters hold, each
    once where not all fit; the joint stands between those that follow one another."""
    if len(text) <= 2 * LONGEST_ANSWER:
        lines = _lines_in(text)
        for whole in (joint.join(lines), joint.join(dict.fromkeys(lines))):
            if 0 < len(whole) <= most and not is_planted(whole):
                return whole
    units, ranked = _rank_units(text, asked)
    harmless = next((n for n in ranked if not is_planted(units[n])), None)
    if harmless is not None and len(units[harmless]) > most:  # what answers, if only its beginning
        return shorten(units[harmless], most)
    return _choose_units(units, ranked, most, joint)


@lru_cache(maxsize=2_048)  # each answer is told at several lengths
def _rank_units(text: str, asked: frozenset[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The units of a text, and their places: those that tell most first."""
    units = _units_of(text)
    worths = [_worth(units, number, asked) for number in range(len(units))]
    return units, tuple(sorted(range(len(units)), key=lambda n: (-worths[n], n)))


def telling_words_of(text: str, most: int) -> str:
    """The sentences of what somebody said that tell most: how it begins and ends first."""
    units = _sentences_of(text)
    ends = [0, len(units) - 1]
    ranked = sorted(range(len(units)), key=lambda n: (n not in ends, -_worth(units, n), n))
    return _choose_units(units, ranked, most, "\n")


def last_part(text: str, most: int) -> str:
    """The last sentences of what somebody said: what an answer to it answers."""
    units = _sentences_of(text)
    return _choose_units(units, range(len(units) - 1, -1, -1), most, "\n")


def outline_of(text: str, most: int) -> str:
    """The headings of a long order, what it orders and what it lists, line by line, as many as so
    many characters hold; where room is left, what else it says."""
    units, ranked = _read_order(text)
    return _choose_units(units, ranked, most, "\n", _LINES_LEFT_OUT)


@read_once
def _read_order(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The sentences of an order with the signs of their lists, and their places by rank: headings
    by their depth; then, of each part between two headings in turn, what is ordered, what is
    listed, all other sentences, and last what is no speech."""
    rules = frozenset(find_rules(text))
    units: list[str] = []
    ranks: list[tuple[int, int]] = []
    told: Counter[int] = Counter()  # of this part, by rank

    def add(unit: str, rank: int) -> None:
        units.append(unit)
        ranks.append((rank, told[rank]))
        told[rank] += 1

    end = 0
    for sentence in spoken_sentences(text):
        begin = text.rfind("\n", end, sentence.start) + 1  # 0: the line has begun before
        start = begin if begin or not end else sentence.start
        for line in _cut_lines(text[end:start]):
            add(line, 4)
        end = sentence.end
        unit = text[start:end].strip()
        if heading := HEADING.match(unit):
            told.clear()
            told[0] = len(heading[1] or "")
            add(unit, 0)
        elif text[sentence.start : end] in rules or find_sign("request", sentence):
            add(unit, 1)
        else:
            add(unit, 2 if text[start : sentence.start].strip() else 3)
    for line in _cut_lines(text[end:]):
        add(line, 4)
    return tuple(units), tuple(sorted(range(len(units)), key=lambda n: (ranks[n], n)))


def _cut_lines(text: str) -> Iterator[str]:
    return (
        shorten(line, LONGEST_LINE) for line in text.splitlines() if any(map(str.isalnum, line))
    )


def _choose_units(
    units: Sequence[str], ranked: Iterable[int], most: int, joint: str, gap: str = _LEFT_OUT
) -> str:
    """Units by their rank, as many as so many characters hold, in their order; where none fits, as
    much of the first one."""
    chosen: list[int] = []
    left, longer = most, ""
    for number in ranked:
        if is_planted(units[number]):
            continue
        if len(units[number]) > left:
            longer = longer or units[number]
            continue
        chosen.append(number)
        left -= len(units[number]) + 3
        if left < most // 8:
            break
    chosen.sort()
    told = ""
    for before, number in zip((-1, *chosen), chosen, strict=False):
        told += ("" if not told else gap if number > before + 1 else joint) + units[number]
    return told or shorten(longer, most)


@read_once
def _lines_in(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(one_line, text.splitlines())))


@read_once
def _units_of(text: str) -> tuple[str, ...]:
    """The lines of a text, a long one by its sentences; of very many the first and the last."""
    lines = _values_of(text)
    if not lines and len(text) > 2 * LONGEST_ANSWER:
        text = f"{text[:LONGEST_ANSWER]}\n{text[-LONGEST_ANSWER:]}"
    # Rows of numbers tell something where nothing else stands there.
    lines = lines or [LINE_NUMBER.sub("", line) for line in telling_lines(text) or text.split("\n")]
    units = tuple(dict.fromkeys(unit for line in lines for unit in _cut(line)))
    most = MOST_LOOKED_AT
    return units if len(units) <= 2 * most else (*units[:most], *units[-most:])


def _values_of(text: str) -> list[str]:
    """The values of a JSON text with their names, those of one object on one line; none of another
    text."""
    if len(text) > LONGEST_TEXT or not text.lstrip().startswith(("{", "[")):
        return []
    try:
        return [*_values_in("", json.loads(text))]
    except (ValueError, RecursionError):
        return []


def _values_in(name: str, value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        plain = [f"{key}: {_said(one)}" for key, one in value.items() if _is_plain(one)]
        whole = ", ".join(plain)
        lead = f"{name}: " if name else ""
        yield from [f"{lead}{whole}"] if 0 < len(whole) < LONGEST_LINE // 2 else plain
        for key, one in value.items():
            if not _is_plain(one):
                yield from _values_in(key, one)
    elif isinstance(value, list) and not all(map(_is_plain, value)):
        for one in value:
            yield from _values_in(name, one)
    else:
        said = ", ".join(map(_said, value)) if isinstance(value, list) else _said(value)
        yield f"{name}: {said}" if name else said


def _is_plain(value: JsonValue) -> bool:
    return not isinstance(value, dict | list)


def _said(value: JsonValue) -> str:
    return value if isinstance(value, str) else compact_json(value)


@read_once
def _sentences_of(text: str) -> tuple[str, ...]:
    """The units of what somebody said, without code, headings and lines that lead to others."""
    units = _units_of(_FENCED.sub("\n", text))
    said = tuple(one for one in units if not one.startswith("#") and not one.endswith((":", "：")))
    return said or units or _units_of(text)


def _cut(line: str) -> Iterator[str]:
    parts = _SENTENCE_END.split(line) if len(line) > LONGEST_LINE // 2 else [line]
    return (shorten(part, LONGEST_LINE) for part in parts if any(map(str.isalnum, part)))


def _worth(units: tuple[str, ...], number: int, asked: frozenset[str] = frozenset()) -> float:
    unit = units[number]
    worth = 0.6 * (number == 0) + 0.4 * (number == len(units) - 1)
    if asked:
        worth += 2 * len(asked.intersection(telling_words(unit))) / len(asked)
    if len(units) > _FEW:  # rows of a table are alike: what stands out tells more
        worth += _shapes_of(units)[_DIGITS.sub("0", unit)] == 1
    return worth + 0.5 * bool(_EXACT.search(unit))


@lru_cache(maxsize=256)
def _shapes_of(units: tuple[str, ...]) -> Counter[str]:
    return Counter(_DIGITS.sub("0", unit) for unit in units)
