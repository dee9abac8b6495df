"""Grades a compaction by what the agent did after it: which files it read again, and which a tail
of the same size would have lacked. What another view would have led to, nobody knows: the agent
followed the one that it was shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import Grade, Kept, Message, Session

_REACH = 40  # answers of the agent after a compaction
_FEWEST = 8  # of them, for a grade to tell anything
_SHORTEST_LINE = 12  # characters of a line that tells one file from another
_MOST_SEEN = 0.5  # of a result's lines, from which on it was read before


class _Use(NamedTuple):
    """A file that a call reads or changes, with what came of a read."""

    path: str
    is_read: bool
    seq: int  # of the message with the result
    text: str


def grade_last(session: Session, messages: Sequence[Message], count: CountTokens) -> Grade | None:
    """The grade of the last compaction; None where none was made or too little was said since.

    `messages`: those of the log from before it, also where the view has them no more, and since.
    """
    last, view = session.last_compaction, session.view
    if last is None or not may_grade(session):
        return None
    before = [message for message in messages if message.seq <= view.upto]
    since = _until_reached([message for message in messages if message.seq > view.upto])
    answers = sum(message.role == "assistant" for message in since)
    if answers < _FEWEST:
        return None
    reads: dict[str, list[_Use]] = {}
    for use in _list_uses(before):
        if use.is_read and use.text:
            reads.setdefault(use.path, []).append(use)
    shown = {entry.seq for entry in (*view.head, *view.body) if isinstance(entry, Kept)}
    tail = _newest_in(before, last.after)
    again: dict[str, str] = {}
    used: set[str] = set()
    for use in _list_uses(since):
        known = reads.get(use.path, ())
        if not known or use.path in again:
            continue
        if not use.is_read:
            used.add(use.path)
        elif _was_read(use.text, known):
            used.add(use.path)
            if shown.isdisjoint(one.seq for one in known):
                again[use.path] = use.text
    lacking = [path for path in used if tail.isdisjoint(one.seq for one in reads[path])]
    return Grade(
        compaction=last.compaction,
        answers=answers,
        files=len(used),
        again=len(again),
        again_tokens=sum(map(count, again.values())),
        tail_lacks=len(lacking),
        tail_tokens=sum(count(reads[path][-1].text) for path in lacking),
    )


def may_grade(session: Session) -> bool:
    """Whether the last compaction may have a grade, as is told without reading the log."""
    last, view = session.last_compaction, session.view
    is_last = last is not None and last.kind == "compress" and view.compaction == last.compaction
    return is_last and session.info.messages - view.upto >= _FEWEST


def describe_grade(grade: Grade) -> str:
    """A grade in a line, as receipts and statistics tell it."""
    said = f"since c{grade.compaction} ({plural(grade.answers, 'answer')}): "
    if not grade.files:
        return f"{said}no file was used that had been read before it"
    again = f", {kilo(grade.again_tokens)} tokens" if grade.again else ""
    lacked = f", {kilo(grade.tail_tokens)} tokens" if grade.tail_lacks else ""
    return (
        f"{said}{grade.again} of {plural(grade.files, 'file')} read again{again}; the newest "
        f"messages in as many tokens would have lacked {grade.tail_lacks}{lacked}"
    )


def _until_reached(messages: Sequence[Message]) -> list[Message]:
    """The messages up to the last answer that is looked at, and what came of its calls."""
    taken: list[Message] = []
    answers = 0
    for message in messages:
        answers += message.role == "assistant"
        if answers > _REACH:
            break
        taken.append(message)
    return taken


def _list_uses(messages: Sequence[Message]) -> Iterator[_Use]:
    came = {r.call: (message.seq, r.text) for message in messages for r in message.results}
    for message in messages:
        for call in message.calls:
            action = action_of(call)
            if action.target and action.kind in ("read", "edit", "write"):
                seq, text = came.get(call.id, (0, ""))
                yield _Use(action.target, action.kind == "read", seq, text)


def _was_read(text: str, known: Sequence[_Use]) -> bool:
    """Whether most of what a read gave had been read before: not another part of the file."""
    lines = _lines_of(text)
    seen = {line for one in known for line in _lines_of(one.text)}
    return bool(lines) and len(lines & seen) >= _MOST_SEEN * len(lines)


def _lines_of(text: str) -> set[str]:
    return {line for line in text.splitlines() if len(line.strip()) >= _SHORTEST_LINE}


def _newest_in(messages: Sequence[Message], tokens: int) -> set[int]:
    """The newest messages that take no more than so many tokens."""
    newest: set[int] = set()
    for message in reversed(messages):
        tokens -= message.tokens
        if tokens < 0:
            break
        newest.add(message.seq)
    return newest
