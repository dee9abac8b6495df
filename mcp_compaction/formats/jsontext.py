"""JSON text in and out: parsed with care, dumped always the same way."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from pydantic import JsonValue

from mcp_compaction.errors import MalformedMessage
from mcp_compaction.model import JsonObject

MAX_BYTES: Final = 16 * 2**20
MAX_DEPTH: Final = 100

_LONE = re.compile("[\ud800-\udfff]")


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
