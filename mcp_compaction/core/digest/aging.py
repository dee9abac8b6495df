"""Brings the digests of earlier spans up to date: what later messages overtook is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mcp_compaction.core.digest.contents import ChangedFiles
from mcp_compaction.core.digest.text import (
    BEFORE,
    IN_FORCE,
    OUR_PREFIX,
    DigestSections,
)
from mcp_compaction.core.log.families import covers, family_of, given_of
from mcp_compaction.core.log.ledger import CHANGED, CallEntry, FileState, Ledger
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.model import Digest, IndexItem, Item, SectionName

# What holds at the end of a span only; what a user told holds until something is done, and what
# tests said until they run again.
_PASSING: tuple[SectionName, ...] = ("STATE", "NEXT", "ASKED")
_TESTS = pattern_of(r"tests: .*, at (?P<command>.+?)(?P<since>; changed since: .*)?$")
_MOST_CHANGED = 2
_FAILING = pattern_of(r"(?:still failing|failed|timed out)(?: \d+ times)?: (?P<what>.+)$")
_MOST_LATER = 400  # calls that a line is held against
_FILE_LINE = pattern_of(r"(\S.{0,300}?) (?:created|written|edited|deleted|moved|reverted)\b")


def file_of(item: Item) -> str:
    """The file whose state a line tells; blank where it tells of something else."""
    found = _FILE_LINE.match(item.text)
    return found[1] if found else ""


def without_overtaken(digest: Digest, ledger: Ledger, is_followed: bool) -> Digest:
    """The digest without what later calls made untrue; where newer messages are digested after it,
    also without what only held at its end."""
    if not digest.messages:  # the agent's own words, which stand for no messages
        return digest
    since = {
        path: state
        for path, state in ledger.files.items()
        if int(state.ref[1:]) > digest.last and state.word != "read"
    }
    later = [entry for entry in ledger.entries if int(entry.ref[1:]) > digest.last]
    sections: DigestSections = tuple(
        (name, _aged(name, items, since, digest.last, is_followed, later))
        for name, items in _with_facts_of_now(digest, ledger)
    )
    return digest.model_copy(
        update={
            "sections": tuple((name, items) for name, items in sections if items),
            "index": tuple(_with_state(item, since) for item in digest.index),
        }
    )


def _aged(
    name: SectionName,
    items: Iterable[Item],
    since: dict[str, FileState],
    last: int,
    is_followed: bool,
    later: Sequence[CallEntry],
) -> tuple[Item, ...]:
    if is_followed and name in _PASSING:
        told = () if later else tuple(item for item in items if item.must_stay)
        return (*told, *_last_tests(items, since, later)) if name == "STATE" else told
    if is_followed and name == "GOAL":
        return tuple(map(_as_before, items))
    if name == "DONE":
        return tuple(item for item in items if not _is_overtaken(item, since, last, is_followed))
    if name == "LEARNED":
        return tuple(_with_pass(item, later) for item in items)
    return tuple(items)


def _last_tests(
    items: Iterable[Item], since: dict[str, FileState], later: Sequence[CallEntry]
) -> Iterator[Item]:
    """The lines about tests that are still the last to be known, as no such command ran since."""
    runs = (e for e in later if e.action.kind == "run" and e.ending != "refused")
    families = {family_of(entry.action.target) for entry in runs}
    changed = [path.rpartition("/")[2] for path, s in since.items() if s.word in CHANGED]
    for item in items:
        found = _TESTS.match(item.text)
        if found is None or family_of(found["command"]) in families:
            continue
        is_told = found["since"] is not None or not changed
        more = "" if is_told else f"; changed since: {', '.join(changed[-_MOST_CHANGED:])}"
        yield item.model_copy(update={"text": f"{item.text}{more}"})


def _with_pass(item: Item, later: Sequence[CallEntry]) -> Item:
    """A line about a failure, with the later run that covers it and was done."""
    found = _FAILING.match(item.text)
    if found is None or item.by:
        return item
    command, _, cause = found["what"].partition(": ")
    if "…" in command:  # what was cut off may have been something else
        return item
    for entry in later[-_MOST_LATER:]:
        target = entry.action.target
        is_alike = entry.action.kind == "run" and family_of(target) == family_of(command)
        if is_alike and entry.ending == "done" and covers(given_of(target), given_of(command)):
            why = f" ({cause})" if cause else ""
            text = f"{command}: failed {item.refs[0]}{why}, passed {entry.ref}"
            return item.model_copy(update={"text": text, "refs": (*item.refs, entry.ref)})
    return item


def _is_overtaken(item: Item, since: dict[str, FileState], last: int, is_followed: bool) -> bool:
    """Whether a line about a file no longer holds: something else was done to it since, or a newer
    digest tells it, or what it tells of a step after the span was refused or taken out."""
    path = file_of(item)
    if not path or item.by:  # somebody's own words are no line of ours, however alike
        return False
    state = since.get(path)
    if state is None:
        return any(int(ref[1:]) > last for ref in item.refs)
    return is_followed or state.ref not in item.refs


def _with_facts_of_now(digest: Digest, ledger: Ledger) -> DigestSections:
    """The sections without facts of what a file contained that was changed since."""
    changed = ChangedFiles(ledger.files)

    def is_past(item: Item) -> bool:
        return item.provenance == "extracted" and changed.is_past(item.text, digest.last)

    return tuple(
        (name, tuple(i for i in items if not is_past(i)) if name == "FACTS" else items)
        for name, items in digest.sections
    )


def _as_before(item: Item) -> Item:
    """A request that was in force when its span ended, told as one before."""
    text = item.text.removeprefix(IN_FORCE)
    if OUR_PREFIX.match(text):
        return item
    return item.model_copy(update={"text": f"{BEFORE}{text}", "provenance": "extracted"})


def _with_state(item: IndexItem, since: dict[str, FileState]) -> IndexItem:
    if item.kind != "file" or item.text not in since:
        return item
    state = since[item.text]
    refs = item.refs if state.word == "unknown" else (*item.refs[:1], state.ref)
    return item.model_copy(update={"note": state.text, "refs": tuple(dict.fromkeys(refs))})
