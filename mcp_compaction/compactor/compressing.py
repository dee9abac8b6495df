"""Compresses a session: one at a time, saved whole or not at all, whatever fails.

For a window that somebody else empties all that was said is digested ahead: that view stands beside
the shown one, which stays as it is, and counts until that one changes; the next preparation goes on
from it, so that only new messages are digested.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcp_compaction.compactor.driving import Drafts, drive
from mcp_compaction.compactor.gauge import FillReading
from mcp_compaction.compactor.grading import read_grade
from mcp_compaction.compactor.masking import mask_text, secrets_in
from mcp_compaction.compactor.offering import renew_facts, suggest
from mcp_compaction.compactor.recording import keep_reported_fill
from mcp_compaction.compactor.records import load_prepared
from mcp_compaction.compactor.results import (
    COMPLETED,
    FAILED,
    MASKED,
    REGRET,
    SAFETY_NET,
    Prepared,
    check_ask,
)
from mcp_compaction.compactor.shortening import has_only_head, is_over_net
from mcp_compaction.compactor.workspace import (
    MOST_TRIES,
    Progress,
    Workspace,
    ignore_progress,
    scope_of,
)
from mcp_compaction.core.compaction.grading import describe_grade
from mcp_compaction.core.log.outline import find_boundary_cues
from mcp_compaction.core.window.fill import Fill, pressure
from mcp_compaction.errors import (
    CompactionError,
    InputError,
    NothingRecorded,
    StoreError,
    UnknownRef,
)
from mcp_compaction.model import (
    Ask,
    Calibration,
    Compaction,
    Event,
    Failed,
    NothingToDo,
    Outcome,
    Refusal,
    Session,
    SessionInfo,
    View,
)
from mcp_compaction.ports import Past

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PATIENCE = 30.0  # seconds for which another's compaction of the same session is waited for
_MOST_LOOKED_AT = 30  # newest messages among which a boundary is looked for
_DUE = ("act", "safety net")
_MOST_SUGGESTED = 3  # rules to pin, on a receipt
# Only the newest turns stay, however much of the window is free.
_ONLY_NEWEST = {"preserve_recent_percent": None, "compaction_ratio": None, "tail_max_percent": 0.0}
_MOST_GROWTH = 10.0  # points of the window, after which a compaction is made ready anew


async def compress(
    work: Workspace, info: SessionInfo, ask: Ask, progress: Progress = ignore_progress
) -> Outcome:
    """Compact the session as asked; whatever fails, the session is as before or as after.

    While another compacts it, in whatever process, that one's end is waited for.
    """
    check_ask(ask)

    async def run() -> Outcome:
        return await _compress(work, info, ask, progress)

    if ask.dry_run:
        return await report_failure(work, info, run)
    return await run_alone(work, info, run, progress)


async def run_alone(
    work: Workspace,
    info: SessionInfo,
    run: Callable[[], Awaitable[T]],
    progress: Progress = ignore_progress,
) -> T | Refusal | Failed:
    """Run a compaction while no other process compacts the session, or say why not."""
    if await work.store.is_compacting(info.id):
        await progress("waiting for another compaction of this session")
    async with work.store.compacting(info.id, _PATIENCE) as is_ours:
        if not is_ours:
            return _refuse_while_another_compacts(info)
        return await report_failure(work, info, run)


async def relieve(
    work: Workspace, info: SessionInfo, known: FillReading | None = None
) -> Outcome | None:
    """Compress where the fill has passed the trigger: the system's, or the safety net.

    Between the two the system waits for a boundary: a finished task, green tests, a commit.
    `known`: the window as it was just read.
    """
    if not await _is_due(work, known or await work.read_window(info)):
        return None
    async with work.store.compacting(info.id, _PATIENCE) as is_ours:
        if not is_ours:
            return _refuse_while_another_compacts(info)
        window = await work.read_window(info)  # another may have done it meanwhile
        return await _relieve_now(work, info, window) if await _is_due(work, window) else None


async def make(work: Workspace, info: SessionInfo) -> Outcome:
    """The compaction that `relieve` would save, not saved. Others may record meanwhile: what comes
    later joins the tail."""

    async def run() -> Outcome:
        ask = Ask(reason="made ready")
        return (await _make(work, info, ask, ignore_progress, []))[-1]

    return await report_failure(work, info, run)


async def is_ready(work: Workspace, info: SessionInfo) -> bool:
    """Whether a compaction is ready that was made for hardly less than the window as it is."""
    window = await work.read_window(info)
    made = _ready_for(work, window)
    grown = 0 if made is None else window.fill.tokens - made.receipt.before
    return made is not None and 100 * grown <= _MOST_GROWTH * window.fill.window


def _ready_for(work: Workspace, window: FillReading) -> Compaction | None:
    """The compaction that is ready for a window, where that has not changed but for its growth."""
    made = work.ready.get(window.session.info.id)
    return made if made and made.base_version == window.session.view.version else None


async def fill_to_relieve(work: Workspace, info: SessionInfo) -> Fill | None:
    """The fill of a window that `relieve` would compress; None where it would not."""
    window = await work.read_window(info)
    owns_window = window.session.info.traits.owns_window
    return window.fill if owns_window and await _is_due(work, window) else None


async def _is_due(work: Workspace, window: FillReading) -> bool:
    """Whether a window is compressed now without being asked: past the trigger at a boundary."""
    if not window.session.info.messages:  # fixed sections alone: there is nothing to compress
        return False
    level = pressure(window.fill, window.policy).level
    if level in _DUE and not is_over_net(work, window) and await has_only_head(work, window):
        return False  # a first request that fits is not cut
    if level != "wait":
        return level in _DUE
    info = window.session.info
    newest = await work.store.originals(scope_of(info), after=info.messages - _MOST_LOOKED_AT)
    messages = [original.message for original in newest]
    return bool(await work.threads.run(find_boundary_cues, messages))


async def _relieve_now(work: Workspace, info: SessionInfo, window: FillReading) -> Outcome | None:
    percent = f"{window.fill.percent:.0f} %"
    if pressure(window.fill, window.policy).level == "safety net":
        logger.warning("%s: %s: %s full", SAFETY_NET, await _moment_of(work, info), percent)
        await work.note(info, SAFETY_NET, percent)
    if not window.session.info.traits.owns_window:
        return None
    ask = Ask(reason=f"the window is {percent} full")
    return await _save_ready(work, info, ask, window) or await report_failure(
        work, info, lambda: _compress(work, info, ask, ignore_progress)
    )


async def _save_ready(
    work: Workspace, info: SessionInfo, ask: Ask, window: FillReading
) -> Compaction | None:
    """Save the compaction that is ready for a window, where it still frees enough of it."""
    made = _ready_for(work, window)
    if made is None:
        return None
    del work.ready[info.id]
    after = made.receipt.after + window.fill.tokens - made.receipt.before
    now = {"reason": ask.reason, "at": work.now(), "before": window.fill.tokens, "after": after}
    made = made.model_copy(update={"receipt": made.receipt.model_copy(update=now)})
    is_enough = after < window.policy.share(window.policy.trigger_percent - _MOST_GROWTH)
    return made if is_enough and await _save(work, info, made) else None


def _refuse_while_another_compacts(info: SessionInfo) -> Refusal:
    return Refusal(
        reason="being_compacted",
        text=f"not compressed: another compaction of {info.name} has been under way for over "
        f"{_PATIENCE:g} s, and its view will count. Go on; context_stats tells when it is there.",
    )


async def report_failure(
    work: Workspace, info: SessionInfo, run: Callable[[], Awaitable[T]]
) -> T | Failed:
    """Run a compaction; a failure is noted and told."""
    try:
        return await run()
    except InputError:
        raise  # what was asked for was wrong: no compaction was tried
    except CompactionError as error:
        logger.warning("%s: %s: %s", FAILED, await _moment_of(work, info), error)
        await work.note(info, FAILED, str(error))
        raise
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # compaction never kills its caller
        logger.exception("%s: %s", FAILED, await _moment_of(work, info))
        await work.note(info, FAILED, repr(error))
        name = type(error).__name__
        text = (
            f"not compressed: {name} while planning; the session is as it was. Go on, and report "
            "this with the log."
        )
        return Failed(reason="error", error=name, text=text)


async def _compress(work: Workspace, info: SessionInfo, ask: Ask, progress: Progress) -> Outcome:
    drafts: Drafts = []
    for _ in range(MOST_TRIES):
        session, past, outcome = await _make(work, info, ask, progress, drafts)
        if not isinstance(outcome, Compaction):
            return outcome
        await progress("saving")
        if await _save(work, info, outcome, past.answers):
            await keep_reported_fill(work, session)
            return outcome
    return overtaken(info)


def overtaken(info: SessionInfo) -> Failed:
    """Others changed the view each time a compaction of it was to be saved."""
    return Failed(
        reason="view_changed",
        text=f"not compressed: the view of {info.name} changed {MOST_TRIES} times meanwhile; the "
        "session is as it was. Call again.",
    )


async def _make(
    work: Workspace, info: SessionInfo, ask: Ask, progress: Progress, drafts: Drafts
) -> tuple[Session, Past, Outcome]:
    """The session, and its compaction that is not saved yet, or why there is none."""
    await progress("reading the session")
    session, past = await work.load_with_past(info, to_digest=True)
    if not session.messages and ask.digest is None:
        raise NothingRecorded(
            f"nothing is recorded in {info.name}; pass your own digest, or record messages first."
        )
    newest = max((message.seq for message in session.messages), default=0)
    if ask.span is not None and ask.span[1] > newest:
        raise UnknownRef(f"m{ask.span[1]} is not recorded; the newest message is m{newest}.")
    ask = await _mask_if_wanted(work, info, ask, past)
    outcome = await drive(work, session, past.events, ask, progress, drafts)
    if not isinstance(outcome, Compaction):
        return session, past, outcome
    await renew_facts(work, session.pins, session.messages)
    offer = await suggest(work, session, past, _MOST_SUGGESTED, outcome.digests)
    grade = await read_grade(work, session, past.events)
    notes = (*([describe_grade(grade)] if grade is not None else []), *outcome.receipt.notes)
    receipt = outcome.receipt.model_copy(update={"offer": offer, "notes": notes})
    return session, past, outcome.model_copy(update={"receipt": receipt})


async def _save(
    work: Workspace, info: SessionInfo, outcome: Compaction, answers: int | None = None
) -> bool:
    """Save a compaction; False where the view is another by now."""
    done = Event(name=COMPLETED, at=work.now(), detail=outcome.receipt.ref)
    is_saved = await work.store.save(info.id, outcome, done)
    if is_saved:
        moment, receipt = await _moment_of(work, info, answers), outcome.receipt
        freed = f"{receipt.ref}, {receipt.before:,} -> {receipt.after:,} tokens"
        logger.info("%s: %s: %s", COMPLETED, moment, freed)
    return is_saved


async def _moment_of(work: Workspace, info: SessionInfo, answers: int | None = None) -> str:
    """Whose window it is, and after how many answers of its model; they are counted if need be."""
    try:
        iteration = str(await work.store.count_answers(info.id) if answers is None else answers)
    except StoreError:
        iteration = "unknown"
    return f"{info.agent or info.name}, iteration {iteration}"


async def _mask_if_wanted(work: Workspace, info: SessionInfo, ask: Ask, past: Past) -> Ask:
    """The request without the secrets in its texts, where secrets are masked."""
    if not work.mask_secrets:
        return ask
    texts = {"reason": ask.reason, "digest": ask.digest, "focus": ask.focus}
    known = secrets_in(info, (event for event in past.events if event.name == MASKED))
    masked = {
        name: await work.threads.run(mask_text, text, known)
        for name, text in texts.items()
        if text is not None
    }
    return ask.model_copy(update=masked)


async def prepare(work: Workspace, info: SessionInfo) -> Prepared | Outcome:
    """Digest everything but the newest steps, whatever the fill; the window shows what it showed.

    While another compacts the session, in whatever process, that one's end is waited for.
    """
    return await run_alone(work, info, lambda: _prepare(work, info))


async def digest_log(work: Workspace, info: SessionInfo) -> Session:
    """The session as it would be with all of its log digested but the newest steps, whatever its
    window has lost; nothing of that is kept."""
    session = await work.load(info, View())
    session = session.model_copy(update={"calibration": Calibration()})
    policy = work.policy_for(session).model_copy(update=_ONLY_NEWEST)
    outcome = await drive(
        work,
        session,
        (),
        Ask(reason="prepare", force=True, for_others=True),
        ignore_progress,
        [],
        policy,
    )
    if not isinstance(outcome, Compaction):
        return session
    known = (*session.digests, *outcome.digests)
    return session.model_copy(update={"view": outcome.view, "digests": known})


async def _prepare(work: Workspace, info: SessionInfo) -> Prepared | Outcome:
    drafts: Drafts = []
    ask = Ask(reason="prepare", force=True, for_others=True)
    for _ in range(MOST_TRIES):
        session = await load_prepared(work, info)
        if not _has_undigested(session):
            text = "nothing to prepare: nothing was said since the last time. Go on."
            return NothingToDo(reason="already_prepared", text=text)
        # The fill of the window that is shown says nothing about what is prepared beside it.
        session = session.model_copy(update={"calibration": Calibration()})
        policy = work.policy_for(session).model_copy(update=_ONLY_NEWEST)
        recalls = await work.store.events(info.id, REGRET)
        outcome = await drive(work, session, recalls, ask, ignore_progress, drafts, policy)
        if not isinstance(outcome, Compaction):
            return outcome
        if await work.store.save_prepared(info.id, outcome):
            return _prepared_of(session, outcome)
    return overtaken(info)


def _has_undigested(session: Session) -> bool:
    """Whether there is anything that the last preparation has not seen."""
    is_prepared = session.view.version < 0
    seen = session.view.upto if is_prepared else 0
    return any(message.seq > seen for message in session.messages)


def _prepared_of(session: Session, compaction: Compaction) -> Prepared:
    known = (*session.digests, *compaction.digests)
    return Prepared(
        digests=compaction.digests,
        digested_upto=max((digest.last for digest in known), default=0),
        notes=compaction.receipt.notes,
        running=compaction.running,
    )
