"""The Messages API's shape: roles user, assistant, system; content a text or a list of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.arrange import Piece, pairing_problems
from mcp_compaction.formats.content import (
    EMPTY,
    NO_RESULT,
    blocks,
    media,
    objects,
    only,
    opaque,
    orphan_text,
    read_arguments,
    required,
    result_text,
    string,
    without,
    words_of,
)
from mcp_compaction.model import (
    Cut,
    JsonObject,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_KEYS = ("role", "content", "output_config")
_MEDIA = {"image": "image", "document": "application/pdf"}
_THINKING = ("thinking", "redacted_thinking")
_ID_SIGNS = re.compile(r"[^a-zA-Z0-9_-]")
_BEFORE = "(what was said before this was not recorded)"


def read(obj: JsonObject, where: str) -> tuple[Role, tuple[Part, ...]]:
    """The role and parts of one message, part for block."""
    role = _ROLES.get(string(obj.get("role")))
    if role is None:
        named = f"the role {obj['role']!r}" if "role" in obj else "no role"
        raise MalformedMessage(f"{where} has {named}; say user, assistant or system.")
    content = obj.get("content")
    if isinstance(content, str):
        return role, (Text(text=content),)
    return role, tuple(_part(block, where) for block in blocks(content, where))


def _part(block: JsonObject, where: str) -> Part:
    match block["type"]:
        case "text":
            return Text(text=string(block.get("text")))
        case "thinking" | "redacted_thinking":
            return Thinking(text=string(block.get("thinking")))
        case "tool_use":
            return ToolCall(
                id=required(block, "id", where),
                name=required(block, "name", where),
                arguments=read_arguments(block.get("input")),
            )
        case "tool_result":
            return _result(block, where)
        case "image" | "document" as kind:
            return media(block, _MEDIA[kind])
        case _:
            return opaque(block)


def _result(block: JsonObject, where: str) -> ToolResult:
    content = block.get("content")
    inner = objects(content)
    shown = [
        string(b.get("text")) if b.get("type") == "text" else opaque(b).text
        for b in inner
        if b.get("type") not in _MEDIA
    ]
    return ToolResult(
        call=required(block, "tool_use_id", where),
        text=content if isinstance(content, str) else "\n".join(shown),
        is_error=block.get("is_error") is True,
        has_media=any(b.get("type") in _MEDIA for b in inner),
    )


def keep(obj: JsonObject, cuts: Sequence[Cut]) -> list[JsonObject]:
    """The original message with its cuts, as the API accepts it."""
    said = only(obj, _KEYS)
    shown = {cut.part: cut.shown for cut in cuts}
    content = obj.get("content")
    if isinstance(content, str):
        cut = shown.get(0)
        text = cut.text if isinstance(cut, Text) else content
        return [{**said, "content": text if text.strip() else EMPTY}]
    return [_with_content(said, [_cut(b, shown.get(n)) for n, b in enumerate(objects(content))])]


def _cut(block: JsonObject, shown: Part | None) -> JsonObject:
    match block["type"], shown:
        case "tool_result", ToolResult():
            return {**block, "content": shown.text}
        case "tool_use", ToolCall():
            return {**block, "input": shown.arguments}
        case "text" | "image" | "document", Text():
            return _text(shown.text)
        case _:
            return block


def _with_content(said: JsonObject, content: Sequence[JsonObject]) -> JsonObject:
    full: list[JsonValue] = [_clean(block) for block in content if not _is_blank(block)]
    return {**said, "content": full or EMPTY}


def _clean(block: JsonObject) -> JsonObject:
    clean = without(block, "cache_control")
    if block["type"] == "tool_result" and isinstance(block.get("content"), list):
        inner: list[JsonValue] = [
            without(b, "cache_control") for b in objects(block["content"]) if not _is_blank(b)
        ]
        clean["content"] = inner
    return clean


def _is_blank(block: JsonObject) -> bool:
    return block.get("type") == "text" and not string(block.get("text")).strip()


def build(role: Role, parts: Sequence[Part]) -> list[JsonObject]:
    """A message of another shape as the API accepts it; another provider's thinking is left out."""
    shown = [block for part in parts if (block := _built(part)) is not None]
    results = [block for block in shown if block["type"] == "tool_result"]
    others = [block for block in shown if block["type"] != "tool_result"]
    if role == "system":
        others.insert(0, _text("[system message]"))
    if not shown and role == "assistant":
        return []
    speaker = "assistant" if role == "assistant" else "user"
    if not results and len(others) == 1 and others[0]["type"] == "text":
        text = string(others[0]["text"])
        return [{"role": speaker, "content": text if text.strip() else EMPTY}]
    return [_with_content({"role": speaker}, [*results, *others])]


def _built(part: Part) -> JsonObject | None:
    match part:
        case ToolCall():
            call = _ID_SIGNS.sub("_", part.id)
            return {"type": "tool_use", "id": call, "name": part.name, "input": part.arguments}
        case ToolResult():
            call = _ID_SIGNS.sub("_", part.call)
            block: JsonObject = {"type": "tool_result", "tool_use_id": call}
            block["content"] = result_text(part)
            return {**block, "is_error": True} if part.is_error else block
        case _:
            words = words_of(part)
            return None if words is None else _text(words)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def piece(obj: JsonObject) -> Piece:
    """What a message has to do with calls and results."""
    content = objects(obj.get("content"))
    kinds = {string(block.get("type")) for block in content}
    return Piece(
        obj=obj,
        said=obj.get("role") == "assistant",
        binds=not kinds.isdisjoint(("tool_use", *_THINKING)),
        leads=not kinds.isdisjoint(_THINKING),
        calls=tuple(string(b.get("id")) for b in content if b.get("type") == "tool_use"),
        results=tuple(
            string(b.get("tool_use_id")) for b in content if b.get("type") == "tool_result"
        ),
    )


def merge(objs: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages of one turn as one message, results first."""
    content = [block for obj in objs for block in _blocks(obj)]
    results = [block for block in content if block["type"] == "tool_result"]
    if not objs or (len(objs) == 1 and content[: len(results)] == results):
        return list(objs)
    merged: list[JsonValue] = [*results]
    merged += [block for block in content if block["type"] != "tool_result"]
    return [{**objs[0], "content": merged}]


def _blocks(obj: JsonObject) -> list[JsonObject]:
    content = obj.get("content")
    return [_text(content)] if isinstance(content, str) else objects(content)


def answer(obj: JsonObject, call: str) -> list[JsonObject]:
    """The result of a call that never got one: the API refuses the request without it."""
    block: JsonObject = {"type": "tool_result", "tool_use_id": call, "content": NO_RESULT}
    return [{"role": "user", "content": [{**block, "is_error": True}]}]


def unpair(obj: JsonObject, numbers: set[int]) -> list[JsonObject]:
    """The message with those of its results as words whose call is not in sight."""
    content: list[JsonValue] = []
    number = -1
    for block in objects(obj.get("content")):
        if block["type"] == "tool_result":
            number += 1
            if number in numbers:
                content.append(_text(orphan_text(_result(block, "a kept message"))))
                continue
        content.append(block)
    return [{**obj, "content": content}]


def finish(objs: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages with a user's first, and without a turn of nothing but thinking."""
    shown = [obj for obj in objs if not _is_only_thinking(obj)]
    if shown and shown[0]["role"] == "system":
        content: list[JsonValue] = [_text("[system message]"), *_blocks(shown[0])]
        shown[0] = {"role": "user", "content": content}
    if shown and shown[0]["role"] == "assistant":
        shown.insert(0, {"role": "user", "content": _BEFORE})
    return shown


def _is_only_thinking(obj: JsonObject) -> bool:
    content = objects(obj.get("content"))
    return bool(content) and all(block.get("type") in _THINKING for block in content)


def validate(messages: Sequence[JsonObject]) -> tuple[str, ...]:
    """What the API would refuse, in words."""
    problems = list(pairing_problems([piece(m) for m in messages], one_answer=True))
    if messages and messages[0].get("role") != "user":
        problems.append(f"message 1: the first role is {messages[0].get('role')}, not user")
    for number, message in enumerate(messages, 1):
        problems += [f"message {number}: {problem}" for problem in _content_problems(message)]
    return tuple(problems)


def _content_problems(message: JsonObject) -> Iterator[str]:
    content = _blocks(message)
    kinds = [string(block.get("type")) for block in content]
    if message.get("role") not in _ROLES:
        yield f"{message.get('role')} is no role"
    if not content:
        yield "it has no content"
    if any(_is_blank(b) for outer in content for b in (outer, *objects(outer.get("content")))):
        yield "a text is empty"
    results = kinds.count("tool_result")
    if kinds[:results] != ["tool_result"] * results:
        yield "its results do not come first"
    if results and message.get("role") != "user":
        yield "results stand in a message that is not the user's"
