"""Finds which open tasks were said to be done since."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from mcp_compaction.core.log.tool_calls import (
    CLOSED,
    is_plan,
    is_task,
    task_change_of,
    tasks_of,
)
from mcp_compaction.core.text.language import ENGLISH
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.core.text.signs import part_of
from mcp_compaction.lexicon.languages import read_lexicon, words_in_all
from mcp_compaction.model import Item, Message


def unfinished_tasks(items: Sequence[Item], later: Sequence[Message]) -> tuple[Item, ...]:
    """The open tasks that no later message says are done."""
    closed, by_number = last_closed(items, later), _closed_numbers(later)
    return tuple(item for item in items if not by_number.get(_number_of(item), item.text in closed))


_NUMBERED = pattern_of(r"#(\S+) ")


def _number_of(item: Item) -> str:
    """The number a tool gave a task of a digest; users may begin a line with a number too."""
    named = _NUMBERED.match(item.text) if item.provenance == "extracted" else None
    return named[1] if named else ""


def _closed_numbers(messages: Sequence[Message]) -> dict[str, bool]:
    """Whether each task that is called by its number was last said to be closed."""
    changes = (task_change_of(call) for m in messages for call in m.calls if is_task(call))
    return {c.id: c.state in CLOSED for c in changes if c.id and c.state is not None}


_WORD = pattern_of(r"[^\W_][\w-]*[^\W_]")
_SPOKEN = pattern_of(r"\w+|[✓✔✅]")
_CHECKED = frozenset("✓✔✅")
_MISSABLE = 5  # one word in so many; a task shown too long costs less than one lost
_ENDING = pattern_of(r"(?:ing|ed|es|s|e|ten)$")
_TWICE = pattern_of(r"([bdgmnpt])\1$")


@cache
def _done_forms() -> dict[str, str]:
    """The verbs of doing, by the forms in which they say that something is done."""
    return read_lexicon(ENGLISH).tables["done_forms"]


@cache
def _deeds() -> frozenset[str]:
    return frozenset(_done_forms().values())


@cache
def _done_words() -> frozenset[str]:
    return read_lexicon(ENGLISH).words("done_words")


@cache
def _marks_of_done() -> frozenset[str]:
    return _done_words() | _done_forms().keys() | _CHECKED


@cache
def _empty_words() -> frozenset[str]:
    return read_lexicon(ENGLISH).words("tell_nothing")


def _find_marks(text: str) -> Iterator[re.Match[str]]:
    """Each word or sign of a text that may say that something is done."""
    marks = _marks_of_done()
    return (match for match in _SPOKEN.finditer(text) if match[0].lower() in marks)


class _OpenTask(NamedTuple):
    """A task: its telling words, and the verbs among them that say what to do."""

    words: frozenset[str]
    verbs: frozenset[str]

    @property
    def missable(self) -> int:
        return len(self.words) // _MISSABLE


class _DoneThing(NamedTuple):
    """Something said to be done: by which verbs (none: just done), and of what.

    Where a word tells nothing, an empty one stands in its place.
    """

    verbs: frozenset[str]
    of: tuple[str, ...]
    is_spoken: bool = True

    @property
    def words(self) -> frozenset[str]:
        return self.verbs.union(self.of) - {""}


def last_closed(items: Sequence[Item], messages: Sequence[Message]) -> dict[str, int]:
    """The place where each task was last said to be done, by its text."""
    wanted = {item.text: _read_task(item.text) for item in items}
    by_word = _tasks_by_rarest_words(wanted)
    closed: dict[str, int] = {}
    for place, message in enumerate(messages) if by_word else ():
        for told in _done_things(message):
            near = {text for word in told.words for text in by_word.get(word, ())}
            closed.update((text, place) for text in near if _closes(told, wanted[text]))
    return closed


def _tasks_by_rarest_words(wanted: dict[str, _OpenTask]) -> dict[str, list[str]]:
    """Tasks by so many of their rarest words that whatever closes them says one of these."""
    often = Counter(word for task in wanted.values() for word in task.words)
    found: dict[str, list[str]] = {}
    for text, task in wanted.items():
        rarest = sorted(task.words, key=lambda word: (often[word], word))
        for word in rarest[: task.missable + 1]:
            found.setdefault(word, []).append(text)
    return found


def _closes(told: _DoneThing, task: _OpenTask) -> bool:
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


def _done_things(message: Message) -> Iterable[_DoneThing]:
    """Each thing that a message says is done, in speech or in a plan."""
    for call in message.calls:
        for task in tasks_of(call) if is_plan(call) else ():
            if task.is_closed:
                of = _words_in_order(task.text)
                yield _DoneThing(frozenset(), of, is_spoken=False)
                if verbs := _read_task(task.text).verbs:
                    yield _DoneThing(verbs, of, is_spoken=False)
    if message.role in ("assistant", "user"):
        yield from _done_in_text(message.text)


@read_once
def _done_in_text(text: str) -> tuple[_DoneThing, ...]:
    if not any(_find_marks(text)):
        return ()
    return tuple(
        t
        for sentence in spoken_sentences(text)
        for t in _done_in_sentence(sentence.text, sentence.bare)
    )


def _done_in_sentence(text: str, bare: str) -> tuple[_DoneThing, ...]:
    if part_of("not_done").search(bare):
        return ()
    said = text if len(text) == len(bare) else bare  # else nothing tells where its code stood
    marks = tuple(_find_marks(bare))
    found = [
        told
        for mark, following in pairwise((*marks, None))
        if mark is not None
        for told in _done_by_verb(said, bare, mark, following.start() if following else len(bare))
    ]
    by_verb = [told for told in found if told.verbs]
    if len(by_verb) > 1:  # a task may ask for two things at once
        verbs = frozenset(verb for told in by_verb for verb in told.verbs)
        found.append(_DoneThing(verbs, tuple(word for told in by_verb for word in (*told.of, ""))))
    return tuple(found)


def _done_by_verb(said: str, bare: str, mark: re.Match[str], end: int) -> Iterable[_DoneThing]:
    """What one word of doing says is done: by us, by nobody named, or just done."""
    word, before = mark[0].lower(), bare[: mark.start()]
    is_ours = _is_ours(word, before, bare)
    clause = part_of("done_clause")
    was = bool(part_of("was_done").search(before))
    subject = _words_in_order(
        part_of("passive_clause").split(said[: mark.start()].rstrip(" :—–-,"))[-1]
    )
    if word in _done_forms() and (is_ours or was):
        of = _words_in_order(clause.split(said[mark.end() : end], maxsplit=1)[0])
        if not is_ours:  # "I was told the customer left" tells of nothing done to it
            of = (*subject, "", *of) if any(subject) else ()
        yield _DoneThing(frozenset((_stem_of(word),)), of)
    if word in _done_words() or word in _CHECKED:
        of = _words_in_order(clause.split(said[mark.end() :].lstrip(" :—–-"), maxsplit=1)[0])
        if was or not any(of):
            of = (
                subject
                if was or part_of("done_by_nobody_named").search(before) or word in _CHECKED
                else ()
            )
        elif not is_ours and not part_of("we_are_done").search(before) and word not in _CHECKED:
            of = ()
        yield _DoneThing(frozenset(), of)


def _is_ours(word: str, before: str, bare: str) -> bool:
    if part_of("done_by_us").search(before):
        return True
    if word in _deeds():  # "put it there" is an order
        return False
    return bool(
        part_of("done_by_nobody_named").search(before)
        or (part_of("done_goes_on").search(before) and part_of("we_begin").match(bare))
    )


@lru_cache(maxsize=8_192)
def _read_task(text: str) -> _OpenTask:
    bare = part_of("task_labels").sub("", text.replace("’", "'"))
    named = part_of("before_a_verb_to_do").finditer(bare)
    verbs = frozenset(verb for match in named for verb in _verbs_in(match))
    return _OpenTask(frozenset(_words_in_order(bare)) - {""}, verbs)


def _verbs_in(match: re.Match[str]) -> Iterator[str]:
    """The verb of doing that stands where a task names one, if it is one."""
    verb, done = (match[group] or "" for group in ("verb", "done"))
    if verb.lower() in _deeds() or done.lower() in _done_forms():
        yield _stem_of((verb or done).lower())


def _words_in_order(text: str) -> tuple[str, ...]:
    words = _WORD.findall(text.lower().replace("’", "'"))
    return tuple("" if _is_empty(word) else _stem_of(word) for word in words)


def _is_empty(word: str) -> bool:
    return word in _empty_words() or word.endswith(tuple(words_in_all("endings_of_manner")))


def _stem_of(word: str) -> str:
    word = _done_forms().get(word, word)
    if word.endswith("ion") and f"{word[:-3]}e" in _deeds():
        return word[:-3]
    stem = _ENDING.sub("", word) if len(word) > 4 else word
    return _TWICE.sub(r"\1", stem)
