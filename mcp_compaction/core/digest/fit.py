"""Fits digests to a size, joins and merges them: nothing is reworded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count as counting
from operator import attrgetter
from typing import NamedTuple

from mcp_compaction.core.digest.render import (
    MUST_STAY,
    is_passing,
    is_planned,
    label_of,
    must_stay,
    render_digest,
    render_item,
)
from mcp_compaction.core.log.ledger import is_changed_file
from mcp_compaction.core.text.injection import END
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import SECTION_NAMES, Digest, Draft, IndexItem, Item, SectionName

DigestSections = tuple[tuple[SectionName, tuple[Item, ...]], ...]

# What is missed most first.
_BY_NEED: tuple[SectionName, ...] = (
    *(*MUST_STAY, "GOAL", "REJECTED", "STATE", "NEXT", "ASKED", "DONE", "ERRORS", "DECISIONS"),
    *("FACTS", "NAMES", "UNCERTAIN", "LEARNED", "PROGRESS", "ARTIFACTS"),
)
_FIRST: tuple[SectionName, ...] = (*MUST_STAY, "FACTS")  # of what must stay
# Lines of a section before the others get a turn, where these are more than one.
_AT_ONCE: dict[SectionName, int] = {"REJECTED": 2, "DONE": 3, "ERRORS": 2}


class _Told(NamedTuple):
    """An item of a section, in the order in which items are missed."""

    gives_way: bool
    turn: int
    need: int  # of its section
    place: int  # in its section
    name: SectionName
    item: Item


def as_sections(found: dict[SectionName, list[Item]]) -> DigestSections:
    """Items by section, in the order sections are shown, without empty ones."""
    return tuple((name, tuple(found[name])) for name in SECTION_NAMES if found.get(name))


def fit(
    sections: DigestSections,
    limit: int,
    count: CountTokens,
    stays: Callable[[SectionName, Item], bool] = must_stay,
) -> DigestSections:
    """As many items as a limit holds: what stays, then what stays wherever it can, then a few of
    each section in turn, so that none crowds out the others."""
    kept: list[_Told] = []
    begun: set[SectionName] = set()
    used = 0
    for one in sorted(
        _told_in(sections), key=lambda told: (not stays(told.name, told.item), *told)
    ):
        heading = 0 if one.name in begun else _cost_of_heading(one.name, count)
        cost = _cost_of(one.item, count) + heading
        if stays(one.name, one.item) or used + cost <= limit:
            kept.append(one)
            begun.add(one.name)
            used += cost
    kept.sort(key=attrgetter("place"))
    return as_sections({n: [one.item for one in kept if one.name == n] for n in SECTION_NAMES})


def _told_in(sections: DigestSections) -> Iterator[_Told]:
    for name, items in sections:
        others = counting()
        for place, item in enumerate(items):
            is_wanted = must_stay(name, item)
            turn = int(name not in _FIRST) if is_wanted else next(others) // _AT_ONCE.get(name, 1)
            need = len(_BY_NEED) if is_passing(name, item) else _BY_NEED.index(name)
            yield _Told(not is_wanted, turn, need, place, name, item)


def fit_or_first(sections: DigestSections, limit: int, count: CountTokens) -> DigestSections:
    """As many items as a limit holds, and the one that is missed most where it holds none; what
    was only in hand is worth no more room than there is."""
    return fit(sections, limit, count) or _first_item(sections)


def _first_item(sections: DigestSections) -> DigestSections:
    first = [one for one in sorted(_told_in(sections)) if not is_passing(one.name, one.item)][:1]
    return as_sections({one.name: [one.item] for one in first})


def join(first: DigestSections, second: DigestSections) -> DigestSections:
    """Two drafts' items by section, each thing said once: where it must stay, if anywhere."""
    found: dict[SectionName, list[Item]] = {}
    seen: set[str] = set()
    told: list[tuple[SectionName, Item]] = [
        (name, item) for name, items in (*first, *second) for item in items
    ]
    for name, item in sorted(told, key=lambda one: not must_stay(*one)):
        if key_of(item) not in seen:
            seen.add(key_of(item))
            found.setdefault(name, []).append(item)
    return as_sections(found)


def key_of(item: Item) -> str:
    """What two items have in common that tell the same: their words, or the thing and what it is
    told for."""
    value = item.value
    if value is None or value.kind in ("request", "task"):
        return fold(item.text)
    return f"{value.kind} {value.status if value.kind == 'label' else ''} {item.text}"


def lay_prose_onto(digest: Digest, draft: Draft, room: int, count: CountTokens) -> Digest:
    """The digest with as much prose laid onto it as the room holds; none of its own items goes."""
    said = {key_of(item) for _, items in digest.sections for item in items}
    new: dict[SectionName, list[Item]] = {}
    for name, items in draft.sections:
        new[name] = [item for item in items if key_of(item) not in said]
    fitting = dict(fit(as_sections(new), room, count, nothing_stays))
    if not fitting:
        return digest
    own = dict(digest.sections)
    sections = as_sections(
        {
            # What the record shows stands before what somebody says of it.
            name: [*own.get(name, ()), *fitting.get(name, ())]
            for name in SECTION_NAMES
        }
    )
    dressed = digest.model_copy(update={"sections": sections, "author": draft.author})
    return measure_digest(dressed, count)


def nothing_stays(_: SectionName, __: Item) -> bool:
    """Whether an item stays where everything may give way: never."""
    return False


def merge(digests: Sequence[Digest], number: int, limit: int, count: CountTokens) -> Digest:
    """One digest for several: sections joined, nothing reworded, the newest kept first."""
    sections: DigestSections = ()
    for digest in reversed(digests):
        sections = join(sections, digest.sections)
    oldest, newest = digests[0], digests[-1]
    merged = Digest(
        number=number,
        first=oldest.first,
        last=newest.last,
        messages=sum(d.messages for d in digests),
        sections=(),
        index=merge_index(d.index for d in digests),
        author=newest.author,
        checked=all(d.checked for d in digests),
        began=oldest.began,
        ended=newest.ended,
        merged=tuple(n for d in digests for n in (*d.merged, d.number)),
    )
    room = limit - cost_of_frame(merged, count)
    return measure_digest(
        merged.model_copy(update={"sections": fit_or_first(sections, room, count)}), count
    )


def drop_settled_plans(tasks: Iterable[Item], plan: str) -> tuple[Item, ...]:
    """Open tasks without those of plans that a newer one has settled.

    Tasks taken from a plan carry its ref; what was quoted stays, and what has a number of its own
    is closed by that.
    """
    return tuple(task for task in tasks if not plan or plan in task.refs or not is_planned(task))


def keep_open_tasks(digest: Digest, left: tuple[Item, ...]) -> Digest | None:
    """The digest with only these of its open tasks; None where these are all."""
    if left == digest.items("OPEN"):
        return None
    sections = tuple((n, left if n == "OPEN" else items) for n, items in digest.sections)
    kept = tuple((name, items) for name, items in sections if items)
    return digest.model_copy(update={"sections": kept, "merged": (*digest.merged, digest.number)})


def merge_index(parts: Iterable[Sequence[IndexItem]]) -> tuple[IndexItem, ...]:
    """One index for several, oldest first: each thing once, what is newest decides, and leads."""
    merged: dict[tuple[str, str], IndexItem] = {}
    in_time = list(parts)
    for items in in_time:
        for item in items:
            old = merged.get((item.kind, item.text))
            merged[item.kind, item.text] = _merge_items(old, item) if old is not None else item
    newest_first = dict.fromkeys((i.kind, i.text) for items in reversed(in_time) for i in items)
    return tuple(merged[key] for key in newest_first)


def _merge_items(old: IndexItem, new: IndexItem) -> IndexItem:
    """A thing met again: a file that was only named since, or read where it still stood, stands
    as it was changed; a command ended as it did last."""
    is_gone = old.note.partition(" ")[0] in ("deleted", "moved")
    stands = is_changed_file(old) and new.note == "read" and not is_gone
    if old.note and new.kind == "file" and (stands or not new.note):
        note, refs = old.note, (*old.refs[:1], *new.refs[-1:], *old.refs[-1:])
    else:
        note, refs = new.note, (*old.refs[:1], *new.refs[-2:])
    return new.model_copy(update={"note": note, "refs": tuple(dict.fromkeys(refs))})


def measure_digest(digest: Digest, count: CountTokens) -> Digest:
    """The digest with its own tokens counted."""
    return digest.model_copy(update={"tokens": count(render_digest(digest))})


def cost_of_frame(digest: Digest, count: CountTokens) -> int:
    """The tokens of what stands around the sections of a digest."""
    return count(f"{label_of(digest)}\n{END}")


def cost_of_sections(sections: DigestSections, count: CountTokens) -> int:
    """The tokens that sections take with their headings."""
    return sum(
        _cost_of_heading(name, count) + sum(_cost_of(item, count) for item in items)
        for name, items in sections
    )


def cost_of_staying(sections: DigestSections, count: CountTokens) -> int:
    """The tokens that are left of sections at no room at all."""
    return cost_of_sections(fit(sections, 0, count), count)


def _cost_of(item: Item, count: CountTokens) -> int:
    return count("\n" + render_item(item))


def _cost_of_heading(name: SectionName, count: CountTokens) -> int:
    return count("\n" + name)
