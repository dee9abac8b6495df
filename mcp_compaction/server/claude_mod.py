"""Answers our module inside Claude Code: what stands after a compaction, and how things are.

The module only asks and shows. Any process of the user's that finds the token may ask, too: so
nothing that is told here is recorded as anybody's words. It only says that there is something new
in the host's own transcript; and words that a compaction brings before the transcript has them are
hearsay, as those of any request are.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from mcp_compaction import compactor, worker
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.core.log.pinned import pinned_block, shown_text
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.errors import CompactionError, InputError, StoreError
from mcp_compaction.formats.arrival import find_continued
from mcp_compaction.formats.content import objects_in
from mcp_compaction.formats.identity import fingerprints_of
from mcp_compaction.formats.thinking import sending_of
from mcp_compaction.hosts.claude_code.requests import SplitRequest, is_sendable
from mcp_compaction.hosts.claude_code.rows import ChatRows, Row, message_of, tell_rows
from mcp_compaction.hosts.claude_code.whole import list_whole_chat, was_compacted_by_host
from mcp_compaction.hosts.events import hooked_hosts
from mcp_compaction.hosts.results import preview_result, read_result
from mcp_compaction.hosts.transcripts.claude_code import NAME
from mcp_compaction.hosts.transcripts.files import FileTranscript
from mcp_compaction.model import Compaction, JsonObject, Outcome, Pin, Receipt, SessionInfo
from mcp_compaction.server.claude_chats import (
    MOST_LOOKS,
    PAUSE,
    find_rows,
    find_subagent,
    hear_of,
    note_served,
    open_as_read,
    open_session,
    read_rows,
    record,
    record_beside,
    wait_for_store,
)
from mcp_compaction.server.claude_limit import find_stuck
from mcp_compaction.server.claude_prose import offer_once
from mcp_compaction.server.compaction_wish import make_ask
from mcp_compaction.server.state import ModChat, State
from mcp_compaction.server.window_command import answer_command

logger = logging.getLogger(__name__)

PATH = "/claude/"
"""How the paths begin that are answered here."""

_MOST_LOOKS_AT_PROMPT = 10  # the user waits
_LARGE = 300_000  # tokens of a window that is compacted in a process of its own
_MOST_SHOWN = 120  # characters
_CHARS = 4  # of a token, about
_NOT_COMPACTED = (
    "Claude Code has compacted nothing of this chat; /window undo takes back a compaction of ours."
)
_THREADED = (
    "it sends only what is new (message threads), so that shrink_in_turn changes nothing: the "
    "window shrinks with the next /compact"
)
_STILL_MUCH = 0.5  # of a full window, which the agent's own compaction has left
_FIT = FitOptions(relieve=False, is_hearsay=True, is_sent=False)


class ClaudeMod:
    """The chats of Claude Code that our module serves in this process."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def answer(self, path: str, body: dict[str, Any]) -> object:
        """Answer a question of the module; LookupError: there is no such path."""
        session = str(body.get("session") or "")
        if not session:
            raise LookupError(path)
        chat = hear_of(self._state, session, body)
        answers: dict[str, Callable[[ModChat, dict[str, Any]], Awaitable[object]]] = {
            "append": self._hear_of_rows,
            "prompt": self._tell_late_pins,
            "turn": self._end_turn,
            "compact": self._compact,
            "prose": self._hear_prose,
            "progress": self._tell_progress,
            "result": self._preview,
            "request": self._fit_request,
            "status": self._describe,
            "window": self._answer_command,
            "uncompact": self._wish_for_whole_chat,
        }
        return await answers[path.removeprefix(PATH)](chat, body)

    def expect(self, session: str) -> None:
        """Hear that the host has started this server from our plugin, for that chat: a tool may be
        called before the module has told of it."""
        self._state.mod.expected = session
        self._state.chats.hear_of(NAME, session)

    # Recording

    async def _hear_of_rows(self, chat: ModChat, _: dict[str, Any]) -> JsonObject:
        """Record what is new; what the module is to do with requests and results."""
        self._state.chats.start(record_beside(self._state, chat))
        over = self._state.settings.policy.offload_over_tokens
        shrinks = self._state.settings.shrink_in_turn
        return {"shrinks": shrinks, "offload_over": over, "ask": await self._question(chat)}

    # Prose by the session's own model

    async def _question(self, chat: ModChat, *, at_compaction: bool = False) -> str | None:
        """What the module is to ask the session's own model; None: nothing now."""
        info = chat.recorded.info
        if info is None or not (chat.prose.lacks_draft() if at_compaction else chat.prose.is_due):
            return None
        try:
            work = await self._state.workspace()
            refusal = (await work.allowance(info)).refusal
            said = (await work.store.load(info.id, work.now())).messages
        except CompactionError as error:
            logger.warning("no prose was asked for: %s", error)
            return None
        if refusal:
            chat.prose.stopped = refusal
        return chat.prose.ask(said[-1].seq) if said and not refusal else None

    async def _hear_prose(self, chat: ModChat, body: dict[str, Any]) -> JsonObject:
        info = chat.recorded.info
        if info is not None:
            await chat.prose.hear(await self._state.workspace(), info, body)
        return {}

    # Compacting

    async def _end_turn(self, chat: ModChat, body: dict[str, Any]) -> JsonObject:
        """Whether the host is to take a view over now: its agent has asked for another one, or
        the host's own limit is so near that the next turn would be interrupted."""
        self._state.chats.start(record_beside(self._state, chat))
        if not chat.is_interactive:  # the host may end now
            await self._state.record_last()
        tokens, limit = body.get("tokens"), chat.limit
        net = self._state.settings.policy.safety_threshold_percent
        fill = 100 * tokens / limit if isinstance(tokens, int) and limit is not None else 0
        chat.prose.measure(fill, in_turn=False)
        is_near = limit is not None and fill >= net and not chat.is_stuck
        compacts = chat.is_changed or chat.wants_whole or is_near
        return {"compact": compacts, "ask": await self._question(chat)}

    async def _compact(self, chat: ModChat, body: dict[str, Any]) -> JsonObject | None:
        """What stands after a compaction; None, or only why: the host compacts by itself."""
        agent = str(body.get("agent") or "")
        chat.doing = ""
        try:
            meant = await find_subagent(self._state, chat, agent) if agent else chat
            return await self._try_to_compact(meant, body)
        except Exception as error:  # noqa: BLE001  # the host goes on with its own compaction
            logger.warning("a compaction was left to the host: %r", error)
            why = str(error) or repr(error)
            if not agent:
                note_served(self._state, chat, why=why)
                chat.last = f"left to Claude Code: {_first_sentence(why)}"
            return {"why": _first_sentence(why)}

    async def _try_to_compact(self, chat: ModChat, body: dict[str, Any]) -> JsonObject | None:
        work = await wait_for_store(
            self._state,
        )
        waits = body.get("trigger") == "manual" and body.get("asked") is not True
        if waits and (question := await self._question(chat, at_compaction=True)):
            chat.doing = "asking this chat's model"
            return {"ask": question}
        told, listed = body.get("told"), body.get("handles")
        handles = [str(one) for one in cast("list[object]", listed or [])]
        missing = await read_rows(self._state, chat, handles)
        if missing and not isinstance(told, dict):
            return {"missing": cast("Any", missing)}
        known = cast("dict[str, object]", told) if isinstance(told, dict) else {}
        every = chat.rows or ChatRows(Path())
        rows = every.in_order(every.list_rows(handles, [known.get(one) for one in handles]))
        if not rows:
            raise InputError("the host told of no rows.")
        # Rows that come meanwhile would be taken for what the host dropped.
        async with chat.recorded.lock:
            info = await open_session(self._state, work, chat, body)
            transcript = chat.recorded.transcript
            if chat.wants_whole and isinstance(transcript, FileTranscript):
                chat.wants_whole = False
                every = await self._state.threads.run(list_whole_chat, transcript, rows)
                return await self._make_whole(work, info, chat, every, body)
            return await self._make_view(work, info, chat, rows, body)

    # What the host itself has compacted

    async def _wish_for_whole_chat(self, chat: ModChat, _: dict[str, Any]) -> JsonObject:
        """Have the next compaction give back what the host's own ones took away."""
        found = await self._state.chats.find_transcript(chat.recorded)
        if not isinstance(found, FileTranscript) or not await self._state.threads.run(
            was_compacted_by_host, found
        ):
            return {"text": _NOT_COMPACTED}
        chat.wants_whole = True
        when = (
            "/compact, or when the next turn ends" if chat.is_interactive else "the next /compact"
        )
        return {"text": f"All that was said comes back with {when}."}

    async def _make_whole(
        self,
        work: Workspace,
        info: SessionInfo,
        chat: ModChat,
        every: Sequence[Row],
        body: dict[str, Any],
    ) -> JsonObject:
        """All rows of a chat, those from before the host's compactions too: whole where they fit
        below what a compaction leaves, else as our view."""
        given = [row.message for row in every]
        shown = (await compactor.fit(work, info, given, _FIT)).layout.apply(every)
        release = self._state.settings.policy.release_percent
        if chat.limit is not None and 100 * _size(shown) / _CHARS > release * chat.limit:
            await self._compress(work, info, chat, body)
            shown = (await compactor.fit(work, info, given, _FIT)).layout.apply(every)
        try:
            told = await self._state.threads.run(tell_rows, shown)
        except InputError as error:
            return {"skip": f"the chat stays as it is: {error}"}
        chat.last = f"all {plural(len(every), 'message')} back"
        note_served(self._state, chat, ours=1)
        return {"rows": cast("Any", told), "note": chat.last}

    async def _make_view(
        self,
        work: Workspace,
        info: SessionInfo,
        chat: ModChat,
        rows: Sequence[Row],
        body: dict[str, Any],
    ) -> JsonObject | None:
        trigger = str(body.get("trigger") or "manual")
        given = [row.message for row in rows]
        shown = (await compactor.fit(work, info, given, _FIT)).layout.apply(rows)
        before, after = _size(rows), _size(shown)
        is_agents = chat.is_changed and (trigger != "auto" or after < _STILL_MUCH * before)
        outcome: Outcome | None = None
        stuck = None if is_agents else await find_stuck(work, info, chat.limit)
        chat.is_stuck = stuck is not None
        if stuck and trigger != "manual" and not stuck.is_overfull:
            chat.last = "not compacted again: " + _first_sentence(stuck.text)
            return {"skip": stuck.text}
        if not is_agents:
            outcome = await self._compress(work, info, chat, body)
            shown = (await compactor.fit(work, info, given, _FIT)).layout.apply(rows)
            after = _size(shown)
        if not is_agents and after >= before:
            return _decline(trigger, outcome, info)
        skills = chat.rows.list_skills() if chat.rows is not None else []
        told = await self._state.threads.run(tell_rows, shown, skills)
        chat.is_changed = False
        receipts = await compactor.receipts(work, info)
        done = _describe_receipt(receipts[-1]) if receipts else "compacted"
        pins = await self._state.chats.pins(work, info)
        chat.last = f"{done}, {plural(len(pins), 'pin')} kept"
        note_served(self._state, chat, ours=1)
        hint = f"mcp-compaction: {stuck.text}" if stuck else ""
        if not hint and chat.is_interactive and trigger == "manual" and chat.prose.setting == "off":
            model, tokens = info.traits.model or "", receipts[-1].before if receipts else 0
            hint = offer_once(self._state.settings.home, model, tokens)
        rows_told = cast("Any", told)
        return {"rows": rows_told, "note": chat.last, "hint": hint, "session": info.name}

    # What goes with a prompt

    async def _tell_late_pins(self, chat: ModChat, body: dict[str, Any]) -> JsonObject:
        """The pins that nothing in the window tells of: they were made outside the chat, or the
        host has compacted it by itself."""
        shown = str(body.get("shown") or "")  # by hooks, of which the transcript may not tell yet
        try:
            work = await self._state.workspace()
            pins = await self._pins_of(work, chat)
        except CompactionError as error:
            logger.warning("what is pinned was not told: %s", error)
            return {"context": None}
        rows = await find_rows(self._state, chat) or ChatRows(Path())
        looks = _MOST_LOOKS_AT_PROMPT
        await self._state.threads.run(rows.read)
        while rows.compactions < chat.compactions and (looks := looks - 1):
            await asyncio.sleep(PAUSE)
            await self._state.threads.run(rows.read)
        if "last" in body:
            await self._state.threads.run(rows.go_back, body["last"])
        pins = [pin for pin in pins if shown_text(pin.text) not in shown]
        late = [pin for pin in pins if not await self._state.threads.run(rows.shows, pin)]
        return {"context": pinned_block(late) or None}

    async def _pins_of(self, work: Workspace, chat: ModChat) -> list[Pin]:
        """The pins in force; also where nothing can be written, or not now: the user waits."""
        try:
            async with asyncio.timeout(_MOST_LOOKS_AT_PROMPT * PAUSE):
                info = await record(self._state, work, chat)
        except (StoreError, TimeoutError):
            info = await work.store.find_host_session(
                self._state.project, chat.recorded.session, NAME
            )
        return await self._state.chats.pins(work, info)

    # A result

    async def _preview(self, chat: ModChat, body: dict[str, Any]) -> JsonObject | None:
        """What stands for a large result from the moment it comes; None: it stays as it is."""
        over, text = self._state.settings.policy.offload_over_tokens, str(body.get("text") or "")
        result = read_result(hooked_hosts()[NAME], str(body.get("tool") or ""), text, is_plain=True)
        if over is None or result is None:
            return None
        try:
            work = await self._state.workspace()
            record_now = partial(record, self._state, work, chat)
            call = str(body.get("call") or "")
            shown = await preview_result(work, record_now, result, call, over)
        except CompactionError as error:
            logger.warning("a result stays as it is: %s", error)
            return None
        return {"preview": shown} if shown else None

    # Within a turn

    async def _fit_request(self, chat: ModChat, body: dict[str, Any]) -> JsonObject | None:
        """The request of a running turn as our view shows it; None: as it came."""
        if not self._state.settings.shrink_in_turn:
            return None
        try:
            return await self._try_to_fit(chat, body)
        except Exception as error:  # noqa: BLE001  # the host's request goes out as it came
            logger.warning("a request was left as it came: %r", error)
            return None

    def _note_thread(self, chat: ModChat) -> None:
        """Note that the provider keeps what was said: no view of ours can stand in its place."""
        if not chat.is_threaded:
            self._state.note_trouble(NAME, "http.fetch", _THREADED)
        chat.shrinks, chat.is_threaded = False, True

    async def _try_to_fit(self, chat: ModChat, body: dict[str, Any]) -> JsonObject | None:
        threads = self._state.threads
        sent: object = await threads.run(json.loads, str(body.get("request") or "null"))
        request = cast("JsonObject", sent) if isinstance(sent, dict) else {}
        messages = objects_in(request.get("messages"))
        if find_continued(request):
            self._note_thread(chat)
            return None
        if not messages or not request.get("tools"):
            return None
        chat.shrinks, chat.is_threaded = True, False
        work = await self._state.workspace()
        known = await find_rows(self._state, chat)
        if known is None:
            return None
        async with chat.recorded.lock:
            for _ in range(MOST_LOOKS):
                info = await open_as_read(self._state, work, chat, known, body)
                current, left = known.list_current(), known.left
                split = await threads.run(SplitRequest, messages, current, left)
                if split.is_written_down:
                    break
                await asyncio.sleep(PAUSE)
            else:
                return None
            if not split.is_whole or not split.rows:
                return None
            options = _FIT._replace(shows_late_pins=False)
            rows = await threads.run(known.in_order, split.rows)
            fitted = await compactor.fit(work, info, [row.message for row in rows], options)
        laid = await threads.run(split.lay_out, fitted.layout.apply(rows))
        own = sending_of(messages, request, fingerprints_of(messages))
        sending = sending_of(laid, request, fingerprints_of(laid))
        model = str(request.get("model") or "")
        left = await compactor.leave_out_thinking(work, info, own, sending, model, "anthropic")
        shown = left.messages if left is not None else laid
        if fingerprints_of(shown) == own.prints or not is_sendable(shown):
            return None
        return {"body": json.dumps({**request, "messages": cast("Any", shown)})}

    async def _compress(
        self, work: Workspace, info: SessionInfo, chat: ModChat, body: dict[str, Any]
    ) -> Outcome:
        async def report(what: str) -> None:
            chat.doing = what

        wish = await make_ask(work, info, str(body.get("trigger")), body.get("instructions"))
        ask = wish.model_copy(update={"prose": chat.prose.take(), "running": chat.running})
        if (await work.read_window(info)).fill.counted_by_us < _LARGE:
            return await compactor.compress(work, info, ask, report)  # only the host waits
        settings = self._state.settings
        return await worker.compress(settings, work, info, ask, report)

    # What is shown

    async def _tell_progress(self, chat: ModChat, _: dict[str, Any]) -> JsonObject:
        return {"doing": chat.doing and f"compacting: {chat.doing}"}

    async def _describe(self, chat: ModChat, _: dict[str, Any]) -> JsonObject:
        """What the line above the prompt shows."""
        try:
            work = await self._state.workspace()
            info = chat.recorded.info
            pins = await self._state.chats.pins(work, info) if info is not None else ()
        except CompactionError as error:
            return {"pins": 0, "last": chat.last, "trouble": _first_sentence(str(error))}
        told = {"pins": len(pins), "last": chat.last, "prose": chat.prose.shown}
        return {**told, "threaded": "smaller with the next /compact" if chat.is_threaded else ""}

    async def _answer_command(self, chat: ModChat, body: dict[str, Any]) -> JsonObject:
        try:
            work = await self._state.workspace()
            info = await record(self._state, work, chat)
        except CompactionError as error:
            return {"text": str(error)}
        if info is None:
            return {"text": "nothing of this chat is recorded yet"}
        tokens = body.get("tokens")
        fill = f"{kilo(tokens)} tokens" if isinstance(tokens, int) else "how full is not known yet"
        limit = f"; Claude Code compacts at {kilo(chat.limit)}" if chat.limit is not None else ""
        mode = self._state.mod.mode_of(chat.recorded.session)
        verb, _, words = str(body.get("args") or "").strip().partition(" ")
        if verb == "prose":
            return {"text": chat.prose.choose(words.strip())}
        told = await answer_command(
            work, info, str(body.get("args") or ""), mode, f"window: {fill}{limit}"
        )
        chat.is_changed |= told.is_changed
        return {"text": told.text}


def _describe_receipt(receipt: Receipt) -> str:
    verb = "restored" if receipt.kind == "restore" else "compacted"
    return f"{receipt.ref} {verb}: {kilo(receipt.before)} -> {kilo(receipt.after)} tokens"


def _decline(trigger: str, outcome: Outcome | None, info: SessionInfo) -> JsonObject | None:
    """Leave a chat as it is, of which nothing can go; a full one is left to the host."""
    if trigger == "auto":
        return None
    text = outcome_text(outcome, "plain", info.name) if outcome is not None else ""
    first = text.partition("\n")[0] if not isinstance(outcome, Compaction) else ""
    return {"skip": first or "compacting would not make this chat smaller"}


def _first_sentence(text: str) -> str:
    """As much of an error as a line has room for."""
    return text.partition(". ")[0][:_MOST_SHOWN]


def _size(shown: Sequence[Row | JsonObject]) -> int:
    """The characters of messages, without what a provider noted beside them."""
    messages = map(message_of, shown)
    return sum(len(json.dumps([one.get("role"), one.get("content")])) for one in messages)
