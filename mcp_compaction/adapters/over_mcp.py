"""The side of a loop whose session is kept by an MCP server: by refs, around the loop's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from mcp_compaction.adapters.dialects import plain_of
from mcp_compaction.adapters.sides import Wish
from mcp_compaction.compactor.histories import Answer as KnownAnswer
from mcp_compaction.compactor.histories import KnownHistories, KnownHistory, Seen
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.window.history import is_record
from mcp_compaction.errors import CompactionError
from mcp_compaction.formats import FORMATS
from mcp_compaction.formats.answer import messages_of_answer
from mcp_compaction.formats.fingerprint import bare_fingerprints_of, fingerprint_of, fingerprints_of
from mcp_compaction.formats.show import arrange, without_repeats
from mcp_compaction.model import JsonObject, Shape, Text
from mcp_compaction.tools.running import Answer

_ONLY = 0  # the one session of a side, among the lines it remembers


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
        self._histories = KnownHistories()
        self._own: dict[int, JsonObject] = {}
        self._view: dict[str, Any] = {}  # the newest directive
        self._told: dict[str, Any] = {}  # what the newest answer to a recording says beside it

    async def fit(self, messages: list[JsonObject], wish: Wish) -> list[JsonObject]:
        """Record what is new of a history, and give what to send in its place."""
        prints = fingerprints_of(messages)
        known = self._histories.find(_ONLY, prints, messages)
        if known is None:
            line = await self._record_all(messages, prints, wish)
        else:
            line = await self._record_news(known, messages, prints, wish)
        self._own |= {
            seen.seq: obj
            for seen, obj in zip(line.seen, messages, strict=True)
            if seen.seq is not None and seen.is_whole
        }
        sent, given = self._lay_out(messages, line)
        self._histories.keep(_ONLY, line, given)
        return sent

    async def record(self, answer: JsonObject) -> None:
        """Keep what the model answered, with the usage that it reported."""
        shape, messages = messages_of_answer(answer)
        lines = self._histories.of(_ONLY)
        if not lines or not messages or shape != self._shape:
            return  # the next request brings it
        seqs = await self._send(_with_usage(messages, answer), _last_of(lines[0]), None)
        read = FORMATS[shape].read
        said: tuple[KnownAnswer, ...] = tuple(read(one, "the answer") for one in messages)
        prints = fingerprints_of(messages)
        self._histories.keep(
            _ONLY, *(line.with_answer(prints, seqs, said, len(seqs)) for line in lines)
        )

    async def run(self, tool: str, given: Mapping[str, Any]) -> Answer:
        """Answer a call of a tool."""
        reply = await self._call(tool, dict(given))
        return Answer(reply.text, reply.is_error, self._take_view(reply.meta))

    async def make_room(self, reason: str, share: float) -> bool:
        """Compress to a share of the present fill; says whether the window is smaller now."""
        percent = self._told.get("fill_percent")
        asked: dict[str, Any] = {"reason": reason, "force": True}
        if isinstance(percent, int | float) and percent > 0:
            asked["target_percent"] = min(99.0, share * percent)
        reply = await self._call("compress_context", asked)
        return not reply.is_error and self._take_view(reply.meta)

    async def budget_line(self) -> str:
        """The line with the fill, and advice when it is due."""
        return str(self._told.get("budget") or "")

    async def _record_all(
        self, messages: list[JsonObject], prints: list[bytes], wish: Wish
    ) -> KnownHistory:
        """Record a history that does not go on from a known one; the server follows it."""
        ours = {n for n, message in enumerate(messages) if _is_ours(message)}
        numbers = iter(await self._send(messages, None, wish))
        seen = [Seen(None) if n in ours else Seen(next(numbers)) for n in range(len(messages))]
        return KnownHistory(
            shape=self._shape,
            is_sure=True,
            prints=prints,
            seen=seen,
            newest=0,
            gone=(),
            rest=b"",
            bare=bare_fingerprints_of(messages, prints),
        )

    async def _record_news(
        self, known: KnownHistory, messages: list[JsonObject], prints: list[bytes], wish: Wish
    ) -> KnownHistory:
        new = messages[len(known.prints) :]
        # Even without news: the view may have changed meanwhile.
        seqs = await self._send(new, _last_of(known), wish)
        bare = known.bare | bare_fingerprints_of(new, prints[len(known.prints) :])
        return known._replace(prints=prints, seen=[*known.seen, *map(Seen, seqs)], bare=bare)

    async def _send(
        self, messages: Sequence[JsonObject], after: int | None, wish: Wish | None
    ) -> list[int]:
        body: dict[str, Any] = {"messages": list(messages)}
        if wish is not None:
            body["loop"] = {"view": self._view.get("view"), **wish._asdict()}
        asked: dict[str, Any] = {"messages": body}
        if after is not None:
            asked["after"] = f"m{after}"
        reply = await self._call("record_messages", asked)
        if reply.is_error:
            raise CompactionError(reply.text)
        if wish is not None:
            self._told = reply.meta
        self._take_view(reply.meta)
        seqs = [number_of(str(ref), "m") for ref in reply.meta.get("refs", ())]
        if after is not None and len(seqs) != len(messages):
            raise CompactionError("the server gave no refs; use one of the kit's own version.")
        return seqs

    async def _call(self, tool: str, asked: dict[str, Any]) -> _Reply:
        result = await self._caller.call_tool(tool, {**asked, "session": self._session})
        return _read_reply(result)

    def _take_view(self, meta: Mapping[str, Any]) -> bool:
        """Remember the directive that an answer carries; says whether there is one."""
        if meta.get("compaction_directive") is not True or "layout" not in meta:
            return False
        self._view = dict(meta)
        return True

    def _lay_out(
        self, messages: list[JsonObject], line: KnownHistory
    ) -> tuple[list[JsonObject], KnownHistory]:
        """The messages to send, and what is remembered of them."""
        laid = self._objects_of_view()
        if laid is None:
            return messages, line
        objects = without_repeats(obj for obj, _ in laid)
        placed = [
            (obj, seq) for obj, (_, seq) in zip(objects, laid, strict=True) if seq is not None
        ]
        number = {id(obj): seq for obj, seq in placed}
        cut = {id(obj) for obj, seq in placed if obj is not self._own.get(seq)}
        sent = arrange(objects, self._shape)
        seen = [Seen(number.get(id(obj)), id(obj) not in cut) for obj in sent]
        prints = fingerprints_of(sent)
        newest = int(self._view["newest"])
        for known, obj in zip(line.seen, messages, strict=True):
            if known.seq is not None and known.seq > newest:
                sent.append(obj)
                seen.append(known)
                prints.append(fingerprint_of(obj))
        return sent, line._replace(prints=prints, seen=seen)

    def _objects_of_view(self) -> list[tuple[JsonObject, int | None]] | None:
        """The objects that the directive lays out, with their numbers; None where one is missing.

        Where the loop has an object no more, its own messages go out as they are.
        """
        if not self._view:
            return None
        laid: list[tuple[JsonObject, int | None]] = []
        form = FORMATS[self._shape]
        for item in cast("list[Any]", self._view["layout"]):
            if isinstance(item, str):
                seq = number_of(item, "m")
                if seq not in self._own:
                    return None
                laid.append((self._own[seq], seq))
            elif isinstance(item, int):
                change = self._view["replace"][item]
                is_one = change["from"] == change["to"]
                seq = number_of(change["from"], "m") if is_one else None
                laid += [(obj, seq) for obj in change["with"]]
            else:
                laid += [(obj, None) for obj in form.build("user", (Text(text=item["text"]),))]
        return laid


def _last_of(line: KnownHistory) -> int | None:
    return next((seen.seq for seen in reversed(line.seen) if seen.seq is not None), None)


def _is_ours(message: JsonObject) -> bool:
    content = message.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return message.get("role") == "user" and isinstance(content, str) and is_record(content)


def _with_usage(messages: Sequence[JsonObject], answer: JsonObject) -> list[JsonObject]:
    """The messages of an answer; the last one said by the assistant reports the usage."""
    told = {key: answer[key] for key in ("usage", "model") if answer.get(key)}
    laid = list(messages)
    for n in reversed(range(len(laid))):
        if laid[n].get("role") == "assistant":
            laid[n] = {**laid[n], **told}
            break
    return laid


def _read_reply(result: Any) -> _Reply:
    """The answer of a server, whichever client brought it."""
    if not isinstance(result, Mapping):
        dump = getattr(result, "model_dump", None)
        result = dump(by_alias=True, mode="json") if callable(dump) else plain_of(result)
    given = cast("Mapping[str, Any]", result)
    content = cast("list[Mapping[str, Any]]", given.get("content") or [])
    texts = [str(block.get("text")) for block in content if block.get("type") == "text"]
    return _Reply("\n".join(texts), bool(given.get("isError")), dict(given.get("_meta") or {}))
