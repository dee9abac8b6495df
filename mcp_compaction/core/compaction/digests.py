"""Writes the digests that a plan calls for, and adds the prose of models to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mcp_compaction.core.compaction.blocks import Block, DigestBlock, MergeBlock, SpanBlock
from mcp_compaction.core.compaction.budget import prose_limit
from mcp_compaction.core.compaction.drafts import (
    CheckedDraft,
    ask_for_draft,
    check_against_source,
    draft_without_summarizer,
    request_for,
)
from mcp_compaction.core.compaction.progress import Asking, Inputs, Progress
from mcp_compaction.core.compaction.receipt import NO_ROOM_FOR_PROSE
from mcp_compaction.core.compaction.room import fit_index, fit_unread, list_names
from mcp_compaction.core.compaction.settle import apply
from mcp_compaction.core.digest.fit import (
    cost_of_frame,
    cost_of_sections,
    drop_settled_plans,
    fit,
    fit_or_first,
    join,
    keep_open_tasks,
    lay_prose_onto,
    measure_digest,
    merge,
    nothing_stays,
)
from mcp_compaction.core.digest.names import cost_of_names, names_of_digests, without_names
from mcp_compaction.core.digest.update import bring_up_to_date
from mcp_compaction.core.limits import LEAST_TOKENS
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.ledger import Ledger, ledger_of
from mcp_compaction.core.log.tool_calls import unfinished_tasks
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import OWN_AUTHORS, Digest, Draft, SummaryRequest


@dataclass(slots=True)
class _Written:
    """What carrying out one plan has written so far."""

    memory_in: int | None
    digests: dict[int, Digest] = field(default_factory=dict[int, Digest])  # by block
    notes: list[str] = field(default_factory=list[str])
    with_prose: list[Digest] = field(default_factory=list[Digest])


def carry_out(progress: Progress, inputs: Inputs) -> Asking[Progress]:
    """The progress with its plan carried out: each digest written, and the view that shows it."""
    blocks, session = progress.plan.window.blocks, progress.session
    written = _Written(memory_in=session.view.memory_in)
    newest = max(
        (n for n, block in enumerate(blocks) if isinstance(block, SpanBlock)), default=None
    )
    ledger = ledger_of(inputs.said) if _has_digest(blocks) else None
    # What is written now tells how things stand at the end of the window, whatever its own span.
    of_now = {digest.number for digest in progress.digests}
    for position, block in enumerate(blocks):
        number = session.next_digest + len(written.digests)
        is_followed = newest is not None and position < newest
        if isinstance(block, DigestBlock | MergeBlock):
            known = block.digests if isinstance(block, MergeBlock) else (block.digest,)
            current: list[Digest] = []
            for one in known:
                has_passed = one.number not in of_now and (is_followed or one is not known[-1])
                current.append(_bring_up_to_date(one, inputs, ledger, has_passed))
            if isinstance(block, MergeBlock):
                written.digests[position] = merge(current, number, block.limit, inputs.count)
            elif current != [block.digest]:
                merged = tuple(dict.fromkeys((*current[0].merged, block.digest.number)))
                numbered = current[0].model_copy(update={"number": number, "merged": merged})
                written.digests[position] = measure_digest(numbered, inputs.count)
        elif isinstance(block, SpanBlock):
            written.digests[position] = yield from _write_span(
                block, position == newest, number, written, progress, inputs
            )
    return Progress(
        session=apply(session, progress.plan.window, written.digests, written.memory_in),
        plan=progress.plan,
        digests=(*progress.digests, *written.digests.values()),
        freed=(*progress.freed, *progress.plan.window.freed),
        notes=(*progress.notes, *written.notes),
        with_prose=(*progress.with_prose, *written.with_prose),
    )


def add_prose(progress: Progress, inputs: Inputs) -> Progress:
    """The models' prose laid onto the digests, where there is room for it.

    Until here all went as if no model had been asked, so that no draft can change what a digest
    keeps. Only the index, unread results that are cut anyway, and the passages quoted beside it
    make room: those are chosen afterwards, and the names as if there were no prose.
    """
    if not progress.with_prose:
        return progress
    goal = progress.plan.goal
    names = _room_for_names(progress, inputs)
    for digest in progress.with_prose:
        longer = fit_unread(fit_index(progress.replace_digest(digest), inputs), inputs)
        fits = goal is None or inputs.measure(longer.session).counted + names <= goal
        if fits and longer.session != progress.session:
            progress = longer
        else:
            progress = replace(progress, notes=(*progress.notes, NO_ROOM_FOR_PROSE))
    return progress


def _room_for_names(progress: Progress, inputs: Inputs) -> int:
    """What the names that a view without prose would list take over those it lists already."""
    listed = names_of_digests(list_names(progress, inputs).digests)
    now = (d.tokens - without_names(d, inputs.count).tokens for d in progress.digests)
    return cost_of_names(listed, inputs.count) - sum(now)


def _digest_without_prose(
    request: SummaryRequest, checked: CheckedDraft, number: int, count: CountTokens
) -> Digest:
    """The digest without a model's prose; what an agent wrote, or the host's summary says, stands
    behind what is extracted."""
    beside = checked.draft if checked.draft.author == "agent" else checked.hosts
    if beside is not None:
        return _digest_beside(request, checked.extracted, beside, number, count)
    is_own = checked.draft.author in OWN_AUTHORS
    return _digest_of(request, checked.draft if is_own else checked.extracted, number, count)


def _write_span(
    block: SpanBlock,
    is_newest: bool,
    number: int,
    written: _Written,
    progress: Progress,
    inputs: Inputs,
) -> Asking[Digest]:
    """The digest of a span, from a draft that is there already or is asked for."""
    session = progress.session
    own = draft_without_summarizer(inputs, is_newest)
    has_room = session.memory_tokens <= block.limit
    takes_memory = own is None and written.memory_in is None and has_room
    memory = session.sections.memory if takes_memory else None
    request = request_for(block, memory, inputs, is_newest)
    draft = own or (yield from ask_for_draft(request))
    checked = check_against_source(draft, request, session, inputs)
    digest = _digest_without_prose(request, checked, number, inputs.count)
    written.notes += checked.notes
    if checked.draft.note:
        written.notes.append(checked.draft.note)
    if memory:
        written.memory_in = number
    if checked.draft.author not in OWN_AUTHORS:
        half = request.max_tokens // 2  # over what is extracted, in any case
        room = max(request.max_tokens - digest.tokens, half)
        if checked.draft.up_to is not None:
            room = max(room, prose_limit(progress.plan.window.room_in(progress.plan.budget.target)))
        written.with_prose.append(lay_prose_onto(digest, checked.draft, room, inputs.count))
    return digest


def _digest_beside(
    request: SummaryRequest, extracted: Draft, beside: Draft, number: int, count: CountTokens
) -> Digest:
    """What is extracted and what somebody wrote, in the room of one digest: the latter may take
    half of it, and what the others leave."""
    half = request.max_tokens // 2
    first = fit(beside.sections, half, count, nothing_stays)
    taken = cost_of_sections(first, count)
    narrow = request.model_copy(update={"max_tokens": max(request.max_tokens - taken, 1)})
    digest = _digest_of(narrow, extracted, number, count)
    own = lay_prose_onto(digest, beside, request.max_tokens - digest.tokens, count)
    return own.model_copy(update={"author": beside.author})


def _digest_of(request: SummaryRequest, draft: Draft, number: int, count: CountTokens) -> Digest:
    """A draft made whole: what must be kept is put in word for word, and all of it fits."""
    times = [m.at for m in request.messages if m.at is not None]
    digest = Digest(
        number=number,
        first=request.first,
        last=request.last,
        messages=len(request.messages),
        sections=(),
        index=request.index,
        author=draft.author,
        began=times[0] if times else None,
        ended=times[-1] if times else None,
    )
    sections = join(request.must_keep, draft.sections)
    if request.max_tokens <= LEAST_TOKENS:  # it would be a label and a scrap
        fitting = fit(sections, 0, count)
    else:
        fitting = fit_or_first(sections, request.max_tokens - cost_of_frame(digest, count), count)
    return measure_digest(digest.model_copy(update={"sections": fitting}), count)


def _has_digest(blocks: Sequence[Block]) -> bool:
    return any(isinstance(block, DigestBlock | MergeBlock) for block in blocks)


def _bring_up_to_date(
    digest: Digest, inputs: Inputs, ledger: Ledger | None, has_passed: bool
) -> Digest:
    """A digest without the open tasks that were settled since and what later calls made untrue."""
    later = [message for message in inputs.messages if message.seq > digest.last]
    left = unfinished_tasks(drop_settled_plans(digest.items("OPEN"), inputs.plan_ref), later)
    current = keep_open_tasks(digest, left) or digest
    if ledger is None:
        return current
    asked = any(message.is_request for message in conversation_of(later))
    return bring_up_to_date(current, ledger, has_passed, inputs.running, is_asked=asked)
