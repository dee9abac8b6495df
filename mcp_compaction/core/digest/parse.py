"""Reads the digests that agents and models write: lines under headings."""

from __future__ import annotations

import re

from mcp_compaction.core.digest.fit import as_sections
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import (
    EARLIER_SECTIONS,
    SECTION_NAMES,
    Draft,
    Item,
    SectionName,
)

_HEADING = pattern_of(r"^[\s#*]*([A-Za-z]{4,12}(?: [A-Za-z]{3,12})?)[\s:*]*$")
_HEADED = pattern_of(  # a section's name and its text on one line
    r"^\s*(?:#{1,6}\s+)?(?:\*\*|__)?([A-Z][A-Za-z]{2,11}(?: [A-Za-z]{3,12})?)(?:\*\*|__)?\s?[:：]"
    r"(?:\*\*|__)?\s*(\S.*)$"
)
_TITLE = pattern_of(r"^ {0,3}#{1,6} +[A-Z][A-Za-z ,&/-]{0,40}:?\s*$")  # as Markdown has it
HEADINGS: dict[str, SectionName] = {  # ours, and those that agents and models write of themselves
    **{name: EARLIER_SECTIONS.get(name, name) for name in SECTION_NAMES},
    "SUMMARY": "DONE",
    "FILES": "DONE",
    "STATUS": "STATE",
    "REQUEST": "GOAL",
    "TASK": "GOAL",
    "REFUSED": "REJECTED",
    "RULES": "CONSTRAINTS",
    "CONSTRAINT": "CONSTRAINTS",
    "DECISION": "DECISIONS",
    "LESSONS": "FACTS",
    "KEY FACTS": "FACTS",
    "KEY FINDINGS": "FACTS",
    "FINDINGS": "FACTS",
    "QUESTIONS": "ASKED",
    "OPEN TASKS": "OPEN",
    "OPEN QUESTIONS": "UNCERTAIN",
    "UNRESOLVED QUESTIONS": "UNCERTAIN",
    "TODO": "OPEN",
    "PENDING": "OPEN",
    "NEXT STEPS": "NEXT",
}
_BULLET = pattern_of(r"^\s*(?:[-*•]|\d+[.)])\s+")
_MARK = pattern_of(r"(?<!\s)\s*+\[(?:model|agent) says\b[^\[\]]{0,200}\]\s*$")  # as we write it
_REFS = pattern_of(r"(?<!\s)\s*+\(((?:[mdp]\d+)(?:(?:, |\.\.|,)[mdp]?\d+)*)\)\s*$")


def parse_digest(text: str, author: str) -> Draft:
    """Lines under headings as a draft; what stands under no heading we know was done."""
    found: dict[SectionName, list[Item]] = {}
    section: SectionName = "DONE"
    for line in text.splitlines():
        named = _parse_heading(line)
        if named is not None or _TITLE.match(line):
            section = named or "DONE"
        elif line.strip():
            headed = _HEADED.match(line)
            if headed is not None and headed[1].upper() in HEADINGS:
                section, line = HEADINGS[headed[1].upper()], headed[2]
            found.setdefault(section, []).append(_parse_item(line))
    return Draft(author=author, sections=as_sections(found))


def _parse_heading(line: str) -> SectionName | None:
    match = _HEADING.match(line)
    word = match.group(1).upper() if match else ""
    return HEADINGS.get(word)


def _parse_item(line: str) -> Item:
    text = _MARK.sub("", _BULLET.sub("", line)).strip()
    refs = _REFS.search(text)
    if refs is not None:
        text = text[: refs.start()].strip()
    named = tuple(re.findall(r"[mdp]\d+", refs.group(1))) if refs else ()
    if len(text) > 2 and text[0] == text[-1] == '"':
        return Item(text=text[1:-1], refs=named, provenance="verbatim")
    return Item(text=text, refs=named, provenance="summarized")
