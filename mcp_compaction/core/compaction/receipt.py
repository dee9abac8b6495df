"""The receipt of a compaction, and what else a caller is told of its outcome."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mcp_compaction.core.compaction.budget import Held, Shortfall
from mcp_compaction.core.compaction.ladder import shown_as
from mcp_compaction.core.digest.check.draft import Fault, Refused, Stripped
from mcp_compaction.core.limits import LONGEST_LINE
from mcp_compaction.core.text.injection import defuse
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import first_line, shorten
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import (
    NO_DIGEST,
    OWN_AUTHORS,
    Candidate,
    FactOffer,
    Mode,
    Offer,
    Outcome,
    Projection,
    Receipt,
    RunningJob,
    Spent,
    Tally,
)

_ASK_TO_KEEP = "to ask the user whether to keep one: pin_constraint kind=fact scope=project"
_MOST_JOBS = 5  # named
_NO_MODEL = (*OWN_AUTHORS, NO_DIGEST)
_TAKEN_OVER: dict[Mode, str] = {
    "turn": "when this turn ends",
    "host": "when the host next compacts, by itself or by /compact",
}
_VERBS = {"restore": "restored", "page_in": "paged in"}
NO_ROOM_FOR_PROSE = "the model's prose said nothing new or had no room, and was left out"
_REFUSED_FOR = {
    "empty": "it is empty",
    "too_long": "it is too long for its span",
    "nothing_believed": "nothing in it could be believed",
}
_FAULTS: dict[Fault, str] = {  # in the order of their weight
    "invented": "named numbers or names that stand nowhere in the window: left out",
    "contradicted": "told what calls contradict: marked with what the log shows",
    "unshown": "claimed what nothing in the window shows: marked as unshown",
    "willed": "claimed a wish or consent of the user without words of theirs: left out",
    "order": "gave an order no user gave: left out",
    "forged": "posed as another part of the window: left out",
    "unsaid": "quoted what nobody said: left out",
    "touching": "spoke of what a rule is about: marked with it",
    "unquoted": "named a rule or task that no message states: put under UNCERTAIN",
    "unreadable": "held signs that cannot be shown: taken out",
}
_BARE_NAME = pattern_of(r"(?!\w*://)[\w.#%/+-]{1,32}(?:[= ]\d[\d.]{0,15}[%a-zA-Z]{0,3})?", re.ASCII)


def outcome_text(outcome: Outcome, mode: Mode = "own", session: str = "") -> str:
    """What a caller is told; `session`: the name by which a fresh chat goes on."""
    match outcome.kind:
        case "compaction":
            lines = (receipt_text(outcome.receipt, mode, session), *running_lines(outcome.running))
            return "\n".join(lines)
        case "projection":
            return projection_text(outcome)
        case _:
            return outcome.text


def running_lines(running: Sequence[RunningJob]) -> tuple[str, ...]:
    """What runs in the background while its window is compacted: what comes of it is not told."""
    named = [f"{first_line(defuse(j.text))}{f' ({j.id})' * bool(j.id)}" for j in running]
    told = f"still running: {plural(len(named), 'job')}: {'; '.join(named[:_MOST_JOBS])}"
    return (f"{told}. What comes of it is told later: wait, or go on.",) * bool(named)


def would_not_pay(outcome: Outcome) -> str:
    """Why compressing now frees nothing, to one who only asked how things stand."""
    reason = outcome_text(outcome).removeprefix("not compressed: ").removeprefix("nothing to do: ")
    return f"compressing now would not pay: {reason}"


def receipt_text(receipt: Receipt, mode: Mode = "own", session: str = "") -> str:
    """A receipt in short lines."""
    if receipt.kind == "digest":
        return _own_digest_text(receipt, session)
    spans = ", ".join(f"m{r.first}..m{r.last} is now d{r.digest}" for r in receipt.replaced)
    verb = _VERBS.get(receipt.kind, "done")
    size = f"{kilo(receipt.before)} -> {kilo(receipt.after)} of {kilo(receipt.window)} tokens"
    lines = [
        f"{receipt.ref} {verb}: {size} ({receipt.precision}).{' ' + spans + '.' if spans else ''}"
    ]
    if receipt.freed:
        lines.append("freed: " + _freed_text(receipt.freed))
    models = [name for name in receipt.author.split(", ") if name not in _NO_MODEL]
    if models:
        lines.append(f"prose by {defuse(', '.join(models))}, laid onto what was extracted")
    lines += _checked_lines(receipt.tallies)
    if receipt.shortfall:
        lines.append(f"shortfall: {receipt.shortfall}")
    lines += [f"note: {defuse(note)}" for note in receipt.notes]
    lines += offer_lines(receipt.offer)
    lines.append(_window_line(receipt, mode, session))
    return "\n".join(lines)


def offer_lines(offer: Offer) -> list[str]:
    """Rules a user stated and nobody has pinned, facts for later sessions, and how to keep them."""
    lines: list[str] = []
    if offer.candidates:
        more = f"; {offer.more} more after these" if offer.more else ""
        lines += [f"rule not pinned? {_quotation_of(candidate)}" for candidate in offer.candidates]
        lines.append(f"to keep one in sight: pin_constraint with its exact words{more}")
    if offer.facts:
        lines += [f"fact for later sessions? {_quotation_of_fact(fact)}" for fact in offer.facts]
        lines.append(_ASK_TO_KEEP)
    return lines


def _quotation_of_fact(fact: FactOffer) -> str:
    return f'{fact.ref}: "{defuse(fact.text)}"{f" [{fact.by} says]" if fact.by else ""}'


def spent_line(spent: Spent) -> str:
    """What summarizers took for a session, apart from what the agent itself takes: `system`."""
    calls = plural(spent.calls, "model call")
    failed = f" ({spent.failed:,} failed)" if spent.failed else ""
    cached = f" ({kilo(spent.cached_tokens)} cached)" if spent.cached_tokens else ""
    tokens = f"{kilo(spent.input_tokens)} tokens in{cached}, {kilo(spent.output_tokens)} out"
    cost = f", ${spent.cost:.4f}" if spent.cost else ""
    return f"system: {calls}{failed}, {tokens}{cost}, {spent.seconds:.1f} s"


def projection_text(projection: Projection) -> str:
    """What a dry run found."""
    spans = ", ".join(f"m{first}..m{last}" for first, last in projection.spans)
    lines = [
        f"dry run: {kilo(projection.before)} -> at most about {kilo(projection.after)} of "
        f"{kilo(projection.window)} tokens ({projection.precision}). Nothing was changed."
    ]
    if projection.freed:
        lines.append("would free: " + _freed_text(projection.freed))
    if spans:
        lines.append(f"would become a digest: {spans}")
    if projection.shortfall:
        lines.append(f"may fall short: {projection.shortfall}")
    return "\n".join(lines)


def _quotation_of(candidate: Candidate) -> str:
    ref, text = candidate.ref, defuse(candidate.text)
    who = f"{ref} user, as the agent told it" if candidate.is_told else f"{ref} user"
    text = shorten(text, LONGEST_LINE)
    shown = f'{who}: "{text}"'
    return shown if text == candidate.text else f"{shown}; pin it word for word from {ref}"


def _freed_text(freed: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{shown_as(rung)} {kilo(tokens)}" for rung, tokens in freed if tokens > 0)


def _checked_lines(tallies: tuple[Tally, ...]) -> list[str]:
    if not tallies:
        return []
    lines = [t for t in tallies if t.kind in ("rules", "open tasks")]
    things = [t for t in tallies if t not in lines]
    found = [f"{t.kind} {t.retained}/{t.total} in view" for t in lines]
    found += [f"{t.kind} {t.retained} in view, {t.recoverable} by recall" for t in things]
    return [f"checked: {'; '.join(found)}; lost {sum(t.lost for t in tallies)}"]


def _window_line(receipt: Receipt, mode: Mode, session: str) -> str:
    undo = f"undo: restore_context {receipt.ref}"
    if mode in _TAKEN_OVER:
        what = "as it was" if receipt.kind == "restore" else "smaller"
        return f"window: {what} {_TAKEN_OVER[mode]}; unchanged until then. Go on. {undo}"
    if mode != "own":
        what = "as it was" if receipt.kind == "restore" else "smaller"
        return (
            f"window: the host's, and unchanged; {what} is the view that a fresh chat starts from."
            f"{_fresh_chat_text(session)}\n{undo}"
        )
    if receipt.kind == "restore":
        return f"window: as it was, with everything said since.\nnext: go on. {undo}"
    size = "larger" if receipt.kind == "page_in" else "smaller"
    return f"window: {size} from your next step. {undo}"


def _own_digest_text(receipt: Receipt, session: str) -> str:
    name = f' as "{session}"' if session else ""
    return (
        f"{receipt.ref} saved{name}: your digest is kept as d{receipt.replaced[0].digest}. It "
        f"stands for nothing that was recorded, so it is unchecked.{_fresh_chat_text(session)}"
    )


def _fresh_chat_text(session: str) -> str:
    if not session:
        return ""
    return f' Tell the user: "For a fresh window open a new chat and write: continue {session}"'


def notes_of_check(checked: Stripped | Refused) -> tuple[str, ...]:
    """The notes on a draft that was refused, or that had lines at fault."""
    if isinstance(checked, Stripped):
        return _notes_of_faults(checked)
    if checked.author == "extractive":  # a short span is its own best digest: no fault of anyone's
        return ()
    reason = _REFUSED_FOR[checked.reason]
    refused = f"the draft of {checked.author} was refused: {reason}; extracted instead"
    return (refused, *(_notes_of_faults(checked.stripped) if checked.stripped else ()))


def _notes_of_faults(stripped: Stripped) -> tuple[str, ...]:
    lines = dict(stripped.faults)
    return tuple(
        f"{plural(lines[fault], 'line')} of the draft {what}"
        + (_list_names(stripped.invented) if fault == "invented" else "")
        for fault, what in _FAULTS.items()
        if fault in lines
    )


def _list_names(invented: Iterable[str]) -> str:
    """The invented names; a reader could take more than a bare word for an order."""
    bare = ", ".join(filter(_BARE_NAME.fullmatch, invented))
    return f" ({bare})" if bare else ""


def describe_fill(fill: Fill) -> str:
    """How full the window is: `120k of 200k tokens is 60 %`."""
    return f"{kilo(fill.tokens)} of {kilo(fill.window)} tokens is {fill.percent:.0f} %"


def describe_held(held: Held, fill: Fill) -> str:
    """What holds a window, with the tokens of each."""
    named = (
        ("system and tools", held.system),
        ("pins", held.pins),
        ("the first request", held.first_request),
        ("recent steps", held.recent_steps),
        ("older steps", held.older_steps),
        ("digests", held.digests),
        ("excerpts", held.excerpts),
    )
    return ", ".join(f"{name} {kilo(fill.scaled(tokens))}" for name, tokens in named if tokens)


def describe_shortfall(shortfall: Shortfall, fill: Fill) -> str:
    """What keeps the window above the goal, with the numbers."""
    reached, wanted = (kilo(fill.scaled(n)) for n in (shortfall.after, shortfall.goal))
    held = describe_held(shortfall.held, fill)
    text = f"{reached} is above the target of {wanted}: held by {held}"
    if shortfall.is_fixed:
        fixed = kilo(fill.scaled(shortfall.held.fixed))
        text += (
            f". The fixed sections alone take {fixed} of {kilo(fill.window)}: shorten the system "
            "prompt, the tools or the pins"
        )
    return text
