"""The Messages API's shape: roles user, assistant, system; content a text or a list of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.content import (
    EMPTY,
    NO_RESULT,
    RenderedMessage,
    blocks_of,
    find_pairing_problems,
    media_of,
    objects_in,
    opaque_of,
    orphan_text,
    read_arguments,
    read_blocks,
    read_required,
    result_text,
    text_or_empty,
    with_only_keys,
    without_keys,
    words_of,
)
from mcp_compaction.model import Cut, JsonObject, Part, Role, Text, Thinking, ToolCall, ToolResult

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_KEYS = ("role", "content", "output_config", "clear_at")
_MEDIA = {"image": "image", "document": "application/pdf"}
_THINKING = ("thinking", "redacted_thinking")
_ID_SIGNS = re.compile(r"[^a-zA-Z0-9_-]")
NOT_RECORDED = "(what was said before this was not recorded; ask the user for what you need of it)"
NOT_SHOWN = "(what was said before this is not shown here; recall_archived gives it back)"


def read(obj: JsonObject, where: str) -> tuple[Role, tuple[Part, ...]]:
    """The role and parts of one message, part for block."""
    role = _ROLES.get(text_or_empty(obj.get("role")))
    if role is None:
        named = f"the role {obj['role']!r}" if "role" in obj else "no role"
        raise MalformedMessage(f"{where} has {named}; say user, assistant or system.")
    content = obj.get("content")
    if isinstance(content, str):
        return role, (Text(text=content),)
    return role, tuple(_read_part(block, where) for block in read_blocks(content, where))


def _read_part(block: JsonObject, where: str) -> Part:
    match block["type"]:
        case "text":
            return Text(text=text_or_empty(block.get("text")))
        case "thinking" | "redacted_thinking":
            return Thinking(text=text_or_empty(block.get("thinking")))
        case "tool_use":
            return ToolCall(
                id=read_required(block, "id", where),
                name=read_required(block, "name", where),
                arguments=read_arguments(block.get("input")),
            )
        case "tool_result":
            return _read_result(block, where)
        case "image" | "document" as kind:
            return media_of(block, _MEDIA[kind])
        case _:
            return opaque_of(block)


def _read_result(block: JsonObject, where: str) -> ToolResult:
    content = block.get("content")
    inner = objects_in(content)
    shown = [
        text_or_empty(b.get("text")) if b.get("type") == "text" else opaque_of(b).text
        for b in inner
        if text_or_empty(b.get("type")) not in _MEDIA
    ]
    return ToolResult(
        call=read_required(block, "tool_use_id", where),
        text=content if isinstance(content, str) else "\n".join(shown),
        is_error=block.get("is_error") is True,
        has_media=any(text_or_empty(b.get("type")) in _MEDIA for b in inner),
    )


def cut(obj: JsonObject, cuts: Sequence[Cut]) -> JsonObject:
    """The message with some blocks shown shorter, and everything else in it as it was."""
    shown = {cut.part: cut.shown for cut in cuts}
    content = obj.get("content")
    if isinstance(content, str):
        whole = shown.get(0)
        return {**obj, "content": whole.text} if isinstance(whole, Text) else obj
    blocks: list[JsonValue] = [
        _apply_cut(block, shown.get(n)) for n, block in enumerate(objects_in(content))
    ]
    return {**obj, "content": blocks}


def keep(obj: JsonObject, cuts: Sequence[Cut]) -> list[JsonObject]:
    """The original message with its cuts, as the API accepts it."""
    said = with_only_keys(cut(obj, cuts), _KEYS)
    content = said.get("content")
    if isinstance(content, str):
        return [{**said, "content": content if content.strip() else EMPTY}]
    return [_with_content(said, objects_in(content))]


def _apply_cut(block: JsonObject, shown: Part | None) -> JsonObject:
    match block["type"], shown:
        case "tool_result", ToolResult():
            return {**block, "content": shown.text}
        case "tool_use", ToolCall():
            return {**block, "input": shown.arguments}
        case "text" | "image" | "document", Text():
            marks = with_only_keys(block, ("cache_control",))
            return {**_text_block(shown.text), **marks}
        case _:
            return block


def _with_content(said: JsonObject, content: Sequence[JsonObject]) -> JsonObject:
    full: list[JsonValue] = [_clean_block(block) for block in content if not _is_blank(block)]
    return {**said, "content": full or EMPTY}


def _clean_block(block: JsonObject) -> JsonObject:
    clean = without_keys(block, "cache_control")
    if block["type"] == "tool_result" and isinstance(block.get("content"), list):
        inner: list[JsonValue] = [
            without_keys(b, "cache_control")
            for b in objects_in(block["content"])
            if not _is_blank(b)
        ]
        clean["content"] = inner
    return clean


def _is_blank(block: JsonObject) -> bool:
    return block.get("type") == "text" and not text_or_empty(block.get("text")).strip()


def build(role: Role, parts: Sequence[Part]) -> list[JsonObject]:
    """A message of another shape as the API accepts it; another provider's thinking is left out."""
    shown = [block for part in parts if (block := _build_block(part)) is not None]
    results = [block for block in shown if block["type"] == "tool_result"]
    others = [block for block in shown if block["type"] != "tool_result"]
    if role == "system":
        others.insert(0, _text_block("[system message]"))
    if not shown and role == "assistant":
        return []
    speaker = "assistant" if role == "assistant" else "user"
    if not results and len(others) == 1 and others[0]["type"] == "text":
        text = text_or_empty(others[0]["text"])
        return [{"role": speaker, "content": text if text.strip() else EMPTY}]
    return [_with_content({"role": speaker}, [*results, *others])]


def _build_block(part: Part) -> JsonObject | None:
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
            return None if words is None else _text_block(words)


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def piece_of(obj: JsonObject) -> RenderedMessage:
    """A message with the ids of its calls and results."""
    content = objects_in(obj.get("content"))
    kinds = {text_or_empty(block.get("type")) for block in content}
    return RenderedMessage(
        obj=obj,
        said=obj.get("role") == "assistant",
        binds=not kinds.isdisjoint(("tool_use", *_THINKING)),
        leads=not kinds.isdisjoint(_THINKING),
        calls=tuple(text_or_empty(b.get("id")) for b in content if b.get("type") == "tool_use"),
        results=tuple(
            text_or_empty(b.get("tool_use_id")) for b in content if b.get("type") == "tool_result"
        ),
    )


def merge(objs: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages of one turn as one message, results first."""
    content = [block for obj in objs for block in blocks_of(obj)]
    results = [block for block in content if block["type"] == "tool_result"]
    if not objs or (len(objs) == 1 and content[: len(results)] == results):
        return list(objs)
    merged: list[JsonValue] = [*results]
    merged += [block for block in content if block["type"] != "tool_result"]
    return [{**objs[0], "content": merged}]


def make_result(obj: JsonObject, call: str) -> list[JsonObject]:
    """The result of a call that never got one: the API refuses the request without it."""
    block: JsonObject = {"type": "tool_result", "tool_use_id": call, "content": NO_RESULT}
    return [{"role": "user", "content": [{**block, "is_error": True}]}]


def unpair(obj: JsonObject, numbers: set[int]) -> list[JsonObject]:
    """The message with those of its results as words whose call is not in sight."""
    content: list[JsonValue] = []
    number = -1
    for block in objects_in(obj.get("content")):
        if block["type"] == "tool_result":
            number += 1
            if number in numbers:
                content.append(_text_block(orphan_text(_read_result(block, "a kept message"))))
                continue
        content.append(block)
    return [{**obj, "content": content}]


def finish(objs: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages with a user's first, and without a turn of nothing but thinking."""
    shown = [obj for obj in objs if not _is_only_thinking(obj)]
    if shown and shown[0]["role"] == "system":
        content: list[JsonValue] = [_text_block("[system message]"), *blocks_of(shown[0])]
        shown[0] = {"role": "user", "content": content}
    if shown and shown[0]["role"] == "assistant":
        shown.insert(0, {"role": "user", "content": NOT_RECORDED})
    return shown


def _is_only_thinking(obj: JsonObject) -> bool:
    content = objects_in(obj.get("content"))
    return bool(content) and all(block.get("type") in _THINKING for block in content)


def validate(messages: Sequence[JsonObject]) -> tuple[str, ...]:
    """The faults that the API would refuse, in words."""
    problems = list(find_pairing_problems([piece_of(m) for m in messages], one_answer=True))
    if messages and messages[0].get("role") != "user":
        problems.append(f"message 1: the first role is {messages[0].get('role')}, not user")
    for number, message in enumerate(messages, 1):
        problems += [f"message {number}: {problem}" for problem in _find_content_problems(message)]
    return tuple(problems)


def _find_content_problems(message: JsonObject) -> Iterator[str]:
    content = blocks_of(message)
    kinds = [text_or_empty(block.get("type")) for block in content]
    if message.get("role") not in _ROLES:
        yield f"{message.get('role')} is no role"
    if not content:
        yield "it has no content"
    if any(_is_blank(b) for outer in content for b in (outer, *objects_in(outer.get("content")))):
        yield "a text is empty"
    results = kinds.count("tool_result")
    if kinds[:results] != ["tool_result"] * results:
        yield "its results do not come first"
    if results and message.get("role") != "user":
        yield "results stand in a message that is not the user's"
