"""Calls of models: which API a path is of, whose conversation, and whether it is one at all, by
what is known of the requests of hosts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from operator import eq, truth
from typing import Literal, NamedTuple, cast

from mcp_compaction.core.digest.prompt import OPENING
from mcp_compaction.formats.arrival import find_continued
from mcp_compaction.formats.content import objects_in
from mcp_compaction.formats.identity import fingerprints_of
from mcp_compaction.hosts.known import hosts_with
from mcp_compaction.model import JsonObject, JsonValue, Shape, Value

SideKind = Literal["summary", "aside"]

Kind = Literal["turn", "summary", "aside", "count", "torn", "part"]
"""Torn: its history has no beginning, as one that begins with an answer. Part: it brings only what
is new, since the provider keeps the rest."""


class Side(Value):
    """One kind of call beside a conversation; see lexicon/hosts/README.md."""

    kind: SideKind
    pattern: str
    example: str
    near_miss: str


class Host(Value):
    """A host as its requests show it; see lexicon/hosts/README.md."""

    name: str
    title: str
    sessions: tuple[str, ...]
    agents: tuple[str, ...]
    user_agent: str = ""
    unsteady_system: str
    starter: str = ""
    side: tuple[Side, ...]

    def session_of(self, headers: Mapping[str, str]) -> str | None:
        """The host's own id for the conversation that a request belongs to."""
        if not headers.get("user-agent", "").startswith(self.user_agent):
            return None
        return next((headers[name] for name in self.sessions if headers.get(name)), None)

    def agent_of(self, headers: Mapping[str, str]) -> str:
        """The id of the sub-agent that sends a request; empty: the main one does."""
        return next((headers[name] for name in self.agents if headers.get(name)), "")

    def find_side(self, text: str) -> SideKind | None:
        """The kind of side call that a newest message makes a request; None: it is none."""
        for side in self.side:
            if re.search(side.pattern, text):
                return side.kind
        return None


@cache
def known_hosts() -> tuple[Host, ...]:
    """The hosts whose requests are known; read once."""
    return tuple(map(Host.model_validate, hosts_with("requests").values()))


class Api(NamedTuple):
    """One way of calling a model."""

    path: str  # how it ends
    shape: Shape
    key: str  # under which a body has its messages
    counts: bool = False  # it only counts the tokens


_APIS = (
    Api("/messages/count_tokens", "anthropic", "messages", counts=True),
    Api("/messages", "anthropic", "messages"),
    Api("/responses", "responses", "input"),
    Api("/chat/completions", "openai", "messages"),
)


_BESIDE = ("system", "developer")  # they speak before and between the others
_OF_RESULT = ("tool_use_id", "tool_call_id")  # the keys by which a result names its call


ChatKey = tuple[str, str, str]  # the host of a conversation, its id there, and the sub-agent's


class HostCall(NamedTuple):
    """A call of a model, as a host sent it."""

    api: Api
    kind: Kind
    host: Host
    session: str  # the host's own id for the conversation
    agent: str  # of a sub-agent; empty: the main one
    body: JsonObject

    @property
    def key(self) -> ChatKey:
        """Which conversation it is of."""
        return self.host.name, self.session, self.agent

    @property
    def messages(self) -> list[JsonObject]:
        """The messages of the body, the very objects."""
        return cast("list[JsonObject]", self.body[self.api.key])

    @property
    def model(self) -> str:
        """The model that is called."""
        return str(self.body.get("model") or "")

    def with_messages(self, messages: Sequence[JsonObject]) -> bytes:
        """The body with other messages, all else as it was and where it was."""
        # ensure_ascii stays on: half a surrogate pair, which JSON may hold, has no UTF-8.
        return json.dumps({**self.body, self.api.key: list(messages)}).encode()

    def recordable(self, messages: Sequence[JsonObject]) -> JsonObject:
        """A body with what is recorded of one: other keys say nothing of the conversation."""
        kept = ("model", "system", "instructions", "tools")
        beside = {name: self.body[name] for name in kept if self.body.get(name)}
        system = beside.get("system")
        if self.host.unsteady_system and isinstance(system, list):
            beside["system"] = [one for one in system if not self._is_unsteady(one)]
        return {**beside, self.api.key: list(messages)}

    def _is_unsteady(self, block: object) -> bool:
        text = cast("JsonObject", block).get("text") if isinstance(block, dict) else None
        return isinstance(text, str) and text.startswith(self.host.unsteady_system)


def find_api(path: str) -> Api | None:
    """The API that a path is of; None where it is none that is known."""
    return next((api for api in _APIS if path.endswith(api.path)), None)


def find_chat(headers: Mapping[str, str]) -> tuple[Host, str] | None:
    """The host that names a chat in its headers, and its id for it; None where none does."""
    found = ((host, host.session_of(headers)) for host in known_hosts())
    return next(((host, session) for host, session in found if session), None)


def read_call(path: str, headers: Mapping[str, str], raw: bytes) -> HostCall | None:
    """The call that a request is; None where it is of no conversation that is known by an id."""
    api, chat = find_api(path), find_chat(headers)
    if api is None or chat is None or headers.get("content-encoding"):
        return None
    host, session = chat
    try:
        body: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not _has_messages(cast("JsonObject", body), api.key):
        return None
    call = HostCall(api, "turn", host, session, host.agent_of(headers), cast("JsonObject", body))
    return call._replace(kind=_kind_of(call))


def _has_messages(body: JsonObject, key: str) -> bool:
    messages = body.get(key)
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(one, dict) for one in messages)
    )


def _kind_of(call: HostCall) -> Kind:
    if find_continued(call.body):
        return "aside" if call.api.counts else "part"
    if _is_torn(call.messages):
        return "torn"
    for text in _newest_texts(call.messages):
        if text.startswith(OPENING):
            return "summary"
        side = call.host.find_side(text)
        if side is not None:
            return side
    if call.api.counts:
        return "count"
    return "turn" if _offers_tools(call) else "aside"


def _is_torn(messages: Sequence[JsonObject]) -> bool:
    """Whether a history begins with words of a model, or has a result without its call."""
    first = next((one for one in messages if one.get("role") not in _BESIDE), None)
    if first is not None and _is_of_model(first):
        return True
    called: set[JsonValue] = set()
    for message in messages:
        called.update(call.get("id") for call in objects_in(message.get("tool_calls")))
        for piece in (message, *objects_in(message.get("content"))):
            kind = str(piece.get("type") or "")
            if kind.endswith("tool_use"):
                called.add(piece.get("id"))
            elif not kind.endswith("_output"):
                called.add(piece.get("call_id"))
            elif piece.get("call_id") and piece["call_id"] not in called:
                return True
            if any(piece.get(key) and piece[key] not in called for key in _OF_RESULT):
                return True
    return False


def _is_of_model(message: JsonObject) -> bool:
    """Whether a model said it; what a provider has compacted stands for a beginning."""
    pieces = (message, *objects_in(message.get("content")))
    kind, *others = [str(piece.get("type") or "") for piece in pieces]
    is_said = message.get("role") == "assistant" or kind.endswith(("_call", "reasoning"))
    return is_said and not any(one.startswith("compaction") for one in (kind, *others))


def _offers_tools(call: HostCall) -> bool:
    # Newer models of Codex have them among the messages.
    return bool(call.body.get("tools")) or any(
        message.get("type") == "additional_tools" for message in call.messages
    )


def _newest_texts(messages: Sequence[JsonObject]) -> list[str]:
    """The texts of the newest user message; a host may add messages of the system behind it."""
    newest = next((m for m in reversed(messages) if m.get("role") == "user"), messages[-1])
    content = newest.get("content")
    if isinstance(content, str):
        return [content]
    texts = (block.get("text") for block in objects_in(content))
    return [text for text in texts if isinstance(text, str)]


class SentHistory(NamedTuple):
    """A history as a host sent it, without what its provider has compacted already."""

    call: HostCall
    messages: list[JsonObject]
    prints: list[bytes]
    before: int  # messages that a provider's own compaction stands for


def read_history(call: HostCall, last: SentHistory | None = None) -> SentHistory:
    """The history of a call; `last`: the one before it, whose messages need no hashing again."""
    known = last.call.messages if last is not None else []
    same = len(list(takewhile(truth, map(eq, call.messages, known))))  # much faster than hashing
    news = call.messages[same if last is not None and last.before == 0 and same > 1 else 0 :]
    before = count_compacted(call.messages) if any(map(_is_compaction, news)) else 0
    messages = call.messages[before:]
    hashed = last.prints if last is not None and last.before == before else []
    prints = hashed[: max(0, same - before)]
    return SentHistory(call, messages, [*prints, *fingerprints_of(messages[len(prints) :])], before)


def begins_with(prints: Sequence[bytes], known: Sequence[bytes]) -> bool:
    """Whether a history is another one, or that with more behind it."""
    return list(prints[: len(known)]) == list(known)


def count_compacted(messages: Sequence[JsonObject]) -> int:
    """How many messages a provider's own compaction stands for, up to and with its block."""
    for place in reversed(range(len(messages))):
        if _is_compaction(messages[place]):
            is_answered = place + 1 < len(messages) and "tool_result" in _kinds_in(
                messages[place + 1]
            )
            return min(len(messages) - 1, place + (2 if is_answered else 1))
    return 0


def _is_compaction(message: JsonObject) -> bool:
    """Whether a message is, or holds, what a provider has compacted a history to."""
    kinds = (message.get("type"), *_kinds_in(message))
    return "compaction" in kinds or "compaction_summary" in kinds


def _kinds_in(message: JsonObject) -> list[JsonValue]:
    """The types of the blocks of a message."""
    return [block.get("type") for block in objects_in(message.get("content"))]
