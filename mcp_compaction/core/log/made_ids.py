"""Keeps account of the ids that calls made, which later calls need until something deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.call_entries import CallEntry
from mcp_compaction.core.log.commands import is_search, only_reads
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.lexicon.tools import verbs_of_tools
from mcp_compaction.shell import commands_of

_KEYED_ID = pattern_of(r"(?:(?<![^\W_])(?:id|Id|ID)|(?<=\w)Id)\"?[ :=]{1,3}\"?(#?[\w-]{2,64})")
_WORD = pattern_of(r"[A-Z]?[a-z]+")


class MadeId(NamedTuple):
    """An id that a call made."""

    text: str
    by: str  # the tool, or the command
    ref: str  # the message whose result has it
    used: str = ""  # the newest call that was given it


def made_ids(entries: Iterable[CallEntry]) -> tuple[MadeId, ...]:
    """The ids that calls made and no later call deleted, the oldest first: of each call the first
    that its result has, and all that a later call was given."""
    found: dict[str, MadeId] = {}
    first: set[str] = set()
    for entry in entries:
        if entry.ending != "done":
            continue
        typed, (name, does) = compact_json(entry.call.arguments), _deed_of(entry)
        for one in [one for one in found.values() if one.text in typed]:
            if does & verbs_of_tools("unmakes"):
                del found[one.text]
            else:
                found[one.text] = one._replace(used=entry.ref)
        if does & verbs_of_tools("makes"):
            new = [text for text in _ids_in(entry) if text not in typed and text not in found]
            first.update(new[:1])
            found |= {text: MadeId(text, name, entry.result_ref) for text in new}
    return tuple(one for one in found.values() if one.used or one.text in first)


def _ids_in(entry: CallEntry) -> Iterator[str]:
    text = entry.result.text[:LONGEST_ANSWER] if entry.result is not None else ""
    yield from _KEYED_ID.findall(text)
    kinds = ("id", "url") if entry.action.kind == "run" else ("id",)
    yield from (one.text for one in find_identifiers(text) if one.kind in kinds)


def _deed_of(entry: CallEntry) -> tuple[str, set[str]]:
    """What a call does by its name: of its tool, or of the first command that makes or deletes."""
    if entry.action.kind in ("other", "agent", "stop"):
        name = entry.call.name.rpartition("__")[2]
        return name, {word.lower() for word in _WORD.findall(name)}
    known = verbs_of_tools("makes") | verbs_of_tools("unmakes")
    line = entry.action.target if entry.action.kind == "run" else ""
    for command in commands_of(line) or ():
        plain = [word for word in command.words[:4] if _is_plain(word)][:3]
        does = {*_WORD.findall(" ".join(plain)), " ".join(plain[:2])} & known
        if does and command.name != "git" and not is_search(line) and not only_reads(line):
            return " ".join(plain), does
    return "", set()


def _is_plain(word: str) -> bool:
    """Whether a word is no option and no script."""
    return word.replace("-", "").isalpha() and not word.startswith("-")
