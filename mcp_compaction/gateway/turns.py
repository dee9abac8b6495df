"""Takes calls of models through a conversation: fits them, and records them once accepted.

Whatever fails here, the host gets what it would have got: the call goes out with the last
substitute that was good, or as it came.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from mcp_compaction.api.handles import OpenSession, OpenStore
from mcp_compaction.gateway import counting
from mcp_compaction.gateway.answers import READABLE, Answer, AnswerReader
from mcp_compaction.gateway.calls import Call, find_api, read_call
from mcp_compaction.gateway.conversation import Conversation, Given, Sent
from mcp_compaction.gateway.forwarding import Headers
from mcp_compaction.gateway.ledger import Ledger
from mcp_compaction.gateway.usage import Usage
from mcp_compaction.lexicon.overflow import is_overflow
from mcp_compaction.model import Compaction, Outcome, SessionInfo, Traits
from mcp_compaction.ports import SessionKey

T = TypeVar("T")

logger = logging.getLogger(__name__)

PATIENCE = 0.3  # seconds of our own on a request's way, where there is something else to send
FIRST_PATIENCE = 20.0  # where there is not: an earlier process may have recorded a long history
CACHE_SECONDS = (300.0, 3600.0)  # for which providers keep what they read; and where asked to
_MOST_CONVERSATIONS = 64
_LEAST_BYTES = 3  # of a token, mostly
_OVERFLOW_REASON = "the provider refused the request: too large for the window"


class CallTurns:
    """The conversations that pass through a gateway, and the turns of each."""

    def __init__(
        self, store: OpenStore, *, patience: float = PATIENCE, is_shadow: bool = False
    ) -> None:
        """`is_shadow`: every call goes out as it came, and what would have been sent is counted."""
        self.tally = Counter[str]()
        self.chats: dict[str, str] = {}  # the hosts of chats, by their ids; the newest is the last
        self.on_change: Callable[[], None] = lambda: None
        self.is_shadow = is_shadow
        self.cache_seconds = CACHE_SECONDS
        self.ledger = Ledger()
        self._store = store
        self.patience = patience
        self._conversations: dict[tuple[str, str, str], Conversation] = {}
        self._opening = asyncio.Lock()
        self._background: set[asyncio.Task[Any]] = set()

    def is_model_call(self, path: str) -> bool:
        """Whether a path is one of a model, so that the body is looked at."""
        return find_api(path) is not None

    async def begin(self, path: str, headers: Mapping[str, str], body: bytes) -> CallTurn | None:
        """The call as it should be sent; None: as it came."""
        call = read_call(path, headers, body)
        if call is None:
            self.tally[counting.UNKNOWN] += 1
            return None
        if call.kind == "aside":
            self.tally[counting.SIDE] += 1
            return None
        self.note_chat(call)
        turn = CallTurn(self, call, body)
        await turn.fit(self.patience)
        return turn

    async def conversation_of(self, call: Call) -> Conversation:
        """The conversation that a call belongs to; a sub-agent has one of its own."""
        key = (call.host.name, call.session, call.agent)
        async with self._opening:
            known = self._conversations.pop(key, None)
            if known is None:
                known = Conversation(OpenSession(self._store, await self._open(call)))
            self._conversations[key] = known
            if len(self._conversations) > _MOST_CONVERSATIONS:
                del self._conversations[next(iter(self._conversations))]
        return known

    def note_chat(self, call: Call) -> None:
        """Note which chat has sent a request last."""
        if call.agent:
            return
        is_newest = next(reversed(self.chats), None) == call.session
        self.chats.pop(call.session, None)
        self.chats[call.session] = call.host.name
        if not is_newest:
            self.on_change()

    async def close(self) -> None:
        """Give the windows back to their hosts, when all that was begun is done."""
        for one in self._conversations.values():
            one.when_idle(None)
        await self.settle()
        compactor = self._store.compactor
        for one in self._conversations.values():
            info, account = one.session.info, self.ledger.accounts.get(one.session.name)
            giving = compactor.set_traits(info, Traits(owns_window=False))
            await self.isolate(counting.NOT_RECORDED, giving)
            if account is not None:
                told = "\n".join(account.lines())
                await self.isolate(counting.NOT_RECORDED, compactor.note_paid(info, told))

    async def _open(self, call: Call) -> SessionInfo:
        compactor = self._store.compactor
        key = SessionKey(
            project=self._store.project, host=call.host.name, host_session=call.session
        )
        info, _ = await compactor.open(key, Traits(model=call.model or None))
        if call.agent:
            own = key.model_copy(update={"agent": call.agent, "parent": info.id})
            info, _ = await compactor.open(own, Traits(model=call.model or None))
        return info if info.traits.owns_window else await compactor.own_window(info)

    async def isolate(self, kind: str, work: Awaitable[T]) -> T | None:
        """Do something whose failure is counted, and no failure of the call it is for."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001  # whatever fails of ours, the host's call goes on
            # Its text is not logged: it may quote what was said.
            logger.warning("%s: %s", kind, type(error).__name__)
            self.tally[f"{kind} ({type(error).__name__})"] += 1
            return None

    def note_outcome(self, outcome: Outcome | None) -> None:
        """Count a compaction."""
        if isinstance(outcome, Compaction):
            self.tally[counting.COMPACTED] += 1
        self.on_change()

    def wait_for_cold_cache(
        self, conversation: Conversation, given: Given, usage: Usage | None
    ) -> None:
        """Compress when the provider's cache has gone cold before the next request comes."""
        is_long = usage is not None and usage.written_long > 0
        seconds = self.cache_seconds[1 if is_long else 0]

        async def relieve() -> None:
            await asyncio.sleep(seconds)
            relieving = conversation.relieve(given, is_warm=False)
            self.note_outcome(await self.isolate(counting.NOT_RECORDED, relieving))

        conversation.when_idle(asyncio.create_task(relieve()))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something that no request waits for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def may_fit(self, body: bytes) -> bool:
        """Whether a body hardly fills the window; few tokens have less than three bytes."""
        return len(body) < _LEAST_BYTES * self._store.settings.policy.window_tokens

    async def settle(self) -> None:
        """Wait until all that requests have left behind is done."""
        while self._background:
            await asyncio.wait(set(self._background))


class CallTurn:
    """One call on its way: what is sent for it, and what is done when the answer comes."""

    def __init__(self, turns: CallTurns, call: Call, body: bytes) -> None:
        self.body = body
        self._turns = turns
        self._call = call
        self._conversation: Conversation | None = None
        self._given: Given | None = None
        self._sent: Sent | None = None
        self._accepting: asyncio.Task[Sent] | None = None
        self._reader: AnswerReader | None = None

    async def fit(self, patience: float) -> None:
        """Find out what to send; after a while, or when that fails, what is known to be good."""
        await self._turns.isolate(counting.FAILED, self._lay_out(patience))
        self._take_over()

    async def _lay_out(self, patience: float) -> None:
        self._conversation = await self._turns.conversation_of(self._call)
        self._conversation.when_idle(None)
        self._given = await self._conversation.read(self._call)
        laying = asyncio.create_task(self._conversation.lay_out(self._given))
        has_other = self._conversation.has_substitute(self._given)
        limit = patience if has_other else max(patience, FIRST_PATIENCE)
        done, _ = await asyncio.wait({laying}, timeout=limit)
        if done:
            self._sent = laying.result()
        else:
            laying.add_done_callback(_forget_result)
            self._turns.tally[counting.SLOW] += 1

    def _take_over(self) -> None:
        """Make the body to send."""
        given, conversation, tally = self._given, self._conversation, self._turns.tally
        if given is None or conversation is None:
            tally[counting.AS_IT_CAME] += 1
            return
        sent = self._sent or conversation.fall_back(given)
        if self._call.kind == "summary" and self._turns.may_fit(self.body):
            tally[counting.SIDE] += 1
            return
        self._sent = sent
        if _is_same(sent, given):
            tally[counting.AS_IT_CAME] += 1
            return
        self._make_body(given, sent)
        tally[counting.FITTED] += 1

    def _make_body(self, given: Given, sent: Sent) -> None:
        if self._turns.is_shadow:
            return
        before = self._call.messages[: given.before]
        self.body = self._call.with_messages([*before, *sent.messages])

    def narrow(self, headers: Headers) -> Headers:
        """The headers to send: only encodings that can be read here are asked for."""
        return [
            (name, b", ".join(word.encode() for word in READABLE))
            if name.lower() == b"accept-encoding"
            else (name, value)
            for name, value in headers
        ]

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Record the request once the provider has accepted it, and read the answer."""
        if self._call.kind != "turn" or not 200 <= status < 300 or self._given is None:
            return
        if self._conversation is None or self._sent is None:
            return
        self._reader = AnswerReader(self._call.api.shape, headers)
        accepting = self._accept(self._conversation, self._given, self._sent)
        self._accepting = self._turns.start(accepting)

    def hear(self, piece: bytes) -> None:
        """Read a piece of the answer."""
        if self._reader is not None:
            self._reader.feed(piece)

    def end(self, *, is_whole: bool) -> None:
        """Record the answer, and compress where the window is too full now."""
        reader, accepting = self._reader, self._accepting
        if reader is None or accepting is None or self._conversation is None or not self._given:
            return
        answer = reader.end() if is_whole else Answer()
        self._turns.start(self._finish(self._conversation, self._given, answer, accepting))

    async def make_room(self, status: int, error: bytes, headers: Mapping[str, str]) -> bool:
        """Make the request smaller after an overflow; says whether to send it once more."""
        given, conversation = self._given, self._conversation
        if self._call.kind != "turn" or given is None or conversation is None:
            return False
        if not is_overflow(text_of_error(error, headers)):
            return False
        making = conversation.make_room(given, _OVERFLOW_REASON)
        sent = await self._turns.isolate(counting.FAILED, making)
        if sent is None:
            return False
        self._sent = sent
        self._make_body(given, sent)
        self._turns.tally[counting.REPLAYED] += 1
        return True

    async def _accept(self, conversation: Conversation, given: Given, sent: Sent) -> Sent:
        accepting = conversation.accept(given, sent)
        return await self._turns.isolate(counting.NOT_RECORDED, accepting) or sent._replace(
            view=None
        )

    async def _finish(
        self,
        conversation: Conversation,
        given: Given,
        answer: Answer,
        accepting: asyncio.Task[Sent],
    ) -> None:
        sent = await accepting

        conversation.pay(self._turns.ledger, self._call, sent, answer.usage)

        async def record() -> None:
            if answer.message is not None:
                await conversation.record_answer(given, sent, answer.message)
            self._turns.note_outcome(await conversation.relieve(given))

        await self._turns.isolate(counting.NOT_RECORDED, record())
        self._turns.wait_for_cold_cache(conversation, given, answer.usage)


def text_of_error(body: bytes, headers: Mapping[str, str]) -> str:
    """The text of an error's body, as far as it can be read."""
    if headers.get("content-encoding", "").lower() in READABLE:
        try:
            body = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body)
        except zlib.error:
            return ""
    return body.decode("utf-8", "replace")


def _is_same(sent: Sent, given: Given) -> bool:
    return len(sent.messages) == len(given.messages) and all(
        one is other for one, other in zip(sent.messages, given.messages, strict=True)
    )


def _forget_result(task: asyncio.Task[Sent]) -> None:
    """Look at an error that nobody waits for any more, or Python complains of it."""
    if not task.cancelled():
        task.exception()
