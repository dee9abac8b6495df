"""Compares decisions by what they choose and reject, and tells which a later one has superseded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from mcp_compaction.core.log.decisions.statement import BARE_REVERSAL, turns_back
from mcp_compaction.core.text.patterns import pattern_of, word_set
from mcp_compaction.core.text.words import fold
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


_REASON = pattern_of(
    r"\b(?:because|since|so that|the reason|as (?:it|we|this|the|that))\b|\. ", re.I
)


_REFUSED = pattern_of(
    r"\b(?:rather than|instead of|ruled? out|ruling out|reject(?:ed|ing)?|drop(?:ped|ping)?"
    r"|abandon(?:ed|ing)?|cancel(?:l?ed|l?ing)?|tak(?:e|ing) back"
    r"|turn(?:ed|ing) down|scrap(?:ped|ping)?|forget(?: about)?|undo|no longer"
    r"|not(?: (?:use|using|go with|going with))?|over|replac(?:e|ed|ing)"
    r"|(?:switch|mov|migrat)(?:e|ed|ing)? (?:over )?(?:away )?from|off(?! the table)"
    r"|against|never|overrul(?:e|ed))\b(.*?)"
    r"(?=\b(?:to|with|by|but|because|in favou?r of|for|now|after all|we|let's|use|and|as)\b"
    r"|[,;:.]|$)",
    re.I,
)


_REFUSED_BEFORE = pattern_of(
    r"^\W*(?:the )?(.{2,60}?) (?:is|are|was|were) (?:now )?(?:out\b|ruled out|rejected|dropped"
    r"|overruled|off the table|scrapped|abandoned|turned down|superseded|replaced)",
    re.I,
)


_CHOOSES = pattern_of(
    r"\b(?:us(?:e|es|ing)|go(?:ing)? (?:with|for|back)|went with|chose|choose|chosen"
    r"|pick(?:ed|ing)?|settled? (?:on|for)|opt(?:ed|ing)? (?:for|to)|switch(?:ed|ing)?"
    r"|mov(?:e|ed|ing) (?:to|off)|adopt(?:ed)?|keep(?:ing)?|stay(?:s|ing)?|stick(?:ing)?"
    r"|landed on|it is|wins|decid\w+ (?:on|for|to)|decision|verdict|final|standardi[sz]\w+"
    r"|make it|revert\w*|replac\w+|prefer|migrat\w+|agreed|approach)\b",
    re.I,
)


_ABOUT = pattern_of(
    r"\b(?:for|about|regarding|concerning) (?:the |our |my |this |that )?([^,;:.()]{2,60}?)"
    r"(?= (?:because|since|as|so|to|instead|rather|over|after|now|we|I|is|are|was|let's|use)\b"
    r"|[,;:.()]|$)",
    re.I,
)


_CHOSEN = pattern_of(
    r"\b(?:us(?:e|es|ing)|(?:go|going|went|stick|sticking|stay|stays|staying) (?:with|for)|chose"
    r"|choose|pick(?:ed|ing)?|settled? (?:on|for)|opt(?:ed|ing)? for|adopt(?:ed)?|landed on|prefer"
    r"|standardi[sz]\w+ on|decided (?:on|for)|(?:back|switch\w*|mov\w+|migrat\w+|revert\w*)"
    r"(?: over)?(?: from .{1,60}?)? to|make it)\b(.*?)"
    r"(?=\b(?:for|in|on|at|as|behind|with|rather|instead|over|because|to|and|now)\b|[,;:()]|$)",
    re.I,
)


_MEASURE = pattern_of(r"^\d[\d.]*(?=-?[a-z]+$)")  # the 30 of "30-day"


# "keep the API in Go" chooses Go.
_PUT = pattern_of(r".*\b(?:in|on|at|with|via|behind|to|as|by)\b(.+)$", re.I)


_WORD = pattern_of(r"[^\W_][\w+#.-]*[\w+#]|[^\W\d_]")


_ENDING = pattern_of(r"(?:ing|ed|es|s|e)$")


_EMPTY = word_set(
    """
the a an to of in on at for and or be is are was were been it its this that these those you we i
they he she me us our my your with by as from into over under than then now not no never so but if
do does did done have has had will shall would should can could may might must let lets all any
some each every one two both only also just still already again after before back there here when
what which who how why because since rather instead out off up down about more most less very
decide decided decision decisions verdict agreed agree settle settled opt opted choose chose chosen
choice pick picked go going went gone with wins win call final finally rule ruled reject rejected
turn turned drop dropped favor favour keep keeping kept stay stays staying land landed move moved
moving plan plans record resolve resolved conclude concluded approach use used uses using prefer
scrap scrapped change changed second thought thoughts revert reverted longer take taken undo
overruled replace replaced replacing switch switched switching forget ok okay actually please
sorry stick sticking new old make made get well really sure thing things way lets abandon adopt
adopted migrate migrated migrating reason instead other whole cancel canceled cancelled
"""
)


@lru_cache(maxsize=8_192)
def read_decision(text: str) -> Decision:
    """The words of what a decision takes, turns down and is made for."""
    said = text.replace("’", "'").replace("`", "")
    is_reversal = turns_back(said) or bool(BARE_REVERSAL.match(said))
    alone = said.split(". ", 1) if ". " in said else [said]
    # "Scrap that. Use SQLite." speaks of SQLite only in its second sentence.
    if len(alone) > 1 and BARE_REVERSAL.match(alone[0] + "."):
        said = alone[1]
    matter = _REASON.split(said, maxsplit=1)[0]
    named = [match[1] for match in _REFUSED.finditer(matter)]
    before = _REFUSED_BEFORE.match(matter)
    refused = frozenset(
        w for part in (*named, before[1] if before else "") for w in subject_words(part)
    )
    about = (
        frozenset(w for match in _ABOUT.finditer(matter) for w in subject_words(match[1])) - refused
    )
    taken = subject_words(matter) - refused
    return Decision(
        taken,
        refused,
        is_reversal,
        is_choice=bool(_CHOOSES.search(matter)),
        about=about,
        chosen=_chosen_words(matter) & taken - about or taken - about,
        frame=tuple(_MEASURE.sub("", word) for word in _WORD.findall(matter.lower())[:-1]),
    )


def _chosen_words(matter: str) -> frozenset[str]:
    named = frozenset(
        word for match in _CHOSEN.finditer(matter) for word in subject_words(match[1])
    )
    put = None if named else _PUT.match(_ABOUT.sub("", matter))
    return subject_words(put[1]) if put else named


def subject_words(text: str) -> frozenset[str]:
    """The words a text is about, without their endings and without those that only decide."""
    return frozenset(
        _ENDING.sub("", word) if len(word) > 4 else word
        for word in (match.rstrip(".-") for match in _WORD.findall(text.lower()))
        if len(word) > 1 and word not in _EMPTY
    )


_COMMON = 50  # a word that so many decisions say tells none of them apart


def _decisions_superseded_at(
    place: int, choices: Sequence[Decision], said: Sequence[str], places: dict[str, set[int]]
) -> list[int]:
    newer = choices[place]
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
        return False
    return not (newer.about <= older.about or older.about <= newer.about)


def _supersedes(newer: Decision, older: Decision) -> bool:
    """Whether two decisions cannot both stand; a missed one costs far less than a false one."""
    if newer.refused and newer.refused <= older.taken - older.about:
        return not newer.refused.isdisjoint(older.chosen)
    if newer.turns_back and older.refused and older.refused <= newer.taken - newer.about:
        return True
    if newer.turns_back and len(newer.words & older.words) >= 2:
        return True
    if newer.refused or not (newer.is_choice and older.is_choice):
        return False
    is_same = bool(newer.about) and newer.about == older.about
    return (
        (is_same or newer.frame == older.frame)
        and len(newer.taken & older.taken) >= 2
        and not older.taken >= newer.taken
    )
