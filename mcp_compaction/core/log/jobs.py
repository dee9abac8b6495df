"""Tells what a session started in the background and never saw end: commands, subagents,
schedules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.call_entries import CallEntry, entries_of
from mcp_compaction.core.log.commands import command_line_of, only_reads
from mcp_compaction.core.reading import read_recent_once
from mcp_compaction.core.text.words import first_line, one_line
from mcp_compaction.lexicon.tools import known_tools
from mcp_compaction.model import HostJobs, Message, RunningJob, ToolCall
from mcp_compaction.shell import commands_of

_NOTIFIES = "notification>"  # a host's tag
_KILLS = ("kill", "pkill", "taskkill")


class _Log(NamedTuple):
    """What was recorded, as far as jobs are told of in it."""

    jobs: tuple[RunningJob, ...]
    entries: tuple[CallEntry, ...]
    notices: tuple[tuple[str, datetime | None], ...]  # of a host, that something has ended
    at: dict[str, datetime | None]  # when each message was said


def running_jobs(
    messages: Sequence[Message],
    earlier: Iterable[RunningJob] = (),
    told: Iterable[HostJobs] = (),
) -> tuple[RunningJob, ...]:
    """The jobs whose end neither a result nor a host's notification told, the oldest first.

    The messages have to be as they were recorded: a host's notifications are no conversation.
    `earlier`: those that ran before them. `told`: what the host itself says, the newest last; it
    counts for what had been started by then.
    """
    log = _read(tuple(messages))
    jobs = {job.id or job.ref: job for job in (*earlier, *log.jobs)}
    ended = dict(_ends(log, {job.id for job in jobs.values() if job.id}))
    for word in told:
        for key, job in jobs.items():
            if job.kind in word.kinds and job.at is not None and job.at <= word.at:
                if (job.id or job.text) not in word.names:
                    ended[key] = word.at
                elif (at := ended.get(key)) is not None and at <= word.at:
                    del ended[key]  # it was given more to do
    return tuple(job for key, job in jobs.items() if key not in ended)


@read_recent_once
def _read(messages: Sequence[Message]) -> _Log:
    at = {message.ref: message.at for message in messages}
    entries = tuple(entries_of([m for m in messages if m.calls or m.results]))
    jobs = tuple(
        job._replace(at=at[job.ref]) for entry in entries if (job := _job_of(entry)) is not None
    )
    told = (m for m in messages if m.role == "user" and _NOTIFIES in m.text)
    notices = tuple(
        (notice, message.at)
        for message in told
        for notice in message.text.split(_NOTIFIES)
        if _says_ended().match(notice)
    )
    return _Log(jobs, entries, notices, at)


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


def _ends(log: _Log, ids: set[str]) -> Iterator[tuple[str, datetime | None]]:
    """The jobs of which the result of a later call tells the end, that one stopped, or of whose
    end a host tells by itself; and when."""
    for entry in log.entries if ids else ():
        killed = {*_killed_by(entry)}
        given = {*_given_to(entry.call)}
        stops = entry.action.kind == "stop" and entry.ending == "done"
        text = entry.result.text[:LONGEST_ANSWER] if entry.result is not None else ""
        is_list = any(isinstance(v, list) and len(v) > 1 for v in entry.call.arguments.values())
        for id in ids & (killed | given):
            # Of several that were asked for, what stands behind its id is told of each.
            told = text[text.find(id) :] if id in text else text * (not is_list)
            if id in killed or stops or _says_ended().match(told):
                yield id, log.at[entry.result_ref]
    for notice, at in log.notices:
        yield from ((id, at) for id in ids if id in notice)


def _killed_by(entry: CallEntry) -> Iterator[str]:
    if entry.action.kind == "run" and "kill" in entry.action.target and entry.ending == "done":
        for command in commands_of(entry.action.target) or ():
            if command.name in _KILLS:
                yield from command.words[1:]


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.M)


@cache
def _says_ended() -> re.Pattern[str]:
    return re.compile(known_tools().job_ended)
