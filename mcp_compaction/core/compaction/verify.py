"""Checks a view before it counts: what is in it, what recall gives back, what is lost; the lost is
put back word for word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from mcp_compaction.core.compaction.progress import Progress
from mcp_compaction.core.digest.fit import as_sections, join, measure_digest
from mcp_compaction.core.log.content import shown_parts, text_of, tokens_of, words_of
from mcp_compaction.core.log.identifiers import Finding, find_identifiers, identifiers_of_parts
from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.injection import defuse
from mcp_compaction.core.text.paths import ends_of
from mcp_compaction.core.text.words import Haystack, fold
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    Digest,
    Digested,
    Entry,
    IndexKind,
    Item,
    Kept,
    Message,
    MessageEntry,
    SearchRequest,
    SectionName,
    Shown,
    ShownMessage,
    ShownRecord,
    Tally,
    Text,
    ToolResult,
    Trimmed,
)

_NAMES: dict[IndexKind, str] = {
    "file": "paths",
    "command": "commands",
    "url": "urls",
    "id": "ids",
    "error": "errors",
    "number": "numbers",
}

Findings = Mapping[int, tuple[Finding, ...]]


class Check(NamedTuple):
    """Identifiers by where they are, before the archive has been asked."""

    retained: tuple[Finding, ...]
    unseen: tuple[Finding, ...]  # only a search can tell


def compare(gone: Sequence[Message], shown: Sequence[Shown], found: Findings) -> Check:
    """Every identifier of the messages that are no longer whole, by where it is now."""
    targets = dict.fromkeys(f for message in gone for f in found[message.seq])
    records = [piece.text for piece in shown if isinstance(piece, ShownRecord)]
    in_view = _findings_in_messages(shown, found).union(*map(_identifiers_in, records))
    # Commands and error lines are found whole in a message; in a record they stand among others.
    texts = [Haystack(text) for text in records]
    for finding in targets:
        if finding.kind in ("command", "error") and finding not in in_view:
            line = defuse(finding.text)
            if any(text.holds(line) for text in texts):
                in_view.add(finding)
    return Check(
        retained=tuple(f for f in targets if f in in_view),
        unseen=tuple(f for f in targets if f not in in_view),
    )


@read_once
def _identifiers_in(record: str) -> tuple[Finding, ...]:
    return find_identifiers(record)


def search_request_for(unseen: Iterable[Finding]) -> SearchRequest:
    """The one batched question that tells which of these the archive's own search gives back."""
    return SearchRequest(queries=tuple(finding.text for finding in unseen))


def find_lost(
    unseen: Sequence[Finding], hits: Sequence[Sequence[int]], found: Findings
) -> tuple[Finding, ...]:
    """The identifiers of which no hit holds the thing itself."""
    wanted = frozenset(unseen)
    held = {seq: _held_of(found.get(seq, ()), wanted) for seq in frozenset(chain(*hits))}
    return tuple(
        finding
        for finding, seqs in zip(unseen, hits, strict=True)
        if not any(finding in held[seq] for seq in seqs)
    )


def _held_of(found: Sequence[Finding], wanted: frozenset[Finding]) -> frozenset[Finding]:
    """What is wanted of that which was found; a path also as the end of a longer one: who looks
    for `spec.py` and gets `tests/spec.py` has it."""
    ends = (
        Finding("file", end) for one in found if one.kind == "file" for end in ends_of(one.text)
    )
    return wanted.intersection(chain(found, ends))


def tally_findings(check: Check, missing: Iterable[Finding]) -> tuple[Tally, ...]:
    """How much of each kind is in the view, comes back by recall, or is lost."""
    gone = set(missing)
    counted: list[Tally] = []
    for kind, name in _NAMES.items():
        away = [f for f in check.unseen if f.kind == kind]
        tally = Tally(
            kind=name,
            retained=sum(f.kind == kind for f in check.retained),
            recoverable=sum(f not in gone for f in away),
            lost=sum(f in gone for f in away),
        )
        if tally.total:
            counted.append(tally)
    return tuple(counted)


def tally_lines(
    kind: str, items: Sequence[Item], shown: Sequence[Shown], others: Sequence[Item] = ()
) -> Tally:
    """How many of these lines, and of others that a ref in the view gives back, stand in it word
    for word."""
    lost, away = (len(find_missing_lines(lines, shown)) for lines in (items, others))
    kept = len(items) + len(others) - lost - away
    return Tally(kind=kind, retained=kept, recoverable=away, lost=lost)


def find_missing_lines(items: Sequence[Item], shown: Sequence[Shown]) -> tuple[Item, ...]:
    """The lines that do not stand word for word in the view."""
    if not items:
        return ()
    text = fold("\n".join(text_of_shown(piece) for piece in shown))
    # A message shows a line as it was said, a record shows it defused.
    return tuple(
        item
        for item in items
        if fold(item.text) not in text and fold(defuse(item.text)) not in text
    )


def _findings_in_messages(shown: Sequence[Shown], found: Findings) -> set[Finding]:
    seen: set[Finding] = set()
    for piece in shown:
        match piece:
            case ShownRecord():
                continue
            case ShownMessage(cuts=()):
                seen.update(found[piece.message.seq])
            case ShownMessage():
                seen.update(identifiers_of_parts(shown_parts(piece.message, piece.cuts)))
    return seen


def text_of_shown(piece: Shown) -> str:
    """All that a piece of a view says."""
    if isinstance(piece, ShownRecord):
        return piece.text
    return "\n".join(words_of(part) for part in shown_parts(piece.message, piece.cuts))


_SECTIONS: dict[IndexKind, SectionName] = {
    "file": "NAMES",
    "command": "NAMES",
    "url": "NAMES",
    "id": "NAMES",
    "number": "FACTS",
    "error": "ERRORS",
}

Line = tuple[SectionName, Item]
Lines = Mapping[int, Sequence[Line]]
"""The lines to show again, by the number of the message that said them."""


def lines_of_findings(
    missing: Iterable[Finding], gone: Iterable[Message], found: Findings
) -> dict[int, list[Line]]:
    """A line for each missing identifier, at the first message that holds it."""
    wanted = set(missing)
    lines: dict[int, list[Line]] = {}
    for message in gone:
        for finding in found[message.seq]:
            if finding not in wanted:
                continue
            item = Item(text=finding.text, refs=(message.ref,), provenance="verbatim")
            lines.setdefault(message.seq, []).append((_SECTIONS[finding.kind], item))
            wanted.discard(finding)
    return lines


def put_back(progress: Progress, lines: Lines, count: CountTokens) -> Progress:
    """The progress with each line in view: in the new digest of its span, in the preview of its
    message, or with its message shown whole."""
    session = progress.session
    messages = {message.seq: message for message in session.messages}

    def with_lines(entry: MessageEntry) -> MessageEntry:
        said = lines.get(entry.seq, ())
        return _show_lines(messages[entry.seq], entry, said, count) if said else entry

    body: tuple[Entry, ...] = tuple(
        entry if isinstance(entry, Digested) else with_lines(entry) for entry in session.view.body
    )
    for digest in progress.digests:
        progress = progress.replace_digest(_add_lines(digest, lines, count))
    return progress.change_view(head=tuple(map(with_lines, session.view.head)), body=body)


def _add_lines(digest: Digest, lines: Lines, count: CountTokens) -> Digest:
    added: dict[SectionName, list[Item]] = {}
    for seq, said in lines.items():
        if digest.first <= seq <= digest.last:
            for section, item in said:
                kept = item.model_copy(update={"must_stay": True})
                added.setdefault(section, []).append(kept)
    if not added:
        return digest
    sections = join(digest.sections, as_sections(added))
    return measure_digest(digest.model_copy(update={"sections": sections}), count)


def _show_lines(
    message: Message, entry: MessageEntry, said: Sequence[Line], count: CountTokens
) -> MessageEntry:
    """A message whose previews end with these lines; whole where no preview can show them."""
    texts = dict.fromkeys(item.text for _, item in said)
    cuts = list(entry.cuts if isinstance(entry, Trimmed) else ())
    for place, cut in enumerate(cuts):
        if not isinstance(cut.shown, Text | ToolResult):
            continue
        source = fold(text_of(message.parts[cut.part]))
        found = [text for text in texts if all(fold(word) in source for word in text.split("="))]
        part = cut.shown.model_copy(update={"text": "\n".join([cut.shown.text, *found])})
        cuts[place] = cut.model_copy(update={"shown": part})
        texts = {text: None for text in texts if text not in found}
    tokens = tokens_of(shown_parts(message, cuts), count)
    if texts or tokens >= message.tokens:
        return Kept(seq=message.seq)
    return Trimmed(seq=message.seq, cuts=tuple(cuts), tokens=tokens)
