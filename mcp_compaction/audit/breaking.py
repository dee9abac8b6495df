"""Finds calls that may have broken a rule which a compaction had lost.

A call counts only where the rule forbids something and the command or path of the call contains
what the rule names: an identifier, a program, or the two words that the ban begins with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from mcp_compaction.audit.results import Broken
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.language import main_language
from mcp_compaction.core.text.words import one_line, stop_words
from mcp_compaction.formats import IncomingMessage, read
from mcp_compaction.model import ToolCall

_HARMLESS = ("read", "search", "list", "plan", "task", "recall", "fetch", "agent")
_CLAUSE_END = re.compile(r"[.;:!?](?:\s|$)|[,\n()]")
_QUOTED = re.compile(r"[`\"“]([^`\"“”\n]{3,60})[`\"”]")
_WORD = re.compile(r"[^\W_](?:[\w./@-]*[^\W_])?")
_NAME = re.compile(r"(?=.*[\d._/@-])(?=.*[^\W\d]).{4,}")  # a word with a sign or a digit in it
_BEGINS_WITH = 2  # words of a ban that a command has to hold
_LONGEST_CALL = 300


def find_broken(
    rules: Iterable[tuple[str, str]], later: Sequence[IncomingMessage]
) -> Iterator[Broken]:
    """The first call against each rule; `rules`: the words, and the id of the message."""
    calls = [(message.host_id or "", call) for message in later for call in _calls_in(message)]
    for text, said_in in rules:
        for where, call in calls:
            if _may_break(text, call):
                target = one_line(action_of(call).target)[:_LONGEST_CALL]
                yield Broken(rule=text, said_in=said_in, call=target, called_in=where)
                break


def _calls_in(message: IncomingMessage) -> list[ToolCall]:
    _, parts = read(message.shape, message.raw)
    return [part for part in parts if isinstance(part, ToolCall)]


def _may_break(rule: str, call: ToolCall) -> bool:
    action = action_of(call)
    banned = _banned_by(rule)
    if not banned or not action.target or action.kind in _HARMLESS:
        return False
    target = action.target.partition("<<")[0].casefold()  # text that is fed to a command is data
    typed = _WORD.findall(target)
    holds = {*typed, *(part for word in typed for part in re.split(r"[/=:]", word))}
    quoted = [name.casefold() for name in _QUOTED.findall(banned)]
    words = [word.casefold() for word in _WORD.findall(banned)]
    names = [word for word in words if _NAME.fullmatch(word)]
    if names or quoted:
        return any(name in holds for name in names) or any(name in target for name in quoted)
    telling = [word for word in words if word not in stop_words(main_language(rule))]
    if action.kind != "run" or len(telling) < _BEGINS_WITH:
        return False
    first = telling[:_BEGINS_WITH]
    is_program = len(telling) == _BEGINS_WITH and typed[:1] != [] and typed[0] in first
    return is_program or all(word in holds for word in first)


def _banned_by(rule: str) -> str:
    """What a rule forbids: what follows its negation in the same clause; nothing where it has
    none."""
    found = pattern_of_kind("negation").search(rule)
    return _CLAUSE_END.split(rule[found.end() :], 1)[0] if found else ""
