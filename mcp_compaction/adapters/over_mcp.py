"""The backend of a loop whose session is kept by an MCP server: only what is new goes there, and
the server's directive says what stands in the window.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from pydantic import TypeAdapter

from mcp_compaction.compactor.histories import Answer, Frame, KnownHistory, Seen, find_longest_start
from mcp_compaction.compactor.history_layout import (
    Laid,
    Own,
    ShownView,
    is_to_be_replaced,
    lay_out_around,
    make_frame,
    own_objects,
)
from mcp_compaction.compactor.history_matching import may_be_our_record
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.errors import CompactionError
from mcp_compaction.formats import FORMATS
from mcp_compaction.formats.arrival import messages_of_answer, reported_tokens_of
from mcp_compaction.formats.identity import bare_fingerprints_of, fingerprint_of, fingerprints_of
from mcp_compaction.formats.thinking import Bindings, may_be_bound, sending_of
from mcp_compaction.formats.turns import plain_of
from mcp_compaction.model import (
    Cut,
    JsonObject,
    Message,
    Run,
    Shape,
    Shown,
    ShownMessage,
    ShownRecord,
)
from mcp_compaction.tools.running import ToolAnswer

_CUTS = TypeAdapter(tuple[Cut, ...])

_MOST_WANTED = 500  # messages that are asked for at once, so that no answer gets too large


def read_view(directive: Mapping[str, Any], shape: Shape) -> ShownView:
    """The view that a directive describes; of messages that stay only their numbers are known."""
    upto = int(directive["upto"])
    frame: list[Shown] = []
    since: dict[int, ShownMessage] = {}
    late_pins: dict[int, list[str]] = {}
    for entry in _entries_in(directive, shape):
        newest = next(reversed(since), None)
        if isinstance(entry, ShownMessage) and entry.message.seq > upto:
            since[entry.message.seq] = entry
        elif isinstance(entry, ShownRecord) and newest is not None:
            late_pins.setdefault(newest, []).append(entry.text)
        else:
            frame.append(entry)
    return ShownView(
        state=(int(directive["view"]), tuple(directive["pins"])),
        upto=upto,
        frame=tuple(frame),
        since=tuple(since.values()),
        late_pins=late_pins,
    )


def _entries_in(directive: Mapping[str, Any], shape: Shape) -> list[Shown]:
    """All messages and records that a view shows, in order."""
    found: list[Shown] = []
    for item in cast("list[Any]", directive["layout"]):
        if isinstance(item, str):
            found.append(ShownMessage(message=_message_of(number_of(item, "m"), shape)))
        elif isinstance(item, dict):
            found.append(ShownRecord(text=str(item["text"])))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found += _replacements_in(directive["replace"][item], shape)
    return found


def _replacements_in(change: Mapping[str, Any], shape: Shape) -> list[Shown]:
    """What stands for messages: records of ours, or one message with some parts shorter."""
    if "cuts" not in change:
        return [ShownRecord(text=str(record["content"])) for record in change["with"]]
    message = _message_of(number_of(change["from"], "m"), shape, change["with"][0])
    return [ShownMessage(message=message, cuts=_CUTS.validate_python(change["cuts"]))]


def _message_of(seq: int, shape: Shape, obj: JsonObject | None = None) -> Message:
    raw = "" if obj is None else json.dumps(obj, ensure_ascii=False)
    return Message(seq=seq, role="user", parts=(), shape=shape, raw=raw)


def refs_missing(view: ShownView, own: Own) -> list[str]:
    """The messages of a view that the loop has no more, or has only as we cut them."""
    shown = (*view.frame, *view.since)
    return [e.message.ref for e in shown if is_to_be_replaced(e, own) and not e.message.raw]


def complete_view(view: ShownView, objects: Mapping[str, JsonObject]) -> ShownView:
    """The view with the messages that the loop had no more, as a server gave them."""

    def with_object(entry: ShownMessage) -> ShownMessage:
        message, obj = entry.message, objects.get(entry.message.ref)
        if obj is None:
            return entry
        return entry.model_copy(update={"message": _message_of(message.seq, message.shape, obj)})

    frame = (with_object(one) if isinstance(one, ShownMessage) else one for one in view.frame)
    return view._replace(frame=tuple(frame), since=tuple(map(with_object, view.since)))


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
        self._histories: tuple[KnownHistory, ...] = ()  # what was sent, and what was given for it
        self._view: ShownView | None = None  # of the newest directive
        self._sent: list[JsonObject] = []  # the loop's own history, as it came last
        self._budget = ""
        self._thinking = Bindings()
        self._model = ""
        self._beside: JsonObject = {}

    async def fit(
        self, messages: list[JsonObject], beside: JsonObject, options: FitOptions
    ) -> list[JsonObject]:
        """Record what is new of a history, and give what to send in its place."""
        self._beside, self._model = beside, str(beside.get("model") or self._model)
        history = await self._record(messages, beside, options)
        view = self._view
        if view is None:
            raise CompactionError("the server gave no view; use one of the kit's own version.")
        own = own_objects(history, messages)
        frame = history.frame
        if frame is None or not frame.serves(view.state, own.whole):
            frame = await self._make_frame(view, own, history.newest)
        laid = lay_out_around(frame, history, messages, own.whole)
        if options.is_sent:
            laid = self._leave_thinking(laid, messages)
        self._histories = (history._replace(frame=frame), laid.history)
        return laid.messages

    def _leave_thinking(self, laid: Laid, given: list[JsonObject]) -> Laid:
        """What was laid out, without thinking that is bound to another beginning."""
        if not may_be_bound(self._model):
            return laid
        own = sending_of(given, self._beside)
        sending = sending_of(laid.messages, self._beside, laid.history.prints)
        return laid.without(self._thinking.send(own, sending, self._model))

    async def leave_out_refused(
        self, sent: list[JsonObject], beside: JsonObject, place: tuple[int, int]
    ) -> list[JsonObject]:
        """What to send after a provider refused a thinking block: the message, and the block."""
        sending = sending_of(sent, beside)
        return self._thinking.take_refusal(self._model, sending, *place).messages

    def note_passing(self) -> None:
        """Note that something was sent behind what `fit` gave that will not be sent again."""
        self._thinking.note_passing()

    async def record(self, answer: JsonObject) -> None:
        """Keep what the model answered, with the usage that it reported."""
        shape, messages = messages_of_answer(answer, self._shape)
        histories = self._histories
        if not histories or not messages or shape != self._shape:
            return  # the next request brings it
        beside = {"model": answer["model"]} if answer.get("model") else {}
        self._model = str(beside.get("model") or self._model)
        self._thinking.note_removed(answer, self._model)
        self._thinking.bind_answer(messages)
        wishes = {"reported_tokens": reported_tokens_of(answer)}
        read = FORMATS[shape].read
        said: tuple[Answer, ...] = tuple(read(one, "the answer") for one in messages)
        self._sent = [*self._sent, *messages]
        seqs = await self._send_news(histories[0], messages, beside, wishes)
        if seqs is None:
            whole = await self._follow(self._sent, beside, wishes)
            self._histories = (whole._replace(rest=histories[0].rest, answers=said),)
            return
        new, prints = _count_new(histories[0], seqs), fingerprints_of(messages)
        self._histories = tuple(one.with_answer(prints, seqs, said, new) for one in histories)

    async def run(self, tool: str, given: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call of a tool."""
        reply = await self._call(tool, dict(given))
        return ToolAnswer(reply.text, reply.is_error, self._take_view(reply.meta))

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
        prints, rest = fingerprints_of(messages), fingerprint_of(beside)
        known = find_longest_start(self._histories, prints, messages)
        new = messages[len(known.prints) :] if known is not None else messages
        if known is not None and not any(map(self._may_be_ours, new)):
            changed = {} if known.rest == rest else beside
            # Even without news: the view may have changed meanwhile.
            seqs = await self._send_news(known, new, changed, options._asdict())
            if seqs is not None:
                return known._replace(
                    prints=prints,
                    seen=[*known.seen, *map(Seen, seqs)],
                    newest=known.newest + _count_new(known, seqs),
                    rest=rest,
                    bare=known.bare | bare_fingerprints_of(new, prints[len(known.prints) :]),
                )
        return await self._follow(messages, beside, options._asdict())

    async def _follow(
        self, messages: list[JsonObject], beside: JsonObject, wishes: Mapping[str, Any]
    ) -> KnownHistory:
        """Record a whole history, which the server lays beside its log."""
        prints = fingerprints_of(messages)
        reply = await self._send({**beside, self._key: messages}, None, wishes)
        return KnownHistory(
            shape=self._shape,
            is_sure=True,
            prints=prints,
            seen=_seen_in(reply, len(messages)),
            newest=int(reply.meta.get("log", 0)),
            gone=_gone_in(reply),
            rest=fingerprint_of(beside),
            bare=bare_fingerprints_of(messages, prints),
        )

    async def _send_news(
        self,
        known: KnownHistory,
        new: list[JsonObject],
        beside: JsonObject,
        wishes: Mapping[str, Any],
    ) -> list[int] | None:
        """Record what follows a known history; None where the log has more than it."""
        if (_last_of(known) or 0) < known.newest:
            return None  # an answer was thrown away, or the history was cut
        try:
            reply = await self._send({**beside, self._key: new}, _last_of(known), wishes)
        except CompactionError:  # such as another message at that place: the whole history tells
            return None
        seqs = _numbers_in(reply, len(new))
        log = (known.newest + _count_new(known, seqs), known.gone)
        return seqs if (reply.meta.get("log"), _gone_in(reply)) == log else None

    def _may_be_ours(self, obj: JsonObject) -> bool:
        """Whether a message may be a record of ours: the server judges, by all it knows."""
        role, parts = FORMATS[self._shape].read(obj, "the message")
        return may_be_our_record(Message(seq=0, role=role, parts=parts, shape=self._shape, raw=""))

    async def _make_frame(self, view: ShownView, own: Own, newest: int) -> Frame:
        """The frame of a view; what is newer than the history another loop has said."""
        since = tuple(one for one in view.since if one.message.seq <= newest)
        shown = view._replace(since=since)
        missing = refs_missing(shown, own)
        objects: dict[str, JsonObject] = {}
        for start in range(0, len(missing), _MOST_WANTED):
            wants = missing[start : start + _MOST_WANTED]
            reply = await self._send({self._key: []}, None, {"wants": wants})
            objects |= reply.meta.get("objects") or {}
            if self._view is not None and self._view is not view:
                return await self._make_frame(self._view, own, newest)  # it changed meanwhile
        return make_frame(complete_view(shown, objects), self._shape, own)

    async def _send(
        self, body: dict[str, Any], after: int | None, wishes: Mapping[str, Any]
    ) -> _Reply:
        """Record messages, and take the view that comes back where it is another."""
        known = self._view
        loop: dict[str, Any] = {"shape": self._shape, "relieve": False, **wishes}
        if known is not None:
            version, pins = known.state
            loop |= {"view": version, "pins": [*pins]}
        if self._thinking.is_bound(self._model):
            loop["thinking"] = self._thinking.changes()
        asked: dict[str, Any] = {"messages": {**body, "loop": loop}}
        if after is not None:
            asked["after"] = f"m{after}"
        reply = await self._call("record_messages", asked)
        if reply.is_error:
            raise CompactionError(reply.text)
        self._budget = str(reply.meta.get("budget") or "")
        self._thinking.learn(reply.meta.get("thinking") or {})
        self._model = self._model or str(reply.meta.get("model") or "")
        self._take_view(reply.meta)
        return reply

    async def _call(self, tool: str, asked: dict[str, Any]) -> _Reply:
        result = await self._caller.call_tool(tool, {**asked, "session": self._session})
        return _read_reply(result)

    def _take_view(self, meta: Mapping[str, Any]) -> bool:
        """Remember the view of a directive that an answer carries; says whether there is one."""
        if meta.get("compaction_directive") is not True or "upto" not in meta:
            return False
        self._view = read_view(meta, self._shape)
        return True


def _last_of(history: KnownHistory) -> int | None:
    return next((seen.seq for seen in reversed(history.seen) if seen.seq is not None), None)


def _count_new(known: KnownHistory, seqs: Sequence[int]) -> int:
    """How many messages of the log are newer than a history."""
    return sum(seq > known.newest for seq in seqs)


def _gone_in(reply: _Reply) -> tuple[Run, ...]:
    """The messages of the log that the newest history does not have."""
    return tuple((int(first), int(last)) for first, last in reply.meta.get("gone", ()))


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
