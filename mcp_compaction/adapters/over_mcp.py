"""The backend of a loop whose session is kept by an MCP server: only what is new goes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from mcp_compaction.adapters.directives import complete_layout, read_layout, refs_missing
from mcp_compaction.compactor.framing import Layout, Own, lay_out_around, make_frame, own_objects
from mcp_compaction.compactor.histories import Answer, Frame, KnownHistories, KnownHistory, Seen
from mcp_compaction.compactor.placing import is_ours
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.errors import CompactionError, LogMoved
from mcp_compaction.formats import FORMATS
from mcp_compaction.formats.answer import messages_of_answer
from mcp_compaction.formats.arrival import reported_tokens_of
from mcp_compaction.formats.fingerprint import bare_fingerprints_of, fingerprint_of, fingerprints_of
from mcp_compaction.formats.plain import plain_of
from mcp_compaction.model import JsonObject, Message, Shape
from mcp_compaction.tools.running import ToolAnswer

_ONLY = 0  # the one session of a backend, among the histories it remembers
_MOST_WANTED = 500  # messages that are asked for at once, so that no answer gets too large


class ToolCaller(Protocol):
    """A client of an MCP server, such as `mcp.Client` or `mcp.ClientSession`."""

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, /) -> Any:
        """Call a tool of the server."""
        ...


class _Reply(NamedTuple):
    text: str
    is_error: bool
    meta: dict[str, Any]


class OverMcp:
    """A session that is kept by a server, as the kit uses it."""

    by_agent = True

    def __init__(self, caller: ToolCaller, session: str, shape: Shape) -> None:
        self._caller = caller
        self._session = session
        self._shape: Shape = shape
        self._key = "input" if shape == "responses" else "messages"
        self._histories = KnownHistories()
        self._layout: Layout | None = None  # of the newest directive
        self._sent: list[JsonObject] = []  # the loop's own history, as it came last
        self._newest = 0  # message of the log that the server has named
        self._budget = ""

    async def fit(
        self, messages: list[JsonObject], beside: JsonObject, options: FitOptions
    ) -> list[JsonObject]:
        """Record what is new of a history, and give what to send in its place."""
        history = await self._record(messages, beside, options)
        layout = self._layout
        if layout is None:
            raise CompactionError("the server gave no view; use one of the kit's own version.")
        own = own_objects(history, messages)
        frame = history.frame
        if frame is None or not frame.serves(layout.version, layout.pins, own.whole):
            frame = await self._make_frame(layout, own)
        laid = lay_out_around(frame, history, messages, own.whole)
        self._histories.keep(_ONLY, history._replace(frame=frame), laid.history)
        return laid.messages

    async def record(self, answer: JsonObject) -> None:
        """Keep what the model answered, with the usage that it reported."""
        shape, messages = messages_of_answer(answer, self._shape)
        histories = self._histories.of(_ONLY)
        if not histories or not messages or shape != self._shape:
            return  # the next request brings it
        beside = {"model": answer["model"]} if answer.get("model") else {}
        said: JsonObject = {"reported_tokens": reported_tokens_of(answer)}
        prints, read = fingerprints_of(messages), FORMATS[shape].read
        answers: tuple[Answer, ...] = tuple(read(one, "the answer") for one in messages)
        self._sent = [*self._sent, *messages]
        try:
            reply = await self._append({**beside, self._key: messages}, histories[0], said)
            seqs = _numbers_in(reply, len(messages))
            longer = [one.with_answer(prints, seqs, answers, len(seqs)) for one in histories]
        except LogMoved:
            whole = await self._follow(self._sent, beside, said)
            longer = [whole._replace(rest=histories[0].rest, answers=answers)]
        self._histories.keep(_ONLY, *longer)

    async def run(self, tool: str, given: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call of a tool."""
        reply = await self._call(tool, dict(given))
        return ToolAnswer(reply.text, reply.is_error, self._take_layout(reply.meta))

    async def make_room(self, limit: int | None) -> None:
        """Compress after a provider refused a request as too large."""
        await self._send({self._key: []}, None, {"overflow": {"limit": limit}})

    async def budget_line(self) -> str:
        """The line with the fill, and advice when it is due."""
        return self._budget

    async def _record(
        self, messages: list[JsonObject], beside: JsonObject, options: FitOptions
    ) -> KnownHistory:
        """Record what is new of a history; the server follows one that is not known."""
        self._sent = messages
        prints = fingerprints_of(messages)
        known = self._histories.find(_ONLY, prints, messages)
        if known is not None and not any(map(self._may_be_ours, messages[len(known.prints) :])):
            try:
                return await self._record_news(known, prints, beside, options)
            except LogMoved:
                pass  # the server lays the whole history beside its log
        return await self._follow(messages, beside, options._asdict())

    async def _record_news(
        self, known: KnownHistory, prints: list[bytes], beside: JsonObject, options: FitOptions
    ) -> KnownHistory:
        """Record what follows a history that is known."""
        new, rest = self._sent[len(known.prints) :], fingerprint_of(beside)
        body = {**({} if known.rest == rest else beside), self._key: new}
        # Even without news: the view may have changed meanwhile.
        reply = await self._append(body, known, options._asdict())
        seqs = _numbers_in(reply, len(new))
        return known._replace(
            prints=prints,
            seen=[*known.seen, *map(Seen, seqs)],
            rest=rest,
            bare=known.bare | bare_fingerprints_of(new, prints[len(known.prints) :]),
        )

    async def _append(
        self, body: dict[str, Any], known: KnownHistory, said: Mapping[str, Any]
    ) -> _Reply:
        """Record what follows a history; LogMoved where the log has other messages after it."""
        last = _last_of(known)
        if (last or 0) < self._newest:
            raise LogMoved("an answer was thrown away, or the history was cut.")
        try:
            return await self._send(body, last, said)
        except CompactionError as error:
            raise LogMoved(str(error)) from error

    async def _follow(
        self, messages: list[JsonObject], beside: JsonObject, said: Mapping[str, Any]
    ) -> KnownHistory:
        """Record a whole history, which the server lays beside its log."""
        reply = await self._send({**beside, self._key: messages}, None, said)
        prints = fingerprints_of(messages)
        return KnownHistory(
            shape=self._shape,
            is_sure=True,
            prints=prints,
            seen=_seen_in(reply, len(messages)),
            newest=0,
            gone=(),
            rest=fingerprint_of(beside),
            bare=bare_fingerprints_of(messages, prints),
        )

    def _may_be_ours(self, obj: JsonObject) -> bool:
        """Whether a message may be a record of ours: the server judges, by all it knows."""
        role, parts = FORMATS[self._shape].read(obj, "the message")
        return is_ours(Message(seq=0, role=role, parts=parts, shape=self._shape, raw=""))

    async def _make_frame(self, layout: Layout, own: Own) -> Frame:
        missing = refs_missing(layout, own)
        objects: dict[str, JsonObject] = {}
        for start in range(0, len(missing), _MOST_WANTED):
            wants = missing[start : start + _MOST_WANTED]
            reply = await self._send({self._key: []}, None, {"wants": wants})
            objects |= reply.meta.get("objects") or {}
            if self._layout is not None and self._layout is not layout:
                return await self._make_frame(self._layout, own)  # the view changed meanwhile
        return make_frame(complete_layout(layout, objects), self._shape, own)

    async def _send(
        self, body: dict[str, Any], after: int | None, told: Mapping[str, Any]
    ) -> _Reply:
        """Record messages, and take the view that comes back where it is another."""
        known = self._layout
        loop: dict[str, Any] = {"shape": self._shape, "relieve": False, **told}
        if known is not None:
            loop |= {"view": known.version, "pins": [*known.pins]}
        asked: dict[str, Any] = {"messages": {**body, "loop": loop}}
        if after is not None:
            asked["after"] = f"m{after}"
        reply = await self._call("record_messages", asked)
        if reply.is_error:
            raise CompactionError(reply.text)
        refs = (number_of(str(ref), "m") for ref in reply.meta.get("refs", ()))
        self._newest = max(self._newest, *refs, 0)
        self._budget = str(reply.meta.get("budget") or "")
        self._take_layout(reply.meta)
        return reply

    async def _call(self, tool: str, asked: dict[str, Any]) -> _Reply:
        result = await self._caller.call_tool(tool, {**asked, "session": self._session})
        return _read_reply(result)

    def _take_layout(self, meta: Mapping[str, Any]) -> bool:
        """Remember the view of a directive that an answer carries; says whether there is one."""
        if meta.get("compaction_directive") is not True or "upto" not in meta:
            return False
        self._layout = read_layout(meta, self._shape)
        return True


def _last_of(history: KnownHistory) -> int | None:
    return next((seen.seq for seen in reversed(history.seen) if seen.seq is not None), None)


def _numbers_in(reply: _Reply, count: int) -> list[int]:
    """The numbers of recorded messages, in order."""
    seqs = [number_of(str(ref), "m") for ref in reply.meta.get("refs", ())]
    if len(seqs) != count:
        raise CompactionError("the server gave no refs; use one of the kit's own version.")
    return seqs


def _seen_in(reply: _Reply, count: int) -> list[Seen]:
    """What each message of a whole history is, as the server judged it."""
    ours, cut = set(reply.meta.get("ours", ())), set(reply.meta.get("cut", ()))
    numbers = iter(_numbers_in(reply, count - len(ours)))
    return [
        Seen(None) if place in ours else Seen(next(numbers), place not in cut)
        for place in range(count)
    ]


def _read_reply(result: Any) -> _Reply:
    """The answer of a server, whichever client brought it."""
    if not isinstance(result, Mapping):
        dump = getattr(result, "model_dump", None)
        result = dump(by_alias=True, mode="json") if callable(dump) else plain_of(result)
    given = cast("Mapping[str, Any]", result)
    content = cast("Sequence[Mapping[str, Any]]", given.get("content") or [])
    texts = [str(block.get("text")) for block in content if block.get("type") == "text"]
    return _Reply("\n".join(texts), bool(given.get("isError")), dict(given.get("_meta") or {}))
