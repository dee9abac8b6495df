"""Gathers what a draft is checked against: its span, the rules in force, what its author knew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.check.opposites import Rules
from mcp_compaction.core.digest.check.statements import Statements
from mcp_compaction.core.digest.check.subjects import Subjects
from mcp_compaction.core.digest.check.successes import Successes
from mcp_compaction.core.digest.text import OUR_PREFIX
from mcp_compaction.core.log.content import compact_json, words_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.quotes import Requests
from mcp_compaction.core.log.spoken_rules import unpinned_rules
from mcp_compaction.core.text.words import one_line
from mcp_compaction.model import (
    Message,
    SectionName,
    Session,
    SummaryRequest,
    ToolResult,
)


class AuthorKnowledge(NamedTuple):
    """The texts that the author of a draft may know beside the span."""

    texts: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()  # those that state a rule or a decision
    messages: tuple[Message, ...] = ()


NO_KNOWLEDGE = AuthorKnowledge()


def rules_in_force(session: Session) -> tuple[str, ...]:
    """Every rule the session knows of: pinned, in a digest, or said where it is still in sight."""
    pinned = [pin.text for pin in session.pins if pin.kind == "constraint"]
    kept = [item.text for d in session.digests for item in d.items("CONSTRAINTS")]
    said = [c.text for c in unpinned_rules(session.messages, ())]
    return tuple(dict.fromkeys((*pinned, *kept, *said)))


def knowledge_of_author(
    session: Session, messages: tuple[Message, ...], author: str
) -> AuthorKnowledge:
    """What an author may know beside a span: a model the pins, the agent all it has in sight."""
    pinned = tuple(pin.text for pin in session.pins)
    if author != "agent":
        return AuthorKnowledge(pinned, pinned)
    sections, digests, excerpts = session.sections, session.digests, session.view.promoted
    fixed = (sections.task, sections.memory, compact_json(sections.system))
    told = (
        *(text for text in fixed if text),
        *(item.text for digest in digests for _, items in digest.sections for item in items),
        *(item.text for digest in digests for item in digest.index),
        *(piece for one in excerpts for piece in one.pieces),
    )
    settled = (
        *(item.text for digest in digests for item in digest.items("DECISIONS")),
        *(piece for one in excerpts if one.by in ("user", "decision") for piece in one.pieces),
    )
    return AuthorKnowledge((*pinned, *told), (*pinned, *settled), messages)


@dataclass(frozen=True)
class Source:
    """The span as it is quoted from; whitespace is folded, all else byte for byte."""

    request: SummaryRequest
    in_force: Sequence[str]  # rules stated elsewhere: pinned, or said outside of the span
    beside: AuthorKnowledge = NO_KNOWLEDGE

    @cached_property
    def everything(self) -> str:
        memory = [self.request.memory or ""]
        return _join_folded(
            [*(_words_of(m) for m in self.request.messages), *memory, *self._kept()]
        )

    @cached_property
    def spoken(self) -> str:
        """The span without tool results: open tasks are named by the user or the assistant."""
        said = [_words_of(m, with_results=False) for m in self.request.messages]
        return _join_folded([*said, *self._kept()])

    @cached_property
    def user(self) -> str:
        said = [m.text for m in conversation_of(self.request.messages) if m.role == "user"]
        return _join_folded([*said, *self.in_force])

    @cached_property
    def rules(self) -> Rules:
        return Rules((*self.in_force, *self._kept("CONSTRAINTS")))

    @cached_property
    def evidence(self) -> Evidence:
        said = [(_words_of(message), message.at) for message in self._window]
        return Evidence([*said, *((text, None) for text in (*self._known, *self.beside.texts))])

    @cached_property
    def statements(self) -> Statements:
        return Statements(conversation_of(self._messages), [*self._known, *self.beside.settled])

    @cached_property
    def successes(self) -> Successes:
        return Successes(conversation_of(self._messages), [*self._known, *self.beside.texts])

    @cached_property
    def subjects(self) -> Subjects:
        return Subjects(self.evidence, self.spoken)

    @property
    def _messages(self) -> tuple[Message, ...]:
        return _in_order((*self.beside.messages, *self.request.messages))

    @property
    def _window(self) -> tuple[Message, ...]:
        """The messages of the source, and those that stay in the window around it: what stands
        there may be told of, and nobody has made it up."""
        return _in_order((*self.request.earlier, *self._messages, *self.request.later))

    @property
    def _known(self) -> list[str]:
        memory = (self.request.memory or "").splitlines()
        return [*memory, *self._kept(), *self.in_force]

    def _kept(self, section: SectionName | None = None) -> list[str]:
        kept = self.request.must_keep
        return [i.text for name, items in kept for i in items if section in (None, name)]

    def is_users(self, text: str) -> bool:
        """Whether a user said these words as whole sentences, be it only as the agent told it."""
        saying = self._requests.saying_of(OUR_PREFIX.sub("", text))
        return saying is not None and saying.how in ("said", "told")

    @cached_property
    def _requests(self) -> Requests:
        return Requests(self.request.messages)


def _in_order(messages: Iterable[Message]) -> tuple[Message, ...]:
    by_seq = {message.seq: message for message in messages}
    return tuple(by_seq[seq] for seq in sorted(by_seq))


def _words_of(message: Message, with_results: bool = True) -> str:
    parts = (p for p in message.parts if with_results or not isinstance(p, ToolResult))
    return "\n".join(words_of(part) for part in parts)


def _join_folded(texts: Iterable[str]) -> str:
    return "\x00".join(one_line(text) for text in texts)
