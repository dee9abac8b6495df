"""Asks for drafts of digests, and checks each draft against the messages it stands for."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_compaction.core.compaction.blocks import SpanBlock
from mcp_compaction.core.compaction.progress import Asking, Inputs
from mcp_compaction.core.compaction.receipt.notes import notes_of_check
from mcp_compaction.core.digest.check.draft import Stripped, check_draft, strip_unsupported
from mcp_compaction.core.digest.check.source import knowledge_of_author, rules_in_force
from mcp_compaction.core.digest.extract import extract, memory_lines, must_keep
from mcp_compaction.core.digest.fit import DigestSections, join, mark_older
from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.digest.render import item_to_wait
from mcp_compaction.core.log.conversation import has_conversation
from mcp_compaction.core.log.index import index_of
from mcp_compaction.model import Ask, Draft, Session, SummaryRequest

_WAIT: DigestSections = (("NEXT", (item_to_wait(),)),)


@dataclass(frozen=True, slots=True)
class CheckedDraft:
    """A draft without what its source does not say, beside what was extracted from the source."""

    draft: Draft
    extracted: Draft
    notes: tuple[str, ...] = ()


def request_for(
    block: SpanBlock, memory: str | None, inputs: Inputs, is_newest: bool
) -> SummaryRequest:
    """The request for a draft that shall stand for a span."""
    # A host may show them in another order than they were said in.
    messages = tuple(sorted(block.messages, key=lambda message: message.seq))
    waits = inputs.policy.ask_before_resume
    later = tuple(m for m in inputs.messages if m.seq > messages[-1].seq)
    return SummaryRequest(
        first=messages[0].seq,
        last=messages[-1].seq,
        messages=messages,
        must_keep=join(
            mark_older(must_keep(messages, inputs.plan_ref), inputs.overtaken),
            join(memory_lines(memory), _WAIT if is_newest and waits else ()),
        ),
        index=index_of(messages, inputs.found, later),
        earlier=tuple(m for m in inputs.messages if m.seq < messages[0].seq),
        later=later,
        is_newest=is_newest,
        max_tokens=block.limit,
        focus=inputs.ask.focus,
        memory=memory,
    )


def draft_without_summarizer(ask: Ask, is_newest: bool) -> Draft | None:
    """The draft that needs no summarizer: one without prose, or the agent's own digest."""
    if ask.strategy == "archive":
        return Draft(author="archive")
    if ask.digest is not None and is_newest:
        return parse_digest(ask.digest, "agent")
    return None


def ask_for_draft(request: SummaryRequest) -> Asking[Draft]:
    """The draft that the outside gives for a request; nobody is asked where nothing was said."""
    if not request.memory and not has_conversation(request.messages):
        return Draft(author="extractive")
    answer = yield request
    if not isinstance(answer, Draft):
        raise TypeError("a SummaryRequest is answered by a Draft")
    return answer


def check_against_source(
    draft: Draft, request: SummaryRequest, session: Session, inputs: Inputs
) -> CheckedDraft:
    """The draft without what its source does not say; a refused draft gives way to extraction."""
    rules = rules_in_force(session)
    # Our own lines are true to the span, but a tool's output may have planted what they quote.
    own = draft if draft.author == "extractive" else extract(request)
    stripped = strip_unsupported(own, request, rules)
    extracted = stripped.draft
    if draft.author == "extractive":
        return CheckedDraft(extracted, extracted, notes_of_check(stripped))
    beside = knowledge_of_author(session)
    checked = check_draft(draft, request, inputs.count, rules, beside)
    if isinstance(checked, Stripped):
        return CheckedDraft(checked.draft, extracted, notes_of_check(checked))
    instead = extracted.model_copy(update={"note": draft.note})
    return CheckedDraft(instead, extracted, (*notes_of_check(checked), *notes_of_check(stripped)))
