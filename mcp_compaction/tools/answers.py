"""The answers of the tools: short lines of text, the fill last; where hooks or the system do the
work, they say so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from mcp_compaction.compactor.gauge import Regret, Stats
from mcp_compaction.compactor.results import (
    COMPLETED,
    FAILED,
    FALLBACK,
    HOST_COMPACTED,
    HOST_SUMMARY_CHECKED,
    SAFETY_NET,
    Pinned,
    Prepared,
)
from mcp_compaction.core.compaction.grading import describe_grade
from mcp_compaction.core.compaction.receipt import (
    offer_lines,
    outcome_text,
    running_lines,
    spent_line,
    would_not_pay,
)
from mcp_compaction.core.log.outline import RequestRun
from mcp_compaction.core.log.pinned import pinned_block, shown_text, way_of
from mcp_compaction.core.text.injection import defuse, defuse_lines
from mcp_compaction.core.window.fill import Fill, Pressure, describe_trigger
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import Compaction, Mode, Outcome, Pin, PinScope, Projection, SessionInfo

SYSTEM_COMPACTS = (
    "compress_context is not offered here (setting agent_controlled): the system compacts by "
    "itself, and context_stats tells from which fill on. Nothing was done; go on."
)


def compacting_line(fill: Fill) -> str:
    """The line that this process is compacting a full window."""
    return (
        f"the window is {fill.percent:.0f} % full: a compaction is under way; go on, an answer for "
        "this session brings its receipt and directive once it has ended"
    )


def compacting_elsewhere_line(fill: Fill) -> str:
    """The line that another process is compacting a full window."""
    return (
        f"the window is {fill.percent:.0f} % full: another process is compacting it; go on, its "
        "view counts once it has ended"
    )


def relief_text(outcome: Outcome, name: str, *, by_agent: bool) -> str:
    """The result of compacting a full window without being asked.

    `by_agent`: the agent could compress too, and is told how.
    """
    told = outcome_text(outcome, "own", name)
    if not by_agent and not isinstance(outcome, Compaction):
        told = drop_advice(told)
    return f"the window was full:\n{told}"


def drop_advice(text: str) -> str:
    """The reason why nothing was done, without the arguments that would force it."""
    return f"{text.partition('. ')[0].removesuffix('.')}. Go on."


ALREADY_PREPARED = (
    "already prepared: nothing was said since. The host's next compaction uses it, and calling "
    "again frees nothing. Go on."
)


class HookedChat(NamedTuple):
    """A chat of which hooks of its host tell."""

    host: str
    is_fill_reported: bool
    limit: int | None  # the tokens that the fill is told against; None: not known
    where: str = ""  # what happens there

    def describe_fill(self, tokens: int) -> str:
        """How full the window is as the host reports it, as far as its limit is known."""
        if self.limit is None:
            known = f"{kilo(tokens)} tokens as {self.host} reports"
            return f"in the window: {known}; at how many it compacts is not known"
        percent = 100 * tokens / self.limit
        return (
            f"fill: {kilo(tokens)} of {kilo(self.limit)} tokens ({percent:.0f} %, as {self.host} "
            f"reports); {self.where}"
        )


def describe_hook(put_back: datetime | None) -> str:
    """The hook that puts pins back, and when it last did."""
    after = "after the host's own compaction"
    if put_back is None:
        return f"{after} a hook is to put the pins back"
    return f"a hook last put the pins back {after} {put_back:%b %d %H:%M}"


def prepared_text(prepared: Prepared, pins: int) -> str:
    """What a host's next compaction will bring back."""
    return "\n".join(
        [
            f"ready: after the host's next compaction {plural(pins, 'pin')}, the digests of all up "
            f"to m{prepared.digested_upto} and the index are put back. The window is unchanged "
            "until then, and calling again frees nothing.",
            *(f"note: {defuse(note)}" for note in prepared.notes),
            *running_lines(prepared.running),
            "next: go on, or tell the user that this is a good moment for /compact.",
        ]
    )


BUDGET_LABEL = "[context budget]"
_BUDGET_LINE = re.compile(
    re.escape(BUDGET_LABEL) + r" fill: \S+ of \S+ tokens \(\d+ %, [^()\n]+\), room [^\s;]+"
    r"(?:; \d+ % full[,:] .+)?"
)

_MOST_ANNOUNCED = 160
_EVENTS = {
    COMPLETED: "compactions",
    HOST_COMPACTED: "compactions by the host",
    HOST_SUMMARY_CHECKED: "summaries of the host checked",
    SAFETY_NET: "safety net",
    FAILED: "failed compactions",
    FALLBACK: "falls to another summarizer",
}


def fill_line(fill: Fill) -> str:
    """The line that carries the current fill."""
    return (
        f"fill: {kilo(fill.tokens)} of {kilo(fill.window)} tokens ({fill.percent:.0f} %, "
        f"{fill.precision}), room {kilo(fill.room)}"
    )


def budget_line(fill: Fill, pressure: Pressure, *, by_agent: bool) -> str:
    """One line for a loop to show before each answer: the fill, and advice when it is due."""
    advice = _advice_on(pressure, fill, by_agent)
    return "; ".join([f"{BUDGET_LABEL} {fill_line(fill)}", *advice])


def is_budget_line(text: str) -> bool:
    """Whether a text is such a line and nothing else."""
    return _BUDGET_LINE.fullmatch(text) is not None


RECORDING_OFF = (
    "recording is off for this chat: nothing that is said from now on is kept, until "
    'record_messages(messages={"record": true}) or mcp-compaction set --record on. Tell the user.'
)
RECORDING_ON = "recording is on: what is said from now on is kept. Tell the user."
NOT_KEPT = "not kept in the window, which is the host's to fill; here it is once:"


_PINS_KEPT: dict[Mode, str] = {
    "own": "it stands in every view of this session",
    "turn": "this answer shows it, and so does every view after a compaction",
    "host": "this answer shows it, and so does every view after a compaction",
    "hooks": "{back}; where they are missing, context_stats and recall_archived show them first",
    "plain": "our tools show it, but nothing is known to put it back after the host's own "
    "compaction: then call context_stats or recall_archived, which show the pins first",
}


def pin_text(done: Pinned, mode: Mode, put_back: datetime | None = None) -> str:
    """The new or known pin, and where it will be seen."""
    pin = done.pin
    verb = "pinned" if done.is_new else "already pinned"
    source = (
        f", {'words' if pin.author == 'agent' else 'said'} in {pin.source}" if pin.source else ""
    )
    until = f", until {pin.expires:%Y-%m-%d %H:%M} UTC" if pin.expires else ""
    until += ", longer while sessions use it" if pin.used else ""
    about = f"{pin.kind}, {pin.scope}, by {pin.author}{source}{until}"
    lines = [f"{verb} as {pin.ref} ({about}): {shown_text(pin.text)}"]
    if done.whole:
        lines.append(f"in {pin.source} other words govern these; {done.whole}")
    if pin.kind == "note":
        lines.append("kept and searchable, not shown in the pinned block")
    else:
        kept = _PINS_KEPT[mode].format(back=describe_hook(put_back))
        lines.append(f"the pinned block takes {done.block_tokens} tokens; {kept}")
    return "\n".join(lines)


_HOLDS: Mapping[PinScope, str] = {
    "session": "in this session",
    "project": "in the project",
    "global": "in every project",
}


def unanswered_line(pin: Pin, wanted: PinScope) -> str:
    """What became of a wish that the user did not answer in time."""
    return (
        f"the user was asked and did not answer in time: this is the {pin.author}'s pin, for this "
        f"{pin.scope}. To have it hold {_HOLDS[wanted]}, ask the user to run: "
        f"mcp-compaction pin --scope {wanted} TEXT"
    )


def new_pin_lines(pins: Sequence[Pin], said: str) -> list[str]:
    """Pins that bind this session and that no other was told of: who, when and by which way.

    Their words come with them unless what was said already holds them.
    """
    if not pins:
        return []
    lines = ["pinned for others since the last session here; tell the user:"]
    for pin in pins:
        reach = "this project" if pin.scope == "project" else "every project"
        session = f" in session {pin.session}" if pin.session else ""
        who = f"by {pin.author} {way_of(pin)}{session}, {describe_moment(pin.at)}"
        words = start_of(defuse(pin.text), _MOST_ANNOUNCED)
        lines.append(
            f"{pin.ref} for {reach}, {who}{'' if shown_text(pin.text) in said else f': {words}'}"
        )
    return lines


def only_session_line(info: SessionInfo) -> str:
    """The session that was taken, where the host does not say which chat is calling."""
    return (
        f'session "{info.name}": the only one this server has used. If this is another chat, undo '
        "that and pass session=NEW-NAME"
    )


def release_text(pin: Pin) -> str:
    """The pin that was released."""
    words = shown_text(pin.text)
    return f"released {pin.ref} ({pin.kind}, by {pin.author}): {words}\nstill found by recall"


def start_of(text: str, most: int) -> str:
    """The first words of a text, of so many characters at most."""
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"


def new_session_text(info: SessionInfo, inherited: Sequence[Pin], is_told: bool) -> str:
    """The name of a new session, and the pins it has from earlier ones of its project.

    `is_told`: the host says with each call which chat is calling, so that none need be named.
    """
    line = f'new session "{info.name}"'
    line += "" if is_told else f': pass session="{info.name}" from now on'
    return f"{line}\n{pinned_block(inherited)}" if inherited else line


def sessions_text(found: Sequence[SessionInfo]) -> str:
    """The newest sessions, to choose from."""
    lines = ['which session? Pass session="NAME":']
    lines += [
        f"{name_and_title(info)}: {info.messages} messages, last used {info.updated:%Y-%m-%d %H:%M}"
        for info in found
    ]
    return "\n".join(lines)


def name_and_title(info: SessionInfo) -> str:
    """A session's name, and behind it its title, harmless to a model."""
    return f'{info.name} "{defuse_lines(info.title)}"' if info.title else info.name


def stats_text(
    found: Stats,
    mode: Mode,
    cues: Sequence[str],
    passages: Sequence[RequestRun],
    *,
    by_agent: bool = True,
    hooked: HookedChat | None = None,
) -> str:
    """Pins in their words, then advice, and what this host can shrink; who answers adds the fill.

    `by_agent`: the agent decides when to compress; else the system does.
    """
    info, fill = found.info, found.fill
    known = f", this chat as the hooks of {hooked.host} tell it" if hooked is not None else ""
    lines = [f"session {info.name} of project {info.project}{known}"]
    lines.append(pinned_block(p for p in found.pins if p.kind != "note") or "no pins")
    lines += _fill_lines(found, mode, by_agent, hooked)
    if cues and not by_agent:
        lines.append(f"{', '.join(cues)}: a boundary")
    elif cues and isinstance(found.would_free, Projection):
        lines.append(f"{', '.join(cues)}: a good moment to compress")
    lines.append(f"tiers: {tiers_text(found)}")
    lines += map(str, found.held)
    lines += offer_lines(found.offer)
    for name, number in found.events:
        lines.append(f"{_EVENTS.get(name) or name.lower().replace('_', ' ')}: {number}")
    if found.last_fall:
        lines.append(f"last fall: {defuse(found.last_fall)}")
    if found.system.calls:
        lines.append(spent_line(found.system))
    if found.is_pressed:
        lines.append("a limit on model calls is near: the trigger is lower, one recent turn less")
    if found.regret.recalls:
        lines.append(regret_line(found.regret))
    if found.grade is not None:
        lines.append(describe_grade(found.grade))
    lines.append(_describe_window(info, mode, by_agent))
    lines += [f"m{p.first}..m{p.last} {p.about}, {kilo(fill.scaled(p.tokens))}" for p in passages]
    if passages and found.unread:
        lines.append(f"{found.unread:,} messages between the first and the newest are not outlined")
    return "\n".join(lines)


def tiers_text(found: Stats) -> str:
    """Where the messages of a session are: in the window, behind digests, in the archive."""
    return (
        f"WORKING {plural(found.shown, 'message')}, RECALL {plural(found.digests, 'digest')}, "
        f"ARCHIVE {plural(found.info.messages, 'message')}"
    )


def _fill_lines(found: Stats, mode: Mode, by_agent: bool, hooked: HookedChat | None) -> list[str]:
    """What fills a window of ours and what compressing would free; else what is not known."""
    info, fill = found.info, found.fill
    if mode == "own" and info.messages:
        parts = [f"{name} {kilo(fill.scaled(tokens))}" for name, tokens in fill.parts if tokens]
        gain = _describe_gain(found.would_free, by_agent)
        return [f"parts: {', '.join(parts)}", gain, *_advice_on(found.pressure, fill, by_agent)]
    if hooked is not None and hooked.is_fill_reported:
        return []
    if info.messages:
        recorded = f"{info.messages} messages, {kilo(fill.tokens)} tokens in view"
        return [f"fill: unknown, the window is the host's; recorded are {recorded}"]
    return ["fill: unknown; nothing of this chat is recorded"]


def _advice_on(pressure: Pressure, fill: Fill, by_agent: bool) -> list[str]:
    """Advice to compress, from some points below the next trigger on; or who will do it when."""
    if not by_agent:
        return [f"{fill.percent:.0f} % full: the system compacts {describe_trigger(pressure)}"]
    if pressure.level == "calm":
        return []
    acts = f"{describe_trigger(pressure)} it is compressed without being asked"
    when = "at the next boundary" if pressure.level == "advise" else "now"
    return [f"{fill.percent:.0f} % full, {acts}: compress {when}"]


def regret_line(regret: Regret) -> str:
    """How many of the messages that had left the window were recalled."""
    gone = plural(regret.dropped, "message")
    return f"recalled: {regret.recalled} of {gone} that had left the window"


def _describe_gain(outcome: Outcome, by_agent: bool) -> str:
    if isinstance(outcome, Projection):
        freed = kilo(max(0, outcome.before - outcome.after))
        return f"compressing now would free at least {freed} tokens"
    return would_not_pay(outcome) if by_agent else drop_advice(would_not_pay(outcome))


def _describe_window(info: SessionInfo, mode: Mode, by_agent: bool) -> str:
    if mode == "own":
        how = "compress_context shrinks it" if by_agent else "a compaction shrinks it"
        return f"window: {how} from your next step"
    if mode in ("turn", "host"):
        when = "when the turn ends" if mode == "turn" else "when the host next compacts"
        how = "compress_context shrinks it" if by_agent else "a compaction shrinks it"
        return f"window: {how} {when}; the pins stand in every view"
    if mode == "hooks":
        back = describe_hook(info.traits.pins_put_back)
    else:
        back = "nothing is known to put the pins back after the host's own compaction"
    return (
        "window: the host's; a fresh chat that goes on with this session starts small; "
        f"{back}: where they are missing, call context_stats"
    )


def describe_moment(moment: datetime | None) -> str:
    """A day and its time, as labels give them."""
    return f"{moment:%b %d %H:%M}" if moment else ""
