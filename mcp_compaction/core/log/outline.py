"""Outlines what a session was about, and finds cues that now is a good moment to compress."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.core.log.repository import commits_of
from mcp_compaction.core.log.steps import steps
from mcp_compaction.core.log.tool_calls import tasks_of
from mcp_compaction.core.text.all_languages import marker_groups
from mcp_compaction.core.text.injection import defuse
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.words import first_line
from mcp_compaction.model import Message, Value

_RECENT = 3  # steps
_MOST_LOOKED_AT = 200  # messages, in which these are found
# A bare OK says nothing of tests: unittest, PHPUnit and Go name them beside it.
_PASSED = pattern_of(
    r"\b[1-9]\d* passed\b|\bRan [1-9]\d* tests?\b[^\n]*\s+OK\b|\bOK \([1-9]\d* tests?\b"
    r"|^ok\s+\S+\s+(?:\d[\d.]*s\b|\(cached\))|\ball tests pass",
    re.I | re.M,
)
_NOT_PASSED = pattern_of(r"\b[1-9]\d* (?:failed|errors?)\b|FAILED", re.I)


class RequestRun(Value):
    """A run of messages from one request to the next."""

    first: int
    last: int
    about: str
    tokens: int


def outline_of(messages: Sequence[Message]) -> tuple[RequestRun, ...]:
    """The conversation as passages, one for each thing the user asked for."""
    found: list[RequestRun] = []
    requests = {m.seq: m for m in conversation_of(messages) if m.is_request and not m.results}
    for message in messages:
        request = requests.get(message.seq)
        if request or not found:
            about = "before the first request"
            if request:
                about = defuse(first_line(next(iter(split_sentences(request.text)), "")))
            found.append(
                RequestRun(first=message.seq, last=message.seq, about=about, tokens=message.tokens)
            )
        else:
            newest = found[-1]
            found[-1] = newest.model_copy(
                update={"last": message.seq, "tokens": newest.tokens + message.tokens}
            )
    return tuple(found)


def find_boundary_cues(messages: Sequence[Message]) -> tuple[str, ...]:
    """The signs in the last steps that this is a good moment to compress.

    There is none while a call is open, after a command that failed, or while the agent doubts
    what it just said.
    """
    recent = steps(conversation_of(messages[-_MOST_LOOKED_AT:]))[-_RECENT:]
    if not recent or recent[-1].is_open or _is_in_doubt(recent[-1].messages[-1]):
        return ()
    cues: dict[str, None] = {}
    for entry in ledger_of(m for step in recent for m in step.messages).entries:
        text = entry.result.text if entry.result is not None else ""
        if entry.ending == "failed":
            cues.clear()
        elif entry.action.kind == "run" and entry.ending == "done":
            if _PASSED.search(text) and not _NOT_PASSED.search(text):
                cues["tests green"] = None
            if any(commits_of(entry)):
                cues["commit made"] = None
        elif entry.action.kind == "plan":
            plan = tasks_of(entry.call)
            if plan and all(task.is_closed for task in plan):
                cues["todo closed"] = None
    return tuple(cues)


def _is_in_doubt(message: Message) -> bool:
    """Whether a message is the agent's and voices doubt; that it checks something is none."""
    return message.role == "assistant" and bool(marker_groups(message.text).keys() - {"check"})
