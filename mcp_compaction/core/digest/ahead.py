"""Reads what comes next, from the last turns only: the request in work, steps named, what fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile

from mcp_compaction.core.digest.learned import still_failing
from mcp_compaction.core.digest.reading import Reading, Speech, short
from mcp_compaction.core.digest.wishes import main_sentence, request_in_force
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.findings import exact_words
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.log.ledger import CallEntry
from mcp_compaction.core.log.tasks.jobs import running_jobs
from mcp_compaction.core.log.tasks.plans import TaskEntry, read_tasks
from mcp_compaction.core.log.tool_calls import hands_in, is_plan, is_task
from mcp_compaction.core.log.used_names import is_of_library
from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.patterns import FENCED, pattern_of
from mcp_compaction.core.text.sentences import Sentence
from mcp_compaction.core.text.words import telling_words
from mcp_compaction.model import Item, Message, ToolCall

_LAST_MESSAGES = 10
_MOST_STEPS = 4
_MOST_FILES = 6
_TURN_IS_OVER = "the turn is over: the user speaks next"
_SERVER = pattern_of(r"__|[./]")  # in the name of a tool: it is a server's, and may submit anything
# All that a result says which has no more to say, or the change that was handed in.
_TAKEN = pattern_of(
    r"(?:(?:the|your|task|work|answer|result|was|is|has been|ok|done|saved|submitted|received"
    r"|finished|completed?|success(?:ful|fully)?)\b\W*)*\Z|diff --git |<<SWE_AGENT_SUBMISSION>>"
    r"|COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\b",
    re.I,
)
_NAME = pattern_of(r"([\w./@+~-]+)(:\d)?")  # perhaps with the number of a line
_PLACEHOLDER = pattern_of(r"<([^<>\s]{1,200})>")
# Parentheses, and lines of a trace.
_ASIDE = pattern_of(
    r"\([^()\n]{1,400}\)|^[^\S\n]+at .*$|^[^\S\n]*from \S{1,300}:\d.*$", re.MULTILINE
)


def next_items(reading: Reading) -> list[Item]:
    """What is in work, what of it nobody has touched, what just failed, and the steps that the
    last messages name and no call has taken; nothing of that once the work was handed in."""
    if handed_in := _ref_of_hand_in(reading):
        return [Item(text=_TURN_IS_OVER, refs=(handed_in,))]
    since = reading.end - _LAST_MESSAGES
    recent = [one for one in reading.said if one.message.seq > since]
    steps = [item for one in reversed(recent) for item in _steps_of(one, reading)]
    failing = [i for i in still_failing(reading) if int(i.refs[-1][1:]) > since]
    ahead = [*_in_work(reading), *failing[:1], *steps[:_MOST_STEPS]]
    return ahead or list(_end_of_turn(reading))


def _end_of_turn(reading: Reading) -> Iterator[Item]:
    """That the user is to speak, where closing words end the window, announce nothing, and
    neither a task is open nor a job runs."""
    said = (*reading.said, *reading.said_later)
    if not said or not _is_closing(said[-1], reading):
        return
    if not _is_something_left(reading):
        yield Item(text=_TURN_IS_OVER, refs=(said[-1].message.ref,))


def _is_something_left(reading: Reading) -> bool:
    """Whether a task is open or a job runs."""
    has_open_tasks = any(name == "OPEN" for name, _ in reading.request.must_keep)
    return has_open_tasks or bool(running_jobs((*reading.messages, *reading.later)))


def _ref_of_hand_in(reading: Reading) -> str:
    """The ref of the last call, where it handed in the work, nobody has said anything to it since,
    and nothing is left."""
    last = reading.ledger.entries[-1] if reading.ledger.entries else None
    if last is None or last.ending not in ("done", "running") or not hands_in(last.call):
        return ""
    made = int(last.ref[1:])
    is_ours = not _SERVER.search(last.call.name)
    after = (m for m in (*reading.messages, *reading.later) if m.seq > made)
    is_answered = any(m.is_request or m.text.strip() for m in after)
    if not is_ours or is_answered or not _is_taken(last) or _is_something_left(reading):
        return ""
    return last.ref


def _is_taken(entry: CallEntry) -> bool:
    """Whether the result of handing in only says so, or shows what was handed in: other words are
    an answer, and ask for more."""
    told = entry.result.text.strip() if entry.result is not None else ""
    return bool(_TAKEN.match(told)) or told in words_of(entry.call)


def _is_closing(one: Speech, reading: Reading) -> bool:
    """Whether words end the window and leave the next ones to the user."""
    message = one.message
    if message.role != "assistant" or message.calls or message.seq != reading.end:
        return False
    return not any(remarks.is_next_step(s) or remarks.may_announce(s) for s in one.sentences)


def _in_work(reading: Reading) -> Iterator[Item]:
    """The request that no closing words have ended, or the task of its plan that is at hand; and
    the files it names that nobody touched, which no plan needs to name."""
    asked = request_in_force(reading)
    if asked is None:
        return
    after = [m for m in (*reading.messages, *reading.later) if m.seq > asked.message.seq]
    if any(m.role == "assistant" and m.text and not m.calls for m in after):
        return
    planned = _planned_in(after)
    task = _task_at_hand(planned)
    if task is not None:
        yield Item(text=f"finish: {short(task.task.text, 140)}", refs=(task.ref,))
    else:
        main = main_sentence(asked)
        has_begun = any(m.calls for m in after)
        verb = "answer" if main.endswith(remarks.QUESTION_MARKS) and not has_begun else "finish"
        verb = "wind up, all its tasks are closed" if planned else verb
        yield Item(text=f"{verb}: {short(main, 140)}", refs=(asked.message.ref,))
    if left := _untouched_files(asked, reading):
        where = "in the request" if planned else "there"
        text = f"named {where} and not touched so far: {', '.join(left[:_MOST_FILES])}"
        yield Item(text=text, refs=(asked.message.ref,))


def _planned_in(after: Sequence[Message]) -> tuple[TaskEntry, ...]:
    """The tasks that were planned since a request; not those of the work before it, which are
    only closed before other calls are made."""
    tasks = read_tasks(after).entries
    made = [call for message in after for call in message.calls]
    since_work = dropwhile(_plans, made)
    if all(entry.task.is_closed for entry in tasks) and not any(map(_plans, since_work)):
        return ()
    return tasks


def _plans(call: ToolCall) -> bool:
    return is_plan(call) or is_task(call)


def _task_at_hand(planned: Sequence[TaskEntry]) -> TaskEntry | None:
    """The task of a plan that somebody works on, or else the first that is open."""
    left = [entry for entry in planned if not entry.task.is_closed]
    return next((e for e in left if e.task.state == "active"), next(iter(left), None))


def _untouched_files(asked: Speech, reading: Reading) -> list[str]:
    """The files that a request names and no call touched, before it or since; none before the
    first call after it."""
    messages = (*reading.messages, *reading.later)
    if not any(m.calls for m in messages if m.seq > asked.message.seq):
        return []
    found = find_identifiers(FENCED.sub("", asked.text))
    examples = _examples_in(asked.text)
    files = dict.fromkeys(f.text.removeprefix("@") for f in found if f.kind == "file")
    named = [name for name in files if name not in examples and not is_of_library(name)]
    touched = "\n".join(
        words_of(part)
        for m in messages
        for part in (m.parts if m.seq > asked.message.seq else m.calls)
    )
    return [name for name in named if name.rpartition("/")[2] not in touched]


def _examples_in(request: str) -> set[str]:
    """The names that a request does not mean itself: placeholders, and what stands only with the
    number of a line, in parentheses or in a trace."""
    named = _NAME.findall(request)
    placed = {name for name, number in named if number}
    meant = {name.rstrip(".") for name, number in named if not number}
    meant.update(name for name, _ in _NAME.findall(_ASIDE.sub(" ", request)))
    return (placed - meant) | set(_PLACEHOLDER.findall(request))


def _steps_of(one: Speech, reading: Reading) -> Iterator[Item]:
    if one.message.role != "assistant" or _is_answered(one, reading):
        return
    typed = _typed_since(one, reading)
    last = one.sentences[-1] if one.sentences else None
    for sentence in one.sentences:
        # What is said right before a call is what the call does.
        is_taken = bool(one.message.calls) and sentence is last
        is_last = sentence is last and one.message.seq == reading.end
        if is_taken or not _names_a_step(sentence, is_last):
            continue
        exact = exact_words(sentence.text)
        is_typed = any(_is_named(word, typed) for word in exact)
        if not is_typed and (exact or not exact_words(typed) or one.message.calls):
            yield Item(text=short(sentence.text), refs=(one.message.ref,))


def _names_a_step(sentence: Sentence, is_last: bool) -> bool:
    """Whether a sentence says what comes next; the last one also where it says what comes now."""
    if sentence.text.endswith((":", "?")):
        return False
    is_step = remarks.is_next_step(sentence) or (is_last and remarks.is_step_of_now(sentence))
    return is_step and bool(telling_words(sentence.text))


def _is_named(word: str, typed: str) -> bool:
    """Whether a name stands in what was typed: whole, perhaps at the end of a longer path."""
    return word in typed and bool(re.search(rf"(?<![\w.-]){re.escape(word)}(?![.-]?\w)", typed))


def _typed_since(one: Speech, reading: Reading) -> str:
    """What all calls say that were made from that message on."""
    return "\n".join(
        words_of(call)
        for message in (*reading.messages, *reading.later)
        if message.seq >= one.message.seq
        for call in message.calls
    )


def _is_answered(one: Speech, reading: Reading) -> bool:
    """Whether a user has said something since: what comes next is theirs to say."""
    return any(
        other.message.is_request and other.message.seq > one.message.seq
        for other in (*reading.said, *reading.said_later)
    )
