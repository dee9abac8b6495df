"""Gathers what a draft is checked against: its span, the rules in force, what its author knew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.check.record import TELLS_OF_THE_PAST, Deeds, Record
from mcp_compaction.core.digest.check.wills import Wills
from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.core.log.content import compact_json, words_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.spoken_rules import Requests, unpinned_rules
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.core.text.words import one_line, telling_words
from mcp_compaction.model import (
    Item,
    Message,
    Session,
    SummaryRequest,
    ToolResult,
)


class AuthorKnowledge(NamedTuple):
    """What is known in a session beside the messages of a span."""

    texts: tuple[str, ...] = ()
    told: tuple[str, ...] = ()  # those of pins and digests: what these say was checked
    done: tuple[str, ...] = ()  # those that rules extracted and that tell of the past


NO_KNOWLEDGE = AuthorKnowledge()


def rules_in_force(session: Session) -> tuple[str, ...]:
    """Every rule the session knows of: pinned, in a digest, or said where it is still in sight."""
    pinned = [pin.text for pin in session.pins if pin.kind == "constraint"]
    kept = [i.text for d in session.digests for i in d.items("CONSTRAINTS") if i.by != "model"]
    said = [c.text for c in unpinned_rules(session.messages, ())]
    return tuple(dict.fromkeys((*pinned, *kept, *said)))


def knowledge_of_author(session: Session) -> AuthorKnowledge:
    """What the author of a draft may know beside a span: all that the window shows."""
    sections, lines = session.sections, [one for d in session.digests for one in d.sections]
    fixed = (sections.task or "", sections.memory or "", compact_json(sections.system))
    told = (
        *(pin.text for pin in session.pins),
        *(words_of_item(item) for _, items in lines for item in items),
    )
    shown = (
        *(item.text for digest in session.digests for item in digest.index),
        *(piece for one in session.view.promoted for piece in one.pieces),
    )
    past = ((name, item) for name, items in lines for item in items if not item.by)
    done = tuple(words_of_item(item) for name, item in past if name in TELLS_OF_THE_PAST)
    return AuthorKnowledge((*fixed, *told, *shown), told, done)


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

    def rule_spoken_of(self, text: str) -> str:
        """The rule, with its ref, of which a line has half the words and more than one; blank
        where there is none. Whether it keeps to the rule is for readers to see."""
        said = _stems_of(text)
        for rule, quoted in self._rules:
            shared = len(rule & said)
            if shared > 1 and 2 * shared >= len(rule):
                return quoted
        return ""

    @cached_property
    def _rules(self) -> tuple[tuple[frozenset[str], str], ...]:
        """The words of each sentence that is a rule, and it as a line is marked with it."""
        kept = dict(self.request.must_keep).get("CONSTRAINTS", ())
        said = {item.text: f"{item.refs[0]}: " for item in kept if item.refs}
        rules = dict.fromkeys((*(item.text for item in kept), *self.in_force))
        return tuple(
            (_stems_of(part), f'{said.get(rule, "")}"{part}"')
            for rule in rules
            for part in find_rules(rule) or (rule,)
        )

    def holds_decision(self, item: Item) -> bool:
        """Whether somebody said half the words of a decision in one sentence that asks nothing."""
        wanted = _stems_of(item.text)
        return any(2 * len(wanted & said) >= len(wanted) for said in self._stated)

    def carries(self, ref: str, text: str) -> bool:
        """Whether a message, with the call or the result beside it, has one of the rarer telling
        words of a line; one that left the window before is not at hand to be held against it."""
        said, every = _stems_of(text), self._stems_by_ref
        times = {stem: sum(stem in one for one in every.values()) for stem in said}
        found = sorted(filter(None, times.values())) or [0]
        usual = found[(len(found) - 1) // 2]
        return ref not in every or any(times[stem] <= usual for stem in said & every[ref])

    @cached_property
    def _stems_by_ref(self) -> dict[str, frozenset[str]]:
        stems = {m.ref: _stems_of(_words_of(m)) for m in self._window}
        pairs = [(m.ref, n.ref) for m, n in pairwise(self._window) if m.calls and n.results]
        both = {ref: stems[m] | stems[n] for m, n in pairs for ref in (m, n)}
        return stems | both

    @cached_property
    def evidence(self) -> Evidence:
        said = [(_words_of(message), message.at) for message in self._window]
        return Evidence([*said, *((text, None) for text in self._known)])

    @cached_property
    def _stated(self) -> tuple[frozenset[str], ...]:
        """The stems of each sentence that may have settled something, and of each answer with the
        message before it."""
        spoken = [m for m in conversation_of(self._window) if m.role in ("user", "assistant")]
        said = (one for m in spoken for one in split_sentences(m.text) if one[-1] not in "?？")
        answers = (f"{m.text} {n.text}" for m, n in pairwise(spoken) if n.is_request)
        return tuple(map(_stems_of, (*self._known, *said, *answers)))

    @cached_property
    def deeds(self) -> Deeds:
        memory = (self.request.memory or "").splitlines()
        return Deeds(conversation_of(self._window), [*memory, *self.beside.done])

    @cached_property
    def wills(self) -> Wills:
        return Wills(conversation_of(self._window), (*self.in_force, *self.beside.told))

    @cached_property
    def record(self) -> Record:
        return Record(conversation_of(self._window), self.evidence)

    @property
    def _window(self) -> tuple[Message, ...]:
        """The span, and the messages that stay in the window around it: what stands there may be
        told of, and nobody has made it up."""
        return (*self.request.earlier, *self.request.messages, *self.request.later)

    @property
    def _known(self) -> list[str]:
        memory = (self.request.memory or "").splitlines()
        return [*memory, *self._kept(), *self.in_force, *self.beside.texts]

    def _kept(self) -> list[str]:
        return [item.text for _, items in self.request.must_keep for item in items]

    def is_users(self, text: str) -> bool:
        """Whether a user said these words as whole sentences, be it only as the agent told it."""
        saying = self._requests.saying_of(text)
        return saying is not None and saying.is_spoken

    @cached_property
    def _requests(self) -> Requests:
        return Requests(self.request.messages)


def _words_of(message: Message, with_results: bool = True) -> str:
    parts = (p for p in message.parts if with_results or not isinstance(p, ToolResult))
    return "\n".join(words_of(part) for part in parts)


def _stems_of(text: str) -> frozenset[str]:
    return frozenset(telling_words(text))


def _join_folded(texts: Iterable[str]) -> str:
    return "\x00".join(one_line(text) for text in texts)
