"""Parts of a message that the three shapes have in common: blocks, texts, arguments, media; JSON as
text; and the order every provider demands: what was called, its results directly after, then the
rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from pydantic import JsonValue

from mcp_compaction.core.log.content import compact_json
from mcp_compaction.errors import MalformedMessage
from mcp_compaction.model import Cut, JsonObject, Media, Opaque, Part, Text, Thinking, ToolResult

MAX_BYTES: Final = 16 * 2**20
MAX_DEPTH: Final = 100

_LONE = re.compile("[\ud800-\udfff]")

EMPTY: Final = "(empty)"
NO_RESULT: Final = "(no result was recorded)"

_WORDED = ("name", "tool_name", "title", "url", "text", "refusal", "content", "summary", "output")
_REACH = 64  # a batch whose results are strewn over more messages is not put together again


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parse(raw: str, where: str) -> JsonValue:
    """The value of a JSON text, fit for the model: no lone surrogates, no bottomless nesting."""
    try:
        value: JsonValue = _DECODER.decode(raw)
    except json.JSONDecodeError as error:
        if not raw.lstrip().startswith(("{", "[", '"')):
            raise MalformedMessage(
                f"{where} is no JSON; send messages such as "
                '{"role": "user", "content": "Hello"}, one a line.'
            ) from None
        at = f"line {error.lineno} column {error.colno}" if "\n" in raw else f"column {error.colno}"
        raise MalformedMessage(
            f"{where} is not valid JSON: {error.msg} at {at}; send it complete."
        ) from None
    except ValueError as error:
        raise MalformedMessage(f"{where} is not valid JSON: {error}; correct it.") from None
    except RecursionError:
        raise _too_deep(where) from None
    if raw.count("{") + raw.count("[") > MAX_DEPTH:
        check_depth(value, where)
    return scrub(value) if "\\ud" in raw or "\\uD" in raw else value


def parse_object(raw: str, where: str) -> JsonObject:
    """The object of a JSON text."""
    value = parse(raw, where)
    if not isinstance(value, dict):
        raise MalformedMessage(
            f"{where} is not a JSON object; send an object with role and content."
        )
    return value


def check_depth(value: JsonValue, where: str) -> None:
    """Refuse what nests deeper than any message does."""
    level: list[JsonValue] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise _too_deep(where)


def scrub(value: JsonValue) -> JsonValue:
    """The same value with each lone surrogate, which no store can hold, as U+FFFD."""
    match value:
        case str():
            return _LONE.sub("\ufffd", value)
        case list():
            return [scrub(inner) for inner in value]
        case dict():
            return {_LONE.sub("\ufffd", key): scrub(inner) for key, inner in value.items()}
        case _:
            return value


def is_encodable(text: str) -> bool:
    """Whether a text holds no lone surrogate."""
    return text.isascii() or _LONE.search(text) is None


def dump_canonical(value: JsonValue) -> str:
    """One JSON text for equal values: keys sorted, in ASCII, so that any text can be written."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def dump_original(value: JsonValue, where: str) -> str:
    """The JSON text that is kept of a value; in ASCII only where UTF-8 could not write it."""
    try:
        raw = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise MalformedMessage(
            f"{where} holds a number JSON has no word for; correct it."
        ) from None
    except TypeError as error:
        raise MalformedMessage(
            f"{where} holds what JSON cannot write ({error}); of an SDK's object send what its "
            "to_dict() gives."
        ) from None
    return raw if is_encodable(raw) else json.dumps(value, separators=(",", ":"))


def check_size(raw: str, where: str) -> None:
    """Refuse a message over the size limit."""
    if 4 * len(raw) <= MAX_BYTES:
        return
    size = len(raw) if raw.isascii() else len(raw.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise MalformedMessage(
            f"{where} has {size:,} bytes, over the limit of {MAX_BYTES:,}; "
            "write its bulk to a file and send the path."
        )


def _too_deep(where: str) -> MalformedMessage:
    return MalformedMessage(
        f"{where} nests deeper than {MAX_DEPTH} levels; flatten it or send the inner part as text."
    )


def text_or_empty(value: JsonValue) -> str:
    """The value if it is a text, else no text."""
    return value if isinstance(value, str) else ""


def objects_in(value: JsonValue) -> list[JsonObject]:
    """The objects of a list; anything else has none."""
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def blocks_of(message: JsonObject) -> list[JsonObject]:
    """The blocks of a message of the Messages API; a plain text is one."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects_in(content)


def read_blocks(content: JsonValue, where: str) -> list[JsonObject]:
    """A list content, each entry checked to be a block with a type."""
    if not isinstance(content, list):
        raise MalformedMessage(f"{where} has no content; give a text or a list of blocks.")
    for number, block in enumerate(content, 1):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise MalformedMessage(f"{where}, block {number} has no type; name its type.")
    return objects_in(content)


def read_required(block: JsonObject, key: str, where: str) -> str:
    """The text under a key that must be there."""
    value = block.get(key)
    if not isinstance(value, str) or not value:
        kind = text_or_empty(block.get("type")) or "a tool message"
        raise MalformedMessage(f"{where} has {kind} without {key}; add the {key}.")
    return value


def read_arguments(text: JsonValue) -> JsonObject:
    """A tool call's arguments as an object; what is none is kept under `_raw`."""
    if isinstance(text, dict):
        return text
    if not isinstance(text, str) or not text.strip():
        return {}
    try:
        value = parse(text, "")
    except MalformedMessage:
        return {"_raw": text}
    return value if isinstance(value, dict) else {"_raw": text}


def arguments_text(given: JsonObject) -> str:
    """A tool call's arguments as the JSON text they came from."""
    raw = given.get("_raw")
    return raw if isinstance(raw, str) and len(given) == 1 else compact_json(given)


def media_of(block: JsonObject, fallback: str) -> Media:
    """The media of a block, by the type its source or its data URL names."""
    source = block.get("source")
    named = text_or_empty(source.get("media_type")) if isinstance(source, dict) else ""
    link = block.get("image_url")
    url = text_or_empty(link.get("url")) if isinstance(link, dict) else text_or_empty(link)
    if url.startswith("data:"):
        named = url[5:100].split(";")[0].split(",")[0]
    return Media(media_type=named or fallback)


def opaque_of(block: JsonObject) -> Opaque:
    """A block that is kept whole, with whatever words it shows."""
    return Opaque(
        type=text_or_empty(block.get("type")) or "unknown", text="\n".join(_words_in(block))
    )


def _words_in(value: JsonValue) -> list[str]:
    match value:
        case str():
            return [value] if value else []
        case list():
            return [word for inner in value for word in _words_in(inner)]
        case dict():
            words = [word for key in _WORDED if key in value for word in _words_in(value[key])]
            given = value.get("input")
            return [*words, compact_json(given)] if given else words
        case _:
            return []


def with_cuts(parts: Sequence[Part], cuts: Sequence[Cut]) -> tuple[Part, ...]:
    """The parts as a view shows them; what a provider signs or hides stays whole."""
    shown = list(parts)
    for cut in cuts:
        if cut.part < len(shown) and not isinstance(shown[cut.part], Thinking | Opaque):
            shown[cut.part] = cut.shown
    return tuple(shown)


def without_keys(obj: JsonObject, *keys: str) -> JsonObject:
    """The object without some of its keys."""
    return {key: value for key, value in obj.items() if key not in keys}


def with_only_keys(obj: JsonObject, keys: Sequence[str]) -> JsonObject:
    """The object with no other keys than these."""
    return {key: value for key, value in obj.items() if key in keys}


def result_text(result: ToolResult) -> str:
    """The text of a result that another provider is shown."""
    return result.text or ("[media]" if result.has_media else "")


def orphan_text(result: ToolResult) -> str:
    """A result whose call is not in sight, as words."""
    return f"[result of {result.call}]\n{result_text(result) or EMPTY}"


def words_of(part: Part) -> str | None:
    """The text for a part where only text can stand; None where nothing should."""
    match part:
        case Text():
            return part.text
        case Media():
            return f"[{part.media_type}]"
        case Opaque():
            return part.text or f"[{part.type}]"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """One rendered message and what it has to do with calls and results."""

    obj: JsonObject
    said: bool  # by the assistant
    binds: bool = False  # holds calls or thinking: belongs to the assistant messages next to it
    leads: bool = False  # holds thinking that must come before the first call of its turn
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


@dataclass(slots=True)
class Group:
    """One assistant turn with the results of its calls, and what was said before the next one."""

    said: list[RenderedMessage] = field(default_factory=list[RenderedMessage])
    answers: list[RenderedMessage] = field(default_factory=list[RenderedMessage])
    others: list[RenderedMessage] = field(default_factory=list[RenderedMessage])

    def unanswered_calls(self) -> Iterator[tuple[RenderedMessage, str]]:
        """The calls that no result in this group belongs to."""
        answered = [call for piece in self.answers for call in piece.results]
        for piece in self.said:
            for call in piece.calls:
                if call in answered:
                    answered.remove(call)
                else:
                    yield piece, call


@dataclass(slots=True)
class _Matches:
    breaks: set[int] = field(default_factory=set[int])
    until: dict[int, int] = field(default_factory=dict[int, int])
    orphans: dict[int, set[int]] = field(default_factory=dict[int, set[int]])


def find_orphans(pieces: Sequence[RenderedMessage]) -> dict[int, set[int]]:
    """The results without a call they could belong to, by the position of their piece."""
    return _match(pieces).orphans


def group_pieces(pieces: Sequence[RenderedMessage]) -> list[Group]:
    """The pieces in provider order; a batch whose results came in between is put together again."""
    matches = _match(pieces)
    found = [Group()]
    end = -1
    for position, piece in enumerate(pieces):
        group = found[-1]
        if piece.said:
            belongs = position <= end or _continues(group, piece)
            if position in matches.breaks or not belongs:
                found.append(group := Group())
            group.said.append(piece)
            end = max(end, matches.until.get(position, -1))
        elif piece.results:
            group.answers.append(piece)
        else:
            group.others.append(piece)
    return found


def _continues(group: Group, piece: RenderedMessage) -> bool:
    if not group.said or group.answers or group.others:
        return False
    return piece.binds or group.said[-1].binds


def _match(pieces: Sequence[RenderedMessage]) -> _Matches:
    found = _Matches()
    waiting: dict[str, int] = {}
    batch: set[str] = set()
    has_led = was_interrupted = False
    for position, piece in enumerate(pieces):
        if piece.said:
            # Once a user spoke and the model went on, an id is used again or a new turn is
            # begun with thinking, a late result answers nothing any more.
            is_new = bool(waiting) and piece.leads and not has_led
            if was_interrupted or is_new or not batch.isdisjoint(piece.calls):
                found.breaks.add(position)
                waiting.clear()
                has_led = False
            has_led = has_led or piece.leads
            batch = batch.union(piece.calls) if waiting else set(piece.calls)
            waiting |= dict.fromkeys(piece.calls, position)
            was_interrupted = False
            continue
        strays: set[int] = set()
        for number, call in enumerate(piece.results):
            caller = waiting.pop(call, None)
            if caller is None or position - caller > _REACH:
                strays.add(number)
            else:
                found.until[caller] = position
        if strays:
            found.orphans[position] = strays
        if len(strays) == len(piece.results):
            was_interrupted = bool(waiting)
        has_led = has_led and bool(waiting)
    return found


def find_pairing_problems(
    pieces: Sequence[RenderedMessage], *, one_assistant: bool = False, one_answer: bool = False
) -> Iterator[str]:
    """The faults in calls and results that a provider would refuse, in words."""
    waiting: dict[str, int] = {}
    is_closed = False
    for number, piece in enumerate(pieces, 1):
        if waiting and not piece.results and (is_closed or not piece.said):
            yield from _complain_of_unanswered(waiting)
        if piece.said:
            for call in piece.calls:
                if call in waiting:
                    yield f"message {number}: call {call} was already made in this batch"
                waiting[call] = number
            is_closed = one_assistant and bool(piece.calls)
        for call in piece.results:
            if waiting.pop(call, None) is None:
                yield f"message {number}: result {call} does not follow a call of that id"
        if piece.results:
            is_closed = True
            if one_answer and number < len(pieces):
                yield from _complain_of_unanswered(waiting)


def _complain_of_unanswered(waiting: dict[str, int]) -> Iterator[str]:
    for call, number in waiting.items():
        yield f"message {number}: call {call} has no result directly after it"
    waiting.clear()
