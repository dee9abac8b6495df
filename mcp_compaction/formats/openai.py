"""The chat completions shape: a role, a content, tool calls beside it, results as own messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

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
    with_only_keys,
    without_keys,
    words_of,
)
from mcp_compaction.model import (
    Cut,
    JsonObject,
    Media,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_KEYS = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "audio",
    "reasoning_content",
    "reasoning_details",
)
_MEDIA = {"image_url": "image", "input_audio": "audio", "file": "application/pdf"}


def read(obj: JsonObject, where: str) -> tuple[Role, tuple[Part, ...]]:
    """The role and parts of one message: reasoning, content, then calls."""
    role = _ROLES.get(text_or_empty(obj.get("role")))
    if role is None:
        named = f"the role {obj['role']!r}" if "role" in obj else "no role"
        raise MalformedMessage(f"{where} has {named}; say system, user, assistant or tool.")
    if role == "tool":
        return role, (_read_result(obj, where),)
    if obj.keys().isdisjoint(("content", "tool_calls", "function_call", "refusal", "audio")):
        raise MalformedMessage(f"{where} has no content; give a text or a list of parts.")
    return role, (*_read_thinking(obj), *_read_content(obj, where), *_read_calls(obj, where))


def _read_thinking(obj: JsonObject) -> tuple[Part, ...]:
    reasoning = obj.get("reasoning_content")
    return (Thinking(text=reasoning),) if isinstance(reasoning, str) and reasoning else ()


def _read_content(obj: JsonObject, where: str) -> tuple[Part, ...]:
    content = obj.get("content")
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(_read_part(block) for block in read_blocks(content, where))


def _read_part(block: JsonObject) -> Part:
    match block["type"]:
        case "text":
            return Text(text=text_or_empty(block.get("text")))
        case "image_url" | "input_audio" | "file" as kind:
            return media_of(block, _MEDIA[kind])
        case _:
            return opaque_of(block)


def _read_calls(obj: JsonObject, where: str) -> tuple[ToolCall, ...]:
    legacy = obj.get("function_call")
    old = (_read_legacy_call(legacy, where),) if isinstance(legacy, dict) else ()
    return (*(_read_call(call, where) for call in objects_in(obj.get("tool_calls"))), *old)


def _read_call(call: JsonObject, where: str) -> ToolCall:
    custom, function = call.get("custom"), call.get("function")
    if isinstance(custom, dict):
        name, given = read_required(custom, "name", where), {"input": custom.get("input")}
    elif isinstance(function, dict):
        name, given = (
            read_required(function, "name", where),
            read_arguments(function.get("arguments")),
        )
    else:
        raise MalformedMessage(f"{where} has a tool call without function; add its name.")
    return ToolCall(id=read_required(call, "id", where), name=name, arguments=given)


def _read_legacy_call(call: JsonObject, where: str) -> ToolCall:
    name = read_required(call, "name", where)
    return ToolCall(
        id=_legacy_id_of(name), name=name, arguments=read_arguments(call.get("arguments"))
    )


def _legacy_id_of(name: str) -> str:
    return f"function-{name}"


def _read_result(obj: JsonObject, where: str) -> ToolResult:
    inner = _read_content(obj, where)
    if obj["role"] == "function":
        call = _legacy_id_of(read_required(obj, "name", where))
    else:
        call = read_required(obj, "tool_call_id", where)
    return ToolResult(
        call=call,
        text="\n".join(p.text for p in inner if isinstance(p, Text)),
        has_media=any(isinstance(p, Media) for p in inner),
    )


def cut(obj: JsonObject, cuts: Sequence[Cut]) -> JsonObject:
    """The message with some parts shown shorter, and everything else in it as it was."""
    kept = {**obj}
    content = obj.get("content")
    first = len(_read_thinking(obj))
    for one in cuts:
        match one.shown:
            case ToolResult():
                kept["content"] = one.shown.text
            case ToolCall():
                _cut_call(kept, one.part - first - _count_content_parts(content), one.shown)
            case Text():
                _cut_text(kept, one.part - first, one.shown)
            case _:
                pass
    return kept


def keep(obj: JsonObject, cuts: Sequence[Cut]) -> list[JsonObject]:
    """The original message with its cuts, as the API accepts it."""
    kept = with_only_keys(cut(obj, cuts), _KEYS)
    content = kept.get("content")
    if isinstance(content, list):
        kept["content"] = [
            without_keys(b, "cache_control") if isinstance(b, dict) else b for b in content
        ]
    return [kept]


def _count_content_parts(content: JsonValue) -> int:
    return len(content) if isinstance(content, list) else int(content is not None)


def _cut_text(kept: JsonObject, number: int, shown: Text) -> None:
    content = kept.get("content")
    if isinstance(content, str) and number == 0:
        kept["content"] = shown.text
    elif isinstance(content, list) and 0 <= number < len(content):
        kept["content"] = [
            _text_block(shown.text) if n == number else block for n, block in enumerate(content)
        ]


def _cut_call(kept: JsonObject, number: int, shown: ToolCall) -> None:
    calls = objects_in(kept.get("tool_calls"))
    legacy = kept.get("function_call")
    if 0 <= number < len(calls):
        cut: list[JsonValue] = [
            _with_arguments(call, shown) if n == number else call for n, call in enumerate(calls)
        ]
        kept["tool_calls"] = cut
    elif number == len(calls) and isinstance(legacy, dict):
        kept["function_call"] = {**legacy, "arguments": arguments_text(shown.arguments)}


def _with_arguments(call: JsonObject, shown: ToolCall) -> JsonObject:
    custom, function = call.get("custom"), call.get("function")
    if isinstance(custom, dict):
        return {**call, "custom": {**custom, "input": shown.arguments.get("input", "")}}
    if isinstance(function, dict):
        return {**call, "function": {**function, "arguments": arguments_text(shown.arguments)}}
    return call


def build(role: Role, parts: Sequence[Part]) -> list[JsonObject]:
    """A message of another shape: results first, each its own message, then the words."""
    texts = [words for part in parts if (words := words_of(part)) is not None]
    if role == "assistant":
        return _build_assistant(texts, [p for p in parts if isinstance(p, ToolCall)])
    built: list[JsonObject] = [
        {"role": "tool", "tool_call_id": part.call, "content": result_text(part)}
        for part in parts
        if isinstance(part, ToolResult)
    ]
    if texts or not built:
        speaker = "system" if role == "system" else "user"
        built.append({"role": speaker, "content": _join_texts(texts) or EMPTY})
    return built


def _build_assistant(texts: Sequence[str], calls: Sequence[ToolCall]) -> list[JsonObject]:
    if not texts and not calls:
        return []
    built: JsonObject = {"role": "assistant", "content": _join_texts(texts) or None}
    if calls:
        built["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
            }
            for call in calls
        ]
    return [built]


def _join_texts(texts: Sequence[str]) -> JsonValue:
    if len(texts) < 2:
        return "".join(texts)
    joined: list[JsonValue] = [_text_block(text) for text in texts]
    return joined


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def piece_of(obj: JsonObject) -> RenderedMessage:
    """A message with the ids of its calls and results."""
    role = obj.get("role")
    calls = tuple(text_or_empty(call.get("id")) for call in objects_in(obj.get("tool_calls")))
    legacy = obj.get("function_call")
    if isinstance(legacy, dict):
        calls = (*calls, _legacy_id_of(text_or_empty(legacy.get("name"))))
    results: tuple[str, ...] = ()
    if role == "tool":
        results = (text_or_empty(obj.get("tool_call_id")),)
    elif role == "function":
        results = (_legacy_id_of(text_or_empty(obj.get("name"))),)
    return RenderedMessage(
        obj, said=role == "assistant", binds=bool(calls), calls=calls, results=results
    )


def merge(objs: Sequence[JsonObject]) -> list[JsonObject]:
    """The assistant messages of one turn as one; results stay messages of their own."""
    if len(objs) < 2 or objs[0].get("role") != "assistant":
        return list(objs)
    content: list[JsonValue] = [block for obj in objs for block in _blocks_of(obj)]
    calls: list[JsonValue] = [c for obj in objs for c in objects_in(obj.get("tool_calls"))]
    reasoning = "\n".join(r for obj in objs if (r := text_or_empty(obj.get("reasoning_content"))))
    merged: JsonObject = {}
    for obj in objs:
        merged.update(obj)
    merged["content"] = content or None
    if len(content) == 1 and objects_in(content) and objects_in(content)[0].get("type") == "text":
        merged["content"] = objects_in(content)[0].get("text")
    if calls:
        merged["tool_calls"] = calls
    if reasoning:
        merged["reasoning_content"] = reasoning
    return [merged]


def _blocks_of(obj: JsonObject) -> list[JsonObject]:
    content = obj.get("content")
    if isinstance(content, str):
        return [_text_block(content)] if content else []
    return objects_in(content)


def make_result(obj: JsonObject, call: str) -> list[JsonObject]:
    """The result of a call that never got one: the API refuses the request without it."""
    if isinstance(obj.get("function_call"), dict) and call.startswith("function-"):
        return [{"role": "function", "name": call[9:], "content": NO_RESULT}]
    return [{"role": "tool", "tool_call_id": call, "content": NO_RESULT}]


def unpair(obj: JsonObject, numbers: set[int]) -> list[JsonObject]:
    """The result as words of the user, where its call is not in sight."""
    return [{"role": "user", "content": orphan_text(_read_result(obj, "a kept message"))}]


def finish(objs: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages as they are: nothing more is demanded of them as a whole."""
    return list(objs)


def validate(messages: Sequence[JsonObject]) -> tuple[str, ...]:
    """The faults that the API would refuse, in words."""
    problems = list(find_pairing_problems([piece_of(m) for m in messages], one_assistant=True))
    for number, message in enumerate(messages, 1):
        problems += [f"message {number}: {problem}" for problem in _find_content_problems(message)]
    return tuple(problems)


def _find_content_problems(message: JsonObject) -> Iterator[str]:
    if message.get("role") not in _ROLES:
        yield f"{message.get('role')} is no role"
    if message.get("content") is None and message.get("role") != "assistant":
        yield "it has no content"
    if message.get("tool_calls") == []:
        yield "its list of tool calls is empty"
