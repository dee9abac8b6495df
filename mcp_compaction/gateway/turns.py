"""Takes calls of models through a conversation: fits them, and records them once accepted.

Whatever fails here, the host gets what it would have got: the call goes out with the last
layout that was good, or as it came.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from operator import is_
from typing import Any, TypeVar

from mcp_compaction import compactor
from mcp_compaction.api.handles import OpenSession, OpenStore
from mcp_compaction.compactor.events import PAID
from mcp_compaction.compactor.newest import Newest
from mcp_compaction.core.policy import for_session
from mcp_compaction.formats.fingerprint import fingerprint_of
from mcp_compaction.formats.thinking import (
    Bindings,
    Left,
    Sending,
    may_be_bound,
    sending_of,
    thinking_in,
)
from mcp_compaction.formats.turns import join_turns, place_before_joining
from mcp_compaction.gateway import counting
from mcp_compaction.gateway.answers import READABLE, Answer, AnswerReader, text_of_error
from mcp_compaction.gateway.calls import HostCall, find_api, find_chat, read_call
from mcp_compaction.gateway.conversation import (
    LEAST_BYTES,
    GatewayConversation,
    Sent,
    SentHistory,
    read_history,
)
from mcp_compaction.gateway.forwarding import Headers
from mcp_compaction.gateway.keeping import KeptChat, path_of_layout
from mcp_compaction.gateway.ledger import GatewayLedger
from mcp_compaction.gateway.usage import Usage
from mcp_compaction.hosts.identity import check_history, open_chat
from mcp_compaction.hosts.recording import pass_over_chat
from mcp_compaction.hosts.served_chats import find_served_chat
from mcp_compaction.hosts.typed_words import UsersWords
from mcp_compaction.lexicon.overflow import is_overflow
from mcp_compaction.lexicon.thinking import find_refused_block, rule_of
from mcp_compaction.model import Compaction, Failed, JsonObject, Outcome, SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import Settings
from mcp_compaction.threads import Threads

T = TypeVar("T")

logger = logging.getLogger(__name__)

PATIENCE = 0.28  # seconds of our own on a request's way (0.3 in all), where else there is a view
FIRST_PATIENCE = 20.0  # where there is not, or that may be longer than the window
CACHE_SECONDS = (300.0, 3600.0)  # for which providers keep what they read; and where asked to
_MOST_BYTES = 4.0  # of a token, as words have them
_WRITING_SECONDS = 5.0  # after an answer a host has written it by then
_SIGNED, _HIDDEN = b'"signature"', b'"redacted_thinking"'  # in every request with thinking
_BETA = b"anthropic-beta"
_DROPPING = "thinking-binding-controls-2026-08-01"
_OVERFLOW_REASON = "the provider refused the request: too large for the window"


_Key = tuple[str, str, str]  # the host of a conversation, its id there, and the sub-agent's


class CallTurns:
    """The conversations that pass through a gateway, and the turns of each."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[OpenStore]],
        settings: Settings,
        *,
        patience: float = PATIENCE,
        is_shadow: bool = False,
        trouble: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`open_store`: gives the store, or fails; it is asked again for every conversation.

        `is_shadow`: every call goes out as it came, and what would have been sent is counted.
        `trouble`: why the store could not be opened at first. `environ`: tells where hosts keep
        their transcripts; None: nobody reads them.
        """
        self.trouble = trouble
        self.tally = Counter[str]()
        self.chats = Newest[str, str]()  # the hosts of chats, by their ids
        self.on_change: Callable[[], None] = lambda: None
        self.is_shadow = is_shadow
        self.is_aside = False  # the provider refuses what is changed: calls go out as they came
        self.has_tried_original = False
        self.cache_seconds = CACHE_SECONDS
        self.writing_seconds = _WRITING_SECONDS
        self.ledger = GatewayLedger()
        self._environ = environ
        self._open_store = open_store
        self._settings = settings
        self.patience = patience
        self._threads = Threads()
        self._conversations = Newest[_Key, GatewayConversation]()
        self._kept = Newest[_Key, KeptChat]()
        self._words = UsersWords(environ or {})
        self._last = Newest[_Key, SentHistory]()  # the history of each, as it came last
        self._opening = asyncio.Lock()
        self._background: set[asyncio.Task[Any]] = set()

    def is_model_call(self, path: str) -> bool:
        """Whether a path is one of a model, so that the body is looked at."""
        return find_api(path) is not None

    async def begin(self, path: str, headers: Mapping[str, str], body: bytes) -> CallTurn | None:
        """The call as it should be sent; None: as it came."""
        turn = await self.isolate(counting.FAILED, self._begin(path, headers, body))
        if turn is None:
            self.on_change()
        return turn

    async def _begin(self, path: str, headers: Mapping[str, str], body: bytes) -> CallTurn | None:
        call = read_call(path, headers, body)
        if self.is_aside:
            self.tally[counting.AS_IT_CAME] += 1
            return await self._begin_aside(call, body)
        if call is None:
            is_named = find_chat(headers) is not None
            self.tally[counting.UNREADABLE if is_named else counting.NAMELESS] += 1
            return None
        if call.kind in ("aside", "torn"):
            self.tally[counting.SIDE if call.kind == "aside" else counting.TORN] += 1
            return None
        if self._is_served_inside(call):
            return await self._leave_to_module(call, body)
        self.note_chat(call)
        turn = CallTurn(self, await self._read(call), body)
        await turn.fit(self.patience)
        return turn

    def _is_served_inside(self, call: HostCall) -> bool:
        """Whether our module inside the host compacts this very conversation."""
        return not call.agent and find_served_chat(self._settings.home, call.session) is not None

    async def _leave_to_module(self, call: HostCall, body: bytes) -> CallTurn | None:
        """Let go of a conversation, so that only one of the two compacts and records it."""
        self.tally[counting.AS_IT_CAME] += 1
        if self.chats.pop(call.session, None) is not None:
            self.on_change()
            known = self._conversations.pop(_key_of(call), None)
            if known is not None:
                self.start(self._dismiss(known))
        return await self._begin_aside(call, body)

    async def _begin_aside(self, call: HostCall | None, body: bytes) -> CallTurn | None:
        """A call as it came, without the thinking that was made behind a view of ours."""
        if call is None or call.kind in ("aside", "torn") or rule_of(call.model) == "free":
            return None
        turn = CallTurn(self, await self._read(call), body)
        turn.pass_as_it_came()
        return turn if turn.body is not body else None

    async def _read(self, call: HostCall) -> SentHistory:
        key = _key_of(call)
        given = await self._threads.run(read_history, call, self._last.pop(key, None))
        self._last.keep(key, given)
        return given

    def kept_of(self, call: HostCall) -> KeptChat:
        """What is known of the chat of a call without asking the store."""
        key, wish = _key_of(call), self._settings
        known = self._kept.get(key) or KeptChat(
            path_of_layout(wish.home, *key), masks_secrets=wish.redact
        )
        self._kept.keep(key, known)
        return known

    async def keep_thinking(self, given: SentHistory) -> None:
        """Keep what is new of a conversation's thinking, in the file and in the store."""
        kept = self.kept_of(given.call)
        changes = kept.bindings.changes() if kept.bindings.is_bound(given.call.model) else {}
        if not changes:
            return
        blocks = {one for message in given.call.messages for one in thinking_in(message)}
        rows = kept.bindings.rows_of(blocks | changes.keys())
        await self._threads.run(kept.write_thinking, rows)
        try:
            session = (await self.conversation_of(given.call)).session
            await session.store.workspace.store.keep_thinking(session.info.id, changes)
        except Exception:
            kept.bindings.put_back(changes)
            raise

    async def conversation_of(self, call: HostCall) -> GatewayConversation:
        """The conversation that a call belongs to; a sub-agent has one of its own."""
        key = _key_of(call)
        async with self._opening:
            known = self._conversations.get(key)
            if known is None:
                store = await self._open_store()
                session = OpenSession(store, await self._open(store, call))
                known = GatewayConversation(session, self.kept_of(call), self.note_outcome)
                if may_be_bound(call.model, call.api.shape):
                    rows = await store.workspace.store.thinking(session.info.id)
                    self.kept_of(call).bindings.learn(rows)
            oldest = self._conversations.keep(key, known)
            if oldest is not None:
                self.start(self._dismiss(oldest))
        return known

    def note_chat(self, call: HostCall) -> None:
        """Note which chat has sent a request last."""
        if call.agent:
            return
        is_newest = next(reversed(self.chats), None) == call.session
        self.chats.keep(call.session, call.host.name)
        if not is_newest:
            self.on_change()

    async def close(self) -> None:
        """Give the windows back to their hosts, when all that was begun is done."""
        for one in self._conversations.values():
            one.when_idle(None)
        await self.settle()
        await self.leave_all()

    async def leave_all(self) -> None:
        """Give the windows back to their hosts, and have their hooks know."""
        self.on_change()
        for one in tuple(self._conversations.values()):
            await self.leave(one)

    async def _dismiss(self, conversation: GatewayConversation) -> None:
        """Leave a conversation that was silent for long; the store has what it has cost."""
        await self.leave(conversation)
        self.ledger.accounts.pop(conversation.session.name, None)

    async def leave(self, conversation: GatewayConversation) -> None:
        """Give the window of a conversation back to its host, once, and note what it has cost."""
        conversation.when_idle(None)
        if conversation.is_left:  # what came since went by: the transcript tells it
            return
        conversation.is_left = True
        session = conversation.session
        work, info = session.store.workspace, session.info
        giving = work.store.set_traits(info.id, Traits(owns_window=False))
        await self.isolate(counting.NOT_RECORDED, giving)
        account = self.ledger.accounts.get(session.name)
        if account is not None:
            told = "\n".join(account.lines())
            await self.isolate(counting.NOT_RECORDED, work.note(info, PAID, told))
        await self._pass_over(conversation)

    async def vouch(self, conversation: GatewayConversation) -> None:
        """Count what the user typed as the user's, as far as the host's own transcript has it."""
        session = conversation.session
        if self._environ is not None:
            await self._words.vouch(session.store.workspace, session.info)

    async def _pass_over(self, conversation: GatewayConversation) -> None:
        """Note that the host's transcript tells nothing new, where all of it is recorded."""
        await self.isolate(counting.NOT_RECORDED, self.vouch(conversation))
        if self._environ is not None and not conversation.has_gap:
            work, info = conversation.session.store.workspace, conversation.session.info
            passing = pass_over_chat(work, info, self._environ)
            await self.isolate(counting.NOT_RECORDED, passing)

    async def _open(self, store: OpenStore, call: HostCall) -> SessionInfo:
        work = store.workspace
        key = SessionKey(project=store.project, host=call.host.name, host_session=call.session)
        traits = Traits(model=call.model or None)
        await check_history(work, key.model_copy(update={"agent": call.agent}))
        info, _ = await open_chat(work, key, traits)
        if call.agent:
            own = key.model_copy(update={"agent": call.agent, "parent": info.id})
            info, _ = await open_chat(work, own, traits)
        if not info.traits.owns_window:
            info = await compactor.own_window(work, info)
        window = work.policy.window_set
        if window not in (None, info.traits.window_tokens):  # which commands beside us show, too
            info = await work.store.set_traits(info.id, Traits(window_tokens=window))
        return info

    async def isolate(self, kind: str, work: Awaitable[T]) -> T | None:
        """Do something whose failure is counted, and no failure of the call it is for."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001  # whatever fails of ours, the host's call goes on
            self.note_fault(error, kind)
            return None

    def note_fault(self, fault: Exception, kind: str = counting.NOT_RECORDED) -> None:
        """Count a fault of ours."""
        # Its text is not logged, which may quote what was said; and the host has the screen.
        logger.info("%s: %s", kind, type(fault).__name__)
        self.tally[f"{kind} ({type(fault).__name__})"] += 1

    def note_outcome(self, outcome: Outcome | None) -> None:
        """Count a compaction."""
        if isinstance(outcome, Compaction):
            self.tally[counting.WOULD_COMPACT if self.is_shadow else counting.COMPACTED] += 1
        elif isinstance(outcome, Failed):
            self.tally[counting.COMPACTION_FAILED] += 1
        self.on_change()

    def wait_for_cold_cache(
        self, conversation: GatewayConversation, given: SentHistory, usage: Usage | None
    ) -> None:
        """Compress when the provider's cache has gone cold before the next request comes; before
        that, the host has written what was said, and the place in its transcript is noted."""
        is_long = usage is not None and usage.written_long > 0
        seconds = self.cache_seconds[1 if is_long else 0]
        until_written = min(self.writing_seconds, seconds)

        async def relieve() -> None:
            await asyncio.sleep(until_written)
            await self._pass_over(conversation)
            await asyncio.sleep(seconds - until_written)
            relieving = conversation.relieve(given, is_warm=False)
            self.note_outcome(await self.isolate(counting.NOT_RECORDED, relieving))

        conversation.when_idle(asyncio.create_task(relieve()))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something that no request waits for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    @property
    def drops_thinking(self) -> bool:
        """Whether the provider is told to drop bound thinking, rather than that it is left out."""
        return self._settings.bound_thinking == "drop_block"

    def may_fit(self, body: bytes) -> bool:
        """Whether a body hardly fills the window; few tokens have less than three bytes."""
        return len(body) < LEAST_BYTES * self._settings.policy.window_tokens

    def seems_to_fit(self, body: bytes, call: HostCall) -> bool:
        """Whether a body is no larger than the window, by what the provider has counted so far."""
        traits = Traits(model=call.model or None)
        window = for_session(self._settings.policy, traits).window_tokens
        return len(body) < (self.kept_of(call).bytes_of_token or LEAST_BYTES) * window

    def note_size(self, call: HostCall, body: bytes, usage: Usage | None) -> None:
        """Note how many bytes a token of a conversation has; pictures have more than words."""
        if usage is not None and usage.read:
            self.kept_of(call).bytes_of_token = min(_MOST_BYTES, len(body) / usage.read)

    async def settle(self) -> None:
        """Wait until all that requests have left behind is done."""
        while self._background:
            await asyncio.wait(set(self._background))

    async def give_up(self) -> None:
        """End what requests have left behind, done or not."""
        for task in self._background:
            task.cancel()
        await self.settle()


class CallTurn:
    """One call on its way: what is sent for it, and what is done when the answer comes."""

    def __init__(self, turns: CallTurns, given: SentHistory, body: bytes) -> None:
        self.body = body
        self._original = body
        self._is_original_tried = False
        self._turns = turns
        self._given = given
        self._call = given.call
        self._sent: Sent | None = None
        self._share = 1.0  # of the request's size, that would have been sent without --shadow
        self._accepting: asyncio.Task[Sent] | None = None
        self._reader: AnswerReader | None = None
        self._out: Sending | None = None  # what went out, where its thinking may be bound
        self._mark: str | None = None  # the beginning that the answer is made behind
        self._shown: Sequence[JsonObject] = given.call.messages  # what went out
        self._is_refused = False  # for its thinking, and sent again without it
        self._drops_thinking = False  # the provider is told to do so

    async def fit(self, patience: float) -> None:
        """Find out what to send; after a while, or when that fails, what is known to be good."""
        kept = self._turns.kept_of(self._call).find(self._given.prints)
        messages = self._given.messages
        good = Sent(kept.apply(messages), kept.view) if kept is not None else Sent(messages)
        found = await self._turns.isolate(counting.FAILED, self._lay_out(patience, good))
        self._take_over(found or good)

    async def _lay_out(self, patience: float, good: Sent) -> Sent | None:
        laying = self._turns.start(self._ask_conversation())
        laying.add_done_callback(_forget_result)
        done, _ = await asyncio.wait({laying}, timeout=patience)
        if not done and not self._seems_to_fit(good):
            done, _ = await asyncio.wait({laying}, timeout=FIRST_PATIENCE)
        if done:
            return laying.result()
        self._turns.tally[counting.SLOW] += 1
        return None

    def _seems_to_fit(self, sent: Sent) -> bool:
        """Whether messages are no more than the window holds."""
        before = self._call.messages[: self._given.before]
        body = self._call.with_messages([*before, *sent.messages])
        return self._turns.seems_to_fit(body, self._call)

    async def _ask_conversation(self) -> Sent:
        conversation = await self._turns.conversation_of(self._call)
        conversation.when_idle(None)
        return await conversation.lay_out(self._given)

    def _take_over(self, sent: Sent) -> None:
        """Make the body to send."""
        tally = self._turns.tally
        if self._call.kind == "summary" and self._turns.may_fit(self.body):
            tally[counting.SIDE] += 1
            self.pass_as_it_came()
            return
        self._sent = sent = Sent(self._given.messages) if self._turns.is_aside else sent
        is_same = _are_same(sent.messages, self._given.messages)
        if is_same or self._turns.is_shadow:
            tally[counting.AS_IT_CAME] += 1
        self._make_body(sent)
        if not is_same:
            tally[counting.WOULD_FIT if self._turns.is_shadow else counting.FITTED] += 1

    def pass_as_it_came(self) -> None:
        """Send what the host sent, but for thinking that was made behind something else."""
        self._make_body(Sent(self._given.messages))

    def _make_body(self, sent: Sent) -> None:
        before = self._call.messages[: self._given.before]
        if self._turns.is_shadow:
            if not _are_same(sent.messages, self._given.messages):
                body = self._call.with_messages([*before, *sent.messages])
                # What came is written anew, too: a host may write the same text in fewer bytes.
                self._share = len(body) / len(self._call.with_messages(self._call.messages))
            return
        shown = self._leave_thinking([*before, *sent.messages])
        self._write_body(shown)

    def _write_body(self, shown: Sequence[JsonObject]) -> None:
        self._shown = shown
        came = self._call.messages
        is_same = _are_same(shown, came)
        if is_same and not self._drops_thinking:
            self.body = self._original
        else:
            turns = join_turns(shown) if self._call.api.shape == "anthropic" else shown
            self.body = self._call.with_messages(turns, drops_thinking=self._drops_thinking)

    # Thinking

    def _leave_thinking(self, messages: list[JsonObject]) -> Sequence[JsonObject]:
        """The messages without thinking that is bound to another beginning."""
        call = self._call
        if not may_be_bound(call.model, call.api.shape):
            return messages
        known = self._turns.kept_of(call).bindings
        is_known = known.is_bound(call.model)
        if not is_known and _HIDDEN not in self._original and _SIGNED not in self._original:
            return messages
        came = self._sending_of(call.messages)
        is_same = _are_same(messages, call.messages)
        sending = came if is_same else self._sending_of(messages)
        left = known.send(came, sending, call.model, for_good=call.kind == "turn")
        return self._take_left(known, sending, left)

    def _take_left(self, known: Bindings, sending: Sending, left: Left) -> Sequence[JsonObject]:
        """What to send without the blocks that are good no more, unless the provider drops them."""
        self._out = Sending(sending.beside, left.messages, left.prints)
        self._mark = left.mark
        is_left = known.is_bound(self._call.model) and (known.has_left_out or left.gone > 0)
        may_drop = self._turns.drops_thinking and self._call.may_drop_thinking
        self._drops_thinking = may_drop and is_left
        return sending.messages if self._drops_thinking else left.messages

    def _sending_of(self, messages: Sequence[JsonObject]) -> Sending:
        given = self._given
        known = dict(zip(map(id, given.messages), given.prints, strict=True))
        prints = [known.get(id(one)) or fingerprint_of(one) for one in messages]
        return sending_of(messages, self._call.recordable(()), prints)

    def _leave_refused(self, place: tuple[int, int]) -> bool:
        """Make a request without the thinking that the provider refuses; once for each call."""
        if self._turns.is_shadow:
            return False
        call = self._call
        # A call beside the conversation teaches nothing of it.
        known = self._turns.kept_of(call).bindings if call.kind == "turn" else Bindings()
        sent = self._out or self._sending_of(self._shown)
        message, block = place
        if self.body is not self._original:
            message = place_before_joining(self._shown, message)
        left = known.take_refusal(call.model, sent, message, block)
        self._is_refused = True
        self._write_body(self._take_left(known, sent, left))
        self._turns.tally[counting.WITHOUT_THINKING] += 1
        return True

    def narrow(self, headers: Headers) -> Headers:
        """The headers to send: only encodings that can be read here are asked for."""
        narrowed = [
            (name, b", ".join(word.encode() for word in READABLE))
            if name.lower() == b"accept-encoding"
            else (name, value)
            for name, value in headers
        ]
        return _with_beta(narrowed, _DROPPING) if self._drops_thinking else narrowed

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Record the request once the provider has accepted it, and read the answer."""
        is_accepted = 200 <= status < 300
        if self._is_original_tried and is_accepted:
            self._turns.is_aside = True
            self._turns.tally[counting.NOT_ALLOWED] += 1
        if self._call.kind == "turn" and is_accepted and self._sent is not None:
            self._reader = AnswerReader(self._call.api.shape, headers)
            self._accepting = self._turns.start(self._accept(self._sent))
        elif self._turns.is_aside:
            self._turns.start(self._leave_all())

    def hear(self, piece: bytes) -> None:
        """Read a piece of the answer."""
        if self._reader is not None:
            self._reader.feed(piece)

    def end(self, *, is_whole: bool) -> None:
        """Record the answer, and compress where the window is too full now."""
        if self._reader is None or self._accepting is None:
            return
        answer = self._reader.end() if is_whole else Answer()
        if answer.message is not None and self._mark is not None:
            known = self._turns.kept_of(self._call).bindings
            known.bind_answer([answer.message], self._mark)
        recording = self._record(answer, self._accepting, has_overflow=self._reader.has_overflow)
        self._turns.start(self._finish(recording))

    async def mend(
        self, status: int, error: bytes, headers: Mapping[str, str], *, is_again: bool
    ) -> bool:
        """Make another request after an error; says whether there is one to send."""
        text = text_of_error(error, headers)
        place = find_refused_block(text) if status == 400 else None
        if is_again:
            if place is not None and self._is_refused:
                self._step_aside()
            return False
        if status in (401, 403):
            return self._take_back()
        if place is not None and self._call.api.shape == "anthropic":
            return self._leave_refused(place)
        if self._turns.is_aside or self._call.kind != "turn" or not is_overflow(text):
            return False
        sent = await self._turns.isolate(counting.FAILED, self._compress())
        if sent is None:
            return False
        if self._turns.is_shadow:
            self._turns.tally[counting.WOULD_REPLAY] += 1
            return False
        self._sent = sent
        self._make_body(sent)
        self._turns.tally[counting.REPLAYED] += 1
        return True

    def _step_aside(self) -> None:
        """Leave all calls of this run alone, since the provider goes on refusing what is sent."""
        if self._call.kind == "turn":
            self._turns.is_aside = True
            self._turns.tally[counting.STILL_REFUSED] += 1

    def _take_back(self) -> bool:
        """Try once in a run whether a login that is refused is accepted for what the host sent."""
        if self.body is self._original or self._turns.has_tried_original:
            return False
        self._turns.has_tried_original = self._is_original_tried = True
        self._sent = Sent(self._given.messages)
        self.pass_as_it_came()
        return True

    async def _compress(self) -> Sent | None:
        conversation = await self._turns.conversation_of(self._call)
        return await conversation.make_room(self._given, _OVERFLOW_REASON)

    async def _accept(self, sent: Sent) -> Sent:
        async def accept() -> Sent:
            conversation = await self._turns.conversation_of(self._call)
            return await conversation.accept(self._given, sent)

        accepted = await self._turns.isolate(counting.NOT_RECORDED, accept())
        return accepted or sent._replace(view=None)

    async def _finish(self, recording: Awaitable[None]) -> None:
        await self._turns.isolate(counting.NOT_RECORDED, recording)
        keeping = self._turns.keep_thinking(self._given)
        await self._turns.isolate(counting.NOT_RECORDED, keeping)
        if self._turns.is_aside:
            await self._leave_all()

    async def _leave_all(self) -> None:
        await self._turns.isolate(counting.NOT_RECORDED, self._turns.leave_all())

    async def _record(
        self, answer: Answer, accepting: asyncio.Task[Sent], *, has_overflow: bool
    ) -> None:
        sent = await accepting
        conversation = await self._turns.conversation_of(self._call)
        ledger = self._turns.ledger
        self._turns.note_size(self._call, self.body, answer.usage)
        if conversation.pay(ledger, self._call, sent, answer.usage, self._share):
            self._turns.tally[counting.BY_OTHERS] += 1
        if self._is_refused:
            conversation.note_refusal(self._turns.ledger, self._call)
        if has_overflow:
            # What has begun to pass cannot be taken back: the host's next request is smaller.
            await self._compress()
            return
        if answer.message is not None:
            # What the provider counted for a whole request says nothing of a smaller one.
            counted = sent if self._share == 1.0 else sent._replace(view=None)
            await conversation.record_answer(self._given, counted, answer.message)
        await self._turns.isolate(counting.NOT_RECORDED, self._turns.vouch(conversation))
        if self._turns.is_aside:
            return
        self._turns.note_outcome(await conversation.relieve(self._given))
        self._turns.wait_for_cold_cache(conversation, self._given, answer.usage)


def _with_beta(headers: Headers, beta: str) -> Headers:
    """The headers with one more beta of Anthropic's."""
    betas = [value.decode("latin-1") for name, value in headers if name.lower() == _BETA]
    named = {word.strip() for value in betas for word in value.split(",")}
    if beta in named:
        return headers
    others = [(name, value) for name, value in headers if name.lower() != _BETA]
    return [*others, (_BETA, ",".join([*betas, beta]).encode("latin-1"))]


def _are_same(sent: Sequence[JsonObject], came: Sequence[JsonObject]) -> bool:
    return len(sent) == len(came) and all(map(is_, sent, came))


def _forget_result(task: asyncio.Task[Sent]) -> None:
    """Look at an error that nobody waits for any more, or Python complains of it."""
    if not task.cancelled():
        task.exception()


def _key_of(call: HostCall) -> _Key:
    return call.host.name, call.session, call.agent
