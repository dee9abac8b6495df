"""The command that measures: `mcp-compaction stats`."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import Invocation, add_place, add_session
from mcp_compaction.cli.console.opening import OpenedPlace, open_place
from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.cli.console.wording import describe_moment, for_person
from mcp_compaction.compactor.gauge import Stats
from mcp_compaction.compactor.results import (
    COMPLETED,
    FAILED,
    FALLBACK,
    HOST_COMPACTED,
    PAID,
    SAFETY_NET,
)
from mcp_compaction.core.compaction.grading import describe_grade
from mcp_compaction.core.compaction.receipt import offer_lines, spent_line, would_not_pay
from mcp_compaction.core.text.refs import join_refs
from mcp_compaction.core.window.fill import Fill, Pressure, describe_trigger
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import Outcome, Projection
from mcp_compaction.tools.answers import regret_line, tiers_text

DESCRIPTION = """\
Say how full a session's window is, what fills it, and what compressing would free.
Changes: nothing."""
EXAMPLES = (
    "stats --session tax-2026",
    "stats --session tax-2026 --json",
    "stats --session tax-2026 --watch",
)
_PAUSE = 1.0  # seconds between two looks
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"

_EVENTS = {
    COMPLETED: "compactions completed",
    HOST_COMPACTED: "compactions by the host",
    SAFETY_NET: "safety net",
    FAILED: "failed",
    FALLBACK: "falls to another summarizer",
    PAID: "runs through the gateway",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_session(parser)
    add_place(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show fill, pins and the last receipt until it is interrupted; piped, a line a change",
    )


async def run(call: Invocation) -> int:
    """Print what there is to know about the window."""
    if call.args.watch:
        return await _watch(call)
    async with open_place(call) as place:
        info = (
            await place.session_or_newest()
            if call.args.json
            else await place.session_told(call.screen)
        )
        stats = await compactor.read_stats(place.workspace, info)
    if call.args.json:
        fill = stats.fill
        derived = {"tokens": fill.tokens, "percent": round(fill.percent, 2), "room": fill.room}
        document = stats.model_dump(mode="json")
        call.screen.write_json({**document, "fill": {**document["fill"], **derived}})
    else:
        for line in _lines_of(stats, call.screen):
            call.screen.say(call.complete(line))
    return 0


async def _watch(call: Invocation) -> int:
    """Show the window again and again, in place at a terminal, until somebody interrupts it."""
    shown: list[str] = []
    task = asyncio.current_task()
    with suppress(asyncio.CancelledError, KeyboardInterrupt):
        # Closing a store may swallow the cancellation; that somebody asked for it is still known.
        while task is None or not task.cancelling():
            async with open_place(call) as place:
                lines = [line async for line in _watched(place)]
            if lines != shown:
                _redraw(call, lines)
                shown = lines
            await asyncio.sleep(_PAUSE)
    return 0


async def _watched(place: OpenedPlace) -> AsyncIterator[str]:
    info = await place.session_or_newest()
    fill = (await place.workspace.read_window(info)).fill
    pins = [pin for pin in await place.workspace.pins(info) if pin.kind != "note"]
    receipts = await compactor.receipts(place.workspace, info)
    yield f"{info.name}: {plural(info.messages, 'message')}"
    yield f"{fill.percent:.0f} % of the window, {kilo(fill.tokens)} tokens"
    yield plural(len(pins), "pin")
    if receipts:
        last = receipts[-1]
        yield f"last: {last.ref} {kilo(last.before)} -> {kilo(last.after)} tokens"


def _redraw(call: Invocation, lines: Sequence[str]) -> None:
    if not call.screen.is_terminal:
        call.screen.say("; ".join(lines))
        call.screen.flush()
        return
    call.screen.write_bytes(_HOME_AND_CLEAR.encode())
    for line in lines:
        call.screen.say(line)
    call.screen.say(call.screen.dim("Ctrl-C ends this"))
    call.screen.flush()


def _lines_of(stats: Stats, screen: Screen) -> Iterator[str]:
    info = stats.info
    about = f", {info.traits.model}" if info.traits.model else ""
    said = f"{plural(info.messages, 'message')}{about}, last {describe_moment(info.updated)}"
    yield f"{screen.bold(info.name)}: {said}"
    yield screen.fill_line(stats.fill)
    yield from _lines_of_parts(stats.fill)
    yield _describe_pressure(stats.pressure)
    yield from map(str, stats.held)
    if stats.is_pressed:
        yield "a limit on model calls is near: acts 10 points earlier, keeps one recent turn less"
    yield _describe_gain(stats.would_free)
    pins = f": {join_refs((pin.number for pin in stats.pins), 'p')}" if stats.pins else ""
    yield f"{plural(len(stats.pins), 'pin')}{pins}; {tiers_text(stats)}"
    if stats.last is not None:
        sizes = f"{kilo(stats.last.before)} -> {kilo(stats.last.after)}"
        yield f"last: {stats.last.ref} {sizes} tokens, {describe_moment(stats.last.at)}"
    if stats.regret.recalls:
        yield regret_line(stats.regret)
    if stats.grade is not None:
        yield describe_grade(stats.grade)
    yield from map(for_person, offer_lines(stats.offer))
    if stats.events:
        yield f"so far: {describe_events(stats.events)}"
    if stats.last_fall:
        yield f"last fall: {for_person(stats.last_fall)}"
    yield from stats.paid.splitlines()
    if stats.system.calls:
        yield spent_line(stats.system)


def describe_events(events: Iterable[tuple[str, int]]) -> str:
    """The events with how often each happened: `compactions completed: 2, safety net: 1`."""
    counts = dict(events)
    ordered = [name for name in _EVENTS if name in counts]
    ordered += [name for name in counts if name not in _EVENTS]
    titles = [_EVENTS.get(name) or name.lower().replace("_", " ") for name in ordered]
    return ", ".join(
        f"{title}: {counts[name]:,}" for title, name in zip(titles, ordered, strict=True)
    )


def _describe_gain(outcome: Outcome) -> str:
    if isinstance(outcome, Projection):
        freed = kilo(outcome.before - outcome.after)
        sizes = f"{kilo(outcome.before)} -> {kilo(outcome.after)}"
        held = f"; may fall short: {outcome.shortfall}" if outcome.shortfall else ""
        return f"compressing now would free at least {freed} tokens: {sizes}{held}"
    return for_person(would_not_pay(outcome))


def _lines_of_parts(fill: Fill) -> Iterator[str]:
    parts = [f"{name} {kilo(fill.scaled(tokens))}" for name, tokens in fill.parts if tokens]
    roles = [f"{role} {kilo(fill.scaled(tokens))}" for role, tokens in fill.by_role]
    more = fill.tokens - fill.view_tokens
    if parts and more > fill.window // 100:
        ours = f"in our view, {kilo(fill.view_tokens)}: {', '.join(parts)}"
        yield f"{ours}; the host shows {kilo(more)} more"
    elif parts:
        yield "in it: " + ", ".join(parts)
    if roles:
        yield "messages by role: " + ", ".join(roles)


def _describe_pressure(pressure: Pressure) -> str:
    now = {
        "calm": "calm: there is room",
        "advise": "getting full: compress at the next good moment",
        "wait": "getting full: a loop's next record at a boundary compresses",
        "act": "full: a loop's next record compresses by itself",
        "safety net": "full: compress now; a loop's next record does it by itself",
    }[pressure.level]
    down = f"goes down to {pressure.release_percent:.3g} %"
    return f"{now}; acts {describe_trigger(pressure)}, {down}"
