"""Calls of models: which API a path is of, whose conversation, and whether it is one at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, cast

from mcp_compaction.formats.content import objects_in
from mcp_compaction.gateway.known_hosts import Host, known_hosts
from mcp_compaction.model import JsonObject, JsonValue, Shape

Kind = Literal["turn", "summary", "aside", "count", "torn"]
"""Torn: its history has no beginning, as one that begins with an answer."""


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


class HostCall(NamedTuple):
    """A call of a model, as a host sent it."""

    api: Api
    kind: Kind
    host: Host
    session: str  # the host's own id for the conversation
    agent: str  # of a sub-agent; empty: the main one
    body: JsonObject

    @property
    def messages(self) -> list[JsonObject]:
        """The messages of the body, the very objects."""
        return cast("list[JsonObject]", self.body[self.api.key])

    @property
    def model(self) -> str:
        """The model that is called."""
        return str(self.body.get("model") or "")

    def with_messages(
        self, messages: Sequence[JsonObject], *, drops_thinking: bool = False
    ) -> bytes:
        """The body with other messages, all else as it was and where it was.

        `drops_thinking`: the provider is told to drop what is bound to another beginning.
        """
        body = {**self.body, self.api.key: list(messages)}
        if drops_thinking:
            body["thinking"] = self._thinking_to_drop()
        # ensure_ascii stays on: half a surrogate pair, which JSON may hold, has no UTF-8.
        return json.dumps(body).encode()

    @property
    def may_drop_thinking(self) -> bool:
        """Whether its provider can be told to drop thinking."""
        thinking = self.body.get("thinking")
        is_off = isinstance(thinking, dict) and thinking.get("type") == "disabled"
        return self.api.shape == "anthropic" and not is_off

    def _thinking_to_drop(self) -> JsonObject:
        thinking = self.body.get("thinking")
        wished = thinking if isinstance(thinking, dict) else {"type": "adaptive"}
        binding = wished.get("block_binding")
        known = binding if isinstance(binding, dict) else {}
        return {**wished, "block_binding": {**known, "prefix_mismatch_behavior": "drop_block"}}

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
    if _is_torn(call.messages):
        return "torn"
    for text in _newest_texts(call.messages):
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
