"""Keeps the books of a session: what is planned, done, blocked, left running or to be done yet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from mcp_compaction.core.log.tool_calls import (
    CLOSED,
    Task,
    deed,
    is_background,
    is_plan,
    is_task,
    task_change,
    tasks,
)
from mcp_compaction.core.text.patterns import word_set
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, speech
from mcp_compaction.model import Item, Message, ToolCall, ToolResult, Value


class Entry(Value):
    """A task as it stands, and the message it was planned in."""

    ref: str
    task: Task
    is_single: bool = False  # its tool handles tasks one by one: no plan settles it


class Ledger(Value):
    """What stands: the newest plan written whole, and the tasks that are kept one by one."""

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
    plan = ""
    entries: dict[str, Entry] = {}
    answers: dict[tuple[str, str], str] | None = None
    for message in messages:
        for call in message.calls:
            if is_plan(call) and (written := tasks(call)):
                plan = message.ref
                entries = {key: entry for key, entry in entries.items() if entry.is_single}
                entries |= {f"plan {n}": Entry(ref=plan, task=t) for n, t in enumerate(written)}
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
    key = f"task {number}" if number else f"unnumbered {ref} {call.id}"
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
            for text in _tasks_in(message.text):
                item = Item(text=text, refs=(message.ref,), provenance="verbatim")
                found[text] = (place, item)
    if not found:
        return ()
    items = tuple(item for _, item in found.values())
    closed = _closed_at(items, messages)
    return tuple(i for place, i in found.values() if closed.get(i.text, -1) <= place)


@read_once
def _tasks_in(text: str) -> tuple[str, ...]:
    """The sentences of a text that leave something to be done and are no rules."""
    return tuple(s.text for s in speech(text) if leaves_open(s) and not find_rules(s.text))


def unfinished(items: Sequence[Item], later: Sequence[Message]) -> tuple[Item, ...]:
    """Those of some open tasks that no later message says are done."""
    closed, by_number = _closed_at(items, later), _closed_numbers(later)
    return tuple(item for item in items if not by_number.get(_number(item), item.text in closed))


_NUMBERED = re.compile(r"#(\S+) ")


def _number(item: Item) -> str:
    """What its tool calls a task of a digest; users may begin a line with a number too."""
    named = _NUMBERED.match(item.text) if item.provenance == "extracted" else None
    return named[1] if named else ""


def _closed_numbers(messages: Sequence[Message]) -> dict[str, bool]:
    """Whether each task that is called by its number was last said to be closed."""
    changes = (task_change(call) for m in messages for call in m.calls if is_task(call))
    return {c.id: c.state in CLOSED for c in changes if c.id and c.state is not None}


# Most sentences leave nothing open: a look at their words spares them the patterns.
_SPOKEN = re.compile(r"[a-z]+")
_LEFT_WORDS = word_set(
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

_NOT_DONE = re.compile(
    r"\b(?:not|never|no|cannot|still|yet to|to be|will|once|when|if|whether|until|before|unless"
    r"|need|needs|must|should|shall|going to|remain\w*|left to|let me|next|later|todo|almost|partly"
    r"|partially|about to|would|could|want)\b|n't\b|'ll\b|\?\W*$",
    re.I,
)
_WORD = re.compile(r"[^\W_][\w-]*[^\W_]")
_ENDING = re.compile(r"(?:ing|ed|es|s|e|ten)$")
_EMPTY = word_set(
    """
the a an to of in on at for and or be is are was were been it its this that these those you we i
they me us our my your with by as from into than then now not no so but if do does did done have
has had will shall would should can could may might must let all any some only also just still
already again after before back there here when once later remember remind forget don don't todo
end afterwards eventually need needs pending outstanding open left remaining please soon first
monday tuesday wednesday thursday friday saturday sunday tonight today hasn haven isn aren
next week tomorrow point some finished fixed complete completed yet make sure get that's it's
"""
)
_MISSABLE = 5  # one word in so many; a task shown too long costs less than one lost
_DEEDS = word_set(
    """
add announce archive ask backport book build bump buy call cancel change check clean close commit
complete configure confirm copy create delete deploy disable document drop email enable file finish
fix implement inform install mail measure merge message migrate move notify open order pay ping port
post prepare print publish push put rebase record refactor regenerate release remove rename renew
reopen replace report rerun reset restart restore revert review rotate run schedule send set share
ship squash start submit switch tag tell test tidy turn update upgrade upload verify wire write
"""
)
_DOUBLED = word_set("drop ship tag submit commit")
_UNLIKE = {
    "buy": ("bought",),
    "build": ("built",),
    "cancel": ("canceled", "cancelled"),
    "pay": ("paid",),
    "put": ("put",),
    "rerun": ("reran",),
    "reset": ("reset",),
    "run": ("ran", "run"),
    "send": ("sent",),
    "set": ("set",),
    "tell": ("told",),
    "write": ("wrote", "written"),
}


def _past(verb: str) -> tuple[str, ...]:
    if verb in _UNLIKE:
        return _UNLIKE[verb]
    if verb in _DOUBLED:
        return (f"{verb}{verb[-1]}ed",)
    if verb.endswith("y") and not verb.endswith("oy"):
        return (f"{verb[:-1]}ied",)
    return (verb + ("d" if verb.endswith("e") else "ed"),)


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(words))


_PAST = {past: deed for deed in sorted(_DEEDS) for past in _past(deed)}
_GENERIC = frozenset(("done", "finished", "complete", "completed", "fixed", "closed", "resolved"))
_DONE = re.compile(rf"\b(?:{_either(_PAST.keys() | _GENERIC)})\b|[✓✔✅]", re.I)
_HOW = r"\s*(?:\b(?:now|just|also|already|then|finally|all|both|successfully)\s+)*$"
_BEGIN = r"^\W*(?:(?:ok(?:ay)?|so|great|good|right|well|and|also|now|update)\b\W*)*"
_BY_US = re.compile(rf"\b(?:I|we)(?:'ve| have)?\s{_HOW}", re.I)
_UNSAID = re.compile(rf"(?:{_BEGIN}|[:—–]|\s-\s){_HOW}", re.I)
_WE_ARE = re.compile(rf"\b(?:I|we)(?:'m|'re| am| are)\s{_HOW}", re.I)
_GOES_ON = re.compile(rf"(?:,|\band\b|\bthen\b){_HOW}", re.I)
_WE_BEGIN = re.compile(rf"{_BEGIN}(?:(?:I|we)\b|(?:{_either(_PAST)})\b)", re.I)
_WAS = re.compile(rf"(?:\b(?:is|are|was|were|been|got)\s|\w's\s){_HOW}", re.I)
_CLAUSE = re.compile(
    r"[,;:—–()]|\s-\s|\b(?:so|because|since|but|which|who|while|after|where|that)\b", re.I
)
_PASSIVE_CLAUSE = re.compile(rf"{_CLAUSE.pattern}|\band\b", re.I)
_TWICE = re.compile(r"([bdgmnpt])\1$")
_ASIDE = word_set(
    """
myself ourselves yourself yesterday too everywhere via using without through per during about
"""
)
_TO_DO = re.compile(
    r"(?:\b(?:to|to-?do|please|must|should|will|can|and|then|also|just)\s|^\W*|[:,;—–]\s|\s-\s)\s*"
    rf"({_either(_DEEDS)})\b|\b(?:be|been) ({_either(_PAST)})\b",
    re.I,
)
_LABELS = re.compile(
    r"^#\S+ | \[\w+\]$|^\W*(?:and )?(?:once|as soon as|when|after|before)\b[^,]*, ", re.I
)


class _Wanted(NamedTuple):
    """A task: its telling words, and the verbs among them that say what to do."""

    words: frozenset[str]
    verbs: frozenset[str]

    @property
    def missable(self) -> int:
        return len(self.words) // _MISSABLE


class _Told(NamedTuple):
    """Something said to be done: by which verbs (none: just done), and of what.

    Where a word tells nothing, an empty one stands in its place.
    """

    verbs: frozenset[str]
    of: tuple[str, ...]
    is_spoken: bool = True

    @property
    def words(self) -> frozenset[str]:
        return self.verbs.union(self.of) - {""}


def _closed_at(items: Sequence[Item], messages: Sequence[Message]) -> dict[str, int]:
    """Where each task that is said to be done was last said to be, by its text."""
    wanted = {item.text: _wanted(item.text) for item in items}
    by_word = _by_rarest(wanted)
    closed: dict[str, int] = {}
    for place, message in enumerate(messages) if by_word else ():
        for told in _done(message):
            near = {text for word in told.words for text in by_word.get(word, ())}
            closed.update((text, place) for text in near if _closes(told, wanted[text]))
    return closed


def _by_rarest(wanted: dict[str, _Wanted]) -> dict[str, list[str]]:
    """Tasks by so many of their rarest words that whatever closes them says one of these."""
    often = Counter(word for task in wanted.values() for word in task.words)
    found: dict[str, list[str]] = {}
    for text, task in wanted.items():
        rarest = sorted(task.words, key=lambda word: (often[word], word))
        for word in rarest[: task.missable + 1]:
            found.setdefault(word, []).append(text)
    return found


def _closes(told: _Told, task: _Wanted) -> bool:
    said = told.words
    missing = len(task.words - said)
    if (told.verbs and told.verbs != task.verbs) or missing > task.missable:
        return False
    if told.is_spoken and len(task.words) < 2:
        return False
    if (missing or not told.verbs) and not said - told.verbs <= task.words:
        return False  # it may be another thing of that kind
    things = task.words - told.verbs  # "the deploy key logs" are not the deploy key
    return not any(
        word in things and following and following not in task.words
        for word, following in pairwise((*told.of, ""))
    )


def _done(message: Message) -> Iterable[_Told]:
    """Each thing that a message says is done, in speech or in a plan."""
    for call in message.calls:
        for task in tasks(call) if is_plan(call) else ():
            if task.is_closed:
                of = _in_order(task.text)
                yield _Told(frozenset(), of, is_spoken=False)
                if verbs := _wanted(task.text).verbs:
                    yield _Told(verbs, of, is_spoken=False)
    if message.role in ("assistant", "user"):
        yield from _done_in(message.text)


@read_once
def _done_in(text: str) -> tuple[_Told, ...]:
    if not _DONE.search(text):
        return ()
    return tuple(t for sentence in speech(text) for t in _told_done(sentence.text, sentence.bare))


def _told_done(text: str, bare: str) -> tuple[_Told, ...]:
    if _NOT_DONE.search(bare):
        return ()
    said = text if len(text) == len(bare) else bare  # else nothing tells where its code stood
    marks = tuple(_DONE.finditer(bare))
    found = [
        told
        for mark, following in pairwise((*marks, None))
        if mark is not None
        for told in _said_of(said, bare, mark, following.start() if following else len(bare))
    ]
    by_verb = [told for told in found if told.verbs]
    if len(by_verb) > 1:  # a task may ask for two things at once
        verbs = frozenset(verb for told in by_verb for verb in told.verbs)
        found.append(_Told(verbs, tuple(word for told in by_verb for word in (*told.of, ""))))
    return tuple(found)


def _said_of(said: str, bare: str, mark: re.Match[str], end: int) -> Iterable[_Told]:
    """What one word of doing says is done: by us, by nobody named, or just done."""
    word, before = mark[0].lower(), bare[: mark.start()]
    is_ours = _is_ours(word, before, bare)
    was = bool(_WAS.search(before))
    subject = _in_order(_PASSIVE_CLAUSE.split(said[: mark.start()].rstrip(" :—–-,"))[-1])
    if word in _PAST and (is_ours or was):
        of = _in_order(_CLAUSE.split(said[mark.end() : end], maxsplit=1)[0])
        if not is_ours:  # "I was told the customer left" tells of nothing done to it
            of = (*subject, "", *of) if any(subject) else ()
        yield _Told(frozenset((_stem(word),)), of)
    if word in _GENERIC or word not in _PAST:
        of = _in_order(_CLAUSE.split(said[mark.end() :].lstrip(" :—–-"), maxsplit=1)[0])
        if was or not any(of):
            of = subject if was or _UNSAID.search(before) or word not in _GENERIC else ()
        elif not is_ours and not _WE_ARE.search(before) and word in _GENERIC:
            of = ()
        yield _Told(frozenset(), of)


def _is_ours(word: str, before: str, bare: str) -> bool:
    if _BY_US.search(before):
        return True
    if word in _DEEDS:  # "put it there" is an order
        return False
    return bool(_UNSAID.search(before) or (_GOES_ON.search(before) and _WE_BEGIN.match(bare)))


@lru_cache(maxsize=8_192)
def _wanted(text: str) -> _Wanted:
    bare = _LABELS.sub("", text.replace("’", "'"))
    verbs = frozenset(_stem((m[1] or m[2]).lower()) for m in _TO_DO.finditer(bare))
    return _Wanted(frozenset(_in_order(bare)) - {""}, verbs)


def _in_order(text: str) -> tuple[str, ...]:
    words = _WORD.findall(text.lower().replace("’", "'"))
    return tuple("" if _is_empty(word) else _stem(word) for word in words)


def _is_empty(word: str) -> bool:
    return word in _EMPTY or word in _ASIDE or word.endswith("ly")


def _stem(word: str) -> str:
    word = _PAST.get(word, word)
    if word.endswith("ion") and f"{word[:-3]}e" in _DEEDS:
        return word[:-3]
    stem = _ENDING.sub("", word) if len(word) > 4 else word
    return _TWICE.sub(r"\1", stem)


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
