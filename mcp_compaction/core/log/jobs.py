"""Tells what a session started in the background and never saw end: commands, subagents,
schedules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.call_entries import CallEntry, entries_of
from mcp_compaction.core.log.commands import command_line_of, only_reads
from mcp_compaction.core.log.recent import read_recent_once
from mcp_compaction.core.text.words import first_line, one_line
from mcp_compaction.lexicon.tools import JobKind, known_tools
from mcp_compaction.model import Message, ToolCall
from mcp_compaction.shell import commands_of

_NOTIFIES = "notification>"  # a host's tag
_KILLS = ("kill", "pkill", "taskkill")


class RunningJob(NamedTuple):
    """What was started in the background."""

    kind: JobKind
    id: str  # by which a later call asks for it or stops it; blank: only its call is known
    text: str  # the command, or what a subagent is to do
    ref: str


@read_recent_once
def running_jobs(messages: Sequence[Message]) -> tuple[RunningJob, ...]:
    """The jobs whose end neither a result nor a host's notification told, the oldest first.

    The messages have to be as they were recorded: a host's notifications are no conversation.
    """
    entries = tuple(entries_of([m for m in messages if m.calls or m.results]))
    jobs = [job for entry in entries if (job := _job_of(entry)) is not None]
    if not jobs:
        return ()
    ended = {*_ended_by_calls(entries, jobs), *_ended_by_notice(messages, jobs)}
    return tuple(job for job in jobs if job not in ended)


def _job_of(entry: CallEntry) -> RunningJob | None:
    action, result = entry.action, entry.result
    if result is None:
        is_agent = action.kind == "agent"
        return RunningJob("agent", "", first_line(action.target), entry.ref) if is_agent else None
    if action.kind not in ("run", "agent", "other") or only_reads(action.target):
        return None
    text = result.text[:LONGEST_ANSWER]
    signs = (one for one in known_tools().job if (one.kind == "command") == (action.kind == "run"))
    for sign in signs:
        if found := _pattern(sign.says).search(text):
            return RunningJob(sign.kind, found["id"], _words_of(entry), entry.ref)
    return None


def _words_of(entry: CallEntry) -> str:
    if entry.action.kind == "run":
        return command_line_of(entry.action.target)
    return first_line(entry.action.target) or one_line(" ".join(_given_to(entry.call)))[:100]


def _given_to(call: ToolCall) -> Iterator[str]:
    """The words that a call was given, also those of a list."""
    for value in call.arguments.values():
        for one in value if isinstance(value, list) else (value,):
            yield str(one)


def _ended_by_calls(
    entries: Iterable[CallEntry], jobs: Sequence[RunningJob]
) -> Iterator[RunningJob]:
    """The jobs of which the result of a later call tells the end, or that one stopped."""
    by_id = {job.id: job for job in jobs if job.id}
    for entry in entries:
        killed = {*_killed_by(entry)}
        given = {*_given_to(entry.call)}
        stops = entry.action.kind == "stop" and entry.ending == "done"
        text = entry.result.text[:LONGEST_ANSWER] if entry.result is not None else ""
        for id in by_id.keys() & (killed | given):
            # Of several that were asked for, what stands behind its id is told of each.
            told = (
                text[text.find(id) :]
                if id in text
                else ""
                if any(isinstance(v, list) and len(v) > 1 for v in entry.call.arguments.values())
                else text
            )
            if id in killed or stops or _says_ended().match(told):
                yield by_id[id]


def _killed_by(entry: CallEntry) -> Iterator[str]:
    if entry.action.kind == "run" and "kill" in entry.action.target and entry.ending == "done":
        for command in commands_of(entry.action.target) or ():
            if command.name in _KILLS:
                yield from command.words[1:]


def _ended_by_notice(
    messages: Iterable[Message], jobs: Sequence[RunningJob]
) -> Iterator[RunningJob]:
    """The jobs of whose end a host tells by itself."""
    for message in messages:
        if message.role != "user" or _NOTIFIES not in message.text:
            continue
        for notice in message.text.split(_NOTIFIES):
            if _says_ended().match(notice):
                yield from (job for job in jobs if job.id and job.id in notice)


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.M)


@cache
def _says_ended() -> re.Pattern[str]:
    return re.compile(known_tools().job_ended)
