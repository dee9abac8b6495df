"""Drives the compaction flow: each request it yields is answered by a summarizer or the store."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple, assert_never

from mcp_compaction.compactor.results import FALLBACK, count_recalls
from mcp_compaction.compactor.workspace import Progress, Workspace, scope_of
from mcp_compaction.core.compaction.flow import Flow, flow
from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.recall.query import terms_of
from mcp_compaction.core.window.history import MOST_OF_HEAD, bring_back
from mcp_compaction.errors import SummarizerError
from mcp_compaction.model import (
    Ask,
    Draft,
    Event,
    Found,
    ModelCall,
    Outcome,
    SearchQuery,
    SearchRequest,
    Session,
    SessionInfo,
    SummaryRequest,
)
from mcp_compaction.ports import Summarizer

logger = logging.getLogger(__name__)

_AGAIN = 3  # recalls, from which on a message is worth its place
_MOST_KEPT = 5  # messages that are shown again by themselves

Drafts = list[tuple[SummaryRequest, Draft]]
"""What was asked for in one compaction, and what came: nothing is paid for twice."""


async def drive(
    work: Workspace,
    session: Session,
    events: Iterable[Event],
    ask: Ask,
    progress: Progress,
    drafts: Drafts,
    policy: Policy | None = None,
) -> Outcome:
    """Run the flow to its end, answering what it asks for; by the session's policy or another."""
    whole = await _with_recalled(work, await _bring_back(work, session, ask), events)
    policy, counter = policy or work.policy_for(session), work.counter
    now, count = work.now(), counter.count
    running = flow(whole, policy, ask, now, count, counter.precision, session)
    has_fallen = False
    request = await work.threads.run(_advance, running, None)
    while not isinstance(request, _Ended):
        await progress(_progress_line(request))
        if has_fallen and isinstance(request, SummaryRequest):
            # Who failed once in a compaction is not waited for again.
            answer = await work.threads.run(extract, request)
        else:
            answer = await _answer(work, session, request, drafts)
        if isinstance(answer, Draft) and answer.note and answer.author == "extractive":
            has_fallen = True
        request = await work.threads.run(_advance, running, answer)
    return request.outcome


async def _with_recalled(work: Workspace, session: Session, events: Iterable[Event]) -> Session:
    """The session with the messages that were recalled again and again, the most often first."""
    recalls = count_recalls(events)
    again = [seq for seq, number in recalls.most_common(_MOST_KEPT) if number >= _AGAIN]
    if not again:
        return session
    found = await work.store.originals(scope_of(session.info), again)
    by_seq = {one.message.seq: one.message for one in found}
    return session.model_copy(update={"recalled": tuple(by_seq[n] for n in again if n in by_seq)})


async def _bring_back(work: Workspace, session: Session, ask: Ask) -> Session:
    """The session with what its host's own compactions took away, as the log has it."""
    if not session.view.taken or ask.dry_run:  # nobody waits for a plan of all that was said
        return session
    found = await work.store.originals(scope_of(session.info), limit=MOST_OF_HEAD)
    view = bring_back(session, [one.message for one in found])
    return session if view is None else await work.load(session.info, view, to_digest=True)


class _Ended(NamedTuple):
    """The result of a flow; a thread cannot raise StopIteration to a coroutine."""

    outcome: Outcome


def _advance(
    running: Flow, answer: Draft | Found | None
) -> SummaryRequest | SearchRequest | _Ended:
    """The next request of a flow, or what it came to."""
    try:
        return next(running) if answer is None else running.send(answer)
    except StopIteration as stop:
        return _Ended(stop.value)


def _progress_line(request: SummaryRequest | SearchRequest) -> str:
    if isinstance(request, SummaryRequest):
        return f"summarizing m{request.first}..m{request.last}"
    return "checking what recall gives back"


async def _answer(
    work: Workspace, session: Session, request: SummaryRequest | SearchRequest, drafts: Drafts
) -> Draft | Found:
    match request:
        case SummaryRequest():
            known = next((d for asked, d in drafts if _asks_the_same(asked, request)), None)
            draft = known or await summarize(work, session.info, request)
            if known is None:
                drafts.append((request, draft))
            return draft
        case SearchRequest():
            queries = await work.threads.run(_queries_of, request)
            scope = scope_of(session.info)
            return Found(hits=await work.store.search_many(scope, queries, request.limit))
        case _:
            assert_never(request)


def _asks_the_same(asked: SummaryRequest, request: SummaryRequest) -> bool:
    """Whether two requests are for one draft: no model is shown what stays in the window."""
    return asked.model_copy(update={"earlier": request.earlier, "later": request.later}) == request


def _queries_of(request: SearchRequest) -> list[SearchQuery]:
    return [SearchQuery(terms=terms_of(text)) for text in request.queries]


async def summarize(work: Workspace, info: SessionInfo, request: SummaryRequest) -> Draft:
    """The draft of the summarizer, within its limits and accounted; by rules where it fails."""
    left = await work.allowance(info)
    if left.refusal:
        note = f"no model was asked: {left.refusal}; extracted instead"
        draft = await _extract_instead(work, request, note)
    else:
        limits = {"calls_left": left.calls_left, "cost_left": left.cost_left}
        own = work.own_models.get(info.id) if request.is_newest else None
        asked = request.model_copy(update=limits)
        draft = await _ask_summarizer(work, own or work.summarizer, asked)
    if draft.calls:
        # They were paid for, whatever becomes of this compaction.
        await work.store.add_calls(info.id, draft.calls, work.now())
    if draft.note:
        await work.note(info, FALLBACK, draft.note)
    return draft


async def _ask_summarizer(
    work: Workspace, summarizer: Summarizer, request: SummaryRequest
) -> Draft:
    try:
        return await summarizer.summarize(request)
    except (MemoryError, RecursionError):
        raise
    except SummarizerError as error:
        note = f"{summarizer.name} failed: {error}; extracted instead"
        return await _extract_instead(work, request, note, error.calls)
    except Exception as error:  # noqa: BLE001  # a summarizer may fail in any way it likes
        logger.warning("%s failed: %r", summarizer.name, error)
        # The error's own words may come from anywhere: the log has them, the receipt does not.
        note = f"{summarizer.name} failed ({type(error).__name__}); extracted instead"
        return await _extract_instead(work, request, note)


async def _extract_instead(
    work: Workspace, request: SummaryRequest, note: str, calls: tuple[ModelCall, ...] = ()
) -> Draft:
    """A draft by rules in place of a summarizer's, with the reason."""
    draft = await work.threads.run(extract, request)
    return draft.model_copy(update={"note": note, "calls": calls})
