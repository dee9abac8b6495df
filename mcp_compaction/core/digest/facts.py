"""Reads what is known: findings that were used, and exact sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

from mcp_compaction.core.digest.reading import Reading, short
from mcp_compaction.core.log.decisions.statement import states_decision
from mcp_compaction.core.log.findings import UsedLine, used_lines
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.log.tasks.spoken import leaves_open
from mcp_compaction.core.text.all_languages import part_in_all, pattern_of_kind
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import fold
from mcp_compaction.lexicon.languages import Kind
from mcp_compaction.model import Item, Message

_MOST_FACTS = 40
_MOST_FOUND = 16
_FEWEST_WORDS = 3  # of a sentence: a name alone tells nothing
_LEADS = ("?", ":", "：", "？")  # ends of what only asks or announces
# A command line that stands in prose without any sign of code.
_COMMAND = pattern_of(r"^sudo |\s(?:&&|2>\S*)(?:\s|$)|\s\|\|? [a-z]|^[a-z-][^,.;:]*\s--?[a-z]|\\$")
_NO_FACTS: tuple[Kind, ...] = ("doubt", "tests-pass")
_TICKED = pattern_of(r"[✅✓✔☑☒✗✘❌]")
_MARKS_BEFORE = pattern_of(r"^\W+")  # ticks and bold signs before a sentence
_KEY = pattern_of(r"^[\W\d]*([A-Za-z_][\w .-]{0,40}?)\s*[:=]")
_NUMBER = pattern_of(r"(?<![\w.])\d[\d.,]*(?: ?(?:%|ms|s|[kKMG]i?B|px)\b|\d)")


def fact_items(reading: Reading, told: Sequence[Item]) -> list[Item]:
    """What results said and was used, and sentences that name something exact and are told
    nowhere else; in turns."""
    found, said = list(_found(reading)), list(_said(reading, told))
    mixed: dict[str, Item] = {}
    for pair in zip_longest(found, said):
        for item in filter(None, pair):
            mixed.setdefault(fold(_MARKS_BEFORE.sub("", item.text)), item)
    return list(mixed.values())[:_MOST_FACTS]


def _found(reading: Reading) -> Iterator[Item]:
    """The lines of results that were used most and most lately; of one thing the newest value."""
    lines = used_lines((*reading.messages, *reading.later), reading.ledger)
    newest: dict[str, UsedLine] = {}
    for line in lines:
        is_told = reading.is_in_span(line.ref)
        if is_told and not reading.changed_files.is_past_line(line.text, int(line.ref[1:])):
            key = _KEY.match(line.text)
            newest[fold(key[1]) if key else line.text] = line
    ranked = sorted(newest.values(), key=lambda one: (-one.uses, -one.last_use))
    unbound = (line for line in ranked if not _binds(line.text))
    for line in islice(unbound, _MOST_FOUND):
        yield Item(text=short(line.text, 200), refs=(line.ref,))


def _binds(line: str) -> bool:
    """Whether a tool's words read as a rule, a task, a decision or an order, which bind nobody, or
    only sign something."""
    if is_planted(line) or find_rules(line) or part_in_all("signature").search(line):
        return True
    return any(leaves_open(s) or states_decision(s.text) for s in spoken_sentences(line))


def _said(reading: Reading, told: Sequence[Item]) -> Iterator[Item]:
    """Sentences of the assistant that name something exact: of closing words, then the newest."""
    known = {fold(item.text) for item in told}
    is_work = any(message.calls for message in reading.messages)
    ranked: tuple[list[Item], list[Item]] = ([], [])
    for one in reversed(reading.said):
        if len(ranked[0]) >= _MOST_FACTS:
            break
        found = ranked[bool(one.message.calls)]
        if one.message.role == "assistant" and len(found) < _MOST_FACTS:
            found.extend(
                Item(text=short(sentence.text), refs=(one.message.ref,))
                for sentence in one.sentences
                if fold(sentence.text) not in known
                and not _is_heading(sentence, one.text)
                and _is_fact(sentence, is_work)
                and not _is_past(sentence.text, one.message, reading)
            )
    yield from ranked[0]
    yield from ranked[1]


def _is_past(text: str, message: Message, reading: Reading) -> bool:
    """Whether words of a message say of a file what was changed since."""
    return reading.is_outdated(text, message) or reading.changed_files.is_past(text, message.seq)


def _is_heading(sentence: Sentence, text: str) -> bool:
    """Whether a sentence is a heading, a comment of code, or a row that is ticked or crossed: such
    a row says of what it speaks in the line above it."""
    line = text[text.rfind("\n", 0, sentence.start) + 1 : sentence.start].lstrip()
    return line.startswith("#") or bool(_TICKED.match(sentence.text))


def _is_fact(sentence: Sentence, is_work: bool) -> bool:
    sentence = sentence._replace(bare=sentence.bare.replace("**", ""))
    said = sentence.text
    if len(said) <= 20 or len(said.split()) < _FEWEST_WORDS or said.rstrip("*_").endswith(_LEADS):
        return False
    if pattern_of_kind("intent").match(said) or _COMMAND.search(sentence.bare):
        return False
    if any(find_sign(kind, sentence) is not None for kind in _NO_FACTS):
        return False
    if is_work and _NUMBER.search(said):
        return True
    if find_sign("step", sentence) is not None:
        return False
    return any(is_work or finding.kind != "number" for finding in find_identifiers(said))
