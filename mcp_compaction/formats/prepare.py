"""Prepares messages for the log: secrets masked, parts read, tokens counted, passages cut."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from mcp_compaction.core.log.content import compact_json, tokens_of
from mcp_compaction.core.log.passages import passages_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.secrets import Redacted, redact
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.formats.arrival import IncomingMessage
from mcp_compaction.formats.identity import normalize
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.formats.table import FORMATS
from mcp_compaction.model import NewMessage, Sections
from mcp_compaction.ports import Recorded


def prepare_message(message: IncomingMessage, count: CountTokens, mask: bool) -> NewMessage:
    """A message ready to be appended; its raw text is kept byte for byte."""
    kept = redact(message.raw) if mask else Redacted(text=message.raw, counts={})
    raw = kept.text
    original = parse_object(raw, "the message")
    role, parts = FORMATS[message.shape].read(original, "the message")
    return NewMessage(
        role=role,
        parts=parts,
        shape=message.shape,
        raw=raw,
        normal=normalize(original),
        passages=passages_of(role, parts),
        host_id=message.host_id,
        early_id=message.early_id,
        at=message.at,
        tokens=tokens_of(parts, count),
        via=message.via,
        masked=kept.counts,
    )


def count_masked_in_new(messages: Iterable[NewMessage], done: Recorded) -> Counter[str]:
    """The secrets by kind that were taken out of those messages of a batch that are new."""
    # The store numbers new messages after all known ones.
    new = sorted(set(done.seqs))[len(set(done.seqs)) - done.new :]
    by_seq = dict(zip(done.seqs, messages, strict=True))
    return sum((Counter(by_seq[seq].masked) for seq in new), Counter[str]())


def mask_sections(sections: Sections) -> Sections:
    """The fixed sections without the secrets in them."""
    return Sections.model_validate(json.loads(redact(sections.model_dump_json()).text))


def count_sections(sections: Sections, policy: Policy, count: CountTokens) -> tuple[int, int]:
    """The tokens of system, tools and task together, and of the memory."""
    system = sections.system
    words = system if isinstance(system, str) else compact_json(system) if system else ""
    fixed = count(words) + count(sections.task or "")
    fixed += sum(
        max(policy.overhead_per_tool, count(compact_json(tool))) for tool in sections.tools
    )
    return fixed, count(sections.memory or "")
