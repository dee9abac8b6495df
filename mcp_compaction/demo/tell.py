"""The result of a played session in words: before and after, what was freed, what still holds."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from mcp_compaction.core.compaction.ladder import shown_as
from mcp_compaction.core.wording import kilo
from mcp_compaction.demo.play import Figures
from mcp_compaction.model import Receipt, Tally

_WIDTH = 40
_SMALL = 20
_TEXT = 92
_MOST_LINES = 6  # of the passage that came back


def tell(figures: Figures) -> Iterator[list[str]]:
    """The result of a played session in paragraphs, each a heading and its lines."""
    yield list(_tell_window(figures))
    yield list(_tell_freed(figures.receipt))
    yield list(_tell_checked(figures.receipt.tallies))
    yield list(_tell_rule(figures))
    yield list(_tell_recalled(figures))
    yield list(_tell_soundness(figures))


def broken_promises_of(figures: Figures) -> list[str]:
    """The promises that did not hold."""
    return [promise for promise, holds in figures.promises() if not holds]


def _tell_window(figures: Figures) -> Iterator[str]:
    receipt = figures.receipt
    said = f"{figures.messages} messages, {figures.calls} tool calls"
    yield f"a coding session of {said}, up to {figures.largest_batch} calls at once"
    if figures.advice:
        yield f"  context_stats said: {figures.advice}"
    for name, tokens in (("before", receipt.before), ("after", receipt.after)):
        percent = 100 * tokens / receipt.window
        size = f"{tokens:,} of {receipt.window:,} tokens ({receipt.precision})"
        yield f"  {name:6} {draw_bar(percent, _WIDTH)} {percent:3.0f} %  {size}"
    spans = [f"m{r.first}..m{r.last} is now the digest d{r.digest}" for r in receipt.replaced]
    yield f"  compaction {receipt.ref}: {'; '.join(spans) or 'no digest was needed'}"
    if receipt.shortfall:
        yield f"  shortfall: {receipt.shortfall}"


def _tell_freed(receipt: Receipt) -> Iterator[str]:
    freed = [freed for freed in receipt.freed if freed[1] > 0]
    most = max((tokens for _, tokens in freed), default=1)
    yield "what each rung freed, gentlest first"
    for rung, tokens in freed:
        yield f"  {shown_as(rung):24} {draw_bar(100 * tokens / most, _SMALL)} {tokens:7,}"
    back = sum(tokens for _, tokens in freed) - (receipt.before - receipt.after)
    if back > 0:
        yield f"  {'put back by the check':24} {' ' * (_SMALL + 2)} {-back:7,}"


def _tell_checked(tallies: tuple[Tally, ...]) -> Iterator[str]:
    yield "checked before it counted    in the window   by recall   lost"
    for tally in tallies:
        numbers = f"{tally.retained:13,}   {tally.recoverable:9,}   {tally.lost:4,}"
        yield f"  {tally.kind:26} {numbers}"


def _tell_rule(figures: Figures) -> Iterator[str]:
    yield "the rule, word for word"
    yield indent(figures.rule, "  | ")
    left = "still stands in the window" if figures.rule_message_in_window else "left the window"
    yield f"  said once, in {figures.rule_message}, which {left}; pinned by the agent at once"
    verdict = "the same" if figures.rule_in_window else "NOT all the same"
    yield f"  its {figures.rule_bytes} bytes against the context a model is sent: {verdict}"


def _tell_recalled(figures: Figures) -> Iterator[str]:
    asked = figures.recollection
    yield f"a detail that is {'STILL' if asked.in_window else 'no longer'} in the window, recalled"
    yield f'  recall_archived "{asked.query}"'
    if asked.ref is None:
        yield f"  NOT found: {asked.detail}"
        return
    lines = asked.passage.splitlines()
    place = next((n for n, line in enumerate(lines) if asked.detail in line), 0)
    first = max(0, place - _MOST_LINES // 2)
    yield f"  {asked.ref}, lines {first + 1} to {min(len(lines), first + _MOST_LINES)}:"
    for line in lines[first : first + _MOST_LINES]:
        yield f"  | {line[:_TEXT]}".rstrip()


def _tell_soundness(figures: Figures) -> Iterator[str]:
    yield "and besides"
    shown = f"{figures.shown_messages} messages to send"
    faults = "; ".join(figures.provider_faults)
    yield f"  {shown}: {f'NOT valid: {faults}' if faults else 'valid for the Messages API'}"
    missing = ", ".join(figures.archive_faults)
    kept = f"NOT as they were said: {missing}" if missing else "as they were said, all of them"
    yield f"  {figures.messages} messages in the archive: {kept}"
    yield f"  undo: restore_context {figures.receipt.ref} gives the window back as it was"
    saved = kilo(figures.receipt.before - figures.receipt.after)
    yield f"  {saved} tokens less in every request from here on; no model, no key, no network"


def draw_bar(percent: float, width: int) -> str:
    """A bar that is full at 100 percent."""
    full = min(width, round(width * percent / 100))
    return f"[{'#' * full}{'.' * (width - full)}]"
