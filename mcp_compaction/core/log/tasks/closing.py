"""Finds which open tasks were said to be done since."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from mcp_compaction.core.log.tool_calls import (
    CLOSED,
    is_plan,
    is_task,
    task_change_of,
    tasks_of,
)
from mcp_compaction.core.text.patterns import pattern_of, word_set
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.sentences import spoken_sentences
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


_NOT_DONE = pattern_of(
    r"\b(?:not|never|no|cannot|still|yet to|to be|will|once|when|if|whether|until|before|unless"
    r"|need|needs|must|should|shall|going to|remain\w*|left to|let me|next|later|todo|almost|partly"
    r"|partially|about to|would|could|want)\b|n't\b|'ll\b|\?\W*$",
    re.I,
)
_WORD = pattern_of(r"[^\W_][\w-]*[^\W_]")
_ENDING = pattern_of(r"(?:ing|ed|es|s|e|ten)$")
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


def _past_forms(verb: str) -> tuple[str, ...]:
    if verb in _UNLIKE:
        return _UNLIKE[verb]
    if verb in _DOUBLED:
        return (f"{verb}{verb[-1]}ed",)
    if verb.endswith("y") and not verb.endswith("oy"):
        return (f"{verb[:-1]}ied",)
    return (verb + ("d" if verb.endswith("e") else "ed"),)


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(sorted(words))


_PAST = {past: deed for deed in sorted(_DEEDS) for past in _past_forms(deed)}
_GENERIC = frozenset(("done", "finished", "complete", "completed", "fixed", "closed", "resolved"))
_DONE = pattern_of(rf"\b(?:{_alternatives(_PAST.keys() | _GENERIC)})\b|[✓✔✅]", re.I)
_HOW = r"\s*(?:\b(?:now|just|also|already|then|finally|all|both|successfully)\s+)*$"
_BEGIN = r"^\W*(?:(?:ok(?:ay)?|so|great|good|right|well|and|also|now|update)\b\W*)*"
_BY_US = pattern_of(rf"\b(?:I|we)(?:'ve| have)?\s{_HOW}", re.I)
_UNSAID = pattern_of(rf"(?:{_BEGIN}|[:—–]|\s-\s){_HOW}", re.I)
_WE_ARE = pattern_of(rf"\b(?:I|we)(?:'m|'re| am| are)\s{_HOW}", re.I)
_GOES_ON = pattern_of(rf"(?:,|\band\b|\bthen\b){_HOW}", re.I)
_WE_BEGIN = pattern_of(rf"{_BEGIN}(?:(?:I|we)\b|(?:{_alternatives(_PAST)})\b)", re.I)
_WAS = pattern_of(rf"(?:\b(?:is|are|was|were|been|got)\s|\w's\s){_HOW}", re.I)
_CLAUSE = pattern_of(
    r"[,;:—–()]|\s-\s|\b(?:so|because|since|but|which|who|while|after|where|that)\b", re.I
)
_PASSIVE_CLAUSE = pattern_of(rf"{_CLAUSE.pattern}|\band\b", re.I)
_TWICE = pattern_of(r"([bdgmnpt])\1$")
_ASIDE = word_set(
    """
myself ourselves yourself yesterday too everywhere via using without through per during about
"""
)
_TO_DO = pattern_of(
    r"(?:\b(?:to|to-?do|please|must|should|will|can|and|then|also|just)\s|^\W*|[:,;—–]\s|\s-\s)\s*"
    rf"({_alternatives(_DEEDS)})\b|\b(?:be|been) ({_alternatives(_PAST)})\b",
    re.I,
)
_LABELS = pattern_of(
    r"^#\S+ | \[\w+\]$|^\W*(?:and )?(?:once|as soon as|when|after|before)\b[^,]*, ", re.I
)


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
    if not _DONE.search(text):
        return ()
    return tuple(
        t
        for sentence in spoken_sentences(text)
        for t in _done_in_sentence(sentence.text, sentence.bare)
    )


def _done_in_sentence(text: str, bare: str) -> tuple[_DoneThing, ...]:
    if _NOT_DONE.search(bare):
        return ()
    said = text if len(text) == len(bare) else bare  # else nothing tells where its code stood
    marks = tuple(_DONE.finditer(bare))
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
    was = bool(_WAS.search(before))
    subject = _words_in_order(_PASSIVE_CLAUSE.split(said[: mark.start()].rstrip(" :—–-,"))[-1])
    if word in _PAST and (is_ours or was):
        of = _words_in_order(_CLAUSE.split(said[mark.end() : end], maxsplit=1)[0])
        if not is_ours:  # "I was told the customer left" tells of nothing done to it
            of = (*subject, "", *of) if any(subject) else ()
        yield _DoneThing(frozenset((_stem_of(word),)), of)
    if word in _GENERIC or word not in _PAST:
        of = _words_in_order(_CLAUSE.split(said[mark.end() :].lstrip(" :—–-"), maxsplit=1)[0])
        if was or not any(of):
            of = subject if was or _UNSAID.search(before) or word not in _GENERIC else ()
        elif not is_ours and not _WE_ARE.search(before) and word in _GENERIC:
            of = ()
        yield _DoneThing(frozenset(), of)


def _is_ours(word: str, before: str, bare: str) -> bool:
    if _BY_US.search(before):
        return True
    if word in _DEEDS:  # "put it there" is an order
        return False
    return bool(_UNSAID.search(before) or (_GOES_ON.search(before) and _WE_BEGIN.match(bare)))


@lru_cache(maxsize=8_192)
def _read_task(text: str) -> _OpenTask:
    bare = _LABELS.sub("", text.replace("’", "'"))
    verbs = frozenset(_stem_of((m[1] or m[2]).lower()) for m in _TO_DO.finditer(bare))
    return _OpenTask(frozenset(_words_in_order(bare)) - {""}, verbs)


def _words_in_order(text: str) -> tuple[str, ...]:
    words = _WORD.findall(text.lower().replace("’", "'"))
    return tuple("" if _is_empty(word) else _stem_of(word) for word in words)


def _is_empty(word: str) -> bool:
    return word in _EMPTY or word in _ASIDE or word.endswith("ly")


def _stem_of(word: str) -> str:
    word = _PAST.get(word, word)
    if word.endswith("ion") and f"{word[:-3]}e" in _DEEDS:
        return word[:-3]
    stem = _ENDING.sub("", word) if len(word) > 4 else word
    return _TWICE.sub(r"\1", stem)
