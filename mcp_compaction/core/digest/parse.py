"""Reads the digests that agents and models write: lines under headings."""

from __future__ import annotations

import re
from itertools import dropwhile

from mcp_compaction.core.digest.fit import as_sections
from mcp_compaction.core.text.injection import END
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import (
    EARLIER_SECTIONS,
    SECTION_NAMES,
    Draft,
    Item,
    SectionName,
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
    # Those of hosts' own summaries.
    "PRIMARY REQUEST AND INTENT": "GOAL",
    "OVERALL GOAL": "GOAL",
    "KEY TECHNICAL CONCEPTS": "FACTS",
    "KEY KNOWLEDGE": "FACTS",
    "FILES AND CODE SECTIONS": "DONE",
    "ERRORS AND FIXES": "ERRORS",
    "PROBLEM SOLVING": "FACTS",
    "ALL USER MESSAGES": "GOAL",
    "PENDING TASKS": "OPEN",
    "CURRENT WORK": "STATE",
    "OPTIONAL NEXT STEP": "NEXT",
}
_NAMES = sorted((name.replace(" ", "[ _]") for name in HEADINGS), key=len, reverse=True)
_HEADING = pattern_of(  # alone on its line, or before its first text
    rf"^[\s#*_>\d.)]{{0,8}}({'|'.join(_NAMES)})(?:\s*\([^)]*\))?[*_]{{0,3}}"
    r"(?:\s*[:：]\s*[*_]{0,3}\s*(.*)|\s*)$",
    re.I,
)
_NOTHING = pattern_of(r"^[\s*•-]*\(?(?:none|nothing|n/?a|not applicable|-)\W*$", re.I)
_BULLET = pattern_of(r"^\s*(?:[-*•]|\d+[.)])\s+")
_MARK = pattern_of(  # as we write it
    r"(?<!\s)(?:\s*+\[(?:(?:model|agent) says\b|log: )[^\[\]]{0,200}\])+\s*$"
)
_REFS = pattern_of(r"(?<!\s)\s*+[(\[]((?:[mdp]\d+)(?:(?:, ?|\.\.)[mdp]?\d+)*)[)\]]\.?\s*$")


def parse_digest(text: str, author: str) -> Draft:
    """Lines under headings as a draft; what stands under no heading we know was done."""
    found: dict[SectionName, list[Item]] = {}
    section: SectionName = "DONE"
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading is not None:
            section, line = HEADINGS[heading[1].upper().replace("_", " ")], heading[2] or ""
        elif _TITLE.match(line):
            section, line = "DONE", ""
        if line.strip() not in ("", END) and not _NOTHING.match(line):
            found.setdefault(section, []).append(_parse_item(line))
    return Draft(author=author, sections=as_sections(found))


def from_first_heading(text: str) -> str:
    """A text without what stands before its first heading; blank where it has none."""
    lines = dropwhile(lambda line: not _HEADING.match(line), text.splitlines())
    return "\n".join(lines)


def _parse_item(line: str) -> Item:
    text = _MARK.sub("", _BULLET.sub("", line)).strip()
    refs = _REFS.search(text)
    if refs is not None:
        text = text[: refs.start()].strip()
    named = tuple(re.findall(r"[mdp]\d+", refs.group(1))) if refs else ()
    if len(text) > 2 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
        return Item(text=text[1:-1], refs=named, provenance="verbatim")
    return Item(text=text, refs=named, provenance="summarized")
