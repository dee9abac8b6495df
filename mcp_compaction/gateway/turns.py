"""Takes calls of models through a conversation: fits them, and records them once accepted.

Whatever fails here, the host gets what it would have got: the call goes out with the last
layout that was good, or as it came.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from mcp_compaction.api.handles import OpenSession, OpenStore
from mcp_compaction.compactor.results import PAID
from mcp_compaction.compactor.workspace import Newest
from mcp_compaction.core.policy import for_session
from mcp_compaction.formats.thinking import may_be_bound, thinking_in
from mcp_compaction.formats.usage import Usage
from mcp_compaction.gateway import forwarding
from mcp_compaction.gateway.answers import Answer, AnswerReader, text_of_error
from mcp_compaction.gateway.calls import (
    ChatKey,
    HostCall,
    SentHistory,
    find_chat,
    read_call,
    read_history,
)
from mcp_compaction.gateway.conversation import GatewayConversation, Sent, open_recorded
from mcp_compaction.gateway.keeping import LEAST_BYTES, KeptChat, path_of_layout
from mcp_compaction.gateway.money import GatewayLedger
from mcp_compaction.gateway.outgoing import Outgoing
from mcp_compaction.gateway.prose import AskProvider, ask_model
from mcp_compaction.hosts.chat import UsersWords
from mcp_compaction.hosts.hook_notes import note_trouble
from mcp_compaction.hosts.recording import note_chat_as_recorded
from mcp_compaction.hosts.serving import find_served_chat
from mcp_compaction.lexicon.models import find_refused_block, is_overflow, rule_of
from mcp_compaction.model import Compaction, Failed, Outcome, Traits
from mcp_compaction.settings import Settings
from mcp_compaction.threads import Threads

T = TypeVar("T")
Begun: TypeAlias = "CallTurn | bytes | None"

logger = logging.getLogger(__name__)

PATIENCE = 0.28  # seconds of our own on a request's way (0.3 in all), where else there is a view
FIRST_PATIENCE = 20.0  # where there is not, or that may be longer than the window
CACHE_SECONDS = (300.0, 3600.0)  # for which providers keep what they read; and where asked to
_WRITING_SECONDS = 5.0  # after an answer a host has written it by then
_OVERFLOW_REASON = "the provider refused the request: too large for the window"


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
        self._conversations = Newest[ChatKey, GatewayConversation]()
        self._kept = Newest[ChatKey, KeptChat]()
        self.has_prose = settings.prose != "off" and not is_shadow
        self._words = UsersWords(environ or {})
        self._last = Newest[ChatKey, SentHistory]()  # the history of each, as it came last
        self._opening = asyncio.Lock()
        self._background: set[asyncio.Task[Any]] = set()

    async def begin(self, path: str, headers: Mapping[str, str], body: bytes) -> Begun:
        """The call as it should be sent; None: as it came. Bytes: the error by which its host is
        answered, and nothing is sent."""
        turn = await self.isolate(forwarding.FAILED, self._begin(path, headers, body))
        if turn is None:
            self.on_change()
        return turn

    async def _begin(self, path: str, headers: Mapping[str, str], body: bytes) -> Begun:
        call = read_call(path, headers, body)
        if self.is_aside:
            self.tally[forwarding.AS_IT_CAME] += 1
            return await self._begin_aside(call, body)
        if call is None:
            is_named = find_chat(headers) is not None
            self.tally[forwarding.UNREADABLE if is_named else forwarding.NAMELESS] += 1
            return None
        if call.kind == "part" and self._asks_for_all(call):
            self.tally[forwarding.ASKED_FOR_ALL] += 1
            return forwarding.SEND_ALL
        if call.kind in forwarding.PASSED:
            self.tally[forwarding.PASSED[call.kind]] += 1
            return None
        if self._is_served(call):
            return await self._leave_to_module(call, body)
        self.note_chat(call)
        turn = CallTurn(self, await self._read(call), body)
        await turn.fit(self.patience)
        return turn

    async def _leave_to_module(self, call: HostCall, body: bytes) -> CallTurn | None:
        """Let go of a conversation that our module inside the host compacts and records."""
        self.tally[forwarding.AS_IT_CAME] += 1
        if self.chats.pop(call.session, None) is not None:
            self.on_change()
            if known := self._conversations.pop(call.key, None):
                self.start(self._dismiss(known))
        return await self._begin_aside(call, body)

    def _is_served(self, call: HostCall) -> bool:
        """Whether a module of ours in the host serves its chat."""
        return not call.agent and find_served_chat(self._settings.home, call.session) is not None

    def _asks_for_all(self, call: HostCall) -> bool:
        """Whether the host is asked for all that was said: once, where that is changed here."""
        is_first = self.kept_of(call).note_part()
        may_ask = is_first and call.api.shape == "anthropic" and not self.is_shadow
        return may_ask and not self._is_served(call)

    async def _begin_aside(self, call: HostCall | None, body: bytes) -> CallTurn | None:
        """A call as it came, without the thinking that was made behind a view of ours."""
        if call is None or call.kind in forwarding.PASSED or rule_of(call.model) == "free":
            return None
        turn = CallTurn(self, await self._read(call), body)
        turn.out.pass_as_it_came()
        return turn if not turn.out.is_original else None

    async def _read(self, call: HostCall) -> SentHistory:
        key = call.key
        given = await self._threads.run(read_history, call, self._last.pop(key, None))
        self._last.keep(key, given)
        return given

    def kept_of(self, call: HostCall) -> KeptChat:
        """The layouts and the thinking that are known of a call's chat without its store."""
        path = path_of_layout(self._settings.home, *call.key)
        known = self._kept.get(call.key) or KeptChat(path, masks_secrets=self._settings.redact)
        self._kept.keep(call.key, known)
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
        key = call.key
        async with self._opening:
            known = self._conversations.get(key)
            if known is None:
                store = await self._open_store()
                session = OpenSession(store, await open_recorded(store, call))
                known = GatewayConversation(session, self.kept_of(call), self.note_outcome)
                if may_be_bound(call.model):
                    rows = await store.workspace.store.thinking(session.info.id)
                    self.kept_of(call).bindings.learn(rows)
            if oldest := self._conversations.keep(key, known):
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
        await self.isolate(forwarding.NOT_RECORDED, giving)
        account = self.ledger.accounts.get(session.name)
        if account is not None:
            told = "\n".join(account.lines())
            await self.isolate(forwarding.NOT_RECORDED, work.note(info, PAID, told))
            if self._environ is not None and account.lost:
                note_trouble(self._environ, info.host or "", "answer", account.lost)
        await self._pass_over(conversation)

    async def vouch(self, conversation: GatewayConversation) -> None:
        """Count what the user typed as the user's, as far as the host's own transcript has it."""
        session = conversation.session
        if self._environ is not None:
            await self._words.vouch(session.store.workspace, session.info)

    async def _pass_over(self, conversation: GatewayConversation) -> None:
        """Note that the host's transcript tells nothing new, where all of it is recorded."""
        await self.isolate(forwarding.NOT_RECORDED, self.vouch(conversation))
        if self._environ is not None and not conversation.kept.has_gap:
            work, info = conversation.session.store.workspace, conversation.session.info
            passing = note_chat_as_recorded(work, info, self._environ)
            await self.isolate(forwarding.NOT_RECORDED, passing)

    async def isolate(self, kind: str, work: Awaitable[T]) -> T | None:
        """Do something whose failure is counted, and no failure of the call it is for."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001  # whatever fails of ours, the host's call goes on
            self.note_fault(error, kind)
            return None

    def note_fault(self, fault: Exception, kind: str = forwarding.NOT_RECORDED) -> None:
        """Count a fault of ours."""
        # Its text is not logged, which may quote what was said; and the host has the screen.
        logger.info("%s: %s", kind, type(fault).__name__)
        self.tally[f"{kind} ({type(fault).__name__})"] += 1

    def note_outcome(self, outcome: Outcome | None) -> None:
        """Count a compaction."""
        if isinstance(outcome, Compaction):
            self.tally[forwarding.WOULD_COMPACT if self.is_shadow else forwarding.COMPACTED] += 1
        elif isinstance(outcome, Failed):
            self.tally[forwarding.COMPACTION_FAILED] += 1
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
            self.note_outcome(await self.isolate(forwarding.NOT_RECORDED, relieving))

        conversation.when_idle(asyncio.create_task(relieve()))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something that no request waits for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def may_fit(self, body: bytes) -> bool:
        """Whether a body hardly fills the window; few tokens have less than three bytes."""
        return len(body) < LEAST_BYTES * self._settings.policy.window_tokens

    def window_of(self, call: HostCall) -> int:
        """The tokens that the window of the model of a call holds."""
        return for_session(self._settings.policy, Traits(model=call.model or None)).window_tokens

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
        self.ask_provider: AskProvider | None = None  # for a request of our own, with its key
        self._is_original_tried = False
        self._turns = turns
        self._given = given
        self._call = given.call
        self._sent: Sent | None = None
        self._accepting: asyncio.Task[Sent] | None = None
        self._reader: AnswerReader | None = None
        kept = partial(turns.kept_of, given.call)
        self.out = Outgoing(given, body, kept, is_shadow=turns.is_shadow)

    async def fit(self, patience: float) -> None:
        """Find out what to send; after a while, or when that fails, what is known to be good."""
        kept = self._turns.kept_of(self._call).find(self._given.prints)
        messages = self._given.messages
        good = Sent(kept.apply(messages), kept.view) if kept is not None else Sent(messages)
        found = await self._turns.isolate(forwarding.FAILED, self._lay_out(patience, good))
        self._take_over(found or good)

    async def _lay_out(self, patience: float, good: Sent) -> Sent | None:
        laying = self._turns.start(self._ask_conversation())
        # An error that nobody waits for any more is looked at, or Python complains of it.
        laying.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait({laying}, timeout=patience)
        if not done and not self._seems_to_fit(good):
            done, _ = await asyncio.wait({laying}, timeout=FIRST_PATIENCE)
        if done:
            return laying.result()
        self._turns.tally[forwarding.SLOW] += 1
        return None

    def _seems_to_fit(self, sent: Sent) -> bool:
        """Whether messages are no more than the window holds, by what the provider has counted."""
        window = self._turns.window_of(self._call)
        return self._turns.kept_of(self._call).seem_to_fit(self.out.body_of(sent.messages), window)

    async def _ask_conversation(self) -> Sent:
        conversation = await self._turns.conversation_of(self._call)
        conversation.when_idle(None)
        return await conversation.lay_out(self._given)

    def _take_over(self, sent: Sent) -> None:
        """Make the body to send."""
        tally = self._turns.tally
        if self._call.kind == "summary" and self._turns.may_fit(self.out.body):
            tally[forwarding.SIDE] += 1
            self.out.pass_as_it_came()
            return
        self._sent = sent = Sent(self._given.messages) if self._turns.is_aside else sent
        is_same = self.out.is_same(sent.messages)
        if is_same or self._turns.is_shadow:
            tally[forwarding.AS_IT_CAME] += 1
        self.out.make(sent.messages)
        if not is_same:
            tally[forwarding.WOULD_FIT if self._turns.is_shadow else forwarding.FITTED] += 1

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Record the request once the provider has accepted it, and read the answer."""
        is_accepted = 200 <= status < 300
        if self._is_original_tried and is_accepted:
            self._turns.is_aside = True
            self._turns.tally[forwarding.NOT_ALLOWED] += 1
        if self._call.kind == "turn" and is_accepted and self._sent is not None:
            self._reader = AnswerReader(self._call.api.shape, headers)
            self._accepting = self._turns.start(self._accept(self._sent))
        elif self._turns.is_aside:
            self._turns.start(self._turns.isolate(forwarding.NOT_RECORDED, self._turns.leave_all()))

    def hear(self, piece: bytes) -> None:
        """Read a piece of the answer."""
        if self._reader is not None:
            self._reader.feed(piece)

    def end(self, *, is_whole: bool) -> None:
        """Record the answer, and compress where the window is too full now."""
        if self._reader is None or self._accepting is None:
            return
        answer = self._reader.end() if is_whole else Answer()
        if answer.message is not None and self.out.mark is not None:
            known = self._turns.kept_of(self._call).bindings
            known.bind_answer([answer.message], self.out.mark)
        recording = self._record(answer, self._accepting, has_overflow=self._reader.has_overflow)
        self._turns.start(self._finish(recording))

    async def mend(
        self, status: int, error: bytes, headers: Mapping[str, str], *, is_again: bool
    ) -> bool:
        """Make another request after an error; says whether there is one to send."""
        text = text_of_error(error, headers)
        place = find_refused_block(text) if status == 400 else None
        if is_again:
            if place and self.out.is_refused and self._call.kind == "turn":
                self._turns.is_aside = True  # the provider goes on refusing what is sent
                self._turns.tally[forwarding.STILL_REFUSED] += 1
            return False
        if status in (401, 403):
            return self._take_back()
        if place is not None and self._call.api.shape == "anthropic":
            is_left = self.out.leave_refused(place)
            if is_left:
                self._turns.tally[forwarding.WITHOUT_THINKING] += 1
            return is_left
        if self._turns.is_aside or self._call.kind != "turn" or not is_overflow(text):
            return False
        sent = await self._turns.isolate(forwarding.FAILED, self._compress())
        if sent is None:
            return False
        if self._turns.is_shadow:
            self._turns.tally[forwarding.WOULD_REPLAY] += 1
            return False
        self._sent = sent
        self.out.make(sent.messages)
        self._turns.tally[forwarding.REPLAYED] += 1
        return True

    def _take_back(self) -> bool:
        """Try once in a run whether a login that is refused is accepted for what the host sent."""
        if self.out.is_original or self._turns.has_tried_original:
            return False
        self._turns.has_tried_original = self._is_original_tried = True
        self._sent = Sent(self._given.messages)
        self.out.pass_as_it_came()
        return True

    async def _compress(self) -> Sent | None:
        conversation = await self._turns.conversation_of(self._call)
        return await conversation.make_room(self._given, _OVERFLOW_REASON)

    async def _accept(self, sent: Sent) -> Sent:
        async def accept() -> Sent:
            conversation = await self._turns.conversation_of(self._call)
            return await conversation.accept(self._given, sent)

        accepted = await self._turns.isolate(forwarding.NOT_RECORDED, accept())
        return accepted or sent._replace(view=None)

    async def _finish(self, recording: Awaitable[None]) -> None:
        await self._turns.isolate(forwarding.NOT_RECORDED, recording)
        await self._turns.isolate(forwarding.NOT_RECORDED, self._turns.keep_thinking(self._given))
        if self._turns.is_aside:
            await self._turns.isolate(forwarding.NOT_RECORDED, self._turns.leave_all())

    async def _record(
        self, answer: Answer, accepting: asyncio.Task[Sent], *, has_overflow: bool
    ) -> None:
        sent = await accepting
        conversation = await self._turns.conversation_of(self._call)
        self._turns.kept_of(self._call).note_size(self.out.body, answer.usage)
        account = self._turns.ledger.account_of(conversation.session.name, self._call.model)
        if conversation.pay(account, sent, answer.usage, self.out.share):
            self._turns.tally[forwarding.BY_OTHERS] += 1
        account.refused += self.out.is_refused
        known = self._turns.kept_of(self._call).bindings
        account.removed += known.note_removed(answer.message or {}, self._call.model)
        if has_overflow:
            # What has begun to pass cannot be taken back: the host's next request is smaller.
            await self._compress()
            return
        if answer.message is not None:
            # What the provider counted for a whole request says nothing of a smaller one.
            counted = sent if self.out.share == 1.0 else sent._replace(view=None)
            await conversation.record_answer(self._given, counted, answer.message)
        await self._turns.isolate(forwarding.NOT_RECORDED, self._turns.vouch(conversation))
        if self._turns.is_aside:
            return
        send = self.ask_provider
        ask = partial(ask_model, self._call.api, self.out.body, send) if send else None
        self._turns.note_outcome(await conversation.relieve(self._given, ask=ask))
        self._turns.wait_for_cold_cache(conversation, self._given, answer.usage)
