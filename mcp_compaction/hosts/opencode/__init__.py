"""What opencode's plugin needs: the plugin itself, and its messages as a provider has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from mcp_compaction.compactor.histories import Layout
from mcp_compaction.errors import InputError, MalformedMessage
from mcp_compaction.formats.content import parse_object
from mcp_compaction.formats.identity import fingerprint_of
from mcp_compaction.formats.thinking import thinking_in, without_thinking
from mcp_compaction.hosts.transcripts.opencode import PUT_BACK, RESULTS, WRITTEN, messages_in
from mcp_compaction.hosts.transcripts.pieces import object_at, text_at
from mcp_compaction.model import JsonObject

Pieces = dict[str, set[str]]
"""The pieces of each message of opencode: "" for what was said, WRITTEN, RESULTS."""


@dataclass(slots=True)
class Window:
    """A history of opencode, and the same as a provider's messages."""

    messages: list[JsonObject] = field(default_factory=list[JsonObject])  # with opencode's ids
    origins: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # of these
    pieces: Pieces = field(default_factory=dict[str, set[str]])
    calls: dict[str, str] = field(default_factory=dict[str, str])  # the answer that made each call
    silent_before: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    silent_at_end: list[str] = field(default_factory=list[str])
    bare: dict[bytes, str] = field(default_factory=dict[bytes, str])  # answers without thinking
    model: str = ""  # that was asked last


def read_window(given: object) -> Window:
    """Read the messages that opencode is about to send, each with its `info` and `parts`."""
    window = Window()
    for one in cast("list[object]", given) if isinstance(given, list) else [given]:
        info, parts = _split(one)
        own_id = text_at(info, "id") or ""
        said = messages_in(info, parts)
        if not said:
            window.silent_at_end.append(own_id)
            continue
        window.silent_before[own_id], window.silent_at_end = window.silent_at_end, []
        for message in said:
            obj = {**parse_object(message.raw, "the message"), "id": message.host_id}
            piece = (message.host_id or "").removeprefix(own_id)
            window.messages.append(obj)
            window.origins.append((own_id, piece))
            window.pieces.setdefault(own_id, set()).add(piece)
            bare = without_thinking(obj) if thinking_in(obj) else None
            if bare is not None:
                window.bare[fingerprint_of(bare)] = own_id
        window.model = (
            text_at(info, "modelID") or text_at(object_at(info, "model"), "modelID") or window.model
        )
        window.calls |= {call: own_id for part in parts if (call := text_at(part, "callID"))}
    return window


def _split(one: object) -> tuple[JsonObject, list[JsonObject]]:
    message = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
    info, parts = message.get("info"), message.get("parts")
    if not isinstance(info, dict) or not isinstance(parts, list):
        raise MalformedMessage("a message of opencode has an `info` and a list of `parts`.")
    return cast("JsonObject", info), [
        part
        for part in cast("list[JsonObject]", parts)
        if isinstance(part, dict)  # pyright: ignore[reportUnnecessaryIsInstance]
    ]


@dataclass(slots=True)
class _Telling:
    """What the plugin is told, while it is put together."""

    window: Window
    show: list[JsonObject] = field(default_factory=list[JsonObject])
    outputs: JsonObject = field(default_factory=dict[str, Any])
    inputs: JsonObject = field(default_factory=dict[str, Any])
    sent: Pieces = field(default_factory=dict[str, set[str]])
    quiet: list[str] = field(default_factory=list[str])  # answers sent without their thinking

    def add(self, obj: tuple[str, str] | JsonObject) -> None:
        """Send an object: as a piece of the message that it is of, or as a new message."""
        if isinstance(obj, tuple):
            self._add_piece(*obj)
        elif results := _find_blocks(obj, "tool_result", "tool_use_id"):
            self.outputs |= {call: _text_of(block) for call, block in results.items()}
            self._add_piece(self._find_answer(results), RESULTS)
        elif calls := _find_blocks(obj, "tool_use", "id"):
            self.inputs |= {call: object_at(block, "input") for call, block in calls.items()}
            self._add_answer(self._find_answer(calls), obj)
        elif obj["role"] == "assistant" and fingerprint_of(obj) in self.window.bare:
            self._add_answer(self.window.bare[fingerprint_of(obj)], obj)
        else:
            self.show.append({"role": obj["role"], "text": _text_of(obj)})

    def _add_answer(self, own_id: str, obj: JsonObject) -> None:
        self._add_piece(own_id, "")
        if not thinking_in(obj):
            self.quiet.append(own_id)

    def _add_piece(self, own_id: str, piece: str) -> None:
        if own_id not in self.sent:
            silent = self.window.silent_before.get(own_id, [])
            self.show.extend({"id": one} for one in (*silent, own_id))
        self.sent.setdefault(own_id, set()).add(piece)

    def _find_answer(self, blocks: dict[str, JsonObject]) -> str:
        (*_, call) = blocks
        if call not in self.window.calls:
            raise InputError(f"the call {call!r} is none of opencode's; send what it has.")
        return self.window.calls[call]


def tell_plugin(window: Window, layout: Layout) -> JsonObject:
    """Tell the plugin what to send: its own messages by their ids, new ones by their texts.

    `outputs` and `inputs` are what its calls show instead of their own, `quiet` the answers that
    are sent without their reasoning. Of a message of which only the typed or the written words are
    sent, `only` says which.
    """
    telling = _Telling(window)
    for one in layout.apply(window.origins):
        telling.add(one)
    telling.show.extend({"id": own_id} for own_id in window.silent_at_end)
    for entry in telling.show:
        own_id = str(entry.get("id", ""))
        sent, there = telling.sent.get(own_id, set()), window.pieces.get(own_id, set())
        if RESULTS in there ^ sent & there or sent == {RESULTS}:
            # opencode would send the results with the answer, or neither.
            raise InputError(f"only a part of {own_id!r} is to be sent; send all of it.")
        if sent and WRITTEN in there ^ sent:
            entry["only"] = "typed"
        elif sent and "" in there ^ sent:
            entry["only"] = "written"
    return {
        "show": [*telling.show],
        "outputs": telling.outputs,
        "inputs": telling.inputs,
        "quiet": [*telling.quiet],
    }


def hand_over(prompt: str, records: str) -> JsonObject:
    """Tell the plugin what opencode's model is asked for its summary, and what is put behind it."""
    told = f"The record of what was said and done so far:\n{records}" if records else ""
    behind = f"\n\n{PUT_BACK}\n{records}" if records else ""
    return {"prompt": "\n\n".join(filter(None, (prompt, told))), "behind": behind}


def _find_blocks(obj: JsonObject, kind: str, key: str) -> dict[str, JsonObject]:
    return {text_at(one, key) or "": one for one in _blocks_in(obj) if one.get("type") == kind}


def _blocks_in(obj: JsonObject) -> list[JsonObject]:
    content = obj.get("content")
    found = content if isinstance(content, list) else []
    return [one for one in found if isinstance(one, dict)]


def _text_of(obj: JsonObject) -> str:
    content = obj.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(text_at(block, "text") or "" for block in _blocks_in(obj))
