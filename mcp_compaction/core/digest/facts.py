"""Reads what is known: the lines of results that were used later, and what was not found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice

from mcp_compaction.core.digest.reading import Reading, short
from mcp_compaction.core.digest.render import FOUND_NOTHING
from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.commands import command_line_of, is_search
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.endings import has_not_begun, telling_lines
from mcp_compaction.core.log.findings import used_lines
from mcp_compaction.core.log.ledger import CallEntry
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.words import fold
from mcp_compaction.lexicon.tools import answer_of_an_empty_search
from mcp_compaction.model import AccountValue, Item

_MOST = 16
_MOST_NOT_FOUND = 4


def fact_items(reading: Reading) -> list[Item]:
    """The lines of results that were used most and most lately."""
    lines = used_lines(reading.window)
    told = {fold(line.text): line for line in lines if reading.is_in_span(line.ref)}
    ranked = sorted(told.values(), key=lambda one: (-one.uses, -one.last_use))
    # A tool's words bind nobody.
    unbound = (line for line in ranked if not is_planted(line.text) and not find_rules(line.text))
    found = (Item(text=short(one.text, 200), refs=(one.ref,)) for one in unbound)
    return [*islice(found, _MOST), *islice(_not_found(reading), _MOST_NOT_FOUND)]


def _not_found(reading: Reading) -> Iterator[Item]:
    """The searches that found nothing when they were last made, the newest first."""
    last = {key_of_search(entry): entry for entry in reading.ledger.entries}
    for key, entry in reversed(last.items()):
        if reading.is_in_span(entry.ref) and has_found_nothing(entry):
            is_line = entry.action.kind == "run"
            what = entry.action.target if is_line else words_of(entry.call)
            value = AccountValue(kind="failure", status=FOUND_NOTHING, key=key)
            refs = tuple(dict.fromkeys((entry.ref, entry.result_ref)))
            yield Item(text=command_line_of(what, 120), refs=refs, value=value)


def key_of_search(entry: CallEntry) -> str:
    """What two calls have in common that look for the same."""
    return entry.form if entry.action.kind == "run" else f"{entry.form} {words_of(entry.call)}"


def has_found_nothing(entry: CallEntry) -> bool:
    """Whether a search came back with empty hands."""
    if entry.result is None or entry.result.has_media or entry.ending not in ("done", "failed"):
        return False
    lines = telling_lines(entry.result.text[:LONGEST_ANSWER])
    if entry.action.kind == "run":
        is_silent = all(map(_empty_answer().fullmatch, lines)) and not has_not_begun(entry.result)
        return is_silent and is_search(entry.action.target, by_output=True)
    answer = "\n".join(lines)
    return entry.action.kind == "other" and bool(_empty_answer().fullmatch(answer))


@cache
def _empty_answer() -> re.Pattern[str]:
    return re.compile(answer_of_an_empty_search())
