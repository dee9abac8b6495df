"""Prepares messages for the log: secrets masked, parts read, tokens counted, passages cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mcp_compaction.core.log.content import compact_json, tokens_of
from mcp_compaction.core.log.passages import passages_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.repeats import KnownSecret, KnownSecrets, know_more, mask_repeats
from mcp_compaction.core.text.secrets import Redacted, redact
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.formats.arrival import IncomingMessage
from mcp_compaction.formats.content import parse_object
from mcp_compaction.formats.identity import normalize
from mcp_compaction.formats.show import FORMATS
from mcp_compaction.model import NewMessage, Sections
from mcp_compaction.ports import Recorded


class Masked(NamedTuple):
    """A text without secrets, and how many of each kind were in it."""

    text: str
    counts: Mapping[str, int] = {}
    alone: str | None = None  # with only those masked that it tells itself, where more are


def mask_together(
    texts: Iterable[str], known: KnownSecrets
) -> tuple[list[Masked], tuple[KnownSecret, ...]]:
    """The texts without the secrets that are known or that any of them tells; and the latter."""
    alone = [redact(text) for text in texts]
    told = know_more(known._replace(by_word={}), (v for one in alone for v in one.named))
    everything = told._replace(by_word={**told.by_word, **known.by_word})
    return [_mask_again(one, everything) for one in alone], tuple(told.by_word.values())


def _mask_again(one: Redacted, known: KnownSecrets) -> Masked:
    again = mask_repeats(one.text, known)
    if not again.counts:
        return Masked(one.text, one.counts)
    return Masked(again.text, Counter(one.counts) + Counter(again.counts), one.text)


def prepare_message(message: IncomingMessage, masked: Masked, count: CountTokens) -> NewMessage:
    """A message ready to be appended; but for the masks its raw text is kept byte for byte."""
    original = parse_object(masked.text, "the message")
    role, parts = FORMATS[message.shape].read(original, "the message")
    alone = masked.alone
    return NewMessage(
        role=role,
        parts=parts,
        shape=message.shape,
        raw=masked.text,
        alone=alone,
        normal=normalize(original if alone is None else parse_object(alone, "the message")),
        passages=passages_of(role, parts, message.speaker),
        host_id=message.host_id,
        early_id=message.early_id,
        at=message.at,
        tokens=tokens_of(parts, count),
        via=message.via,
        speaker=message.speaker,
        masked=dict(masked.counts),
    )


def count_masked_in_new(messages: Iterable[NewMessage], done: Recorded) -> Counter[str]:
    """The secrets by kind that were taken out of those messages of a batch that are new."""
    # The store numbers new messages after all known ones.
    new = sorted(set(done.seqs))[len(set(done.seqs)) - done.new :]
    by_seq = dict(zip(done.seqs, messages, strict=True))
    return sum((Counter(by_seq[seq].masked) for seq in new), Counter[str]())


def count_sections(sections: Sections, policy: Policy, count: CountTokens) -> tuple[int, int]:
    """The tokens of system, tools and task together, and of the memory."""
    system = sections.system
    words = system if isinstance(system, str) else compact_json(system) if system else ""
    fixed = count(words) + count(sections.task or "")
    fixed += sum(
        max(policy.overhead_per_tool, count(compact_json(tool))) for tool in sections.tools
    )
    return fixed, count(sections.memory or "")
