"""The open store and its sessions, as asynchronous handles on one workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast, get_args

from mcp_compaction import compactor
from mcp_compaction.compactor.gauge import Stats
from mcp_compaction.compactor.results import (
    FitOptions,
    Pinned,
    PinWish,
    Prepared,
    Quote,
    Recalled,
    SearchScope,
    make_ask,
)
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError
from mcp_compaction.formats import read_incoming
from mcp_compaction.formats.arrival import shape_of_body
from mcp_compaction.formats.turns import plain_of
from mcp_compaction.model import (
    AgentProfile,
    Author,
    Complexity,
    Outcome,
    Pin,
    PinKind,
    PinScope,
    SessionInfo,
    Shape,
    Strategy,
    Traits,
)
from mcp_compaction.ports import Recorded, SessionKey
from mcp_compaction.settings import Settings

if TYPE_CHECKING:
    from mcp_compaction.compactor.history_fitting import Fitted

Messages = Mapping[str, object] | Sequence[Mapping[str, object]]
"""A message, a list of messages or a whole request body, as the provider's own dicts."""


class OpenStore:
    """A store that is open, and the project whose sessions it gives."""

    def __init__(self, work: Workspace, settings: Settings, project: str) -> None:
        self.workspace = work
        self.settings = settings
        self.project = project

    async def session(
        self,
        name: str,
        *,
        model: str | None = None,
        window_tokens: int | None = None,
        complexity: Complexity | None = None,
        agent_profile: AgentProfile | None = None,
    ) -> OpenSession:
        """The session of that name, made where it is new; what is named here is set for it."""
        _check_text("name", name)
        _check_choice("complexity", complexity, Complexity)
        _check_choice("agent_profile", agent_profile, AgentProfile)
        is_size = isinstance(window_tokens, int) and window_tokens > 0
        if window_tokens is not None and not is_size:
            raise InputError(f"{window_tokens} is no window; pass its size in tokens, as 200000.")
        named = {
            "model": model,
            "window_tokens": window_tokens,
            "complexity": complexity,
            "agent_profile": agent_profile,
        }
        given = {key: value for key, value in named.items() if value is not None}
        key = SessionKey(project=self.project, name=name)
        info, _ = await compactor.open_session(self.workspace, key, Traits.model_validate(given))
        if info.traits.model_copy(update=given) != info.traits:
            info = await self.workspace.store.set_traits(info.id, Traits.model_validate(given))
        return OpenSession(self, info)


class OpenSession:
    """One session of an open store; several may be used at the same time."""

    def __init__(self, store: OpenStore, info: SessionInfo) -> None:
        self.store = store
        self.info = info
        self._work = store.workspace

    @property
    def name(self) -> str:
        """The name by which the session is opened again."""
        return self.info.name

    async def record(self, messages: Messages, *, after: str | None = None) -> Recorded:
        """Keep what is not yet known; a whole request body is aligned with what is.

        `after`: the ref of the known message that these follow, as m41.
        """
        check_records(self.store)
        came = read_incoming([*messages] if isinstance(messages, tuple) else messages)
        recorded = await compactor.record(self._work, self.info, came, after)
        traits = came.traits_over(self.info.traits)
        self.info = self.info.model_copy(update={"traits": traits})
        return recorded

    async def request(
        self, shape: Shape = "anthropic", *, model: str | None = None
    ) -> dict[str, Any]:
        """The request body that shows the model what it should see now, ready to send.

        Anthropic's has `system` and `messages`, OpenAI's chat `messages`, the Responses API's
        `instructions` and `input`.

        Thinking that was made behind another beginning is left out, which today's models refuse.
        `model`: the one that you will ask, where neither the session nor an answer names it; one
        that does not bind its thinking keeps all of it.
        """
        _check_choice("shape", shape, Shape)
        return await compactor.context(self._work, self.info, shape, model=model, begins=True)

    async def fit(
        self,
        request: Any,
        *,
        relieve: bool = True,
        offload_over_tokens: int | None = None,
        microcompact: bool = False,
        model: str | None = None,
        is_sent: bool = True,
        beside: bytes = b"",
        shape: Shape | None = None,
    ) -> Fitted:
        """Record what is new of your own history, and give what to send in its place.

        `request`: your list of messages, or the whole request body. What stays as it was said is
        your own object; a window that is too full is compressed first, unless `relieve` is False.
        A history that you have cut, cleared, rewound or edited is followed. `offload_over_tokens`:
        the size over which a tool result that is new becomes a preview with its ref.
        `microcompact`: large results outside the recent turns become previews first.

        Some models refuse thinking behind anything but what was sent before it when it was made:
        there it is left out once that has changed, so say what you send. `model`: the one that you
        will ask, where the request does not name it. `is_sent`: False where you only keep what
        comes back. `beside`: a fingerprint of what you send beside the request.

        In the Messages API's dialect a text of ours stands in the user's message beside it, so
        that roles take turns: `shape` says "anthropic" where no `system` or tool of a body does.
        """
        check_records(self.store)
        body = cast("dict[str, Any]", request) if isinstance(request, dict) else {}
        options = FitOptions(
            relieve,
            offload_over_tokens,
            microcompact,
            model=model,
            is_sent=is_sent,
            joins=(shape or shape_of_body(body)) == "anthropic",
            beside=beside,
        )
        return await compactor.fit(self._work, self.info, request, options)

    async def record_answer(self, answer: Any) -> Recorded:
        """Keep what the model answered, with the usage that it reported.

        `answer`: the response of the Messages API, of chat completions or of the Responses API, as
        a dict or as the object of an SDK.
        """
        check_records(self.store)
        return await compactor.record_answer(self._work, self.info, plain_of(answer))

    async def prepare(self) -> Prepared | Outcome:
        """Digest all but the newest steps, for a window that somebody else will empty."""
        return await compactor.prepare(self._work, self.info)

    async def records(self, *, max_chars: int | None = None, max_tokens: int | None = None) -> str:
        """The text that a window needs after somebody else emptied it: pins, digests, index."""
        return await compactor.read_records(
            self._work, self.info, max_chars=max_chars, max_tokens=max_tokens
        )

    async def compress(
        self,
        reason: str,
        *,
        digest: str | None = None,
        focus: str | None = None,
        strategy: Strategy = "summarize",
        preserve_markers: bool = True,
        span: str | None = None,
        target_percent: float | None = None,
        room_tokens: int | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> Outcome:
        """Make the window smaller; the outcome says what came of it, and nothing is lost.

        `digest`: the agent's own summary; `focus`: what matters most next; `strategy`: archive
        writes no prose; `preserve_markers`: messages with stated doubts stay; `span`: only these,
        as m12..m40; `target_percent`: the fill to reach; `room_tokens`: what shall be free
        afterwards; `dry_run`: only say what would happen; `force`: even where it hardly pays.
        """
        _check_choice("strategy", strategy, Strategy)
        if digest is not None:
            check_records(self.store)
        ask = make_ask(
            reason=reason,
            digest=digest,
            focus=focus,
            strategy=strategy,
            preserve_markers=preserve_markers,
            span=span,
            target_percent=target_percent,
            room_tokens=room_tokens,
            dry_run=dry_run,
            force=force,
        )
        return await compactor.compress(self._work, self.info, ask)

    async def relieve(self) -> Outcome | None:
        """Compress if the window is so full that the system acts by itself; None if it is not."""
        return await compactor.relieve(self._work, self.info)

    async def restore(self, ref: str, *, force: bool = False) -> Outcome:
        """Go back to the view before a compaction, as c4, with everything said since.

        `force`: even where the window would be over its limit.
        """
        _check_text("ref", ref)
        return await compactor.restore(self._work, self.info, ref, force)

    async def pin(
        self,
        text: str,
        *,
        by: Author = "agent",
        kind: PinKind = "constraint",
        scope: PinScope | None = None,
        supersedes: str | None = None,
        expires: datetime | None = None,
    ) -> Pinned:
        """Keep a text word for word: until it is released, every view of a compaction shows it.

        `by`: whose wish it is. An agent may pin for its session only, or for the project what the
        user said in a message; anything else raises NeedsUser. `supersedes`: the pin that this
        one replaces, as p2.
        """
        check_records(self.store)
        _check_text("text", text)
        _check_choice("by", by, Author)
        _check_choice("kind", kind, PinKind)
        _check_choice("scope", scope, PinScope)
        if expires is not None and expires.tzinfo is None:
            raise InputError(f"{expires} has no time zone; add one, as tzinfo=UTC.")
        return await compactor.pin(
            self._work,
            self.info,
            PinWish(text, by=by, kind=kind, scope=scope, supersedes=supersedes, expires=expires),
        )

    async def unpin(self, ref: str, *, by: Author = "agent") -> Pin:
        """Release a pin, as p2; its text stays findable. Only the user releases the user's."""
        _check_choice("by", by, Author)
        return await compactor.unpin(self._work, self.info, ref, by=by)

    async def pins(self) -> tuple[Pin, ...]:
        """The pins in force in this session, those of its project and notes included."""
        return await self._work.pins(self.info)

    async def recall(
        self,
        query: str,
        *,
        scope: SearchScope = "session",
        max_tokens: int | None = None,
        skip: int = 0,
    ) -> Recalled:
        """The passages of the archive that answer a query best; `skip` gives the next ones.

        Messages that the session's own window shows whole are named instead of repeated.
        """
        _check_text("query", query)
        _check_choice("scope", scope, SearchScope)
        return await compactor.recall(
            self._work,
            self.info,
            query,
            scope=scope,
            max_tokens=max_tokens,
            skip=skip,
            has_view=self.info.traits.owns_window,
        )

    async def quote(self, refs: str) -> tuple[Quote, ...]:
        """The texts that refs name, word for word.

        Refs are of messages (`m42`, `m42~3`, `m12..m40`), digests (`d1`), pins (`p2`) or ids of
        tool calls, with spaces between them.
        """
        _check_text("refs", refs)
        return await compactor.recall_refs(self._work, self.info, refs)

    async def page_in(self, refs: str) -> Outcome:
        """Show messages again, whole, from the next request on."""
        _check_text("refs", refs)
        return await compactor.page_in(self._work, self.info, refs)

    async def stats(self) -> Stats:
        """How full the window is, what compressing would free, and what happened so far.

        It plans a compaction, and costs as much as a dry run.
        """
        return await compactor.read_stats(self._work, self.info)


def check_records(store: OpenStore) -> None:
    """Refuse to keep what the user asked not to have kept."""
    if not store.settings.records(store.project):
        raise InputError(
            f"recording is off for {store.project}; nothing was kept. Set `record` to "
            "true for it, or open the store with another project."
        )


def _check_text(name: str, value: object) -> None:
    """Refuse what is no text, before something deeper stumbles over it."""
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r}; pass a text.")


def _check_choice(name: str, value: str | None, choices: object) -> None:
    """Refuse a word that is none of a Literal's: stored, it could not be read again."""
    words: tuple[str, ...] = get_args(choices)
    if value is not None and value not in words:
        raise InputError(f"{name} is {value!r}; use {', '.join(words[:-1])} or {words[-1]}.")
