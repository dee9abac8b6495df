"""Reads the tasks of a session: those of plans, and those that users leave in words; a plan or the
user closes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.log.content import is_of_others
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.recent import read_recent_once
from mcp_compaction.core.log.tool_calls import (
    CLOSED,
    Task,
    answers_of,
    is_plan,
    is_task,
    task_change_of,
    tasks_of,
)
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.language import ENGLISH, main_language
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import lower_words, stem, stop_words
from mcp_compaction.lexicon.languages import read_lexicon
from mcp_compaction.model import Item, Message, Role, ToolCall, Value


class TaskEntry(Value):
    """A task as it stands, and the message it was planned in."""

    ref: str
    task: Task
    is_single: bool = False  # its tool handles tasks one by one: no plan settles it


class TaskList(Value):
    """The tasks that stand: of the newest plan written whole, and those kept one by one."""

    plan: str = ""  # the ref of the newest plan written whole
    entries: tuple[TaskEntry, ...] = ()


def read_tasks(messages: Iterable[Message]) -> TaskList:
    """The tasks that stand at the end of some messages, by the calls that write plans and tasks."""
    return _read_calls(m for m in messages if m.calls or m.results)


@read_recent_once
def _read_calls(messages: Sequence[Message]) -> TaskList:
    plan = ""
    entries: dict[str, TaskEntry] = {}
    calls = [(m.ref, call) for m in messages for call in m.calls if is_plan(call) or is_task(call)]
    answers = answers_of(messages) if calls else {}
    for ref, call in calls:
        answer = answers.get((ref, call.id))
        if is_task(call):
            said = answer[1].text if answer else ""
            _apply_change(entries, ref, call, said[:LONGEST_SENTENCE])
        elif written := tasks_of(call):
            plan = ref
            entries = {key: entry for key, entry in entries.items() if entry.is_single}
            entries |= {f"plan {n}": TaskEntry(ref=plan, task=t) for n, t in enumerate(written)}
    return TaskList(plan=plan, entries=tuple(entries.values()))


_NUMBER = pattern_of(r"#(\d{1,6})\b|\"?\b(?:task_?)?id\"?[ :=]{1,3}\"?([\w-]{1,40})", re.I)


def _apply_change(entries: dict[str, TaskEntry], ref: str, call: ToolCall, answer: str) -> None:
    change = task_change_of(call)
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
        entries[key] = TaskEntry(ref=known, task=task, is_single=True)


# Tasks in words


def leaves_open(sentence: Sentence) -> bool:
    """Whether a sentence leaves something to be done."""
    is_question = sentence.bare.endswith(("?", "？"))
    return not is_question and find_sign("task", sentence) is not None


def spoken_tasks(messages: Sequence[Message], by: Role = "user") -> tuple[Item, ...]:
    """The sentences in which users, or the agent, leave something to do, unless it was closed
    since."""
    found: dict[str, Item] = {}
    said = conversation_of(messages)
    for message in () if by == "user" and is_of_others(said) else said:
        closed = set(_closed_in(message, by)) if found else ()
        found = {text: item for text, item in found.items() if _matter_of(text) not in closed}
        for text in _tasks_in(message.text) if message.role == by else ():
            how = "verbatim" if by == "user" else "extracted"
            found[text] = Item(text=text, refs=(message.ref,), provenance=how)
    return tuple(found.values())


@read_once
def _tasks_in(text: str) -> tuple[str, ...]:
    """The sentences of a text that leave something to be done and are no rules."""
    return tuple(
        s.text for s in spoken_sentences(text) if leaves_open(s) and not find_rules(s.text)
    )


def unfinished_tasks(items: Sequence[Item], later: Sequence[Message]) -> tuple[Item, ...]:
    """The open tasks that no later plan and no later word of a user, or of the agent whose they
    are, closes: by the number that a tool gave them, or by the same words."""
    changes = (task_change_of(call) for m in later for call in m.calls if is_task(call))
    numbers = {c.id: c.state in CLOSED for c in changes if c.id and c.state is not None}
    said = conversation_of(later) if items else ()
    closed = {by: {words for m in said for words in _closed_in(m, by)} for by in _SPEAKERS}
    return tuple(
        item
        for item in items
        if not numbers.get(_number_of(item), _matter_of(item.text) in closed[_author_of(item)])
    )


_SPEAKERS: tuple[Role, ...] = ("user", "assistant")


def _author_of(item: Item) -> Role:
    """Who left a task: the agent, where its words are quoted and no tool keeps it."""
    return "assistant" if item.provenance == "extracted" and item.value is None else "user"


def _number_of(item: Item) -> str:
    """The number that a tool gave a task."""
    return item.value.key if item.value is not None and item.value.kind == "task" else ""


def _closed_in(message: Message, by: Role) -> Iterator[frozenset[str]]:
    """The words of each thing that a message closes: an entry of a plan, what a user says is
    done, or the agent of its own tasks."""
    for call in message.calls:
        for task in tasks_of(call) if is_plan(call) else ():
            if task.is_closed:
                yield _matter_of(task.text)
    if message.role in ("user", by):
        yield from _done_in(message.text)


@read_once
def _done_in(text: str) -> tuple[frozenset[str], ...]:
    """The words of each sentence of a text that says something is done."""
    return tuple(_matter_of(s.text) for s in spoken_sentences(text) if _says_done(s))


def _says_done(sentence: Sentence) -> bool:
    doing = _doing_in(next(iter(sentence.languages), ENGLISH))
    says = not (doing.done | doing.forms.keys() - doing.verbs).isdisjoint(sentence.words)
    return says and not (
        sentence.bare.endswith(("?", "？"))
        or pattern_of_kind("negation").search(sentence.bare)
        or leaves_open(sentence)
    )


class _Doing(NamedTuple):
    """The words by which a language says that something is done."""

    done: frozenset[str]
    forms: dict[str, str]  # of verbs, which say that it was done, each with the verb
    verbs: frozenset[str]
    empty: frozenset[str]  # words that tell nothing of what was done


@cache
def _doing_in(language: str) -> _Doing:
    lexicon = read_lexicon(language)
    done, forms = lexicon.words("done_words"), lexicon.tables.get("done_forms", {})
    empty = lexicon.words("tell_nothing") | stop_words(language) | done
    return _Doing(done, forms, frozenset(forms.values()), empty)


@read_once
def _matter_of(text: str) -> frozenset[str]:
    """The stems of the words that say what is to be done, or was."""
    language = main_language(text)
    doing = _doing_in(language)
    words = (word for word in lower_words(text) if len(word) > 1 and word not in doing.empty)
    return frozenset(stem(doing.forms.get(word, word), language) for word in words)
