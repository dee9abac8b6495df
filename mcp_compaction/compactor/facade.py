"""The compactor: one class through which every host and command enters.

Its methods only delegate; what each does is in the module that it names. The modules that need
the whole compaction are imported by the methods: most commands only look something up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_compaction.compactor import sessions
from mcp_compaction.compactor.events import PAID, paid_in
from mcp_compaction.compactor.workspace import Collaborators, Workspace
from mcp_compaction.model import Traits
from mcp_compaction.ports import Scope

if TYPE_CHECKING:
    from mcp_compaction.compactor.checking import Checks
    from mcp_compaction.compactor.histories import Counted
    from mcp_compaction.compactor.history_fitting import Fitted
    from mcp_compaction.compactor.history_following import Compared
    from mcp_compaction.compactor.offering import ProjectFacts
    from mcp_compaction.compactor.progress import Progress
    from mcp_compaction.compactor.results import (
        Brief,
        FitOptions,
        HostSummary,
        Pinned,
        PinWish,
        Prepared,
        Quote,
        Recalled,
    )
    from mcp_compaction.compactor.statistics import Stats
    from mcp_compaction.core.pins import UserQuestion
    from mcp_compaction.core.tokens import CountTokens
    from mcp_compaction.core.window.fill import Fill, Pressure
    from mcp_compaction.formats import Incoming
    from mcp_compaction.formats.thinking import Left, Sending
    from mcp_compaction.model import (
        Ask,
        Author,
        Compaction,
        Digest,
        Event,
        HeardVia,
        JsonObject,
        Message,
        Outcome,
        Pin,
        PinAuthor,
        Receipt,
        Session,
        SessionInfo,
        Shape,
        Via,
        View,
    )
    from mcp_compaction.ports import (
        Forgotten,
        Health,
        KnownTranscript,
        Mark,
        Original,
        Recorded,
        SessionKey,
        Summarizer,
        Twins,
    )


class Compactor:
    """Records, measures, compresses, pins, recalls, restores and forgets sessions."""

    def __init__(self, collaborators: Collaborators) -> None:
        self._work = Workspace(collaborators)
        self._store = collaborators.store

    def with_summarizer(self, chosen: Callable[[Summarizer], Summarizer]) -> Compactor:
        """The same compactor on the same store, with a summarizer made from its own."""
        known = self._work.collaborators
        return Compactor(replace(known, summarizer=chosen(known.summarizer)))

    # Sessions

    async def open(
        self, key: SessionKey, traits: Traits | None = None, started: datetime | None = None
    ) -> tuple[SessionInfo, bool]:
        """The session of that key, made where it is not there yet, and whether it is new;
        `started`: when a chat that is recorded later began."""
        return await sessions.open_session(self._work, key, traits or Traits(), started)

    async def find(self, project: str, name: str | None) -> SessionInfo:
        """The session of that name, or the only one there is."""
        return await sessions.find(self._work, project, name)

    async def find_anywhere(self, name: str) -> SessionInfo | None:
        """The session of that name in whatever project, for one who asks across projects."""
        return await sessions.find_named(self._work, None, name)

    async def find_of_host(
        self, project: str, host_session: str, host: str | None = None
    ) -> SessionInfo | None:
        """The session that a host knows by this id of its own."""
        return await self._store.find_host_session(project, host_session, host)

    async def sessions(self, project: str | None, limit: int = 50) -> tuple[SessionInfo, ...]:
        """The sessions of a project, or of all, the newest first."""
        return await self._store.sessions(Scope(project=project), limit)

    async def own_window(self, info: SessionInfo) -> SessionInfo:
        """Note that this session's caller replaces its own window."""
        return await sessions.own_window(self._work, info)

    async def put_pins_back(self, info: SessionInfo) -> None:
        """Note that a hook has shown this session its pins after the host's own compaction."""
        await sessions.put_pins_back(self._work, info)

    async def note_paid(self, info: SessionInfo, lines: str) -> None:
        """Keep what a gateway tells of its calls and compactions, for the statistics."""
        await self._work.note(info, PAID, lines)

    async def paid(self, info: SessionInfo) -> str:
        """What the last gateway has told of its calls and compactions; empty: there was none."""
        return paid_in(await self._store.events(info.id))

    async def set_traits(self, info: SessionInfo, traits: Traits) -> SessionInfo:
        """Set those traits of one session that are named: model, window, complexity, manner."""
        return await self._store.set_traits(info.id, traits)

    # Recording

    async def record(
        self, info: SessionInfo, came: Incoming, after: str | None = None, via: Via = "host"
    ) -> Recorded:
        """Append what is not yet known; answers with the number of each message, in order."""
        from mcp_compaction.compactor import recording

        return await recording.record(self._work, info, came, after, via)

    async def is_recorded(self, info: SessionInfo) -> bool:
        """Whether what is said in a session is kept; the user may have turned that off."""
        from mcp_compaction.compactor import recording

        return not await recording.is_off(self._work, info)

    async def switch_recording(self, info: SessionInfo, is_on: bool) -> None:
        """Keep what is said in a session from now on, or nothing of it."""
        from mcp_compaction.compactor import recording

        await recording.switch(self._work, info, is_on)

    async def has_hearsay(self, info: SessionInfo) -> bool:
        """Whether a session has words in the user's role that the host has not told of yet."""
        return bool(await self._store.hearsay(info.id))

    async def vouch(self, info: SessionInfo, prompts: Mapping[str, bool]) -> None:
        """Count those messages as the user's that hold nothing but texts that were typed."""
        from mcp_compaction.compactor import vouching

        await vouching.vouch(self._work, info, prompts)

    async def find_transcript(self, address: str) -> KnownTranscript | None:
        """How far a transcript of a host is recorded; None where nothing of it is."""
        return await self._store.find_transcript(address)

    async def take_over(self, copy: SessionInfo, key: SessionKey, came: Incoming) -> bool:
        """Give a session to the host whose chat it is, where it holds nothing but what the host
        says of that chat."""
        from mcp_compaction.compactor import recording

        return await recording.take_over(self._work, copy, key, came)

    async def record_transcript(
        self,
        info: SessionInfo,
        came: Incoming,
        *,
        via: HeardVia,
        mark: Mark | None = None,
        events: tuple[Event, ...] = (),
    ) -> Recorded:
        """Append a piece of a transcript by its host ids, with mark and events or not at all."""
        from mcp_compaction.compactor import recording

        return await recording.record_transcript(self._work, info, came, via, mark, events)

    async def fit(self, info: SessionInfo, sent: Any, options: FitOptions | None = None) -> Fitted:
        """Record what is new of a caller's history, a list of messages or a request body, and give
        what should be sent in its place."""
        from mcp_compaction.compactor import history_fitting
        from mcp_compaction.compactor.results import FitOptions

        return await history_fitting.fit(self._work, info, sent, options or FitOptions())

    async def record_history(
        self, info: SessionInfo, sent: Any, options: FitOptions
    ) -> Counted | None:
        """Record what is new of a history that was fitted before; gives the count of its window,
        None where that has to be read."""
        from mcp_compaction.compactor import history_fitting

        return await history_fitting.record_history(self._work, info, sent, options)

    async def compare(self, info: SessionInfo, sent: Any) -> Compared:
        """Hold a caller's history against what is recorded; nothing is written."""
        from mcp_compaction.compactor import history_fitting

        return await history_fitting.compare(self._work, info, sent)

    async def record_answer(self, info: SessionInfo, answer: JsonObject) -> Recorded:
        """Record what a model answered and reported, before the caller sends it back."""
        from mcp_compaction.compactor import history_fitting

        return await history_fitting.record_answer(self._work, info, answer)

    async def leave_out_thinking(
        self, info: SessionInfo, own: Sending, sending: Sending, model: str, shape: Shape
    ) -> Left | None:
        """What to send of a request that stands for a caller's own history, where its thinking is
        bound to another beginning; None: all of it."""
        from mcp_compaction.compactor import thinking

        return await thinking.leave_out(self._work, info, own, sending, model, shape)

    async def leave_out_refused(
        self, info: SessionInfo, sent: Sending, model: str, place: tuple[int, int]
    ) -> Left:
        """What to send after a provider has refused a thinking block, the message and the block."""
        from mcp_compaction.compactor import thinking

        return await thinking.take_refusal(self._work, info, sent, model, place)

    def note_passing(self, info: SessionInfo) -> None:
        """Note that something was sent behind the last request that will not be sent again."""
        from mcp_compaction.compactor import thinking

        thinking.note_passing(self._work, info)

    async def thinking(self, info: SessionInfo) -> dict[str, str]:
        """What is kept of a session's thinking: the beginning that each block was made behind."""
        return await self._store.thinking(info.id)

    async def keep_thinking(self, info: SessionInfo, changes: Mapping[str, str | None]) -> None:
        """Keep the beginnings of thinking blocks; None: nothing is to be known of one."""
        if changes:
            await self._store.keep_thinking(info.id, changes)

    async def list_thinking_left_out(
        self, session: Session, layout: Sequence[str], before: Sequence[str]
    ) -> tuple[str, ...]:
        """The refs of a layout whose thinking a program has to leave out; `before`: the layout
        that it had until now."""
        from mcp_compaction.compactor import thinking

        return await thinking.list_left_out(self._work, session, layout, before)

    async def shorten(self, info: SessionInfo, newest: int, options: FitOptions) -> None:
        """Show previews of what a loop wants shorter; results after `newest` have just come."""
        from mcp_compaction.compactor import shortening

        await shortening.shorten(self._work, info, newest, options)

    # Looking

    async def load(self, info: SessionInfo) -> Session:
        """The session at this moment."""
        return await self._work.load(info)

    async def load_as_before(self, info: SessionInfo, view: View) -> Session:
        """The session at this moment, seen through the view before one."""
        earlier = await self._store.view(info.id, max(0, view.version - 1))
        return await self._work.load(info, earlier)

    async def fill(self, info: SessionInfo) -> Fill:
        """The fill of the window; its messages are not read, so that it is not known by role."""
        return (await self._work.read_window(info)).fill

    async def pressure(self, info: SessionInfo) -> tuple[Fill, Pressure]:
        """The fill of the window, and what it calls for."""
        from mcp_compaction.core.window.fill import pressure

        window = await self._work.read_window(info)
        return window.fill, pressure(window.fill, window.policy)

    async def load_window(self, info: SessionInfo) -> Session:
        """The session at this moment without its messages: its view, and the pins in force."""
        return await self._work.load_window(info)

    @property
    def window_set(self) -> int | None:
        """The window that the user has set for all sessions; None where nobody did."""
        return self._work.policy.window_set

    async def fill_shown(self, info: SessionInfo) -> Fill | None:
        """The fill of the window; None where it shows no message."""
        window = await self._work.read_window(info)
        return window.fill if window.messages else None

    def fill_of(self, session: Session) -> Fill:
        """The fill of a loaded session's window."""
        return self._work.fill_of(session)

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return self._work.counter.count(text)

    def index_terms(self, session: Session) -> tuple[int, CountTokens]:
        """The largest size of the index, and the function that counts it."""
        return self._work.index_terms(session)

    async def stats(self, info: SessionInfo) -> Stats:
        """Fill, pressure, what compressing would free, pins and what happened so far."""
        return await self.stats_of(await self.load_newest(info))

    async def load_newest(self, info: SessionInfo) -> Session:
        """The session with as many of its messages as its statistics need."""
        from mcp_compaction.compactor import stats

        return await stats.load_newest(self._work, info)

    async def stats_of(self, session: Session) -> Stats:
        """The statistics of a session so loaded; they cost a plan of its window."""
        from mcp_compaction.compactor import stats

        return await stats.stats_of(self._work, session)

    async def show_pins(self, info: SessionInfo) -> None:
        """Put pins at their place: at the first time all in force, late ones behind a request."""
        from mcp_compaction.compactor import late_pins, viewing

        window = await self.load_window(info)
        if not await viewing.begin(self._work, window):
            await late_pins.show_late_pins(self._work, window)

    async def context(
        self, info: SessionInfo, shape: Shape = "anthropic", *, begins: bool = False
    ) -> JsonObject:
        """The context the model should see now, as a provider's request body, ready to send.

        `begins`: it will be sent, so that what stands at its start stays there.
        """
        from mcp_compaction.compactor import viewing

        return await viewing.context(self._work, info, shape, begins)

    # Compressing

    async def compress(
        self, info: SessionInfo, ask: Ask, progress: Progress | None = None
    ) -> Outcome:
        """Compact the session as asked; whatever fails, the session is as before or as after."""
        from mcp_compaction.compactor import compressing

        return await compressing.compress(self._work, info, ask, progress)

    async def prepare(self, info: SessionInfo) -> Prepared | Outcome:
        """Digest all but the newest steps, once, for a window that somebody else will empty."""
        from mcp_compaction.compactor import preparing

        return await preparing.prepare(self._work, info)

    async def records(
        self,
        info: SessionInfo,
        *,
        max_chars: int | None = None,
        max_tokens: int | None = None,
        with_pins: bool = True,
    ) -> str:
        """The text that a window needs after somebody else emptied it, at most so large.

        Pins whole, then digests, the newest first and in whole lines, then the index; the last
        line says what is missing and how to recall it. Empty where nothing is known.
        `with_pins`: False where the pins are shown beside it.
        """
        from mcp_compaction.compactor import records

        return await records.records(self._work, info, max_chars, max_tokens, with_pins)

    async def newest_words(self, info: SessionInfo, max_chars: int) -> str:
        """What was said in the messages that no digest holds: they leave an emptied window too."""
        from mcp_compaction.compactor import records

        return await records.newest_words(self._work, info, max_chars)

    async def check_host_summary(self, info: SessionInfo, summary: str, beside: str) -> HostSummary:
        """Hold a host's own summary, and what of ours stands `beside` it in the window, against
        what was said before; notes what came of it."""
        from mcp_compaction.compactor import host_summaries

        return await host_summaries.check(self._work, info, summary, beside)

    async def is_compacting(self, info: SessionInfo) -> bool:
        """Whether a session is being compacted now, in whatever process."""
        return await self._store.is_compacting(info.id)

    async def relieve(self, info: SessionInfo) -> Outcome | None:
        """Compress where the fill has passed the trigger: the system's, or the safety net."""
        from mcp_compaction.compactor import compressing

        return await compressing.relieve(self._work, info)

    async def make(self, info: SessionInfo) -> Outcome:
        """The compaction that `relieve` would save, not saved."""
        from mcp_compaction.compactor import compressing

        return await compressing.make(self._work, info)

    def keep_ready(self, info: SessionInfo, made: Compaction) -> None:
        """Have `relieve` save a compaction when it is due, unless the view is another by then."""
        self._work.ready[info.id] = made

    async def is_ready(self, info: SessionInfo) -> bool:
        """Whether a compaction is ready for the window as it is, or nearly so."""
        from mcp_compaction.compactor import compressing

        return await compressing.is_ready(self._work, info)

    async def fill_to_relieve(self, info: SessionInfo) -> Fill | None:
        """The fill of a window that `relieve` would compress; None where it would not."""
        from mcp_compaction.compactor import compressing

        return await compressing.fill_to_relieve(self._work, info)

    async def restore(self, info: SessionInfo, ref: str, force: bool = False) -> Outcome:
        """Go back to the view before a compaction, with everything said since."""
        from mcp_compaction.compactor import viewing

        return await viewing.restore(self._work, info, ref, force)

    # Pins

    async def pins(self, info: SessionInfo) -> tuple[Pin, ...]:
        """The pins in force, notes included."""
        return await self._work.pins(info)

    async def project_pins(self, project: str) -> tuple[Pin, ...]:
        """The pins that every session of a project starts with: rules, open tasks and facts."""
        return await self._work.project_pins(project)

    async def pin(self, info: SessionInfo, text: str, **wish: Any) -> Pinned:
        """Keep a text word for word; NeedsUser where an agent would change a user's pin.

        `wish`: whose it is (`by`), and the other parts of a `PinWish`.
        """
        from mcp_compaction.compactor import pinning
        from mcp_compaction.compactor.results import PinWish

        return await pinning.pin(self._work, info, PinWish(text, **wish))

    async def tell_programs(self, info: SessionInfo, messages: Sequence[Message]) -> list[Message]:
        """Messages of a session as they were heard: those that a program sent say so."""
        from mcp_compaction.compactor.headless import tell_programs

        return await tell_programs(self._work, info, messages)

    async def is_said(self, info: SessionInfo, text: str) -> bool:
        """Whether the user said these words in a session."""
        from mcp_compaction.compactor import pinning

        return await pinning.is_said(self._work, info, text)

    async def pin_question(
        self, project: str, info: SessionInfo | None, wish: PinWish
    ) -> UserQuestion | None:
        """The question that only the user may answer; the session need not exist yet."""
        from mcp_compaction.compactor import pinning

        return await pinning.question_of(self._work, project, info, wish)

    async def announce(
        self, project: str, info: SessionInfo | None = None, known: Collection[int] = ()
    ) -> tuple[Pin, ...]:
        """The pins for the project or for everywhere that are new to it; each is given once, but
        those the asker made, whose numbers are `known`, stay to be told to others."""
        from mcp_compaction.compactor import pinning

        return await pinning.announce(self._work, project, info, known)

    async def unpin(self, info: SessionInfo, ref: str, *, by: Author) -> Pin:
        """Release a pin; its text stays findable."""
        from mcp_compaction.compactor import pinning

        return await pinning.unpin(self._work, info, ref, by)

    @property
    def checks(self) -> Checks:
        """The checks beside pins, which hold calls before a tool runs."""
        from mcp_compaction.compactor.checking import Checks

        return Checks(self._work)

    async def owner_of(self, info: SessionInfo, pin: Pin) -> PinAuthor:
        """Whose a pin is: the user's own words are the user's, whoever pinned them."""
        from mcp_compaction.compactor import pinning

        return await pinning.owner_of(self._work, info, pin)

    @property
    def facts(self) -> ProjectFacts:
        """The facts of projects: what sessions taught, offered to the user for later ones."""
        from mcp_compaction.compactor.offering import ProjectFacts

        return ProjectFacts(self._work)

    # Recall

    async def recall(self, info: SessionInfo | None, query: str, **how: Any) -> Recalled:
        """The passages of the archive that answer a query best; across sessions none need be named.

        `how`: as `recalling.recall` takes it.
        """
        from mcp_compaction.compactor import recalling

        return await recalling.recall(self._work, info, query, **how)

    async def originals(self, info: SessionInfo, refs: str) -> tuple[Original, ...]:
        """Messages, byte for byte: `m42`, `m42~3`, `m12..m40`, or by the id of a tool call."""
        from mcp_compaction.compactor import recalling

        return await recalling.originals(self._work, info, refs)

    async def quote(self, info: SessionInfo, refs: str) -> tuple[Quote, ...]:
        """The texts that refs name, word for word: messages in order, then digests, then pins."""
        from mcp_compaction.compactor import recalling

        return await recalling.quote(self._work, info, refs)

    async def recall_refs(self, info: SessionInfo, refs: str) -> tuple[Quote, ...]:
        """The quotes of refs, as a recall: messages that had left the window count as regret."""
        from mcp_compaction.compactor import recalling

        return await recalling.recall_refs(self._work, info, refs)

    async def page_in(self, info: SessionInfo, refs: str) -> Outcome:
        """Show messages again, whole, from the next request on; compactions prefer them."""
        from mcp_compaction.compactor import viewing

        return await viewing.page_in(self._work, info, refs)

    async def brief(self, info: SessionInfo) -> Brief:
        """Pins, the digests of the view as they are shown, the first request, the newest words."""
        from mcp_compaction.compactor import recalling

        return await recalling.brief(self._work, info)

    async def digests(self, info: SessionInfo) -> tuple[Digest, ...]:
        """All digests ever made of this session, oldest first."""
        return await self._store.digests(info.id)

    async def receipts(self, info: SessionInfo) -> tuple[Receipt, ...]:
        """The receipts of all compactions, oldest first."""
        from mcp_compaction.compactor import owning

        return await owning.receipts(self._work, info)

    # Owning one's data

    async def twins(self, info: SessionInfo, ref: str, within: Scope) -> Twins:
        """The messages within a scope that would still hold all that a forgotten one said."""
        from mcp_compaction.compactor import owning

        return await owning.twins(self._work, info, ref, within)

    async def forget(self, scope: Scope, *refs: str) -> Forgotten:
        """Remove messages, or without any a session or a project, so that no byte is left."""
        from mcp_compaction.compactor import owning

        return await owning.forget(self._work, scope, *refs)

    def export(self, info: SessionInfo) -> AsyncIterator[str]:
        """The whole session as JSON lines: a header with all that was derived, then the log."""
        from mcp_compaction.compactor import owning

        return owning.export(self._work, info)

    async def backup(self, target: Path) -> None:
        """Write a sound copy of the whole store to a new file."""
        await self._store.backup(target)

    async def health(self, *, repair: bool = False) -> Health:
        """Look the store over; with `repair` its search index is built anew first."""
        if repair:
            await self._store.repair()
        return await self._store.health()

    async def close(self) -> None:
        """Let go of the store."""
        await self._store.close()
