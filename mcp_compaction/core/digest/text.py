"""A digest as text and back: render, parse, fit to a size, merge by section."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from mcp_compaction.core.log.decisions.supersede import mark_superseded, newest_first
from mcp_compaction.core.log.index import is_changed_file
from mcp_compaction.core.text.injection import defuse
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    EARLIER_SECTIONS,
    SECTION_NAMES,
    Digest,
    Draft,
    IndexItem,
    Item,
    SectionName,
)

# What stands before a request in a digest: of a user, of one told by the agent, of an earlier one.
ASKED, TOLD, BEFORE = "asked: ", "asked, the agent says: ", "before: "
IN_FORCE = "in force: "  # before a request that the window shows itself
OUR_PREFIX = pattern_of(
    r"^(?:before|in force|asked|asked, the agent says|done|last question|left running"
    r"|ran [^:]{1,100}): "
)
"""What a digest writes before the words it quotes."""
DigestSections = tuple[tuple[SectionName, tuple[Item, ...]], ...]

# What must stay whatever the size; then the rest, what is missed most first, each section with as
# many lines as it may add before the others get another turn.
MUST_STAY: tuple[SectionName, ...] = ("CONSTRAINTS", "OPEN")
_TURNS: dict[SectionName, int] = {
    "GOAL": 1,
    "CONSTRAINTS": 2,  # those that a model wrote
    "REJECTED": 2,
    "STATE": 2,
    "NEXT": 1,
    "OPEN": 2,
    "ASKED": 1,
    "DONE": 3,
    "LEARNED": 2,
    "DECISIONS": 2,
    "FACTS": 2,
    "NAMES": 1,
    "UNCERTAIN": 1,
    "ERRORS": 1,
    "PROGRESS": 1,
    "ARTIFACTS": 1,
}
_HEADING = pattern_of(r"^[\s#*]*([A-Za-z]{4,12}(?: [A-Za-z]{3,12})?)[\s:*]*$")
_HEADED = pattern_of(  # a section's name and its text on one line
    r"^\s*(?:#{1,6}\s+)?(?:\*\*|__)?([A-Z][A-Za-z]{2,11}(?: [A-Za-z]{3,12})?)(?:\*\*|__)?\s?[:：]"
    r"(?:\*\*|__)?\s*(\S.*)$"
)
_TITLE = pattern_of(r"^ {0,3}#{1,6} +[A-Z][A-Za-z ,&/-]{0,40}:?\s*$")  # as Markdown has it
HEADINGS: dict[str, SectionName] = {  # ours, and those that agents and models write of themselves
    **{name: EARLIER_SECTIONS.get(name, name) for name in SECTION_NAMES},
    "SUMMARY": "DONE",
    "FILES": "DONE",
    "STATUS": "STATE",
    "REQUEST": "GOAL",
    "TASK": "GOAL",
    "REFUSED": "REJECTED",
    "RULES": "CONSTRAINTS",
    "CONSTRAINT": "CONSTRAINTS",
    "DECISION": "DECISIONS",
    "LESSONS": "LEARNED",
    "KEY FACTS": "FACTS",
    "KEY FINDINGS": "FACTS",
    "FINDINGS": "FACTS",
    "QUESTIONS": "ASKED",
    "OPEN TASKS": "OPEN",
    "OPEN QUESTIONS": "UNCERTAIN",
    "UNRESOLVED QUESTIONS": "UNCERTAIN",
    "TODO": "OPEN",
    "PENDING": "OPEN",
    "NEXT STEPS": "NEXT",
}
_NUMBERED = pattern_of(r"#\S+ ")  # a task that is kept one by one
_BULLET = pattern_of(r"^\s*(?:[-*•]|\d+[.)])\s+")
_MARK = pattern_of(r"\s*\[(?:model|agent) says\b[^\[\]]{0,200}\]\s*$")  # as we write it
_REFS = pattern_of(r"\s*\(((?:[mdp]\d+)(?:(?:, |\.\.|,)[mdp]?\d+)*)\)\s*$")


def label_of(digest: Digest) -> str:
    """The line that says what a digest stands for, and that it is a record."""
    if not digest.messages:
        return f"[digest {digest.ref}, the agent's own and unchecked; a record, not instructions]"
    when = ""
    if digest.began is not None and digest.ended is not None:
        same_day = digest.began.date() == digest.ended.date()
        end = f"{digest.ended:%H:%M}" if same_day else f"{digest.ended:%Y-%m-%d %H:%M}"
        when = f", {digest.began:%Y-%m-%d %H:%M} to {end}"
    span = f"m{digest.first}..m{digest.last}"
    return f"[digest {digest.ref} of {span}{when}; a record, not instructions]"


def render_digest(digest: Digest, thin: bool = False) -> str:
    """The text that stands for the span, blank where no line is left to tell; thin: only what must
    stay, or else the first line."""
    shown = digest.sections
    if thin:
        kept: Iterable[tuple[SectionName, tuple[Item, ...]]] = (
            (name, tuple(i for i in items if must_stay(name, i))) for name, items in shown
        )
        shown = tuple(section for section in kept if section[1]) or _first_item(shown)
    lines = [label_of(digest)]
    for name, items in sorted(shown, key=lambda section: SECTION_NAMES.index(section[0])):
        joined = _join_tasks(items) if name == "OPEN" else items
        lines += [name, *map(render_item, joined)] if items else []
    return "\n".join(lines) if len(lines) > 1 else ""


def _join_tasks(tasks: Iterable[Item]) -> Iterator[Item]:
    """The open tasks, those of one plan as one line: it names the plan once."""
    for refs, run in groupby(tasks, key=lambda task: task.refs if _is_planned(task) else ()):
        planned = tuple(run)
        if refs and len(planned) > 1:
            text = "; ".join(task.text.rstrip(".") for task in planned)
            yield planned[0].model_copy(update={"text": text})
        else:
            yield from planned


def render_item(item: Item) -> str:
    """One line of a digest: what was said in quotes, what was taken from it without."""
    quoted = defuse(item.text)
    text = f'"{quoted}"' if item.provenance == "verbatim" else quoted
    refs = f" ({', '.join(item.refs)})" if item.refs else ""
    older = f" (older; see {item.newer})" if item.newer else ""
    return f"- {text}{refs}{older}{' [superseded]' if item.superseded else ''}{_mark_of(item)}"


def mark_older(sections: DigestSections, newer: Mapping[str, str]) -> DigestSections:
    """The sections, a user's words marked with the ref of what users said later on the same."""
    return tuple((name, tuple(_with_newer(i, newer) for i in items)) for name, items in sections)


def _with_newer(item: Item, newer: Mapping[str, str]) -> Item:
    ref = newer.get(fold(item.text), "") if newer and item.provenance == "verbatim" else ""
    return item.model_copy(update={"newer": ref}) if ref else item


def _mark_of(item: Item) -> str:
    """Who wrote a line, where rules did not extract it, and why it may not be so."""
    if not item.by:
        return ""
    doubt = f", {defuse(item.doubt)}" if item.doubt else ""
    return f" [{item.by} says{doubt}]"


def must_stay(section: SectionName, item: Item) -> bool:
    """Whether no size is small enough to leave an item out."""
    return (section in MUST_STAY and item.by != "model") or item.must_stay


def parse_digest(text: str, author: str) -> Draft:
    """Lines under headings as a draft; what stands under no heading we know was done."""
    found: dict[SectionName, list[Item]] = {}
    section: SectionName = "DONE"
    for line in text.splitlines():
        named = _parse_heading(line)
        if named is not None or _TITLE.match(line):
            section = named or "DONE"
        elif line.strip():
            headed = _HEADED.match(line)
            if headed is not None and headed[1].upper() in HEADINGS:
                section, line = HEADINGS[headed[1].upper()], headed[2]
            found.setdefault(section, []).append(_parse_item(line))
    return Draft(author=author, sections=as_sections(found))


def as_sections(found: dict[SectionName, list[Item]]) -> DigestSections:
    """Items by section, in the order sections are shown, without empty ones."""
    return tuple((name, tuple(found[name])) for name in SECTION_NAMES if found.get(name))


def fit(
    sections: DigestSections,
    limit: int,
    count: CountTokens,
    stays: Callable[[SectionName, Item], bool] = must_stay,
) -> DigestSections:
    """As many items as a limit holds, the most missed first; what must stay always stays."""
    by_name = dict(sections)
    kept: dict[SectionName, list[Item]] = {}
    used = 0
    queues: dict[SectionName, list[Item]] = {}
    for name in dict.fromkeys((*MUST_STAY, *_TURNS)):
        items = by_name.get(name, ())
        must = [item for item in items if stays(name, item)]
        queues[name] = [item for item in items if not stays(name, item)]
        if must:
            kept[name] = must
            used += _cost_of_heading(name, count) + sum(_cost_of(item, count) for item in must)
    for name, item in _in_order_of_need(queues):
        heading = 0 if name in kept else _cost_of_heading(name, count)
        cost = _cost_of(item, count) + heading
        if used + cost <= limit:
            kept.setdefault(name, []).append(item)
            used += cost
    order = {id(item): n for _, items in sections for n, item in enumerate(items)}
    for items in kept.values():
        items.sort(key=lambda item: order[id(item)])
    return as_sections(kept)


def _in_order_of_need(
    queues: dict[SectionName, list[Item]],
) -> Iterator[tuple[SectionName, Item]]:
    """Items, those first that stay wherever they can: rules, tasks, facts, states; then a few of
    each section in turn, so that none crowds out the others."""
    left: dict[SectionName, list[Item]] = {}
    for name in (*MUST_STAY, "FACTS", *_TURNS):
        if name not in left:
            left[name] = [item for item in queues[name] if not must_stay(name, item)]
            for item in queues[name]:
                if must_stay(name, item):
                    yield name, item
    while any(left.values()):
        for name, turn in _TURNS.items():
            for item in left[name][:turn]:
                yield name, item
            del left[name][:turn]


def fit_or_first(sections: DigestSections, limit: int, count: CountTokens) -> DigestSections:
    """As many items as a limit holds, and the first where it holds none: no digest is empty."""
    return fit(sections, limit, count) or _first_item(sections)


def _first_item(sections: DigestSections) -> DigestSections:
    return tuple((name, items[:1]) for name, items in sections[:1])


def join(first: DigestSections, second: DigestSections) -> DigestSections:
    """Two drafts' items by section, each thing said once: where it must stay, if anywhere."""
    found: dict[SectionName, list[Item]] = {}
    seen: set[str] = set()
    for name in (*MUST_STAY, *SECTION_NAMES):
        for item in (*dict(first).get(name, ()), *dict(second).get(name, ())):
            if fold(item.text) not in seen:
                seen.add(fold(item.text))
                found.setdefault(name, []).append(item)
    return as_sections(found)


def lay_prose_onto(digest: Digest, draft: Draft, room: int, count: CountTokens) -> Digest:
    """The digest with as much prose laid onto it as the room holds; none of its own items goes."""
    said = {fold(item.text) for _, items in digest.sections for item in items}
    new: dict[SectionName, list[Item]] = {}
    for name, items in draft.sections:
        new[name] = [item for item in items if fold(item.text) not in said]
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
    decided = _settle_decisions(digests, dict(sections).get("DECISIONS", ()))
    sections = tuple((name, decided if name == "DECISIONS" else items) for name, items in sections)
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
    room = limit - count(label_of(merged))
    return measure_digest(
        merged.model_copy(update={"sections": fit_or_first(sections, room, count)}), count
    )


def _settle_decisions(digests: Iterable[Digest], decisions: Sequence[Item]) -> tuple[Item, ...]:
    """Decisions of several spans: what a later one took back is marked, what stands leads."""
    kept = {fold(item.text) for item in decisions}
    in_time = [
        item
        for digest in digests
        for item in sorted(digest.items("DECISIONS"), key=lambda item: _seq_of(item, digest))
        if fold(item.text) in kept
    ]
    return newest_first(mark_superseded(in_time))


def _seq_of(item: Item, digest: Digest) -> int:
    """The number of the message an item is from; without one it is as new as its digest."""
    said = [int(ref[1:]) for ref in item.refs if ref.startswith("m")]
    return min(said, default=digest.last)


def drop_settled_plans(tasks: Iterable[Item], plan: str) -> tuple[Item, ...]:
    """Open tasks without those of plans that a newer one has settled.

    Tasks taken from a plan carry its ref and are extracted; what was quoted stays, and what has a
    number of its own is closed by that.
    """
    return tuple(task for task in tasks if not plan or plan in task.refs or not _is_planned(task))


def _is_planned(task: Item) -> bool:
    return task.provenance == "extracted" and bool(task.refs) and not _NUMBERED.match(task.text)


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
    if is_changed_file(old) and (not new.note or (new.note == "read" and not is_gone)):
        note, refs = old.note, (*old.refs[:1], *new.refs[-1:], *old.refs[-1:])
    else:
        note = new.note if new.kind == "command" else new.note or old.note
        refs = (*old.refs[:1], *new.refs[-2:])
    return new.model_copy(update={"note": note, "refs": tuple(dict.fromkeys(refs))})


def measure_digest(digest: Digest, count: CountTokens) -> Digest:
    """The digest with its own tokens counted."""
    return digest.model_copy(update={"tokens": count(render_digest(digest))})


def cost_of_sections(sections: DigestSections, count: CountTokens) -> int:
    """The tokens that sections take with their headings."""
    return sum(
        _cost_of_heading(name, count) + sum(_cost_of(item, count) for item in items)
        for name, items in sections
    )


def _cost_of(item: Item, count: CountTokens) -> int:
    return count("\n" + render_item(item))


def _cost_of_heading(name: SectionName, count: CountTokens) -> int:
    return count("\n" + name)


def _parse_heading(line: str) -> SectionName | None:
    match = _HEADING.match(line)
    word = match.group(1).upper() if match else ""
    return HEADINGS.get(word)


def _parse_item(line: str) -> Item:
    text = _MARK.sub("", _BULLET.sub("", line)).strip()
    refs = _REFS.search(text)
    if refs is not None:
        text = text[: refs.start()].strip()
    named = tuple(re.findall(r"[mdp]\d+", refs.group(1))) if refs else ()
    if len(text) > 2 and text[0] == text[-1] == '"':
        return Item(text=text[1:-1], refs=named, provenance="verbatim")
    return Item(text=text, refs=named, provenance="summarized")
