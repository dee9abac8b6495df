"""Handles what a host tells by its hooks: records, prepares, and puts back what a window lost."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcp_compaction import compactor
from mcp_compaction.compactor.records import load_prepared
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.excerpts.render import is_excerpt_line
from mcp_compaction.core.log.outline import find_boundary_cues
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.text.injection import END, defuse
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.errors import CompactionError
from mcp_compaction.hosts.chat import HostChat, HostChats
from mcp_compaction.hosts.events import Hook, HookedHost, Part, hooked_hosts
from mcp_compaction.hosts.finding import own_transcript
from mcp_compaction.hosts.limits import Limit, find_limit
from mcp_compaction.hosts.results import preview_result, read_result
from mcp_compaction.hosts.since import Watch
from mcp_compaction.model import Pin, SessionInfo

logger = logging.getLogger(__name__)

_RECORDS_LABEL = "[records: "
_PATIENCE = 1.0  # seconds that a hook waits for a preparation that was begun before
_MOST_PIECES = 2  # of a transcript at one event; the next event takes more
_ADVISE_BELOW = 15.0  # points below the host's own trigger from which its fill is told
_LEAST_TOLD = 50.0  # percent of the way there, where a task was finished
_MOST_TOLD = 120.0
_STEP = 5.0  # points after which it is told again
_MOST_LOOKS, _PAUSE = 10, 0.1  # for a call or an answer; a host writes its transcript by and by
_MOST_LOST = 20  # lines that are put back at once
_STRANGE_FILE = (
    "{path} was not recorded, since it lies outside the folder of {host}; if a variable moves that "
    "folder, name it once by running in a terminal: mcp-compaction install {host}"
)
_LOST_LABEL = "[restored: said before the host compacted, and lost in its summary]"


@dataclass(frozen=True, slots=True)
class HostEvent:
    """An event as a hook tells it."""

    host: str
    name: str
    session: str
    transcript: str = ""
    part: Part = ""
    source: str = ""
    summary: str = ""
    tool: str = ""
    call: str = ""
    agent: str = ""  # the subagent that it happened to
    response: str = ""  # of the tool, as JSON
    last: str = ""  # what the agent said last


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of a hook, and what is noted once the host has it."""

    text: str = ""
    session: str = ""
    gives: frozenset[Part] = frozenset()
    lost: tuple[str, ...] = ()
    step: float | None = None


@dataclass(slots=True)
class _Memory:
    """The events that hooks told of one chat, and the answers that they were given."""

    chat: HostChat
    info: SessionInfo
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    watch: Watch | None = None
    must_check: bool = True  # whether what is ours stands in the window
    given: set[Part] = field(default_factory=set[Part])  # since the last compaction began
    unseen: set[Part] = field(default_factory=set[Part])  # of these, in no transcript so far
    is_announced: bool = False  # the host is about to compact by itself
    is_hosts_own: bool = False  # the host itself has made the window as it is
    rested_at: int = 0  # the byte of the transcript up to which the turn before goes
    lost: tuple[str, ...] = ()  # lines that wait for the next prompt
    step: float = 0.0  # the fill that was told last
    has_finished_task: bool = False
    preparing: asyncio.Task[Any] | None = None


@dataclass(slots=True)
class EventHandler:
    """Handles the events of one project's chats."""

    chats: HostChats
    note: Callable[[str, str, str], None] = lambda host, event, what: None  # trouble, to be kept
    offload_over: int | None = None  # tokens over which a result becomes a preview when it comes
    variables: Mapping[str, str] = field(default_factory=dict[str, str])  # of the host's process
    _memories: dict[str, _Memory] = field(default_factory=dict[str, _Memory])

    def has_heard_of(self, session: str | None) -> bool:
        """Whether a hook has told of that chat."""
        return session is not None and session in self._memories

    async def find_limit(self, work: Workspace, info: SessionInfo, tokens: int) -> Limit | None:
        """What the fill of a chat of so many tokens is told against; None where nobody knows."""
        if work.policy.window_set is not None:
            return Limit(work.policy.window_set, is_set=True)
        host = hooked_hosts().get(info.host)
        if host is None:
            return None
        found = await self.chats.threads.run(
            find_limit, host, info.traits, self.variables, self.chats.environ
        )
        # A chat that is far beyond it: the host goes by another limit than the one we know.
        return None if found is not None and found.percent(tokens) > _MOST_TOLD else found

    async def handle(self, work: Workspace, event: HostEvent) -> HookAnswer:
        """Do what an event calls for; the answer counts once `confirm` is called."""
        chats = self.chats
        host = hooked_hosts().get(event.host)
        hook = host.find_hook(event.name) if host is not None else None
        if host is None or hook is None or not event.session or not chats.may_record(chats.project):
            return HookAnswer()
        if hook.moment == "result" and (self.offload_over is None or event.agent):
            return HookAnswer()
        has_mod = chats.has_mod(event.session)
        if chats.has_gateway(event.session) and not has_mod:
            return HookAnswer()
        chat = chats.hear_of(host.name, event.session, Path(event.transcript))
        info = await chats.open(work, chat)
        memory = self._memories.setdefault(event.session, _Memory(chat, info))
        async with memory.lock:
            memory.info = info
            handling = _Handling(work, self, host, hook, event, memory)
            if has_mod and not handling.is_for_hooks():
                answer = await handling.answer_beside_mod()
            else:
                await handling.record()
                answer = await handling.answer()
        if hook.moment == "start":
            await chats.record_last(work, lambda one: one != event.session)
        return answer

    async def confirm(self, work: Workspace, answer: HookAnswer) -> None:
        """Count an answer as given: it reached the host in time."""
        memory = self._memories.get(answer.session)
        if memory is None:
            return
        memory.given |= answer.gives
        memory.unseen |= answer.gives
        memory.lost = tuple(line for line in memory.lost if line not in answer.lost)
        if answer.step is not None:
            memory.step, memory.has_finished_task = answer.step, False
        if answer.gives:
            memory.must_check = False
        if "pins" in answer.gives:
            await compactor.put_pins_back(work, memory.info)


class _Handling:
    """One event while it is handled."""

    def __init__(
        self,
        work: Workspace,
        handler: EventHandler,
        host: HookedHost,
        hook: Hook,
        event: HostEvent,
        memory: _Memory,
    ) -> None:
        self.workspace, self.handler, self.chats = work, handler, handler.chats
        self.host, self.hook, self.event = host, hook, event
        self.memory, self.info, self.threads = memory, memory.info, handler.chats.threads

    async def record(self) -> SessionInfo:
        """Record what is new in the chat's own transcript; another file is not read."""
        chat, path, note = self.memory.chat, Path(self.event.transcript), self.handler.note
        found = await self.threads.run(own_transcript, path, self.chats.environ)
        if found is None or found.host != chat.host:
            if self.event.transcript and path.is_file():
                note(chat.host, "", _STRANGE_FILE.format(path=path, host=chat.host))
            return self.info
        try:
            if not await self.chats.take(chat, found):
                return self.info
            taken = await self.chats.record(self.workspace, chat, _MOST_PIECES)
            if taken.skipped:
                note(chat.host, "", "lines of the transcript could not be read")
            if self.memory.watch is None:
                self.memory.watch = Watch(found.path, self.host.boundary.encode())
            if await self.threads.run(self.memory.watch.look):
                self.memory.must_check = True
        except CompactionError as error:
            logger.warning("a chat of %s was not recorded: %s", chat.host, error)
            note(chat.host, "", f"the chat was not recorded: {error}")
        return self.info

    async def answer(self) -> HookAnswer:
        """The text that the host reads of us at this moment."""
        match self.hook.moment:
            case "start":
                return await self._begin_window()
            case "prompt" | "work":
                return await self._add_context()
            case "before":
                return await self._prepare()
            case "after":
                return await self._check_summary()
            case "task":
                self.memory.has_finished_task = True
            case "result":
                return await self._replace_result()
            case "rest":
                await self._rest()
            case "call" | "check":
                pass  # which the command answers by itself
        return HookAnswer()

    # Beside a module of ours in the host

    def is_for_hooks(self) -> bool:
        """Whether hooks act as without a module: it has left this window to the host.

        Claude Code tells beforehand of a compaction of its own, and of no other.
        """
        memory = self.memory
        match self.hook.moment:
            case "before":
                memory.is_announced = True
                return True
            case "start" if self.event.source == "compact":
                memory.is_hosts_own = memory.is_announced
            case "prompt" | "after":
                memory.is_announced = False
            case _:
                pass
        return memory.is_hosts_own

    async def answer_beside_mod(self) -> HookAnswer:
        """What the module leaves to hooks: to tell the agent how full the window is."""
        if self.hook.moment == "task":
            self.memory.has_finished_task = True
        if self.hook.moment not in ("prompt", "work"):
            return HookAnswer()
        line, step = await self._indicate_fill("makes it smaller")
        return replace(self._as_context(line, frozenset()), step=step)

    # The end of a turn

    async def _rest(self) -> None:
        """Record what the agent said last, which a host may write down a moment later."""
        watch = self.memory.watch
        if watch is None:
            return
        for _ in range(_MOST_LOOKS):
            at, last = self.memory.rested_at, self.event.last
            if not last or await self.threads.run(watch.has_after, at, last):
                break
            await asyncio.sleep(_PAUSE)
        await self.record()
        self.memory.rested_at = watch.looked_upto
        if self.memory.unseen:
            # By now the host has written down what it showed of us; what it has not is missing.
            self.memory.given -= self.memory.unseen
            self.memory.unseen.clear()
            self.memory.must_check = True

    # A result

    async def _replace_result(self) -> HookAnswer:
        """The preview of a large result, by which the host replaces it."""
        event, over = self.event, self.handler.offload_over or 0
        result = await self.threads.run(read_result, self.host, event.tool, event.response)
        if result is None:
            return HookAnswer()
        preview = await preview_result(self.workspace, self.record, result, event.call, over)
        if not preview:
            return HookAnswer()
        told = {"hookEventName": event.name, "updatedToolOutput": result.show(preview)}
        return HookAnswer(json.dumps({"hookSpecificOutput": told}))

    # After a compaction, at a start, at a prompt

    async def _begin_window(self) -> HookAnswer:
        if self.event.source != "compact":
            return self._as_context(*await self._find_missing())
        await self._wait_for_preparation()
        part = self.event.part or "pins"
        if part in self.memory.given:
            return HookAnswer()
        text = await (self._pins_text() if part == "pins" else self._records_text())
        return self._as_context(text, frozenset({part}))

    async def _add_context(self) -> HookAnswer:
        text, gives = await self._find_missing()
        room = self.host.most_chars - len(text)
        lost = _fit_lines(self.memory.lost, room)
        if lost:
            text = "\n".join(filter(None, (text, _LOST_LABEL, *lost)))
        line, step = await self._indicate_fill()
        if line and len(text) + len(line) < self.host.most_chars:
            text = f"{text}\n{line}" if text else line
        return replace(self._as_context(text, gives), lost=lost, step=step)

    async def _find_missing(self) -> tuple[str, frozenset[Part]]:
        """The pins and records that do not stand in the window, looked for once a boundary."""
        watch = self.memory.watch
        if not self.memory.must_check:
            return "", frozenset()
        is_new = self.hook.moment == "start" and self.event.source != "resume"
        if watch is None:
            # At a first prompt there may be no file yet, though a hook has shown the pins.
            return (await self._pins_text(), frozenset({"pins"})) if is_new else ("", frozenset())
        there = await self.threads.run(watch.read_text)
        gives: set[Part] = set()
        pins = [pin for pin in await self._pins() if not _stands_in(pin, _unquoted(there))]
        pinned = pinned_block(pins) if "pins" not in self.memory.given else ""
        text = pinned if self.event.part != "records" else ""
        if text:
            gives.add("pins")
        wants_records = watch.boundary and "records" not in self.memory.given
        if wants_records and _RECORDS_LABEL not in there:
            records = await self._records_text(self.host.most_chars - len(pinned) - 1)
            text = "\n".join(filter(None, (text, records)))
            gives.add("records")
        # What is missing counts as given once the host has it: until then it is looked for again.
        self.memory.must_check = bool(gives)
        return text, frozenset(gives)

    async def _pins(self) -> list[Pin]:
        return await self.chats.pins(self.workspace, self.info)

    async def _pins_text(self) -> str:
        return pinned_block(await self._pins())

    async def _records_text(self, most: int | None = None) -> str:
        limit = most or self.host.most_chars
        session = await load_prepared(self.workspace, self.info)
        return await compactor.read_after_compaction(self.workspace, session, limit)

    # Before a compaction

    async def _prepare(self) -> HookAnswer:
        self.memory.given.clear()
        self.memory.must_check = False
        if self.memory.preparing is None or self.memory.preparing.done():
            self.memory.preparing = self.chats.start(self._try_to_prepare())
        refs = [pin.ref for pin in await self._pins()]
        if not refs or self.hook.answer != "text":
            return HookAnswer()
        return HookAnswer(f"Keep the pins {', '.join(refs)} in the summary, word for word.")

    async def _try_to_prepare(self) -> None:
        try:
            await compactor.prepare(self.workspace, self.info)
        except CompactionError as error:
            logger.warning("%s was not prepared: %s", self.info.name, error)

    async def _wait_for_preparation(self) -> None:
        task = self.memory.preparing
        if task is not None:
            await asyncio.wait({task}, timeout=_PATIENCE)

    # The host's own summary

    async def _check_summary(self) -> HookAnswer:
        watch = self.memory.watch
        summary = self.event.summary
        if not summary and self.host.summary and watch is not None:
            summary = await self.threads.run(watch.read_summary, self.host.summary)
        pins, records = await self._pins(), await self._records_text()
        beside = f"{pinned_block(pins)}\n{records}"
        found = await compactor.check_host_summary(self.workspace, self.info, summary, beside)
        lines = [f"- {defuse(item.text)} ({', '.join(item.refs)})" for item in found.lost]
        self.memory.lost = tuple(lines[:_MOST_LOST])
        told = (
            f"mcp-compaction: {plural(len(pins), 'pin')}, "
            f"{plural(_count_index_entries(records), 'index line')} back; "
            f"{plural(len(self.memory.lost), 'lost item')} restored"
        )
        return HookAnswer(
            told if self.hook.answer == "text" else json.dumps({"systemMessage": told})
        )

    # The fill

    async def _indicate_fill(self, does: str = "prepares it") -> tuple[str, float | None]:
        """One line on the fill near the host's own trigger or at a boundary, once a step."""
        fill = (await self.workspace.read_window(self.info)).fill_shown
        session = await self.workspace.load_window(self.info)
        limit = None
        if fill is not None:
            limit = await self.handler.find_limit(self.workspace, session.info, fill.tokens)
        percent = limit.percent(fill.tokens) if fill is not None and limit is not None else 0.0
        if fill is None or limit is None or percent < _LEAST_TOLD:
            self.memory.step = 0.0
            return "", None
        step = percent // _STEP * _STEP
        if step <= self.memory.step:
            return "", None
        cues = ["task completed"] if self.memory.has_finished_task else []
        if percent < 100 - _ADVISE_BELOW and not cues:
            cues += await self._find_cues()
            if not cues:
                return "", None
        return _fill_line(fill.tokens, limit, cues, does), step

    async def _find_cues(self) -> tuple[str, ...]:
        """The signs in what is new that a task is finished."""
        if not self.memory.chat.has_news:
            return ()
        self.memory.chat.has_news = False
        session = await self.workspace.load(self.info)
        return await self.threads.run(find_boundary_cues, session.messages)

    def _as_context(self, text: str, gives: frozenset[Part]) -> HookAnswer:
        if not text or self.hook.answer != "context":
            return HookAnswer()
        told = {"hookEventName": self.event.name, "additionalContext": text}
        wrapped = json.dumps({"hookSpecificOutput": told})
        return HookAnswer(wrapped, self.event.session, gives)


def _fit_lines(lines: tuple[str, ...], room: int) -> tuple[str, ...]:
    chosen: list[str] = []
    room -= len(_LOST_LABEL) + 1
    for line in lines:
        if len(line) + 1 <= room:
            chosen.append(line)
            room -= len(line) + 1
    return tuple(chosen)


def _stands_in(pin: Pin, text: str) -> bool:
    lines = [line for line in pin.text.splitlines() if line.strip()]
    return all(line in text for line in lines)


def _unquoted(text: str) -> str:
    """A text without the lines that records quote: a rule in these is no rule in force."""
    return "\n".join(line for line in text.splitlines() if not is_excerpt_line(line))


def _count_index_entries(records: str) -> int:
    _, found, index = records.partition("\n[index")
    lines = index.partition(f"\n{END}")[0].split("\n")[1:] if found else []
    return sum(line.count("; ") + 1 for line in lines)


def _fill_line(tokens: int, limit: Limit, cues: list[str], does: str) -> str:
    when = f" ({', '.join(cues)}: a good moment)" if cues else ""
    return (
        f"context {limit.percent(tokens):.0f} % full, {kilo(tokens)} of {kilo(limit.tokens)} "
        f"tokens; {limit.describe()}{when}. compress_context {does}; "
        "rules that must hold are pinned with pin_constraint."
    )
