"""Audits compactions one after another: what each lost, what it cost, what ours would have left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from mcp_compaction.audit.breaking import find_broken
from mcp_compaction.audit.cases import AuditCase
from mcp_compaction.audit.counting import (
    RULES,
    Things,
    WindowText,
    carry,
    count_again,
    count_things,
    find_invented,
    needed_of,
    things_of,
    window_of,
)
from mcp_compaction.audit.results import Audited, CompactionCost, Ours
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.handover.turns import Turn, turns_of
from mcp_compaction.evals.subject import Subject, subject
from mcp_compaction.formats import Incoming, IncomingMessage
from mcp_compaction.formats.jsontext import dump_original
from mcp_compaction.gateway.money import price_of
from mcp_compaction.gateway.usage import Usage
from mcp_compaction.model import JsonObject
from mcp_compaction.ports import TokenCounter

_SMALLEST_WINDOW = 500  # tokens

Tell = Callable[[str], None]


async def audit_chat(
    cases: Sequence[AuditCase], counter: TokenCounter, count: CountTokens, tell: Tell
) -> list[Audited]:
    """What was found for each compaction of one chat."""
    findings: list[Audited] = []
    held: Things = {}
    for case in cases:
        tell(f"{case.chat}, compaction {case.number}")
        async with subject(None, counter) as ours:
            earlier = list(_earlier(case))
            came = [*earlier, *case.fresh]
            if came:
                await ours.record(Incoming(messages=tuple(came)))
            said = (await ours.compactor.load(ours.info)).messages[len(earlier) :]
            held = carry(things_of(said), held, window_of(case.window_before))
            seen, told = await _compress(case, ours, came, count)
        findings.append(_finding_of(case, held, seen, told, count))
    return findings


def _earlier(case: AuditCase) -> Iterator[IncomingMessage]:
    """What the compaction before has left, as the host's own word."""
    if case.window_before.strip():
        message: JsonObject = {"role": "user", "content": case.window_before}
        yield IncomingMessage(
            shape="anthropic", raw=dump_original(message, "the summary"), via="tool"
        )


async def _compress(
    case: AuditCase, ours: Subject, came: Sequence[IncomingMessage], count: CountTokens
) -> tuple[WindowText | None, Ours | None]:
    """Our view of the same input in as many tokens as the host's compaction left of it."""
    before = sum(count(turn.text) for turn in turns_of(came))
    size = count(case.left)
    if case.is_ours or not before or not size:
        return None, None
    window = max(before, _SMALLEST_WINDOW)
    await ours.set_window(window)
    began = time.perf_counter()
    if size < window:  # else all of it would have fitted
        await ours.compress(100 * size / window)
    seconds = time.perf_counter() - began
    view = "\n".join(line.text for line in await ours.read_lines())
    return window_of(view), Ours(tokens=count(view), of_tokens=size, seconds=round(seconds, 3))


def _finding_of(
    case: AuditCase, held: Things, ours: WindowText | None, told: Ours | None, count: CountTokens
) -> Audited:
    left = window_of(case.left)
    early, later = turns_of(case.fresh), turns_of(case.later)
    gone = [rule for rule in sorted(held.get(RULES, ())) if not left.holds(RULES, rule)]
    broken = (
        ()
        if case.is_ours
        else find_broken(((r, _place_of(r, case, early)) for r in gone), case.later, case.folder)
    )
    return Audited(
        host=case.host,
        chat=case.chat,
        number=case.number,
        at=case.at.isoformat() if case.at else None,
        trigger=case.told.trigger or "not told",
        is_ours=case.is_ours,
        tokens_before=case.told.before,
        tokens_after=case.told.after or case.tokens_after,
        counts=()
        if case.is_ours
        else count_things(held, needed_of(held, early, later), left, ours),
        invented=find_invented(case.summary, case.everything, case.chat),
        again=count_again(early, later, held.get(RULES, ()), count),
        broken=tuple(broken),
        lost_rules=() if case.is_ours else tuple(gone),
        cost=_cost_of(case, count),
        ours=told,
    )


def _place_of(rule: str, case: AuditCase, said: Sequence[Turn]) -> str:
    """The id of the message that states a rule."""
    for message, turn in zip(case.fresh, said, strict=True):
        if fold(rule) in fold(turn.said):
            return message.host_id or ""
    return ""


def _cost_of(case: AuditCase, count: CountTokens) -> CompactionCost:
    """The price of a compaction by the model's list price: its summary's call, whose beginning the
    cache had, and the new beginning, which it had not."""
    read_anew = case.told.after or case.tokens_after
    written = count(case.summary) if case.summary else None
    price = price_of(case.model or "")
    dollars = None
    if price.is_money and not case.is_ours and case.told.before and written and read_anew:
        summary = Usage(cached=case.told.before, output=written)
        dollars = price.cost_of(summary) + price.cost_of(Usage(written=read_anew))
    return CompactionCost(
        seconds=case.told.seconds,
        read_anew=read_anew,
        summary_read=case.told.before if written else None,
        summary_written=written,
        dollars=None if dollars is None else round(dollars, 4),
    )
