"""The Responses API's shape: a flat list of items, each of them one message."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from mcp_compaction.core.log.content import compact_json
from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.content import (
    EMPTY,
    NO_RESULT,
    RenderedMessage,
    arguments_text,
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
    without_keys,
    words_of,
)
from mcp_compaction.model import Cut, JsonObject, Part, Role, Text, Thinking, ToolCall, ToolResult

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_TEXTS = ("input_text", "output_text", "text", "refusal")
_MEDIA = {"input_image": "image", "input_file": "application/pdf", "input_audio": "audio"}
_BOOKKEEPING = ("timestamp", "created_at", "uuid", "usage", "model", "cache_control")


def read(obj: JsonObject, where: str) -> tuple[Role, tuple[Part, ...]]:
    """The role and parts of one item."""
    kind = obj.get("type", "message")
    if not isinstance(kind, str):
        raise MalformedMessage(f"{where} has no type; name the item's type.")
    if kind == "message":
        return _read_message(obj, where)
    if kind == "reasoning":
        words = [*objects_in(obj.get("summary")), *objects_in(obj.get("content"))]
        return "assistant", (Thinking(text="\n".join(text_or_empty(w.get("text")) for w in words)),)
    if _is_call(obj):
        return "assistant", (_read_call(obj, where),)
    if _is_result(obj):
        return "tool", (_read_result(obj, where),)
    return _ROLES.get(text_or_empty(obj.get("role")), "assistant"), (opaque_of(obj),)


def _is_call(obj: JsonObject) -> bool:
    kind = text_or_empty(obj.get("type"))
    is_paired = isinstance(obj.get("call_id"), str) and kind.endswith("_call")
    return is_paired or kind in ("function_call", "custom_tool_call")


def _is_result(obj: JsonObject) -> bool:
    kind = text_or_empty(obj.get("type"))
    is_paired = isinstance(obj.get("call_id"), str) and kind.endswith("_output")
    return is_paired or kind in ("function_call_output", "custom_tool_call_output")


def _read_message(obj: JsonObject, where: str) -> tuple[Role, tuple[Part, ...]]:
    role = _ROLES.get(text_or_empty(obj.get("role")))
    if role is None:
        named = f"the role {obj['role']!r}" if "role" in obj else "no role"
        raise MalformedMessage(f"{where} has {named}; say system, developer, user or assistant.")
    content = obj.get("content")
    if isinstance(content, str):
        return role, (Text(text=content),)
    return role, tuple(_read_part(block) for block in read_blocks(content, where))


def _read_part(block: JsonObject) -> Part:
    kind = text_or_empty(block["type"])
    if kind in _TEXTS:
        return Text(text=text_or_empty(block.get("text")) or text_or_empty(block.get("refusal")))
    return media_of(block, _MEDIA[kind]) if kind in _MEDIA else opaque_of(block)


def _read_call(obj: JsonObject, where: str) -> ToolCall:
    kind = text_or_empty(obj["type"])
    match kind:
        case "function_call":
            name, given = read_required(obj, "name", where), read_arguments(obj.get("arguments"))
        case "custom_tool_call":
            name, given = read_required(obj, "name", where), {"input": obj.get("input")}
        case _:
            # A call of a built-in tool: paired by its id like any other.
            name = text_or_empty(obj.get("name")) or kind.removesuffix("_call")
            given = without_keys(obj, "type", "id", "call_id", "name", "status")
    return ToolCall(id=read_required(obj, "call_id", where), name=name, arguments=given)


def _read_result(obj: JsonObject, where: str) -> ToolResult:
    output = obj.get("output")
    inner = objects_in(output)
    texts = [text_or_empty(b.get("text")) for b in inner if b.get("type") in _TEXTS]
    return ToolResult(
        call=read_required(obj, "call_id", where),
        text=output if isinstance(output, str) else "\n".join(texts) or opaque_of(obj).text,
        has_media=any(text_or_empty(b.get("type")) in _MEDIA for b in inner),
    )


def cut(obj: JsonObject, cuts: Sequence[Cut]) -> JsonObject:
    """The item with some parts shown shorter, and everything else in it as it was."""
    kept = {**obj}
    for one in cuts:
        match text_or_empty(obj.get("type", "message")), one.shown:
            case "message", Text():
                kept["content"] = _cut_text(kept.get("content"), one.part, one.shown)
            case "function_call", ToolCall():
                kept["arguments"] = arguments_text(one.shown.arguments)
            case "custom_tool_call", ToolCall():
                given = one.shown.arguments.get("input")
                kept["input"] = (
                    given if isinstance(given, str) else compact_json(one.shown.arguments)
                )
            case (("function_call_output" | "custom_tool_call_output"), ToolResult()):
                kept["output"] = one.shown.text
            case _:
                pass
    return kept


def keep(obj: JsonObject, cuts: Sequence[Cut]) -> list[JsonObject]:
    """The original item with its cuts, without what only the log needs to know."""
    return [without_keys(cut(obj, cuts), *_BOOKKEEPING)]


def _cut_text(content: JsonValue, number: int, shown: Text) -> JsonValue:
    if not isinstance(content, list):
        return shown.text
    cut: list[JsonValue] = []
    for n, block in enumerate(content):
        if n == number and isinstance(block, dict):
            kind = block.get("type")
            kind = kind if kind == "output_text" else "input_text"
            cut.append({"type": kind, "text": shown.text})
        else:
            cut.append(block)
    return cut


def build(role: Role, parts: Sequence[Part]) -> list[JsonObject]:
    """A message of another shape as items: results first, calls and words in their order."""
    results = [_build_result(part) for part in parts if isinstance(part, ToolResult)]
    others = [
        item
        for part in parts
        if not isinstance(part, ToolResult) and (item := _build_item(role, part)) is not None
    ]
    if not results and not others and role != "assistant":
        return [_build_message(role, EMPTY)]
    return [*results, *others]


def _build_result(part: ToolResult) -> JsonObject:
    return {"type": "function_call_output", "call_id": part.call, "output": result_text(part)}


def _build_item(role: Role, part: Part) -> JsonObject | None:
    if isinstance(part, ToolCall):
        return {
            "type": "function_call",
            "call_id": part.id,
            "name": part.name,
            "arguments": arguments_text(part.arguments),
        }
    words = words_of(part)
    return _build_message(role, words) if words else None


def _build_message(role: Role, text: str) -> JsonObject:
    speaker = role if role in ("assistant", "system") else "user"
    kind = "output_text" if role == "assistant" else "input_text"
    content: list[JsonValue] = [{"type": kind, "text": text}]
    return {"type": "message", "role": speaker, "content": content}


def piece_of(obj: JsonObject) -> RenderedMessage:
    """An item with the ids of its calls and results."""
    call = text_or_empty(obj.get("call_id"))
    if _is_result(obj):
        return RenderedMessage(obj, said=False, results=(call,))
    if _is_call(obj):
        return RenderedMessage(obj, said=True, binds=True, calls=(call,))
    is_user = _ROLES.get(text_or_empty(obj.get("role")), "assistant") != "assistant"
    return RenderedMessage(obj, said=not is_user, binds=obj.get("type") == "reasoning")


def merge(objs: Sequence[JsonObject]) -> list[JsonObject]:
    """The items as they are: a turn is a run of items."""
    return list(objs)


def make_result(obj: JsonObject, call: str) -> list[JsonObject]:
    """The result of a call that never got one: the API refuses the request without it."""
    kind = text_or_empty(obj.get("type"))
    if kind not in ("function_call", "custom_tool_call"):
        return []
    return [{"type": f"{kind}_output", "call_id": call, "output": NO_RESULT}]


def unpair(obj: JsonObject, numbers: set[int]) -> list[JsonObject]:
    """The result as words of the user, where its call is not in sight."""
    return [_build_message("user", orphan_text(_read_result(obj, "a kept message")))]


def finish(objs: Sequence[JsonObject]) -> list[JsonObject]:
    """The items without reasoning that leads to nothing, which the API refuses."""
    shown: list[JsonObject] = []
    for obj in reversed(objs):
        leads_on = bool(shown) and piece_of(shown[-1]).said
        if obj.get("type") != "reasoning" or leads_on:
            shown.append(obj)
    return shown[::-1]


def validate(messages: Sequence[JsonObject]) -> tuple[str, ...]:
    """The faults that the API would refuse, in words."""
    pieces = [piece_of(m) for m in messages]
    problems = list(find_pairing_problems(pieces))
    for number, item in enumerate(messages, 1):
        kind = item.get("type", "message")
        if kind == "reasoning" and not (number < len(pieces) and pieces[number].said):
            problems.append(f"message {number}: reasoning without the item it led to")
        if kind == "message" and item.get("role") not in _ROLES:
            problems.append(f"message {number}: {item.get('role')} is no role")
    return tuple(problems)
