"""Brings the digests of earlier spans up to date by what later calls did."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_compaction.core.digest.facts import key_of_search
from mcp_compaction.core.digest.state import MOST_CHANGED
from mcp_compaction.core.log.commands import program_of
from mcp_compaction.core.log.ledger import CHANGED, FileState, Ledger
from mcp_compaction.model import AccountValue, Digest, IndexItem, Item, SectionName

# What holds at the end of a span only; what a user told holds until something is done, and what
# tests said until they run again.
_PASSING: tuple[SectionName, ...] = ("STATE", "NEXT", "ASKED")


class Since:
    """What calls did after a digest."""

    def __init__(self, digest: Digest, ledger: Ledger) -> None:
        """Read the calls after a digest."""
        later = [entry for entry in ledger.entries if int(entry.ref[1:]) > digest.last]
        runs = [e for e in later if e.action.kind == "run" and e.ending != "refused"]
        self.has_calls = bool(later)
        done = [entry for entry in later if entry.ending == "done"]
        self.done = {entry.form for entry in done} | {key_of_search(entry) for entry in done}
        self.run = {program_of(entry.action.target) for entry in runs}
        self.files: Mapping[str, FileState] = {
            path: state
            for path, state in ledger.files.items()
            if int(state.ref[1:]) > digest.last and state.word != "read"
        }


def bring_up_to_date(digest: Digest, ledger: Ledger, is_followed: bool) -> Digest:
    """The digest without what later calls made untrue; where newer messages are digested after it,
    also without what only held at its end."""
    if not digest.messages:  # the agent's own words, which stand for no messages
        return digest
    since = Since(digest, ledger)
    sections = (
        (
            name,
            tuple(
                _retold(item, since, is_followed)
                for item in items
                if _still_holds(name, item, digest, since, is_followed)
            ),
        )
        for name, items in digest.sections
    )
    return digest.model_copy(
        update={
            "sections": tuple((name, items) for name, items in sections if items),
            "index": tuple(_with_state(item, since.files) for item in digest.index),
        }
    )


def _still_holds(
    name: SectionName, item: Item, digest: Digest, since: Since, is_followed: bool
) -> bool:
    value = item.value
    if value is not None and value.kind == "tests":
        return not is_followed or value.key not in since.run
    if is_followed and name in _PASSING:
        return item.must_stay and not since.has_calls
    if value is not None and value.kind == "failure":
        return value.key not in since.done
    is_file = value is not None and value.kind == "file"
    return not is_file or not _is_overtaken(item, digest, since, is_followed)


def _retold(item: Item, since: Since, is_followed: bool) -> Item:
    """An item as it stands now."""
    value = item.value if is_followed else None
    if value is not None and value.kind == "tests":
        return _with_changes(item, value, since)
    return _as_before(item, value) if value is not None and value.kind == "request" else item


def _with_changes(item: Item, value: AccountValue, since: Since) -> Item:
    changed = [state for state in since.files.values() if state.word in CHANGED][-MOST_CHANGED:]
    if value.since or not changed:
        return item
    names = tuple(state.path.rpartition("/")[2] for state in changed)
    refs = dict.fromkeys((*item.refs, *(state.ref for state in changed)))
    told = value.model_copy(update={"since": names})
    return item.model_copy(update={"value": told, "refs": tuple(refs)})


def _is_overtaken(item: Item, digest: Digest, since: Since, is_followed: bool) -> bool:
    """Whether a state of a file no longer holds: something else was done to it since, or a newer
    digest tells it, or what it tells of a step after the span was refused or taken out."""
    state = since.files.get(item.text)
    if state is None:
        return any(int(ref[1:]) > digest.last for ref in item.refs)
    return is_followed or state.ref not in item.refs


def _as_before(item: Item, value: AccountValue) -> Item:
    """A request that was in force when its span ended, told as one before."""
    if value.status != "newest":
        return item
    before = value.model_copy(update={"status": "before"})
    return item.model_copy(update={"value": before, "provenance": "extracted"})


def _with_state(item: IndexItem, since: Mapping[str, FileState]) -> IndexItem:
    if item.kind != "file" or item.text not in since:
        return item
    state = since[item.text]
    refs = item.refs if state.word == "unknown" else (*item.refs[:1], state.ref)
    return item.model_copy(update={"note": state.text, "refs": tuple(dict.fromkeys(refs))})
