"""One compaction as a generator: it yields what it needs from outside and returns the outcome."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import cache

from mcp_compaction.core.compaction.digests import add_prose, carry_out
from mcp_compaction.core.compaction.drafts import keep_own_digest
from mcp_compaction.core.compaction.gate import gate
from mcp_compaction.core.compaction.outcomes import nothing_to_do, projection, too_little_gain
from mcp_compaction.core.compaction.plan import make_plan
from mcp_compaction.core.compaction.progress import Asking, Inputs, Progress
from mcp_compaction.core.compaction.settle import settle
from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill, in_counted_tokens, measure
from mcp_compaction.model import Ask, Calibration, Outcome, Precision, Session

Flow = Asking[Outcome]
_LEAST = 0.1  # percent: a room larger than the window is as much as can be freed


def flow(
    session: Session,
    policy: Policy,
    ask: Ask,
    now: datetime,
    count: CountTokens,
    precision: Precision = "exact",
    shown: Session | None = None,
) -> Flow:
    """Plan, ask for drafts, check, patch; the caller saves what is returned.

    `shown`: the session as the window shows it now, where a host has taken more of it away.
    """
    count = cache(count)  # for this compaction: a view is laid out and measured again and again
    shown = shown or session
    fill = measure(shown, policy, count, precision)
    if ask.room_tokens is not None:
        ask = _as_target(ask, ask.room_tokens, fill)
    if ask.digest is not None and not session.messages:
        return keep_own_digest(session, ask, now, fill, count)
    keeps_digest = ask.digest is not None and (ask.force or not session.info.traits.owns_window)
    refused = gate(session, policy, ask, fill)
    if refused is not None:
        return keep_own_digest(session, ask, now, fill, count) if keeps_digest else refused
    if session.view.version and not session.info.traits.owns_window:
        # The host shows more than this view: what it reported is not what is planned here.
        session = session.model_copy(update={"calibration": Calibration()})
        bare = shown.model_copy(update={"calibration": Calibration()})
        fill = measure(bare, policy, count, precision)
    counted = in_counted_tokens(policy, fill)
    plan = make_plan(session, counted, ask, fill, count)
    if plan.gain <= 0 and session.said_since and _is_forced_to(ask, counted):
        counted = counted.keeping_newest_turns()
        plan = make_plan(session, counted, ask, fill, count)
    frees_nothing = plan.is_empty or plan.gain <= 0
    is_due = ask.force or ask.span or fill.percent >= policy.trigger_percent
    frees_little = not is_due and plan.gain < counted.min_gain_tokens
    if keeps_digest and (frees_nothing or frees_little):
        return keep_own_digest(session, ask, now, fill, count)
    if frees_nothing:
        return nothing_to_do(plan, fill)
    if frees_little:
        return too_little_gain(plan, fill, counted)
    if ask.dry_run:
        return projection(plan, ask, fill)
    inputs = Inputs(
        policy=counted,
        given_policy=policy,
        ask=ask,
        now=now,
        fill=fill,
        count=count,
        messages=session.messages,
        digests=session.digests,
    )
    progress = yield from _climb_to_goal(Progress(session, plan), inputs)
    return (yield from settle(session, add_prose(progress, inputs), inputs))


def _as_target(ask: Ask, room: int, fill: Fill) -> Ask:
    """The same wish as a fill to reach: the window without the room that shall be free."""
    percent = 100 * (fill.window - room) / fill.window
    return ask.model_copy(update={"room_tokens": None, "target_percent": max(_LEAST, percent)})


def _is_forced_to(ask: Ask, policy: Policy) -> bool:
    """Whether a compaction is wanted also where all is recent, and nobody said how much that is."""
    is_exact = policy.preserve_recent_messages or policy.compaction_ratio
    return ask.force and not ask.span and ask.target_percent is None and not is_exact


def _climb_to_goal(progress: Progress, inputs: Inputs) -> Asking[Progress]:
    """The plan carried out, and further plans from there while the goal is not reached."""
    for _ in range(MOST_TRIED):  # a digest larger than foreseen asks for one more
        progress = yield from carry_out(progress, inputs)
        goal = progress.plan.goal
        fill = inputs.measure(progress.session)
        if goal is None or (fill.counted <= goal and not progress.plan.goes_on):
            break
        following = make_plan(
            progress.session, inputs.policy, inputs.ask, fill, inputs.count, progress.plan.budget
        )
        progress = replace(progress, plan=following)
        if following.is_empty or following.gain <= 0:
            break
    return progress
