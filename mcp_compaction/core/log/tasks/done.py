"""Reads what a text says is done, and what a task asks to do, as stems that can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from mcp_compaction.core.text.language import (
    ENGLISH,
    count_votes,
    main_language,
    most_voted,
    words_of,
)
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import part_of, signs_of
from mcp_compaction.core.text.words import stem, stop_words
from mcp_compaction.lexicon.languages import read_lexicon

_WORD = pattern_of(r"[^\W_][\w-]*[^\W_]")
_SPOKEN = pattern_of(r"\w+|[✓✔✅]")
_CHECKED = frozenset("✓✔✅")
_COLUMNS = pattern_of(r"\s{4}")
_MISSABLE = 5  # one word in so many; a task shown too long costs less than one lost


class OpenTask(NamedTuple):
    """A task: its telling words, and the verbs among them that say what to do."""

    words: frozenset[str]
    verbs: frozenset[str]

    @property
    def missable(self) -> int:
        return len(self.words) // _MISSABLE


class DoneThing(NamedTuple):
    """Something said to be done: by which verbs (none: just done), and of what.

    Where a word tells nothing, an empty one stands in its place.
    """

    verbs: frozenset[str]
    of: tuple[str, ...]
    is_spoken: bool = True

    @property
    def words(self) -> frozenset[str]:
        return self.verbs.union(self.of) - {""}


class _Doing(NamedTuple):
    """What a language has to say that something was done."""

    language: str
    verbs: dict[str, str]  # of doing, by the forms that say it is done
    plain_verbs: frozenset[str]  # the same as a task names them
    other_forms: dict[str, str]  # in which a task may name them
    done_words: frozenset[str]  # that say no more than that
    empty_words: frozenset[str]  # that tell nothing about what was done
    empty_endings: tuple[str, ...]

    def find_marks(self, text: str) -> Iterator[re.Match[str]]:
        """Each word or sign of a text that may say that something is done."""
        return (match for match in _SPOKEN.finditer(text) if self._is_mark(match[0].lower()))

    def _is_mark(self, word: str) -> bool:
        return word in self.verbs or word in self.done_words or word in _CHECKED

    def stem_of(self, word: str) -> str:
        plain = self.verbs.get(word) or self.other_forms.get(word, word)
        return stem(plain, self.language)

    def words_in_order(self, text: str) -> tuple[str, ...]:
        """The stem of each word, and nothing in the place of one that tells nothing."""
        words = _WORD.findall(text.lower().replace("’", "'"))
        return tuple("" if self._is_empty(word) else self.stem_of(word) for word in words)

    def _is_empty(self, word: str) -> bool:
        return word in self.empty_words or word.endswith(self.empty_endings)


@cache
def _doing_in(language: str) -> _Doing:
    lexicon = read_lexicon(language)
    verbs = lexicon.tables.get("done_forms", {})
    return _Doing(
        language,
        verbs,
        frozenset(verbs.values()),
        lexicon.tables.get("verb_forms", {}),
        lexicon.words("done_words"),
        lexicon.words("tell_nothing") | stop_words(language),
        lexicon.lists.get("endings_of_manner", ()),
    )


@read_once
def done_in_text(text: str) -> tuple[DoneThing, ...]:
    """Each thing that a text says is done."""
    words = words_of(text)
    if not _has_marks(text, words) and not _may_be_foreign(text, words):
        return ()
    return tuple(
        thing
        for sentence in spoken_sentences(text)
        for language in sentence.languages or (ENGLISH,)
        for thing in _done_in_sentence(sentence, language)
    )


def _has_marks(text: str, words: frozenset[str]) -> bool:
    """Whether an English text has a word or sign that may say that something is done."""
    doing = _doing_in(ENGLISH)
    if not doing.verbs.keys().isdisjoint(words) or not doing.done_words.isdisjoint(words):
        return True
    return not text.isascii() and not _CHECKED.isdisjoint(text)


def _may_be_foreign(text: str, words: frozenset[str]) -> bool:
    return bool(set(most_voted(count_votes(text, words))) - {ENGLISH})


def _done_in_sentence(sentence: Sentence, language: str) -> Iterable[DoneThing]:
    text, bare = sentence.text, sentence.bare
    said = text if len(text) == len(bare) else bare  # else nothing tells where its code stood
    if language != ENGLISH:
        return _done_by_signs(said, bare, _doing_in(language))
    return _done_in_english(said, bare) if _has_marks(bare, sentence.words) else ()


def _done_by_signs(said: str, bare: str, doing: _Doing) -> Iterator[DoneThing]:
    """What the signs of a language say is done: `of` what, and by which `verb`."""
    if _COLUMNS.search(bare):  # a row of a table is no speech, and slow to look through
        return
    for _, match in signs_of(doing.language, "done").find(bare):
        named = match.groupdict()
        if named.get("of") is None:
            continue
        word = (named.get("verb") or "").lower()
        of = doing.words_in_order(said[match.start("of") : match.end("of")])
        if word in doing.verbs:
            yield DoneThing(frozenset((doing.stem_of(word),)), of)
        if word in doing.done_words or word not in doing.verbs:
            yield DoneThing(frozenset(), of)


def _done_in_english(said: str, bare: str) -> Iterable[DoneThing]:
    if part_of("not_done").search(bare):
        return ()
    marks = tuple(_doing_in(ENGLISH).find_marks(bare))
    found = [
        thing
        for mark, following in pairwise((*marks, None))
        if mark is not None
        for thing in _done_by_verb(said, bare, mark, following.start() if following else len(bare))
    ]
    by_verb = [thing for thing in found if thing.verbs]
    if len(by_verb) > 1:  # a task may ask for two things at once
        verbs = frozenset(verb for thing in by_verb for verb in thing.verbs)
        found.append(DoneThing(verbs, tuple(w for thing in by_verb for w in (*thing.of, ""))))
    return found


def _done_by_verb(said: str, bare: str, mark: re.Match[str], end: int) -> Iterable[DoneThing]:
    """What one word of doing says is done: by us, by nobody named, or just done."""
    doing, clause = _doing_in(ENGLISH), part_of("done_clause")
    word, before = mark[0].lower(), bare[: mark.start()]
    is_ours = _is_ours(word, before, bare)
    was = bool(part_of("was_done").search(before))
    passive = part_of("passive_clause").split(said[: mark.start()].rstrip(" :—–-,"))
    subject = doing.words_in_order(passive[-1])
    if word in doing.verbs and (is_ours or was):
        of = doing.words_in_order(clause.split(said[mark.end() : end], maxsplit=1)[0])
        if not is_ours:  # "I was told the customer left" tells of nothing done to it
            of = (*subject, "", *of) if any(subject) else ()
        yield DoneThing(frozenset((doing.stem_of(word),)), of)
    if word in doing.done_words or word in _CHECKED:
        rest = said[mark.end() :].lstrip(" :—–-")
        of = doing.words_in_order(clause.split(rest, maxsplit=1)[0])
        if was or not any(of):
            is_told = was or word in _CHECKED or part_of("done_by_nobody_named").search(before)
            of = subject if is_told else ()
        elif not is_ours and not part_of("we_are_done").search(before) and word not in _CHECKED:
            of = ()
        yield DoneThing(frozenset(), of)


def _is_ours(word: str, before: str, bare: str) -> bool:
    if part_of("done_by_us").search(before):
        return True
    if word in _doing_in(ENGLISH).plain_verbs:  # "put it there" is an order
        return False
    if part_of("done_by_nobody_named").search(before):
        return True
    return bool(part_of("done_goes_on").search(before) and part_of("we_begin").match(bare))


@lru_cache(maxsize=8_192)
def read_task(text: str) -> OpenTask:
    """What the text of a task asks to do."""
    doing = _doing_in(main_language(text))
    bare = text.replace("’", "'")
    if doing.language == ENGLISH:
        bare = part_of("task_labels").sub("", bare)
        verbs = frozenset(_verbs_to_do(bare, doing))
    else:
        known = doing.plain_verbs | doing.verbs.keys() | doing.other_forms.keys()
        verbs = frozenset(map(doing.stem_of, known.intersection(_WORD.findall(bare.lower()))))
    return OpenTask(frozenset(doing.words_in_order(bare)) - {""}, verbs)


def words_of_task(text: str) -> tuple[str, ...]:
    """The stem of each word of a task, and nothing in the place of one that tells nothing."""
    return _doing_in(main_language(text)).words_in_order(text)


def _verbs_to_do(bare: str, doing: _Doing) -> Iterator[str]:
    """The verbs of doing that stand where a task names one."""
    for match in part_of("before_a_verb_to_do").finditer(bare):
        verb, done = ((match[group] or "").lower() for group in ("verb", "done"))
        if verb in doing.plain_verbs or done in doing.verbs:
            yield doing.stem_of(verb or done)
