"""Tells remarks apart: doubts, next steps, pleasantries, and the markers of a doubtful text."""

from __future__ import annotations

from mcp_compaction.core.text.all_languages import pattern_of_kind, patterns_by_name
from mcp_compaction.core.text.patterns import may_say, pattern_of
from mcp_compaction.core.text.sentences import Sentence, prose_of
from mcp_compaction.core.text.signs import find_sign

QUESTION_MARKS = ("?", "？")
_LABEL = pattern_of(r"\W*\w+\W*:")  # "limit: the most rows" names a thing


def is_next_step(sentence: Sentence) -> bool:
    """Whether a sentence says what comes next."""
    return find_sign("next", sentence) is not None


def is_doubt(sentence: Sentence) -> bool:
    """Whether a sentence says that its speaker is not sure."""
    return find_sign("doubt", sentence) is not None


def is_pleasantry(sentence: str) -> bool:
    """Whether a sentence only keeps the talk going."""
    return bool(pattern_of_kind("pleasantry").match(sentence))


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
    found = prose_of(text)
    matches = {name: pattern.search(found) for name, pattern in likely.items()}
    groups = {name: match.group() for name, match in matches.items() if match is not None}
    return groups if len(groups) >= fewest else {}
