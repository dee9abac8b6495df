"""Asks for drafts of digests, the agent's own among them, and checks each against the messages it
stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mcp_compaction.core.compaction.blocks import SpanBlock
from mcp_compaction.core.compaction.progress import Asking, Inputs
from mcp_compaction.core.compaction.receipt import notes_of_check
from mcp_compaction.core.digest.check.draft import (
    Stripped,
    check_draft,
    knowledge_of_author,
    rules_in_force,
    strip_unsupported,
)
from mcp_compaction.core.digest.check.wills import will_claimed_in
from mcp_compaction.core.digest.extract import extract, memory_lines, must_keep
from mcp_compaction.core.digest.fit import DigestSections, as_sections, join, measure_digest
from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.digest.render import FROM_LOG, item_of_summary
from mcp_compaction.core.log.conversation import (
    conversation_of,
    has_conversation,
    host_summary_in,
)
from mcp_compaction.core.log.ledger import INDEXED, index_of
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.model import (
    Ask,
    Compaction,
    Digest,
    Digested,
    Draft,
    IndexKind,
    Item,
    Message,
    Outcome,
    Projection,
    Receipt,
    Replaced,
    SectionName,
    Session,
    SummaryRequest,
)

# An account tells commands and errors line by line: an index beside it lists files.
_BESIDE_ACCOUNT: tuple[IndexKind, ...] = ("file",)
OF_HOST = "in the host's summary"
_TAG = pattern_of(r"</?(\w+)>")  # as Gemini CLI heads the parts of a summary


@dataclass(frozen=True, slots=True)
class CheckedDraft:
    """A draft without what its source does not say, beside what was extracted from the source."""

    draft: Draft
    extracted: Draft
    notes: tuple[str, ...] = ()
    hosts: Draft | None = None  # what the host's own summary says


def request_for(
    block: SpanBlock, memory: str | None, inputs: Inputs, is_newest: bool
) -> SummaryRequest:
    """The request for a draft that shall stand for a span."""
    # A host may show them in another order than they were said in.
    messages = tuple(sorted(block.messages, key=lambda message: message.seq))
    later = tuple(m for m in inputs.messages if m.seq > messages[-1].seq)
    is_alone = inputs.ask.strategy == "archive" or inputs.ask.for_others
    return SummaryRequest(
        first=messages[0].seq,
        last=messages[-1].seq,
        messages=messages,
        must_keep=join(
            must_keep(messages, inputs.plan_ref),
            join(memory_lines(memory), _name_summary(messages)),
        ),
        index=index_of(
            messages, inputs.found, later, tuple(INDEXED) if is_alone else _BESIDE_ACCOUNT
        ),
        earlier=tuple(m for m in inputs.messages if m.seq < messages[0].seq),
        later=later,
        is_newest=is_newest,
        running=inputs.running,
        max_tokens=block.limit,
        focus=inputs.ask.focus,
        memory=memory,
    )


def draft_without_summarizer(inputs: Inputs, is_newest: bool) -> Draft | None:
    """The draft that needs no summarizer: one without prose, the agent's own digest, or what the
    session's own model wrote over a window that still stands."""
    ask = inputs.ask
    if ask.strategy == "archive":
        return Draft(author="archive")
    if ask.digest is not None and is_newest:
        return parse_digest(ask.digest, "agent")
    if ask.prose is not None and is_newest:
        return ask.prose if any(m.seq == ask.prose.up_to for m in inputs.messages) else None
    return None


def ask_for_draft(request: SummaryRequest) -> Asking[Draft]:
    """The draft that the outside gives for a request; nobody is asked where nothing was said."""
    if not request.memory and not has_conversation(request.messages):
        return Draft(author="extractive")
    answer = yield request
    if not isinstance(answer, Draft):
        raise TypeError("a SummaryRequest is answered by a Draft")
    return answer


def _name_summary(messages: Sequence[Message]) -> DigestSections:
    refs = [message.ref for message in messages if host_summary_in(message)]
    return (("FACTS", (item_of_summary(refs[-1]),)),) if refs else ()


def draft_of_host(request: SummaryRequest, session: Session) -> Draft | None:
    """What the host's own summary in a span says, without what nothing that is recorded of that
    time says; None where there is no summary."""
    summaries = [message for message in request.messages if host_summary_in(message)]
    if not summaries:
        return None
    newest = summaries[-1]  # made of those before it, too
    said = conversation_of(message for message in request.messages if message not in summaries)
    around = {"earlier": conversation_of(request.earlier), "later": conversation_of(request.later)}
    is_recorded = any(one.seq < newest.seq for one in (*around["earlier"], *said))
    source = request.model_copy(update={"messages": said, **around}) if is_recorded else request
    draft = parse_digest(_TAG.sub(r"\n\1:\n", host_summary_in(newest)), "host")
    told = strip_unsupported(draft, source, rules_in_force(session)).draft
    where = OF_HOST if is_recorded else f"{OF_HOST}, unchecked"
    return _doubt_all(told, where).model_copy(update={"author": "extractive"})


def _doubt_all(draft: Draft, where: str) -> Draft:
    """The draft with each line of a model marked with where, or up to when, it was said."""
    sections = tuple((n, tuple(_doubt(i, where) for i in items)) for n, items in draft.sections)
    return draft.model_copy(update={"sections": sections})


def _doubt(item: Item, where: str) -> Item:
    if not item.by:
        return item
    from_log = item.doubt.startswith(FROM_LOG)  # stands first, as a mark of its own
    told = f"{item.doubt}; {where}" if from_log else ", ".join(filter(None, (where, item.doubt)))
    return item.model_copy(update={"doubt": told})


def check_against_source(
    draft: Draft, request: SummaryRequest, session: Session, inputs: Inputs
) -> CheckedDraft:
    """The draft without what its source does not say; a refused draft gives way to extraction."""
    rules = rules_in_force(session)
    # Our own lines are true to the span, but a tool's output may have planted what they quote.
    own = draft if draft.author == "extractive" else extract(request)
    stripped = strip_unsupported(own, request, rules)
    extracted = stripped.draft
    hosts = draft_of_host(request, session) if draft.author != "archive" else None
    if draft.author == "extractive":
        return CheckedDraft(extracted, extracted, notes_of_check(stripped), hosts)
    beside = knowledge_of_author(session)
    checked = check_draft(draft, request, inputs.count, rules, beside)
    if isinstance(checked, Stripped):
        told = checked.draft
        if draft.up_to is not None:
            told = _doubt_all(told, f"up to m{draft.up_to}")
        return CheckedDraft(told, extracted, notes_of_check(checked), hosts)
    instead = extracted.model_copy(update={"note": draft.note})
    notes = (*notes_of_check(checked), *notes_of_check(stripped))
    return CheckedDraft(instead, extracted, notes, hosts)


def keep_own_digest(
    session: Session, ask: Ask, now: datetime, fill: Fill, count: CountTokens
) -> Outcome:
    """An agent's own digest that stands for nothing recorded, marked as not checked."""
    number = session.next_digest
    digest = _unchecked_digest(ask.digest or "", number, now, count)
    after = fill.tokens + fill.scaled(digest.tokens)
    if ask.dry_run:
        return Projection(
            before=fill.tokens, after=after, window=fill.window, precision=fill.precision
        )
    view = session.view.model_copy(
        update={
            "version": session.view.version + 1,
            "compaction": session.next_compaction,
            "pinned": tuple(pin.number for pin in session.pins),
            "body": (*session.view.body, Digested(digest=number)),
        }
    )
    receipt = Receipt(
        compaction=session.next_compaction,
        kind="digest",
        reason=ask.reason,
        at=now,
        before=fill.tokens,
        after=after,
        window=fill.window,
        precision=fill.precision,
        replaced=(Replaced(first=0, last=0, digest=number),),
        pins=len(session.pins),
        author="agent",
        checked=False,
    )
    return Compaction(
        base_version=session.view.version, view=view, digests=(digest,), receipt=receipt
    )


def _unchecked_digest(text: str, number: int, now: datetime, count: CountTokens) -> Digest:
    """The digest of an agent's text, without lines that pose as another part of the window or
    claim a consent for which no user's words are at hand."""
    draft = parse_digest(text, "agent")
    kept: dict[SectionName, list[Item]] = {}
    for name, items in draft.sections:
        said = (item for item in items if not is_planted(item.text) and not _consents(item.text))
        kept[name] = [item.model_copy(update={"by": "agent"}) for item in said]
    return measure_digest(
        Digest(
            number=number,
            first=0,
            last=0,
            messages=0,
            sections=as_sections(kept),
            author="agent",
            checked=False,
            began=now,
            ended=now,
        ),
        count,
    )


def _consents(line: str) -> bool:
    will = will_claimed_in(line)
    return will is not None and will.name == "consent"
