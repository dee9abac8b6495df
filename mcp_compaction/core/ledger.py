"""Keeps the books of a session: what is planned, done, blocked, left running or to be done yet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from mcp_compaction.core.candidates import standing
from mcp_compaction.core.deeds import (
    Task,
    deed,
    is_background,
    is_plan,
    is_task,
    task_change,
    tasks,
)
from mcp_compaction.core.markers import Sentence, speech
from mcp_compaction.model import Item, Message, ToolCall, ToolResult, Value


class Entry(Value):
    """A task as it stands, and the message it was planned in."""

    ref: str
    task: Task
    is_single: bool = False  # its tool handles tasks one by one: no plan settles it


class Ledger(Value):
    """The plan that stands: the newest one written whole, then what was changed task by task."""

    plan: str = ""  # the ref of the newest plan written whole
    entries: tuple[Entry, ...] = ()


def answered(messages: Iterable[Message]) -> Iterable[tuple[Message, ToolCall, ToolResult]]:
    """Each result with the call it answers; some providers number the calls of a turn anew."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        for result in message.results:
            call = calls.get(result.call)
            if call is not None:
                yield message, call, result
        for call in message.calls:
            calls[call.id] = call


# Plans


def read_ledger(messages: Sequence[Message]) -> Ledger:
    """What the calls that write plans and tasks leave standing at the end of some messages."""
    plan, entries = "", dict[str, Entry]()
    answers: dict[tuple[str, str], str] | None = None
    for message in messages:
        for call in message.calls:
            if is_plan(call) and (written := tasks(call)):
                plan = message.ref
                entries = {f"plan {n}": Entry(ref=plan, task=t) for n, t in enumerate(written)}
            elif is_task(call):
                if answers is None:
                    answers = _answers(messages)
                _change(entries, message.ref, call, answers.get((message.ref, call.id), ""))
    return Ledger(plan=plan, entries=tuple(entries.values()))


_NUMBER = re.compile(r"#(\d{1,6})\b|\"?\b(?:task_?)?id\"?[ :=]{1,3}\"?([\w-]{1,40})", re.I)


def _answers(messages: Sequence[Message]) -> dict[tuple[str, str], str]:
    """The answer to each call, by the message that made it."""
    made: dict[str, str] = {}
    found: dict[tuple[str, str], str] = {}
    for message in messages:
        for result in message.results:
            if result.call in made:
                found[made[result.call], result.call] = result.text[:400]
        for call in message.calls:
            made[call.id] = message.ref
    return found


def _change(entries: dict[str, Entry], ref: str, call: ToolCall, answer: str) -> None:
    change = task_change(call)
    number = change.id
    if not number:  # only the answer says what a new task is called
        named = _NUMBER.search(answer)
        number = next(filter(None, named.groups()), "") if named else ""
    key = f"task {number or len(entries) + 1}"
    old = entries.get(key)
    text = change.text or (old.task.text if old else "")
    state = change.state or (old.task.state if old else "open")
    if text:
        known = old.ref if old else ref
        task = Task(text=text, state=state, id=number)
        entries[key] = Entry(ref=known, task=task, is_single=True)


# What was left to do in words


def spoken_tasks(messages: Sequence[Message]) -> tuple[Item, ...]:
    """What users said is still to be done, word for word, unless it was said to be done since."""
    found: dict[str, tuple[int, Item]] = {}
    for place, message in enumerate(messages):
        if message.role == "user":
            for sentence in speech(message.text):
                if leaves_open(sentence) and not standing(sentence.text):
                    item = Item(text=sentence.text, refs=(message.ref,), provenance="verbatim")
                    found[sentence.text] = (place, item)
    if not found:
        return ()
    items = tuple(item for _, item in found.values())
    closed = _closed_at(items, messages)
    return tuple(i for place, i in found.values() if closed.get(i.text, -1) <= place)


def unfinished(items: Sequence[Item], later: Sequence[Message]) -> tuple[Item, ...]:
    """Those of some open tasks that no later message says are done."""
    closed = _closed_at(items, later)
    return tuple(item for item in items if item.text not in closed)


def _word_set(words: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w']+", words))


# Most sentences leave nothing open: a look at their words spares them the patterns.
_SPOKEN = re.compile(r"[a-z]+")
_LEFT_WORDS = _word_set(
    """
todo do forget remember remind later afterwards eventually point tomorrow week end before once when
after soon still pending outstanding unresolved unfinished remain remains remaining follow followup
open revisit circle leave backlog step finish merge ship release not n t isn aren hasn haven
"""
)
_DO = (
    r"(?:please |also |then |just |we (?:need|have|should|must|will)(?: to)? |you (?:need to|should"
    r"|must|can) )*"
    r"(?:add|announce|archive|ask|back ?port|back up|book|bring|build|bump|buy|call|cancel|change"
    r"|check|clean|close|come back|commit|configure|confirm|copy|create|delete|deploy|disable"
    r"|document|double-check|drop|email|enable|file|finish|fix|follow up|get|give|go back|implement"
    r"|inform|install|let|log|look|mail|make|measure|merge|message|migrate|move|notify|open|order"
    r"|pay|ping|port|post|prepare|print|publish|pull|push|put|rebase|record|refactor|regenerate"
    r"|release|remove|rename|reopen|replace|report|re-?run|reset|restart|restore|return|revert"
    r"|review|revisit|rotate|run|schedule|send|set|share|ship|show|squash|start|submit|switch|tag"
    r"|tell|test|tidy|try|turn|update|upgrade|upload|verify|wire|write)\b"
)
_DONE_WITH = (
    r"(?:done|finished|merged|deployed|green|pass(?:es|ed)?|lands?|landed|completed?|live|released"
    r"|shipped|ready|in place|works?|fixed|through|approved|over|in|up|resolved|tested|reviewed)"
)
_START = r"(?:^|[.;:,!–—] |\b(?:and|but|also|oh|please|so),? )"
_LEFT = re.compile(
    "|".join(
        (
            r"\bto-?do\b ?(?::|—|–| - )|^\W*(?:still |left )?to do ?:|\bfor later:|\bfollow-?up:"
            r"|\b(?:open|remaining|outstanding) (?:items?|points?|tasks?|work)?:",
            _START + r"(?:don't|do not|dont) forget (?:to |about |the |that (?:we|you) |my )",
            _START + r"(?:please )?remember to \w+ \w+",
            r"(?<!you )\bremind me (?:to|about|when|at|on|in|that|before|tomorrow|later|next)\b",
            r"\b(?:later|afterwards|at some point|eventually|next week|tomorrow|at the end|in the "
            r"end)(?: on)?,? (?:we|you)(?:'ll| will)? (?:also |still )*(?:need|have|must|should"
            r"|ought)\b",
            r"\b(?:we|you) (?:still|also) (?:need|have) to (?!see|say|admit|wait)\w+",
            r"\b(?:we|you)(?:'ll| will)? (?:need|have) to \w+ .+ (?:later|afterwards|at the end"
            r"|eventually|at some point|before (?:the (?:end|release|launch|merge|demo)|we|ship\w*"
            r"|merg\w+|releas\w+|launch\w*))\b",
            r"^\W*(?:and )?(?:once|as soon as|when|after) .{3,100}?\b" + _DONE_WITH + r",? " + _DO,
            r"^\W*(?:and )?after (?:that|this|the \w+(?: \w+)?), " + _DO,
            r"^\W*(?:and )?(?:before (?:the (?:end|release|launch|merge|demo|deadline)"
            r"|(?:you|we) (?:finish|merge|ship|release|close|are done|wrap)|you're done|finishing"
            r"|merging|shipping|releasing|closing|wrapping up)[^,]{0,40}"
            r"|at the (?:very )?end(?: of [^,]{1,40})?|as a (?:last|final) step|later(?: on)?"
            r"|afterwards|tomorrow|next week|when you get to it|in a follow-?up),? " + _DO,
            _START + r"(?:let's |we'll |we will |we can |we should |you can |please )?(?:come back "
            r"to|circle back (?:to|on)|revisit|return to|get back to|deal with|handle|tackle|park"
            r"|fix|do) [^.]{2,60}? (?:later|afterwards|tomorrow|next week|another time|at the end"
            r"|in a follow-?up)\b",
            r"\bleave .{2,60} for (?:later|tomorrow|next week|another time|a follow-?up)\b"
            r"|\b(?:on|to) (?:the|our) (?:backlog|to-?do list)\b",
            r"\b(?:is|are|remains?) (?:still )?(?:pending|outstanding|unresolved|unfinished"
            r"|to be done|left to do|not done yet)\b",
            r"\bstill (?:needs?|has|have) to be \w+(?:ed|en|t|ne)\b|\bstill (?:pending|outstanding"
            r"|unresolved|unfinished|to be done|left to do)\b",
        )
    ),
    re.I,
)
# Said of work only: a shop is still open, and people are still missing.
_LEFT_AT_WORK = re.compile(
    r"\b(?:is|are) still (?:open|missing|left|broken|failing|red|on hold|to do|not \w+ed)\b"
    r"|\b(?:is|are|has|have)(?:n't| not) (?:been )?(?:implemented|tested|migrated|finished|fixed"
    r"|deployed|written|reviewed|documented|merged|updated)(?: yet)?\b",
    re.I,
)
_WORK = re.compile(
    r"[`_/#]|\w\.\w|\b[A-Z]{2,}|\b(?:bug|test|ticket|issue|task|migration|endpoint|docs?|page|api"
    r"|feature|review|pr|build|pipeline|script|report|item|point|question|fix|patch|release|branch"
    r"|module|table|config|deploy\w*|check|rollout|invoice|contract|draft|step|part)s?\b"
)
_TOLD = re.compile(
    r"^\W*(?:and |but |so |well,? )?(?:I|I'm|I've|I'd|I'll|he|she|they|my \w+|his|her|their|it was"
    r"|there was|we (?:had|were|went))\b(?! (?:need|want|would like) you)",
    re.I,
)


def leaves_open(sentence: Sentence) -> bool:
    """Whether a sentence leaves something to be done."""
    return _leaves_open(sentence.bare)


@lru_cache(maxsize=8_192)
def _leaves_open(bare: str) -> bool:
    is_likely = not _LEFT_WORDS.isdisjoint(_SPOKEN.findall(bare.lower()))
    if not is_likely or bare.endswith(("?", "？")):
        return False
    if _LEFT.search(bare):
        return not _TOLD.match(bare) or bool(re.search(r"\bremind me\b|\bto-?do:", bare, re.I))
    return bool(_LEFT_AT_WORK.search(bare) and _WORK.search(bare)) and not _TOLD.match(bare)


# What has been done since

_DONE = re.compile(
    r"\b(?:done|finished|fixed|completed?|implemented|resolved|closed|shipped|sorted|handled"
    r"|taken care of|in place|added|updated|removed|deleted|rotated|deployed|merged|written|wrote"
    r"|sent|renamed|migrated|documented|published|created|rebased|pushed|tagged|released|bumped"
    r"|upgraded|cleaned|reverted|restored|enabled|disabled|booked|ordered|paid|called|told|notified"
    r"|asked|checked|verified|tested|ran|moved|dropped|replaced|reviewed|refactored|scheduled|set"
    r"|put|changed|switched|turned|backported|squashed|regenerated|filed|submitted|posted|emailed"
    r"|bought|cancelled|canceled|announced|measured|copied|archived)\b|✓|✔|✅",
    re.I,
)
_NOT_DONE = re.compile(
    r"\b(?:not|never|no|cannot|still|yet to|to be|will|once|when|if|until|before|unless|need|needs"
    r"|must|should|shall|going to|remain\w*|left to|let me|next|later|todo|almost|partly"
    r"|partially|about to|would|could|want)\b|n't\b|'ll\b|\?\W*$",
    re.I,
)
_WORD = re.compile(r"[^\W_][\w-]*[^\W_]")
_ENDING = re.compile(r"(?:ing|ed|es|s|e|ten)$")
_EMPTY = _word_set(
    """
the a an to of in on at for and or be is are was were been it its this that these those you we i
they me us our my your with by as from into than then now not no so but if do does did done have
has had will shall would should can could may might must let all any some only also just still
already again after before back there here when once later remember remind forget don don't todo
end afterwards eventually need needs pending outstanding open left remaining please soon first
monday tuesday wednesday thursday friday saturday sunday tonight today
next week tomorrow point some finished fixed complete completed yet make sure get that's it's
"""
)
_ENOUGH = 0.8  # a task that is shown too long costs less than one that is lost


def _closed_at(items: Sequence[Item], messages: Sequence[Message]) -> dict[str, int]:
    """Where each task that is said to be done was last said to be, by its text."""
    wanted = {item.text: _words(item.text) for item in items}
    closed: dict[str, int] = {}
    for place, message in enumerate(messages):
        for words in _done_words(message):
            for text, of_task in wanted.items():
                if of_task and len(of_task & words) >= max(1, _ENOUGH * len(of_task)):
                    closed[text] = place
    return closed


def _done_words(message: Message) -> Iterable[frozenset[str]]:
    """The words of each thing that a message says is done, in speech or in a plan."""
    for call in message.calls:
        if is_plan(call):
            yield from (_words(task.text) for task in tasks(call) if task.is_closed)
    if message.role in ("assistant", "user") and _DONE.search(message.text):
        for sentence in speech(message.text):
            if _DONE.search(sentence.bare) and not _NOT_DONE.search(sentence.bare):
                yield _words(sentence.text)


@lru_cache(maxsize=8_192)
def _words(text: str) -> frozenset[str]:
    return frozenset(
        _ENDING.sub("", word) if len(word) > 4 else word
        for word in _WORD.findall(text.lower().replace("’", "'"))
        if word not in _EMPTY
    )


# What was started and not waited for

_STARTED = re.compile(
    r"\b(?:running in (?:the )?background|launched|started|spawned|backgrounded)\b", re.I
)
_JOB = re.compile(
    r"\b(?:(?:task|agent|shell|job|process|bash|session)[ _-]?)?(?:id|pid)\b[\"']?"
    r"(?: is)?[ :=]{1,3}[\"'`]?([\w-]{3,64})|\[\d+\] (\d{3,9})\b",
    re.I,
)
_ENDED = re.compile(
    r"\b(?:completed?|finished|exited|killed|terminated|stopped|failed|done|exit code|cancel\w+)\b",
    re.I,
)
_KILL = re.compile(r"\b(?:kill|pkill|killall|killshell|killbash|taskstop|stop)\b", re.I)


def left_running(messages: Sequence[Message]) -> tuple[Item, ...]:
    """The jobs and agents that were started without waiting and not said to have ended."""
    calls: dict[str, ToolCall] = {}
    jobs: dict[str, Item] = {}
    for message in messages:
        for result in message.results:
            call = calls.get(result.call)
            if call is not None:
                _book(jobs, message.ref, call, result)
        # Hosts tell of a job's end in a message of their own.
        if jobs and message.role in ("user", "system") and _ENDED.search(message.text):
            _strike(jobs, "", message.text)
        calls.update((call.id, call) for call in message.calls)
    return tuple(reversed(jobs.values()))


def _book(jobs: dict[str, Item], ref: str, call: ToolCall, result: ToolResult) -> None:
    if jobs:
        _strike(jobs, f"{call.name} {_told(call)}", result.text[:4_000])
    if _starts(call, result):
        named = _JOB.search(result.text[:2_000])
        job = next(filter(None, named.groups()), "") if named else ""
        what = _one_line(deed(call).target) or call.name
        jobs[job or f"? {what}"] = Item(text=f"left running: {what}", refs=(ref,))


def _starts(call: ToolCall, result: ToolResult) -> bool:
    if result.is_error:
        return False
    if is_background(call):
        return not re.search(r"\bexit(?:ed)?(?: with)? (?:code|status)\b", result.text[-200:])
    return deed(call).act == "agent" and bool(_STARTED.search(result.text[:200]))


def _strike(jobs: dict[str, Item], told: str, answer: str) -> None:
    is_killing = bool(_KILL.search(told))
    for job, item in tuple(jobs.items()):
        name = job.removeprefix("? ")
        if name not in told and name not in answer:
            is_named = is_killing and any(w in told for w in _long_words(item.text))
            if not is_named:
                continue
        if is_killing or _ENDED.search(answer):
            del jobs[job]


def _told(call: ToolCall) -> str:
    return " ".join(str(value) for value in call.arguments.values())[:2_000]


def _long_words(text: str) -> list[str]:
    return re.findall(r"[\w.-]{4,}", text.removeprefix("left running: "))


def _one_line(text: str) -> str:
    line = " ".join(text.strip().split("\n", 1)[0].split())
    return line if len(line) <= 100 else line[:100].rsplit(" ", 1)[0] + " …"
