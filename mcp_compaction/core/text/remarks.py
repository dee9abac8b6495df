"""Tells pleasantries, and the markers of a doubtful text."""

from __future__ import annotations

from mcp_compaction.core.text.all_languages import part_in_all, patterns_by_name
from mcp_compaction.core.text.patterns import may_say
from mcp_compaction.core.text.sentences import blank_quotations

_MOST_WORDS = 3  # of a greeting


def is_pleasantry(sentence: str) -> bool:
    """Whether a few words only greet or thank."""
    return len(sentence.split()) <= _MOST_WORDS and bool(part_in_all("greets").match(sentence))


def marker_groups(text: str, fewest: int = 1) -> dict[str, str]:
    """The groups of epistemic markers a text holds, each with its phrase; their number is the
    text's score. None where there are fewer than asked for."""
    likely = {
        name: pattern
        for name, (needs, pattern) in patterns_by_name("marker").items()
        if may_say(text, needs)
    }
    if len(likely) < fewest:
        return {}
    found = blank_quotations(text)
    matches = {name: pattern.search(found) for name, pattern in likely.items()}
    groups = {name: match.group() for name, match in matches.items() if match is not None}
    return groups if len(groups) >= fewest else {}
