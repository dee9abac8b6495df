"""Finds jobs and agents that were started and not waited for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from posixpath import join, normpath
from typing import NamedTuple

from mcp_compaction.core.log.endings import ending_of_call
from mcp_compaction.core.log.failures import causes_of
from mcp_compaction.core.log.identifiers import exit_code
from mcp_compaction.core.log.tool_calls import (
    action_of,
    is_background,
)
from mcp_compaction.core.text.patterns import pattern_of, word_set
from mcp_compaction.core.text.words import first_line
from mcp_compaction.model import AccountValue, Item, Message, ToolCall, ToolResult
from mcp_compaction.shell import commands_of

_STARTED = pattern_of(
    r"\b(?:running in (?:the )?background|launched|started|spawned|backgrounded)\b", re.I
)
_JOB = pattern_of(
    r"\b(?:(?:task|agent|shell|job|process|bash|session)[ _-]?)?(?:id|pid)\b[\"']?"
    r"(?: is)?[ :=]{1,3}[\"'`]?([\w-]{3,64})|\[\d+\] (\d{3,9})\b",
    re.I,
)
_ENDED = pattern_of(
    r"\b(?:completed?|finished|exited|killed|terminated|stopped|failed|done|exit code|cancel\w+)\b",
    re.I,
)
_KILL = pattern_of(r"\b(?:kill|pkill|killall|killshell|killbash|taskstop|stop)\b", re.I)
_NO_KILLER = pattern_of(
    r"\b(?:pkill|killall|kill): (?:command )?not found|command not found: (?:pkill|killall|kill)\b"
)

_SHOWS = word_set("cat tail less more")
_WAITS = word_set("sleep echo")


class _Job(NamedTuple):
    """A job as it is told, and the files that its output goes into."""

    item: Item
    written: frozenset[str]


def running_jobs(messages: Sequence[Message]) -> tuple[Item, ...]:
    """The jobs and agents that were started without waiting and not said to have ended."""
    calls: dict[str, tuple[str, ToolCall]] = {}
    jobs: dict[str, _Job] = {}
    for message in messages:
        for result in message.results:
            made = calls.get(result.call)
            if made is not None:
                _note_call(jobs, (made[0], message.ref), made[1], result)
        # Hosts tell of a job's end in a message of their own.
        if jobs and message.role in ("user", "system") and _ENDED.search(message.text):
            _strike_ended(jobs, "", message.text)
        calls.update((call.id, (message.ref, call)) for call in message.calls)
    return tuple(job.item for job in reversed(jobs.values()))


def _note_call(
    jobs: dict[str, _Job], refs: tuple[str, str], call: ToolCall, result: ToolResult
) -> None:
    if jobs:
        told = f"{call.name} {_arguments_of(call)}"
        _strike_ended(jobs, told, result.text[:4_000])
        if (shown := _file_shown(call)) and _prints_error(result):
            _strike_crashed(jobs, shown)
    if _is_start(call, result):
        named = _JOB.search(result.text[:2_000])
        job = next(filter(None, named.groups()), "") if named else ""
        what = first_line(action_of(call).target) or call.name
        item = Item(text=what, refs=refs, value=AccountValue(kind="job"))
        jobs[job or f"? {what}"] = _Job(item, frozenset(_files_written(call)))


def _is_start(call: ToolCall, result: ToolResult) -> bool:
    if is_background(call):
        is_left = not re.search(r"\bexit(?:ed)?(?: with)? (?:code|status)\b", result.text[-200:])
    else:
        is_left = action_of(call).kind == "agent" and bool(_STARTED.search(result.text[:200]))
    return is_left and ending_of_call(result) in ("done", "running")


def _strike_ended(jobs: dict[str, _Job], told: str, answer: str) -> None:
    is_killing = bool(_KILL.search(told)) and not _NO_KILLER.search(answer)
    for job, (item, _) in tuple(jobs.items()):
        name = job.removeprefix("? ")
        if name not in told and name not in answer:
            is_named = is_killing and any(w in told for w in _long_words(item.text))
            if not is_named:
                continue
        if is_killing or _ENDED.search(answer):
            del jobs[job]


def _strike_crashed(jobs: dict[str, _Job], shown: str) -> None:
    """Strike the jobs whose output is in a file that ends in an error: it may be theirs."""
    for job in [name for name, job in jobs.items() if shown in job.written]:
        del jobs[job]


def _files_written(call: ToolCall) -> Iterator[str]:
    """The files that a command writes its output into."""
    action = action_of(call)
    for part in (commands_of(action.target) or ()) if action.kind == "run" else ():
        yield from (normpath(join(part.folder, path)) for path in part.written)


def _file_shown(call: ToolCall) -> str:
    """The file whose end a call shows, where it does nothing else."""
    action = action_of(call)
    if action.kind == "read" and not action.detail:
        return normpath(action.target)
    parts = (commands_of(action.target) or ()) if action.kind == "run" else ()
    working = [part for part in parts if part.words and part.words[0] not in _WAITS]
    if len(working) != 1 or working[0].words[0] not in _SHOWS:
        return ""
    return normpath(join(working[0].folder, working[0].words[-1]))


def _prints_error(result: ToolResult) -> bool:
    """Whether what a call shows ends in an error, and the call itself did not fail."""
    if result.is_error or exit_code(result) or ending_of_call(result) != "failed":
        return False
    last = [line for line in result.text[-4_000:].split("\n") if line.strip()][-2:]
    return any(cause in line for cause in causes_of(result) for line in last)


def _arguments_of(call: ToolCall) -> str:
    return " ".join(str(value) for value in call.arguments.values())[:2_000]


def _long_words(text: str) -> list[str]:
    return re.findall(r"[\w.-]{4,}", text)
