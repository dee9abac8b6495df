"""Reads what is known: the lines of results that were used later."""

from __future__ import annotations

from itertools import islice

from mcp_compaction.core.digest.reading import Reading, short
from mcp_compaction.core.log.findings import used_lines
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.words import fold
from mcp_compaction.model import Item

_MOST = 16


def fact_items(reading: Reading) -> list[Item]:
    """The lines of results that were used most and most lately."""
    lines = used_lines(reading.window)
    told = {fold(line.text): line for line in lines if reading.is_in_span(line.ref)}
    ranked = sorted(told.values(), key=lambda one: (-one.uses, -one.last_use))
    # A tool's words bind nobody.
    unbound = (line for line in ranked if not is_planted(line.text) and not find_rules(line.text))
    found = (Item(text=short(one.text, 200), refs=(one.ref,)) for one in unbound)
    return [*islice(found, _MOST)]
