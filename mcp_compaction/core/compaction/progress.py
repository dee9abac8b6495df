"""What one compaction is given, and how far it has come."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from mcp_compaction.core.account.lines import AccountLines
from mcp_compaction.core.compaction.blocks import Freed
from mcp_compaction.core.compaction.plan import Plan
from mcp_compaction.core.digest.extract import ref_of_standing_plan, stated_rules
from mcp_compaction.core.digest.names import names_of_digests
from mcp_compaction.core.digest.outcomes import jobs_in
from mcp_compaction.core.log.conversation import Conversation, conversation_of
from mcp_compaction.core.log.identifiers import Finding, identifiers_by_message
from mcp_compaction.core.log.jobs import running_jobs
from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.core.log.used_names import UsedName, made_ids, used_names
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill, measure
from mcp_compaction.model import (
    Ask,
    Digest,
    Draft,
    Found,
    Item,
    Message,
    RunningJob,
    SearchRequest,
    Session,
    SummaryRequest,
)

Request = SummaryRequest | SearchRequest
Answer = Draft | Found

T = TypeVar("T")
Asking = Generator[Request, Answer, T]
"""A part of the compaction that yields requests and returns a T."""


@dataclass(frozen=True)
class Inputs:
    """What stays the same throughout one compaction, and what is read in it, once."""

    policy: Policy  # its window in counted tokens
    given_policy: Policy  # as the caller gave it: the view is shown and measured by it
    ask: Ask
    now: datetime
    fill: Fill
    count: CountTokens
    messages: tuple[Message, ...]  # all that the window showed before
    digests: tuple[Digest, ...]  # and its digests

    @cached_property
    def said(self) -> Conversation:
        """The messages as people and tools said them."""
        return conversation_of(self.messages)

    @cached_property
    def found(self) -> dict[int, tuple[Finding, ...]]:
        """The identifiers of each message, by its number."""
        return identifiers_by_message(self.messages)

    @property
    def markers(self) -> int | None:
        """The groups of epistemic markers that make an agent's message a doubt; None: none is."""
        return self.given_policy.marker_threshold if self.ask.preserve_markers else None

    @cached_property
    def account(self) -> AccountLines:
        """The lines of the messages in an account, made once for the same messages."""
        return AccountLines(self.said, self.markers)

    @cached_property
    def names(self) -> list[UsedName]:
        """The ids that calls made, and the names that the agent used, what is wanted most first."""
        ids = made_ids(ledger_of(self.said).entries)
        made = [UsedName(one.text, 1.0, (int(one.ref[1:]), 0)) for one in ids]
        return [*made, *used_names(self.said, self.found, names_of_digests(self.digests))]

    @cached_property
    def plan_ref(self) -> str:
        """The ref of the task plan that is in force."""
        return ref_of_standing_plan(self.messages)

    @cached_property
    def rules(self) -> list[Item]:
        """The rules that users stated, those of long orders too, each with its message as its
        first ref."""
        return stated_rules(self.said, longest=None)

    @cached_property
    def running(self) -> tuple[RunningJob, ...]:
        """What runs in the background, also what earlier digests tell of."""
        earlier = [job for digest in self.digests for job in jobs_in(digest)]
        return running_jobs(self.messages, earlier, self.ask.running)

    def measure(self, session: Session) -> Fill:
        """The fill of a session's view under the policy that the caller gave."""
        return measure(session, self.given_policy, self.count)


@dataclass(frozen=True, slots=True)
class Progress:
    """A compaction under way."""

    session: Session
    plan: Plan
    digests: tuple[Digest, ...] = ()
    freed: Freed = ()
    notes: tuple[str, ...] = ()
    with_prose: tuple[Digest, ...] = ()  # the same digests with the model's prose

    def replace_digest(self, digest: Digest) -> Progress:
        """The same progress with another version of one digest."""
        shown = _replace_in(self.session.digests, digest)
        return replace(
            self,
            session=self.session.model_copy(update={"digests": shown}),
            digests=_replace_in(self.digests, digest),
        )

    def change_view(self, **changes: object) -> Progress:
        """The same progress with some fields of the view changed."""
        view = self.session.view.model_copy(update=changes)
        return replace(self, session=self.session.model_copy(update={"view": view}))


def _replace_in(digests: Iterable[Digest], digest: Digest) -> tuple[Digest, ...]:
    return tuple(digest if other.number == digest.number else other for other in digests)
