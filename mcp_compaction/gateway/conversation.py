"""One conversation of a host as its requests pass: what is recorded of it, and what is sent.

A request is recorded once the provider has accepted it. A history that contradicts what is recorded
is followed once the request after it goes on with it. Whatever knows the way here can send one, so
what it holds in the user's role is the user's only where the host's own transcript has it too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mcp_compaction import compactor, worker
from mcp_compaction.api import OpenSession
from mcp_compaction.api.handles import OpenStore
from mcp_compaction.compactor.histories import Layout, ViewState, layout_between, state_of
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.core.policy import Policy, for_session, with_reserve
from mcp_compaction.core.window.fill import Fill, Pressure
from mcp_compaction.core.window.history import begin_view
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.formats import FORMATS, render
from mcp_compaction.formats.arrival import messages_of_answer, reported_tokens_of
from mcp_compaction.formats.identity import fingerprints_of
from mcp_compaction.formats.usage import Usage
from mcp_compaction.gateway.calls import HostCall, SentHistory, begins_with
from mcp_compaction.gateway.keeping import LEAST_BYTES, KeptChat, keep_words_of_host
from mcp_compaction.gateway.money import Account, price_of, turns_to_pay
from mcp_compaction.gateway.prose import AskModel, written_by
from mcp_compaction.hosts.recording import check_history, open_chat
from mcp_compaction.model import (
    Compaction,
    JsonObject,
    Message,
    Outcome,
    Projection,
    Session,
    SessionInfo,
    Shape,
    Traits,
)
from mcp_compaction.ports import SessionKey
from mcp_compaction.summarizers.session_model import SessionModel
from mcp_compaction.threads import Threads

_AFTER_OVERFLOW = 0.6  # of the fill that was too much, whatever we took the window to hold
_COOL_DOWN = 4  # requests after a compaction in which the system begins no other
_FULL = 99.0  # percent, from which on there is no waiting
_AHEAD = 10.0  # points before the net from which on a compaction is made ready, or the largest step
_MOST_AHEAD = 30.0
_MOST_TURNS_TO_PAY = 10.0


class RecordedHistory(NamedTuple):
    """A history that is recorded."""

    messages: list[JsonObject]
    prints: list[bytes]
    answers: list[JsonObject] = []  # noqa: RUF012  # never changed; recorded before they came back


class Sent(NamedTuple):
    """The messages that go to the provider."""

    messages: list[JsonObject]
    view: ViewState | None = None  # that they show; None: it is not known


class GatewayConversation:
    """The state of one conversation; its methods wait for each other."""

    def __init__(
        self,
        session: OpenSession,
        kept: KeptChat,
        note_outcome: Callable[[Outcome | None], None] = lambda _: None,
    ) -> None:
        """`note_outcome`: hears of compactions that a request has waited for."""
        self.session = session
        self.is_left = False  # its window is the host's again
        self.kept = kept
        self._lock = asyncio.Lock()
        self._note_outcome = note_outcome
        self._model = SessionModel(session.store.workspace.counter.count)
        self._making: asyncio.Task[bool] | None = None  # the compaction that is made ready
        self._since_compaction = _COOL_DOWN
        self._has_compacted = False  # since the last request that was paid
        settings = session.store.settings
        policy = settings.policy
        self._offload_over = policy.offload_over_tokens
        self._least_percent = policy.trigger_percent - 2 * policy.advise_below_trigger
        self._percent: float | None = 0.0  # of the window; None: it has to be read
        self._reported = 0.0  # percent, by the provider
        self._ahead = _AHEAD
        self._threads = Threads()
        self._idle: asyncio.Task[None] | None = None
        self._known: RecordedHistory | None = None
        self._is_compared = False  # with what an earlier process has recorded
        self._candidate: list[bytes] | None = None
        self._begun: SentHistory | None = None  # the last request of which there is to be an answer
        self._has_waiting_pins = False  # that the user's next turn is to bring
        self._fitted_view: ViewState | None = None  # that the compactor has laid out last
        self._paid_view: ViewState | None = None  # that the last request showed

    def when_idle(self, task: asyncio.Task[None] | None) -> None:
        """Have a task wait until the next request comes, in place of the one that waits."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = task

    # Before a request is sent

    async def lay_out(self, given: SentHistory) -> Sent:
        """What to send for a history; nothing of it is recorded that was not accepted before."""
        if given.call.kind == "turn":
            self.kept.has_gap = True
            self._begun = given
        async with self._lock:
            if self._known is None and not self._is_compared:
                await self._compare(given)
            candidate = self._candidate
            is_confirmed = candidate is not None and begins_with(given.prints, candidate)
            if candidate is not None and is_confirmed and not self._goes_on(given):
                await self._record(given, len(candidate))
            if self._goes_on(given):
                layout = await self._current_layout(given)
                if given.call.kind == "turn" and await self._may_be_full(given):
                    layout = await self._keep_below_window(given)
                return Sent(layout.apply(given.messages), layout.view)
            found = self.kept.find(given.prints)
            if found is not None and found.places:
                return Sent(found.apply(given.messages))
            laid = await self._begin(given)
            # Until it is recorded, whatever goes on with it begins in the same way.
            self.kept.add(layout_between(given.prints, given.messages, laid))
            return Sent(laid)

    def _goes_on(self, given: SentHistory) -> bool:
        return self._known is not None and begins_with(given.prints, self._known.prints)

    async def _compare(self, given: SentHistory) -> None:
        """Take up what an earlier process has recorded of the same history."""
        work, info = self.session.store.workspace, self.session.info
        if (await work.load(info)).info.messages:
            found = await compactor.compare(work, info, given.call.recordable(given.messages))
            if found.goes_on and found.known:
                self._known = RecordedHistory(
                    given.messages[: found.known], given.prints[: found.known]
                )
            else:
                self._known = RecordedHistory([], [b"another history"])
        self._is_compared = True

    def _has_to_change(self, given: SentHistory) -> bool:
        """Whether a pin waits for the turn of the user that has come, or a new result is so large
        that a preview may be sent for it."""
        over, known = self._offload_over, self._known
        if known is None or (over is None and not self._has_waiting_pins):
            return False
        news = _messages_of(given.messages[len(known.prints) :], given.call.api.shape)
        if self._has_waiting_pins and news and news[-1].is_request and not news[-1].results:
            return True
        # A token has a character at least.
        results = (result for message in news for result in message.results)
        return over is not None and any(len(result.text) > over for result in results)

    async def _current_layout(self, given: SentHistory) -> Layout:
        """The layout of the view that is stored now."""
        found = self.kept.find(given.prints, await self._view())
        if found is None:
            assert self._known is not None
            found = await self._fit(given, self._count_known(given, self._known))
        if given.call.kind == "summary" or not self._has_to_change(given):
            return found
        # A pin stands behind the message that it comes with, and a preview names the whole by its
        # number: such a request is recorded before it is accepted.
        return await self._record(given, len(given.messages), self._offload_over)

    def _count_known(self, given: SentHistory, known: RecordedHistory) -> int:
        """How many messages of a history are recorded, with the answers that came back."""
        form = FORMATS[given.call.api.shape]
        count = len(known.prints)
        back = given.messages[count : count + len(known.answers)]
        if len(back) < len(known.answers):
            return count
        same = (
            form.read(one, "it") == form.read(other, "it")
            for one, other in zip(back, known.answers, strict=True)
        )
        return count + len(back) if all(same) else count

    async def _may_be_full(self, given: SentHistory) -> bool:
        """Whether the window may be too full with a request, by the length of what is new."""
        known = self._known
        if known is None or known.prints == given.prints:  # it is recorded, and was looked at
            return False
        policy = self._policy_for(given.call.model)
        new = given.messages[self._count_known(given, known) :]
        tokens = sum(len(json.dumps(one, ensure_ascii=False)) for one in new) / LEAST_BYTES
        if self._percent is None:
            self._percent = (
                await self.session.store.workspace.read_window(self.session.info)
            ).fill.percent
        return self._percent + 100 * tokens / policy.window_tokens >= policy.net_percent

    async def _keep_below_window(self, given: SentHistory) -> Layout:
        """Record a request before it is sent, and compress where it would not fit otherwise."""
        found = await self._record(given, len(given.messages), self._offload_over)
        work, info = self.session.store.workspace, self.session.info
        for _ in range(2):  # what was made ready may be too little by now
            window = await work.read_window(info)
            if window.fill.percent < (window.pressure.net_percent if self._is_ready else _FULL):
                break
            await self._make_ready()
            outcome = await self.session.relieve()  # which is another's, where it is None
            self._note_outcome(outcome)
            if isinstance(outcome, Compaction):
                self._note_compaction()
            found = await self._fit(given, len(given.messages))
        return found

    async def _begin(self, given: SentHistory) -> list[JsonObject]:
        """A history that is not recorded as it will be shown: with the pins at their place."""
        info = self.session.info
        pins = await self.session.pins()
        shape = given.call.api.shape
        session = Session(info=info, messages=_messages_of(given.messages, shape), pins=pins)
        seen = session.model_copy(update={"view": begin_view(session, session.messages)})
        shown = lay_out(seen, *self.session.store.workspace.index_terms(seen))
        return render(shown, shape, dict(enumerate(given.messages, 1)))

    # After it was accepted

    async def accept(self, given: SentHistory, sent: Sent) -> Sent:
        """Record a request that the provider has accepted, unless it may not be the host's.

        Gives what was sent with the view that it shows, where that is known now.
        """
        async with self._lock:
            return await self._accept(given, sent)

    async def _accept(self, given: SentHistory, sent: Sent) -> Sent:
        goes_on = self._known is None or self._goes_on(given)
        if not goes_on and not begins_with(given.prints, self._candidate or [b""]):
            self._candidate = given.prints
            return sent
        if sent.view is not None and await self._append(given, sent):
            return sent
        layout = await self._record(given, len(given.messages))
        is_same = layout.apply(given.messages) == sent.messages
        return sent._replace(view=layout.view if is_same else None)

    async def record_answer(self, given: SentHistory, sent: Sent, answer: JsonObject) -> None:
        """Record what the model answered to a request that is recorded."""
        async with self._lock:
            if self._known is None or self._known.prints != given.prints:
                return
            if sent.view is None or sent.view != self._fitted_view:
                # It was counted for another window than the one that was fitted last.
                answer = {name: value for name, value in answer.items() if name != "usage"}
            await self.session.record_answer(answer)
            window = self._policy_for(given.call.model).window_tokens
            reported = reported_tokens_of(answer)
            if reported:
                self._percent = 100 * reported / window
                step = self._percent - (self._reported or self._percent)
                self._ahead = min(_MOST_AHEAD, max(self._ahead, step))
                self._reported = self._percent
            _, said = messages_of_answer(answer, given.call.api.shape)
            self._known = self._known._replace(answers=said)
            self.kept.has_gap = self._begun is not given

    def _policy_for(self, model: str) -> Policy:
        """The policy that the conversation has with a model."""
        traits = self.session.info.traits.model_copy(update={"model": model})
        return with_reserve(for_session(self.session.store.settings.policy, traits))

    def pay(self, account: Account, sent: Sent, usage: Usage | None, share: float = 1.0) -> bool:
        """Note what the provider counted for a request; `share`: see `Account.add`.

        Gives whether it is the first after a compaction that another has made.
        """
        if usage is None:
            return False
        has_new_view = sent.view is not None and sent.view != self._paid_view
        self._paid_view = sent.view
        is_first = account.add(usage, has_new_view=has_new_view, share=share)
        is_ours, self._has_compacted = self._has_compacted, self._has_compacted and not has_new_view
        return is_first and not is_ours

    async def relieve(
        self,
        given: SentHistory,
        *,
        is_warm: bool = True,
        ask: AskModel | None = None,
    ) -> Outcome | None:
        """Compress where the window is too full, so that the next request finds it smaller.

        Between trigger and net only where it pays; `is_warm`: the provider's cache still holds.
        Requests that come meanwhile go on with the window as it was. Near the net a compaction is
        made ready for them. `ask`: has the conversation's own model write the handover.
        """
        with written_by(self._model, ask, self.session.store.workspace, self.session.info):
            return await self._relieve(given, is_warm=is_warm)

    async def _relieve(self, given: SentHistory, *, is_warm: bool) -> Outcome | None:
        self._since_compaction += 1
        if self._percent is not None and self._percent < self._least_percent:
            return None
        work, info = self.session.store.workspace, self.session.info
        window = await work.read_window(info)
        fill, pressure = window.fill, window.pressure
        if self._since_compaction < _COOL_DOWN and fill.percent < _FULL:
            return None
        if not await self._is_worth(given, fill, pressure, is_warm=is_warm):
            if fill.percent >= pressure.net_percent - self._ahead:
                await self._make_ready()
            return None
        if is_warm:
            await self._make_ready()
            outcome = await self.session.relieve()
        else:
            outcome = await self.session.compress("the provider's cache is cold")
        if isinstance(outcome, Compaction):
            self._note_compaction()
            async with self._lock:
                await self._refit(given.call)
        return outcome

    @property
    def _is_ready(self) -> bool:
        making = self._making
        return making is not None and making.done() and making.result()

    async def _make_ready(self) -> None:
        """Have the next compaction made, once at a time."""
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._try_to_make_ready())
        await asyncio.shield(self._making)

    async def _try_to_make_ready(self) -> bool:
        try:
            store = self.session.store
            return await worker.make_ready(store.settings, store.workspace, self.session.info)
        except CompactionError:  # which the compaction itself meets again
            return False

    def _note_compaction(self) -> None:
        self._making = None
        self._since_compaction = 0
        self._has_compacted = True

    async def _is_worth(
        self, given: SentHistory, fill: Fill, pressure: Pressure, *, is_warm: bool
    ) -> bool:
        if pressure.level in ("act", "safety net"):
            return True
        if pressure.level == "calm" or (is_warm and pressure.level == "advise"):
            return False
        would = await self.session.compress("would it pay?", dry_run=True)
        if not isinstance(would, Projection):
            return False
        parts = dict(fill.parts)
        turns = turns_to_pay(
            price_of(given.call.model),
            would.before,
            would.after,
            fill.scaled(parts.get("system and tools", 0)),
            is_warm=is_warm,
        )
        return turns <= _MOST_TURNS_TO_PAY

    async def make_room(self, given: SentHistory, reason: str) -> Sent | None:
        """Compress after an overflow, and give what to send instead; None: it is no smaller."""
        async with self._lock:
            await self._record(given, len(given.messages))
            fill = (await self.session.store.workspace.read_window(self.session.info)).fill
            target = min(99.0, _AFTER_OVERFLOW * fill.percent)
            outcome = await self.session.compress(reason, target_percent=target, force=True)
            if not isinstance(outcome, Compaction):
                return None
            self._has_compacted = True
            layout = await self._fit(given, len(given.messages))
            return Sent(layout.apply(given.messages), layout.view)

    async def _append(self, given: SentHistory, sent: Sent) -> bool:
        """Record a request that shows the view that was laid out last; False: lay out another."""
        if sent.view != self._fitted_view:
            return False
        work, body = self.session.store.workspace, given.call.recordable(given.messages)
        options = FitOptions(prints=tuple(given.prints), is_hearsay=True)
        if await compactor.record_history(work, self.session.info, body, options) is None:
            return False
        self._take_as_known(given, len(given.messages))
        self._percent = None
        return True

    async def _record(
        self, given: SentHistory, count: int, offload_over: int | None = None
    ) -> Layout:
        layout = await self._fit(given, count, offload_over)
        self._take_as_known(given, count)
        return layout

    def _take_as_known(self, given: SentHistory, count: int) -> None:
        self._known = RecordedHistory(given.messages[:count], given.prints[:count])
        self._candidate = None

    async def _refit(self, call: HostCall) -> None:
        """Make the layout of a new view at once, so that the next request need not wait."""
        known = self._known
        if known is None:
            return
        messages = [*known.messages, *known.answers]
        prints = [*known.prints, *fingerprints_of(known.answers)]
        await self._fit(SentHistory(call, messages, prints, 0), len(messages))

    async def _fit(self, given: SentHistory, count: int, offload_over: int | None = None) -> Layout:
        """Record the beginning of a history, and keep what stands for it.

        `offload_over`: the tokens over which a result that is new becomes a preview.
        """
        messages = given.messages[:count]
        body = given.call.recordable(messages)
        store = self.session.store
        if not store.settings.records(store.project):
            raise InputError(f"recording is off for {store.project}.")
        prints = tuple(given.prints[:count])
        options = FitOptions(
            relieve=False,
            offload_over_tokens=offload_over,
            prints=prints,
            is_hearsay=True,  # any process can send a request
            is_sent=False,  # thinking is looked at last, with all that goes out
        )
        fitted = await compactor.fit(store.workspace, self.session.info, body, options)
        self._percent = fitted.fill.percent
        self._fitted_view = fitted.layout.view
        self._has_waiting_pins = fitted.has_waiting_pins
        found = keep_words_of_host(fitted.layout, prints, messages)
        self.kept.add(found)
        if not self.kept.has_written(found):
            await self._threads.run(self.kept.write, found)
        return found

    async def _view(self) -> ViewState:
        """What the layout of the window depends on."""
        return state_of(await self.session.store.workspace.load_window(self.session.info))


def _messages_of(messages: Sequence[JsonObject], shape: Shape) -> tuple[Message, ...]:
    form = FORMATS[shape]
    read = ((seq, form.read(one, f"message {seq}")) for seq, one in enumerate(messages, 1))
    return tuple(
        Message(seq=seq, role=role, parts=parts, shape=shape, raw="{}")
        for seq, (role, parts) in read
    )


async def open_recorded(store: OpenStore, call: HostCall) -> SessionInfo:
    """The session that the conversation of a call is recorded in; its window is ours."""
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
