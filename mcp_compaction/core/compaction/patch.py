"""Shows again, word for word, what a compaction would lose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mcp_compaction.core.compaction.progress import Progress
from mcp_compaction.core.compaction.verify import Findings
from mcp_compaction.core.digest.fit import as_sections, join, measure_digest
from mcp_compaction.core.log.content import shown_parts, text_of, tokens_of
from mcp_compaction.core.log.identifiers import Finding
from mcp_compaction.core.text.words import fold
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
    SectionName,
    Text,
    ToolResult,
    Trimmed,
)

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
