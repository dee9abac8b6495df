"""Keeps a ledger in a digest: the names that the agent used and that a view does not show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mcp_compaction.core.digest.fit import measure_digest
from mcp_compaction.core.limits import LONGEST_LINE
from mcp_compaction.core.log.used_names import UsedName
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Digest, Item

_SECTION = "NAMES"
_LEAST_ROOM = 3  # tokens; hardly a name takes less


def names_of_digests(digests: Iterable[Digest]) -> list[str]:
    """The names that digests list, without those that an agent or a model wrote of itself."""
    items = (item for digest in digests for item in digest.items(_SECTION) if _is_ours(item))
    return [name for item in items for name in item.text.split()]


def without_names(digest: Digest, count: CountTokens) -> Digest:
    """The digest without its ledger of names; what an agent or a model wrote stays."""
    return with_names(digest, (), count)


def with_names(digest: Digest, names: Sequence[str], count: CountTokens) -> Digest:
    """The digest with this ledger of names instead of the one it had."""
    written = [item for item in digest.items(_SECTION) if not _is_ours(item)]
    items = (*written, *_lines_of(names))
    others = [(name, kept) for name, kept in digest.sections if name != _SECTION]
    sections = (*others, (_SECTION, items)) if items else tuple(others)
    changed = digest.model_copy(update={"sections": sections})
    return digest if changed == digest else measure_digest(changed, count)


def choose_names(names: Iterable[UsedName], shown: str, room: int, count: CountTokens) -> list[str]:
    """The first names that a view does not show, as many as the room holds, in the order they were
    typed last: those of one call stand together."""
    room -= cost_of_names((), count)
    chosen: dict[str, UsedName] = {}
    listed = ""
    for one in names:
        if one.text in shown or one.text in listed:
            continue
        shorter = [text for text in chosen if text in one.text]
        cost = count(f" {one.text}") - sum(count(f" {text}") for text in shorter)
        if cost <= room:
            room -= cost
            for text in shorter:  # the longer name shows them
                del chosen[text]
            chosen[one.text] = one
            listed += f"\n{one.text}"
        elif room < _LEAST_ROOM:
            break
    return [one.text for one in sorted(chosen.values(), key=lambda one: one.last)]


def cost_of_names(names: Iterable[str], count: CountTokens) -> int:
    """The most tokens that a ledger of these names takes."""
    return count(f"\n{_SECTION}\n- ") + sum(count(f" {name}") for name in names)


def _lines_of(names: Sequence[str]) -> Iterator[Item]:
    line: list[str] = []
    for name in names:
        if line and sum(map(len, line)) + len(line) + len(name) > LONGEST_LINE:
            yield Item(text=" ".join(line))
            line = []
        line.append(name)
    if line:
        yield Item(text=" ".join(line))


def _is_ours(item: Item) -> bool:
    return item.provenance == "extracted" and not item.refs
