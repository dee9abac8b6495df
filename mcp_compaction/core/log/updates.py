"""Tells on which statements of users a later one says something else: the older is marked.

Both are shown, with their refs: whether the later one takes the older back is for the reader to
tell. A statement is only marked where the later one seems to speak of the same thing and not to be
true beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.text.all_languages import part_in_all, pattern_of_kind
from mcp_compaction.core.text.language import ENGLISH, languages_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import captures_of, find_sign
from mcp_compaction.core.text.values import BRANCH, NamedValue, values_of, without_values
from mcp_compaction.core.text.words import fold, telling_words
from mcp_compaction.lexicon.languages import Kind, read_lexicon
from mcp_compaction.model import Digest, Message

_LABEL = pattern_of(r"^[A-Z][A-Z'/& -]{2,30}: ")  # it names the kind of what is said
_MOST_CHARS = 400
_SHORTEST_STEM, _LONGEST_ENDING = 3, 2  # "own" and "owner" are one word
_BLANK = "\0"
_COMMON = 50  # so many statements of one kind of value: none of them is meant
_FEWEST_SHARED = 2  # words, where a name may be forbidden and is replaced by another


class Statement(NamedTuple):
    """What a sentence of a user says, as far as it can be compared."""

    text: str
    holds: bool  # meant to hold on: a rule, or told under a label
    is_state: bool  # told as how things are now
    is_update: bool  # says that something has changed
    retires: bool  # says that the one before is void
    binds: bool  # demands or forbids something
    values: tuple[NamedValue, ...]
    settings: dict[str, str]  # of things that have one of a few known settings
    subject: frozenset[str]
    about: frozenset[str]  # what alone it is said for
    frame: str  # its words with the values blanked

    @property
    def traits(self) -> tuple[str, ...]:
        """What it has in common with each statement that it may overtake."""
        kinds = (value.kind for value in self.values)
        return tuple(dict.fromkeys((self.frame, *kinds, *self.settings)))


def is_told(text: str) -> bool:
    """Whether a text is told as a fact or a state, by a label before it."""
    first = next(iter(spoken_sentences(text)), None)
    return first is not None and _is_labeled(first)


def told_facts(text: str) -> tuple[str, ...]:
    """The sentences of a text that are called facts by a label before them, word for word."""
    return _told_under("told-fact", text)


def told_states(text: str) -> tuple[str, ...]:
    """The sentences of a text that are called a state by a label before them, word for word."""
    return _told_under("told-state", text)


def _told_under(label: Kind, text: str) -> tuple[str, ...]:
    """The sentences on each line of a text that begins with such a label."""
    sentences = spoken_sentences(text)
    if not any(_has_firm_label(label, one) for one in sentences):
        return ()
    found: list[str] = []
    numbered = zip(_line_numbers(text, sentences), sentences, strict=True)
    for _, on_line in groupby(numbered, key=itemgetter(0)):
        line = [one for _, one in on_line]
        if _has_firm_label(label, line[0]):
            found += (text[one.start : one.end] for one in line)
    return tuple(found)


def _line_numbers(text: str, sentences: Iterable[Sentence]) -> Iterator[int]:
    """The line on which each sentence begins; each line of the text is read once."""
    number = place = 0
    for one in sentences:
        number += text.count("\n", place, one.start)
        place = one.start
        yield number


def _has_firm_label(label: Kind, sentence: Sentence) -> bool:
    shown = find_sign(label, sentence)
    return shown is not None and shown.sign.strength == "firm"


def _is_labeled(sentence: Sentence) -> bool:
    return any(find_sign(kind, sentence) for kind in ("told-fact", "told-state"))


def overtaken_statements(
    messages: Iterable[Message], digests: Iterable[Digest] = ()
) -> dict[str, str]:
    """The statements of users, folded, on whose matter they said something else since, each with
    the ref of that; earlier digests tell the oldest.

    What is only an agent's word for it overtakes nothing.
    """
    earlier = [
        item.text
        for digest in digests
        for name, items in digest.sections
        if name in ("CONSTRAINTS", "STATE", "FACTS")
        for item in items
        if item.provenance == "verbatim" and not item.newer
    ]
    said = [m for m in conversation_of(messages) if m.is_request and m.via == "host"]
    overtaken = find_overtaken([message.text for message in said], earlier)
    return {older: said[place].ref for older, place in overtaken.items()}


def find_overtaken(texts: Sequence[str], earlier: Iterable[str] = ()) -> dict[str, int]:
    """The sentences, folded, that later ones of these texts overtook, each with the place of that
    text; one that is said again stands again. Earlier ones, in no order, overtake nothing."""
    standing = _Standing()
    for text in earlier:
        for one in statements_of(text):
            if one.holds:
                standing.add(one)
    overtaken: dict[str, int] = {}
    for place, text in enumerate(texts):
        for one in statements_of(text):
            older = _overtaken_by(one, standing.comparable_with(one))
            if older is not None:
                overtaken[fold(older.text)] = place
                standing.drop(older)
            if one.holds or older is not None:
                overtaken.pop(fold(one.text), None)
                standing.add(one)
    return overtaken


class _Standing:
    """The statements that stand, by what a later one may have in common with them."""

    def __init__(self) -> None:
        self._by_trait: dict[str, dict[str, Statement]] = {}

    def add(self, one: Statement) -> None:
        for trait in one.traits:
            self._by_trait.setdefault(trait, {})[fold(one.text)] = one

    def drop(self, one: Statement) -> None:
        for trait in one.traits:
            self._by_trait[trait].pop(fold(one.text), None)

    def comparable_with(self, one: Statement) -> list[Statement]:
        """Those that have a trait in common with it that not too many have."""
        alike = (self._by_trait.get(trait, {}) for trait in one.traits)
        found = {
            key: older for some in alike if len(some) <= _COMMON for key, older in some.items()
        }
        found.pop(fold(one.text), None)
        return list(found.values())


@lru_cache(maxsize=16_384)  # what users said in a very large window, which is asked for twice
def statements_of(text: str) -> tuple[Statement, ...]:
    """The sentences of a text that state something which holds, or say that it has changed."""
    rules = frozenset(find_rules(text))
    found: list[Statement] = []
    for sentence in spoken_sentences(text):
        said = text[sentence.start : sentence.end]
        if len(said) > _MOST_CHARS or said.endswith(("?", "？")):
            continue
        is_state = find_sign("told-state", sentence) is not None
        holds = said in rules or _is_labeled(sentence)
        retires = find_sign("retires", sentence) is not None
        is_update = retires or find_sign("new-value", sentence) is not None
        if holds or is_update:
            found.append(_read_statement(said, holds, is_state, is_update, retires))
    return tuple(found)


def _read_statement(
    text: str, holds: bool, is_state: bool, is_update: bool, retires: bool
) -> Statement:
    matter = _LABEL.sub("", text)
    languages = languages_of(matter) or (ENGLISH,)
    binds = pattern_of_kind("negation").search(matter)
    about = "\n".join(captures_of("about", matter, languages))
    settings = read_lexicon(languages[0]).tables.get("settings", {})
    words = pattern_of(r"[\w-]+").findall(matter.lower())
    frame = fold(text)
    values = values_of(matter)
    for value in values:
        frame = frame.replace(value.text.lower(), _BLANK)
    return Statement(
        text=text,
        holds=holds,
        is_state=is_state,
        is_update=is_update,
        retires=retires,
        binds=binds is not None,
        values=values,
        settings={settings[word]: word for word in words if word in settings},
        subject=frozenset(telling_words(without_values(matter))),
        about=frozenset(telling_words(without_values(about))),
        frame=frame,
    )


def _overtaken_by(newer: Statement, standing: Sequence[Statement]) -> Statement | None:
    """The one statement that a newer one overtakes; none where it may be any of several."""
    found = [older for older in standing if _overtakes(newer, older)]
    best = max((len(_shared(newer, older)) for older in found), default=0)
    nearest = [older for older in found if len(_shared(newer, older)) == best]
    return nearest[0] if len(nearest) == 1 else None


def _overtakes(newer: Statement, older: Statement) -> bool:
    if newer.about and newer.about.isdisjoint(older.subject):
        return False
    return (
        _says_the_same_of_another_value(newer, older)
        or _changes_a_setting(newer, older)
        or (newer.is_update and _names_a_new_value(newer, older))
    )


def _says_the_same_of_another_value(newer: Statement, older: Statement) -> bool:
    """Whether two statements differ in values alone, which stand where something is said to be
    so."""
    if newer.frame != older.frame or newer.values == older.values:
        return False
    differing = [
        place
        for place, (new, old) in enumerate(zip(newer.values, older.values, strict=False))
        if new != old
    ]
    if not differing:
        return False
    matter = _LABEL.sub("", newer.text)
    before = matter[: min(matter.find(newer.values[n].text) for n in differing)]
    return part_in_all("says_what_is").search(before) is not None


def _changes_a_setting(newer: Statement, older: Statement) -> bool:
    """Whether two statements choose different settings for one thing."""
    both = newer.settings.keys() & older.settings.keys()
    changed = {of for of in both if newer.settings[of] != older.settings[of]}
    if not changed or newer.is_update:
        return bool(changed)
    shared = _shared(newer, older)
    # With a word more it may be said for a part only: spaces in YAML files leave tabs elsewhere.
    chosen = set(telling_words(" ".join(newer.settings.values())))
    is_as_wide = shared >= newer.subject - chosen
    changes_all = len(changed) > 1 and changed == older.settings.keys()
    return bool(shared) and (is_as_wide or changes_all)


def _names_a_new_value(newer: Statement, older: Statement) -> bool:
    """Whether a value of the newer statement takes the place of one of the older."""
    kinds = {value.kind for value in newer.values} & {value.kind for value in older.values}
    same = set(newer.values) & set(older.values)
    kinds -= {value.kind for value in same}
    if not kinds:
        return False
    shared = _shared(newer, older)
    if any(value.is_limit for value in newer.values if value.kind in kinds):
        return bool(shared)
    # What is said of a name, such as that it must not be told, need not hold for the next one.
    if older.binds and not older.is_state:
        return newer.retires and len(shared) >= _FEWEST_SHARED
    return bool(shared) or any(kind.startswith(BRANCH) for kind in kinds)


def _shared(newer: Statement, older: Statement) -> frozenset[str]:
    """The words that both statements are about."""
    return frozenset(a for a in newer.subject if any(_is_one_word(a, b) for b in older.subject))


def _is_one_word(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (
        len(short) >= _SHORTEST_STEM
        and long.startswith(short)
        and len(long) - len(short) <= _LONGEST_ENDING
    )
