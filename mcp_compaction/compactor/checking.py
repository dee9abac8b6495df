"""Checks beside pins: offered for a rule, tried on the recorded past, set by the user alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from mcp_compaction.checks.check import NoCheckError, PinCheck, parse_checks
from mcp_compaction.checks.file import HeldNote
from mcp_compaction.checks.judge import Deed, Rule, is_green, judge
from mcp_compaction.checks.match import Call
from mcp_compaction.checks.offer import offer_checks
from mcp_compaction.compactor.results import HeldCalls, PastCall, Trial
from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core.log.conversation import is_own_tool
from mcp_compaction.core.log.endings import ending_of_call
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.errors import InputError, NeedsUser, UnknownRef
from mcp_compaction.model import Author, Message, Pin, SessionInfo, ToolResult
from mcp_compaction.ports import Scope

_MOST_SESSIONS = 20  # the newest, on which a check is tried
_PAGE = 1_000
_MOST_SHOWN = 90  # characters of a call


async def describe_check(work: Workspace, info: SessionInfo, pin: Pin) -> str:
    """The check offered for a rule and what it would have done; blank: there is none."""
    checks = () if pin.checks else checks_for(pin)
    if not checks:
        return ""
    past = trial_text(await try_checks(work, info.project, checks, info), most=3)
    return (
        f"a check can hold {pin.ref} before a tool runs: {'; '.join(map(str, checks))} "
        f"({past}); only the user can take it: mcp-compaction pins check {pin.ref} --accept"
    )


def checks_for(pin: Pin) -> tuple[PinCheck, ...]:
    """The checks that are offered for a pin; none for one that is no rule."""
    return offer_checks(pin.text) if pin.kind == "constraint" else ()


async def set_checks(
    work: Workspace, info: SessionInfo, ref: str, lines: str, by: Author
) -> tuple[PinCheck, ...]:
    """Set the checks beside a pin; blank lines take them away. NeedsUser for an agent: it can
    neither set, widen nor lift one."""
    if by != "user":
        raise NeedsUser(f"the checks of {ref} are the user's")
    number = number_of(ref, "p")
    pins = await work.store.pins(scope_of(info), work.now())
    if all(pin.number != number for pin in pins):
        raise UnknownRef(f"no pin {ref} in force here.")
    checks = read_checks(lines)
    await work.store.set_checks(scope_of(info), number, "\n".join(map(str, checks)))
    return checks


def read_checks(lines: str) -> tuple[PinCheck, ...]:
    """The checks that are written one a line."""
    try:
        return parse_checks(lines)
    except NoCheckError as error:
        raise InputError(str(error)) from None


async def try_checks(
    work: Workspace, project: str, checks: Sequence[PinCheck], info: SessionInfo | None = None
) -> Trial:
    """What checks would have done in the recorded past of a project, or of one session."""
    sessions = (
        (info,) if info else await work.store.sessions(Scope(project=project), _MOST_SESSIONS)
    )
    trial = Trial(calls=0)
    for one in sessions:
        found: list[PastCall] = []
        messages = await _messages_of(work, one)
        calls = await work.threads.run(_try, messages, tuple(checks), project, one.name, found)
        trial = Trial(calls=trial.calls + calls, held=(*trial.held, *found))
    return trial


async def _messages_of(work: Workspace, info: SessionInfo) -> list[Message]:
    found: list[Message] = []
    while page := await work.store.originals(
        scope_of(info), after=found[-1].seq if found else 0, limit=_PAGE
    ):
        found += (one.message for one in page)
    return found


def _try(
    messages: Sequence[Message],
    checks: tuple[PinCheck, ...],
    project: str,
    session: str,
    found: list[PastCall],
) -> int:
    """Judge each call of a session as it would have been judged then; how many there were."""
    rule = Rule(0, "", checks, project=project)
    deeds: list[Deed] = []
    results = {result.call: result for message in messages for result in message.results}
    calls = 0
    for message in messages:
        for call in message.calls:
            if is_own_tool(call.name):
                continue
            calls += 1
            given = cast("dict[str, Any]", call.arguments)
            made = Call(call.name, given, project, project)
            for held in judge(made, [rule], lambda: reversed(deeds))[:1]:
                part = " ".join(held.part.split())[:_MOST_SHOWN]
                past = PastCall(session=session, ref=message.ref, verdict=held.verdict, text=part)
                found.append(past)
            result = results.get(call.id)
            green = None if result is None else is_green(result.is_error, result.text)
            deeds.append(Deed(call.name, given, green))
    return calls


async def held_calls(work: Workspace, info: SessionInfo) -> tuple[HeldCalls, ...]:
    """How often each pin held a call of a session, where, and which of them the user allowed."""
    notes = [
        note
        for note in await work.store.held()
        if info.host_session and note.session == info.host_session
    ]
    if not notes:
        return ()
    known = await work.store.messages_of_calls(scope_of(info), [note.call for note in notes])
    wanted = sorted({seq for seqs in known for seq in seqs})
    originals = await work.store.originals(scope_of(info), wanted) if wanted else ()
    results = {result.call: result for one in originals for result in one.message.results}
    found: dict[int, HeldCalls] = {}
    for note, seqs in zip(notes, known, strict=True):
        if note.verdict == "remind":
            continue
        before = found.get(note.pin, HeldCalls(pin=note.pin))
        is_past = note.verdict == "allowed" or _was_allowed(note, results.get(note.call))
        refs = (*before.refs, f"m{seqs[0]}") if seqs else before.refs
        allowed, times = before.allowed + is_past, before.times + 1
        found[note.pin] = HeldCalls(pin=note.pin, times=times, refs=refs, allowed=allowed)
    return tuple(found.values())


def _was_allowed(note: HeldNote, result: ToolResult | None) -> bool:
    """Whether the user let a call run that was asked about: its result is the tool's own."""
    if note.verdict != "ask" or result is None:
        return False
    return f"pin p{note.pin}, by" not in result.text and ending_of_call(result) != "refused"


def trial_text(trial: Trial, most: int = 5) -> str:
    """What checks would have done, in a sentence."""
    return "; ".join(_trial_parts(trial, most))


def _trial_parts(trial: Trial, most: int) -> Iterator[str]:
    stopped = [one for one in trial.held if one.verdict == "deny"]
    asked = [one for one in trial.held if one.verdict == "ask"]
    reminded = [one for one in trial.held if one.verdict == "remind"]
    shown = ", ".join(f"{one.ref} `{one.text}`" for one in stopped[:most])
    calls = f"{trial.calls:,} recorded call{'s' if trial.calls != 1 else ''}"
    yield f"would have stopped {len(stopped)} of {calls}" + (f": {shown}" if shown else "")
    for verb, ones in (("asked about", asked), ("reminded of", reminded)):
        if ones:
            shown = ", ".join(f"{one.ref} `{one.text}`" for one in ones[:most])
            yield f"{verb} {len(ones)}: {shown}"
