"""Makes a line from the host servable, or says why it is not: bytes in, a verdict out.

The SDK drops what it cannot read without a word, and the host then waits for its own time-out.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, cast

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

# The SDK's parser gives up at 202.
DEEPEST = 200

# How much of each end of a broken line is searched for its id.
EDGE = 16_384

RequestId = str | int | float


@dataclass(frozen=True)
class Good:
    """A line the SDK can read."""

    text: str


@dataclass(frozen=True)
class LineReply:
    """The reply, of one or more lines, to a line that cannot be served."""

    text: str


_SURROGATE = re.compile(
    r"(?P<keep>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?!u[dD][89a-fA-F]).)"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
_STRING = r'"(?:[^"\\]|\\(?:.|\Z))*+(?:"|\Z)'
_ID = r'"id"\s*+:\s*+(?P<id>-?[0-9]{1,100}(?![0-9.eE])|"(?:[^"\\]|\\.)*+")'
_TOKEN = re.compile(
    rf'{_ID}|(?P<reply>"(?:result|error)"\s*+:)|{_STRING}|(?P<open>[\[{{])|(?P<close>[\]}}])',
    re.DOTALL,
)
_ID_AT_END = re.compile(
    _ID + r'\s*+(?:,\s*+"(?:jsonrpc|method)"\s*+:\s*+"[^"\\]*+"\s*+)*+}\s*+\Z', re.DOTALL
)
_STRINGS = re.compile(_STRING, re.DOTALL)
_NOT_BRACKETS = re.compile(r"[^\[\]{}]+")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def mend(line: bytes) -> Good | LineReply:
    """The line repaired where that can be done without guessing, else the error to send back."""
    text = _without_lone_surrogates(line.decode("utf-8-sig", "replace").strip())
    if _depth(text) > DEEPEST:
        return refuse(text, f"nested deeper than {DEEPEST} levels; flatten it and send it again")
    try:
        message: object = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return refuse(text, f"not valid JSON ({error}); send one JSON-RPC object per line")
    except RecursionError:
        return refuse(text, "nested too deeply; flatten it and send it again")
    except ValueError:
        return refuse(text, "a number is too long, or none at all; send it as a string")
    return _verdict(message, text)


def refuse(text: str, reason: str, tail: str = "") -> LineReply:
    """A parse error that carries the id of the broken request, where its text shows one."""
    return LineReply(_error(_id_in(text, tail or text[-EDGE:]), PARSE_ERROR, reason))


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _without_lone_surrogates(text: str) -> str:
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _SURROGATE.sub(lambda escape: escape["keep"] or "\\ufffd", text)


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") <= DEEPEST:
        return 0
    brackets = _NOT_BRACKETS.sub("", _STRINGS.sub("", text))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def _verdict(message: object, text: str) -> Good | LineReply:
    if isinstance(message, list):
        return _refuse_batch(cast("list[object]", message))
    if not isinstance(message, dict):
        reason = "a message is a JSON object; send one JSON-RPC object per line"
        return LineReply(_error(None, INVALID_REQUEST, reason))
    fields = cast("dict[str, Any]", message)
    fault = _fault(fields)
    if fault is None:
        return Good(text)
    return LineReply(_error(_usable(fields.get("id")), INVALID_REQUEST, fault))


def _refuse_batch(batch: list[object]) -> LineReply:
    requests = [cast("dict[str, Any]", item) for item in batch if isinstance(item, dict)]
    ids = [_usable(item.get("id")) for item in requests if not _is_reply(item)]
    known = [one for one in ids if one is not None]
    reason = "batches are not supported; send one JSON-RPC object per line"
    return LineReply("\n".join(_error(one, INVALID_REQUEST, reason) for one in known or [None]))


def _is_reply(fields: dict[str, Any]) -> bool:
    return "method" not in fields and ("result" in fields or "error" in fields)


def _fault(fields: dict[str, Any]) -> str | None:
    # A reply is never answered: two peers that did so would not stop.
    if _is_reply(fields):
        return None
    if not isinstance(fields.get("method"), str):
        return "`method` is missing or not a string"
    if "result" in fields or "error" in fields:
        return "a message is a request or a reply, not both; drop `result` and `error`"
    if fields.get("jsonrpc") != "2.0":
        return '`jsonrpc` must be "2.0"'
    if not isinstance(fields.get("params"), dict | None):
        return "`params` must be an object"
    if "id" in fields and (_usable(fields["id"]) is None or isinstance(fields["id"], float)):
        return "`id` must be a string or an integer; leave it out of a notification"
    return None


def _usable(value: object) -> RequestId | None:
    match value:
        case bool():
            return None
        case float():
            return value if math.isfinite(value) else None
        case str() | int():
            return value
        case _:
            return None


def _error(id: RequestId | None, code: int, message: str) -> str:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error})


def _id_in(text: str, tail: str) -> RequestId | None:
    found = _id_near_start(text[:EDGE])
    # Only where the middle was not read may the end speak for the whole.
    if found is None and (len(text) > EDGE or not text.endswith(tail)):
        at_end = _ID_AT_END.search(tail)
        found = at_end["id"] if at_end else None
    try:
        return None if found is None else _usable(json.loads(found))
    except ValueError:
        return None


def _id_near_start(head: str) -> str | None:
    depth, found = 0, None
    for token in _TOKEN.finditer(head):
        depth += bool(token["open"]) - bool(token["close"])
        if depth <= 1 and token["reply"]:
            return None
        if depth <= 1 and found is None:
            found = token["id"]
    return found
