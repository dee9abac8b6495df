"""Compares decisions by what they choose and reject, and tells which a later one has superseded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import NamedTuple

from mcp_compaction.core.text.language import ENGLISH, languages_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.signs import captures_of, places_of, shows_sign
from mcp_compaction.core.text.words import fold, space_pairs, stem, stop_words
from mcp_compaction.lexicon.languages import Kind, read_lexicon
from mcp_compaction.model import Item


def mark_superseded(items: Sequence[Item]) -> tuple[Item, ...]:
    """Decisions from the oldest to the newest, those that a later one supersedes marked."""
    # Marks that were set before are kept but not looked at: settled twice is settled once.
    overtaken = superseded_by([item.text for item in items])
    return tuple(
        item.model_copy(update={"superseded": True}) if place in overtaken else item
        for place, item in enumerate(items)
    )


def superseded_by(texts: Sequence[str]) -> dict[int, int]:
    """The place of each superseded decision, with the place of the one that supersedes it."""
    choices = [read_decision(text) for text in texts]
    said = [fold(text) for text in texts]
    standing: dict[int, None] = {}
    places: dict[str, set[int]] = {}  # where decisions that stand say a word
    found: dict[int, int] = {}
    for place, newer in enumerate(choices):
        if newer.turns_back and not newer.words:  # "scrap that" means the one before
            overtaken = list(islice(reversed(standing), 1))
        else:
            overtaken = _decisions_superseded_at(place, choices, said, places)
        for older in overtaken:
            found[older] = place
            del standing[older]
            for word in choices[older].words:
                places[word].discard(older)
        standing[place] = None
        for word in newer.words:
            places.setdefault(word, set()).add(place)
    return found


def newest_first(items: Iterable[Item]) -> tuple[Item, ...]:
    """Settled decisions as they are shown: those that stand first, and each said once."""
    once: dict[str, Item] = {}
    for item in items:
        once.pop(fold(item.text), None)
        once[fold(item.text)] = item
    latest = tuple(once.values())[::-1]
    return (*(i for i in latest if not i.superseded), *(i for i in latest if i.superseded))


class Decision(NamedTuple):
    """The words of what was taken and of what was turned down, without the reasons."""

    taken: frozenset[str]
    refused: frozenset[str]
    turns_back: bool
    is_choice: bool
    about: frozenset[str]  # what it was decided for, where that is said
    chosen: frozenset[str]  # of what was taken, what was chosen
    frame: tuple[str, ...]  # all its words but the last and what is measured

    @property
    def words(self) -> frozenset[str]:
        """All words of what was taken or turned down."""
        return self.taken | self.refused


_MEASURE = pattern_of(r"^\d[\d.]*(?=-?[a-z]+$)")  # the 30 of "30-day"
_WORD = pattern_of(r"[^\W_][\w+#.-]*[\w+#]|[^\W\d_]")


@lru_cache(maxsize=8_192)
def read_decision(text: str) -> Decision:
    """The words of what a decision takes, turns down and is made for."""
    said = text.replace("’", "'").replace("`", "")
    languages = languages_of(said)
    is_reversal = any(shows_sign(kind, said, languages) for kind in ("reversal", "bare-reversal"))
    first, _, second = said.partition(". ")
    # "Scrap that. Use SQLite." speaks of SQLite only in its second sentence.
    if second and shows_sign("bare-reversal", f"{first}.", languages):
        first = second.partition(". ")[0]
    matter = _without_reason(first, languages)

    refused = _words_at("refused", matter, languages)
    about = _words_at("about", matter, languages) - refused
    taken = subject_words(matter, languages) - refused
    chosen = _words_at("chosen", matter, languages) or _words_at(
        "put", _without("about", matter, languages), languages
    )
    return Decision(
        taken,
        refused,
        is_reversal,
        is_choice=shows_sign("chooses", matter, languages),
        about=about,
        chosen=chosen & taken - about or taken - about,
        frame=tuple(_MEASURE.sub("", word) for word in _WORD.findall(matter.lower())[:-1]),
    )


def _words_at(kind: Kind, text: str, languages: tuple[str, ...]) -> frozenset[str]:
    return subject_words("\n".join(captures_of(kind, text, languages)), languages)


def _without_reason(text: str, languages: tuple[str, ...]) -> str:
    return text[: min((start for start, _ in places_of("reason", text, languages)), default=None)]


def _without(kind: Kind, text: str, languages: tuple[str, ...]) -> str:
    for start, end in sorted(places_of(kind, text, languages), reverse=True):
        text = text[:start] + text[end:]
    return text


def subject_words(text: str, languages: tuple[str, ...] | None = None) -> frozenset[str]:
    """The words a text is about, as stems and without those that only decide."""
    known = (languages_of(text) if languages is None else languages) or (ENGLISH,)
    empty = _empty_words(known)
    words = (match.rstrip(".-") for match in _WORD.findall(space_pairs(text.lower())))
    return frozenset(stem(word, known[0]) for word in words if len(word) > 1 and word not in empty)


@cache
def _empty_words(languages: tuple[str, ...]) -> frozenset[str]:
    lists = ((stop_words(code), read_lexicon(code).words("deciding")) for code in languages)
    return frozenset(word for pair in lists for words in pair for word in words)


_COMMON = 50  # a word that so many decisions say tells none of them apart


def _decisions_superseded_at(
    place: int, choices: Sequence[Decision], said: Sequence[str], places: dict[str, set[int]]
) -> list[int]:
    newer = choices[place]
    if not (newer.refused or newer.turns_back or newer.is_choice):
        return []
    said_at = [places.get(word, set[int]()) for word in newer.words]
    telling = [older for older in said_at if len(older) <= _COMMON]
    related = [
        older
        for older in sorted(set[int]().union(*telling))
        if not _is_elsewhere(newer, choices[older]) and said[older] != said[place]
    ]
    found = [older for older in related if _supersedes(newer, choices[older])]
    if found or not newer.turns_back or len(related) != 1 or len(telling) != len(said_at):
        return found
    # Who turns back on something means one decision: the only one it shares a word with.
    return related if _may_mean(newer, choices[related[0]]) else []


def _may_mean(newer: Decision, older: Decision) -> bool:
    named = newer.words if older.about else newer.words - newer.about
    return newer.refused <= older.words and not named.isdisjoint(older.words)


def _is_elsewhere(newer: Decision, older: Decision) -> bool:
    """Whether two decisions are made for different things, so that both stand."""
    if not newer.about or not older.about:
        return bool(newer.about) and newer.about.isdisjoint(older.words)
    return not (newer.about <= older.about or older.about <= newer.about)


def _supersedes(newer: Decision, older: Decision) -> bool:
    """Whether two decisions cannot both stand; a missed one costs far less than a false one."""
    if newer.refused and newer.refused <= older.taken - older.about:
        return not newer.refused.isdisjoint(older.chosen)
    if newer.turns_back and older.refused and older.refused <= newer.taken - newer.about:
        return True
    if newer.turns_back and len(newer.words & older.words) >= 2:
        return older.about <= newer.words
    if newer.refused or not (newer.is_choice and older.is_choice):
        return False
    is_same = bool(newer.about) and newer.about == older.about
    return (
        (is_same or newer.frame == older.frame)
        and len(newer.taken & older.taken) >= 2
        and not older.taken >= newer.taken
    )
