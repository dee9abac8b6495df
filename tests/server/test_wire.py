"""What is done with a line before the SDK sees it, and how lines are read and written."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, jsonrpc_message_adapter

from mcp_compaction.server.wire import (
    DEEPEST,
    INVALID_REQUEST,
    PARSE_ERROR,
    Good,
    LineReply,
    LongLine,
    Splitter,
    Wire,
    mend,
)

REQUEST = b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":%s}}'


def refused(line: bytes) -> list[tuple[Any, int]]:
    """The ids and codes of the answer to a line that cannot be served."""
    verdict = mend(line)
    assert isinstance(verdict, LineReply), verdict
    errors = [json.loads(text) for text in verdict.text.split("\n")]
    assert all(JSONRPCError.model_validate(error) for error in errors)
    return [(error["id"], error["error"]["code"]) for error in errors]


def served(line: bytes) -> Any:
    """The line as the SDK reads it."""
    verdict = mend(line)
    assert isinstance(verdict, Good), verdict
    return jsonrpc_message_adapter.validate_json(verdict.text, by_name=False)


@pytest.mark.parametrize(
    "value",
    [
        b'"half',
        b"NaN",
        b"-Infinity",
        b"01",
        b"9" * 5_000,
        b"'x'",
        b'"\x00"',
        b'"\\x"',
        b'"\\ud8zz"',
    ],
)
def test_what_is_not_json_is_a_parse_error_with_its_id(value: bytes) -> None:
    assert refused(REQUEST % value) == [(7, PARSE_ERROR)]


@pytest.mark.parametrize("depth", [DEEPEST, 1_000, 100_000])
@pytest.mark.parametrize("line", [REQUEST, b'{"method":"x","params":{"a":%s},"id":7}'])
def test_what_is_too_deep_is_a_parse_error_with_its_id(depth: int, line: bytes) -> None:
    assert refused(line % (b"[" * depth + b"]" * depth)) == [(7, PARSE_ERROR)]


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"id":"a\\"b","method":', 'a"b'),
        (b'{"params":{"id":1},"id":2,"method":', 2),
        (b'{"method":"id","params":{"text":"\\"id\\":3"},"id":-4,', -4),
        (b'{"params":{"id":1},"method":', None),
        (b'noise {"jsonrpc":"2.0","id":5,"method":"ping"}', 5),
        (b'{"id":1.5,"method":', None),
        (b'{"id":"\\x","method":', None),
        (b'{"id":6,"result":{', None),
        (b'{"result":{},"id":6', None),
        (b"", None),
        (b'{"a":"' + b'\\"' * 50_000 + b'"id":7', None),
        (b'{"params":"' + b"x" * 50_000 + b'\\q","id":8,"jsonrpc":"2.0"}', 8),
        (b'{"params":{"id":9},"a":"' + b"x" * 50_000 + b'\\q"}', None),
    ],
)
def test_the_id_is_found_in_broken_text(line: bytes, id: Any) -> None:
    assert refused(line) == [(id, PARSE_ERROR)]


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 1.5),
        (b'{"jsonrpc":"2.0","id":1}', 1),
        (b'{"jsonrpc":"2.0","id":1,"method":2}', 1),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1),
        (b'{"id":1,"method":"ping"}', 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', 1),
        (b"{}", None),
        (b"7", None),
        (b'"text"', None),
        (b"null", None),
    ],
)
def test_json_that_is_no_request_is_an_invalid_request(line: bytes, id: Any) -> None:
    if id == 1.5:
        verdict = mend(line)
        assert isinstance(verdict, LineReply)
        assert json.loads(verdict.text)["id"] == id
    else:
        assert refused(line) == [(id, INVALID_REQUEST)]


def test_a_batch_is_refused_once_for_each_request() -> None:
    batch = b'[{"id":1,"method":"a"},{"id":"b"},{"id":3,"result":{}},{"method":"n"},7,{"id":null}]'
    assert refused(batch) == [(1, INVALID_REQUEST), ("b", INVALID_REQUEST)]
    assert refused(b"[]") == [(None, INVALID_REQUEST)]


@pytest.mark.parametrize(
    ("escape", "text"),
    [
        (b"\\ud83d", "\ufffd"),
        (b"\\uDE00x", "\ufffdx"),
        (b"\\ud83d\\ud83d\\ude00", "\ufffd\U0001f600"),
        (b"\\ud83d\\n\\ude00", "\ufffd\n\ufffd"),
        (b"\\\\ud83d", "\\ud83d"),
        (b"\\\\\\ud83d", "\\\ufffd"),
        (b"\\ud7ff\\ue000", "\ud7ff\ue000"),
        (b"\xff\xed\xa0\x80", "\ufffd" * 4),
        (b"\xe2\x80\xa8\\u2028", "\u2028\u2028"),
    ],
)
def test_text_that_cannot_be_is_repaired_and_served(escape: bytes, text: str) -> None:
    assert served(REQUEST % (b'"' + escape + b'"')).params == {"a": text}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
field_names = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"])
usual: list[Any] = ["2.0", "ping", 1, {}]
messages = st.dictionaries(field_names, st.sampled_from(usual) | json_values)


def _dump(value: Any, ascii: bool) -> bytes:
    return json.dumps(value, ensure_ascii=ascii).encode("utf-8", "surrogatepass")


loose_json = st.builds(
    _dump, messages | json_values | st.lists(messages, max_size=3), st.booleans()
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """JSON with a piece of it cut out and something else put in."""
    line = draw(loose_json)
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, len(line)))
    return line[:start] + draw(st.binary(max_size=6)) + line[end:]


@pytest.mark.thorough
@settings(max_examples=200)
@given(st.binary() | loose_json | damaged())
@example(b'{"jsonrpc":"2.0","id":' + b"9" * 4_000 + b',"method":""}')
def test_every_line_is_served_or_answered(line: bytes) -> None:
    check(line)


@pytest.mark.thorough
def test_twenty_thousand_damaged_requests_are_served_or_answered() -> None:
    rng = random.Random(4)
    pieces = [
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\ud83d",
        b"id",
        b"null",
        b"9",
        b"\xff",
    ]
    for id in range(20_000):
        line = json.dumps(
            {"jsonrpc": "2.0", "id": id, "method": "m", "params": {"t": "a b"}}
        ).encode()
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(line))
            line = line[:at] + rng.choice(pieces) + line[at + rng.randrange(12) :]
        check(line)


def check(line: bytes) -> None:
    """The SDK reads what is passed on, and sees in it what has to be answered."""
    verdict = mend(line)
    if isinstance(verdict, LineReply):
        answers = verdict.text.split("\n")
        assert all("error" in json.loads(text) for text in answers)
        return
    fields = json.loads(verdict.text)
    if "method" in fields:
        # With an id it must not pass for a notification, which is never answered.
        kind = JSONRPCRequest if "id" in fields else JSONRPCNotification
        assert type(jsonrpc_message_adapter.validate_json(verdict.text, by_name=False)) is kind
    else:
        assert "result" in fields or "error" in fields


@given(st.lists(st.binary(max_size=12)), st.integers(1, 9))
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], size: int) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    stream = b"\n".join(lines)
    splitter = Splitter()
    found: list[bytes | LongLine] = []
    for at in range(0, len(stream), size):
        found += splitter.feed(stream[at : at + size])
    assert [*found, splitter.rest()] == (lines or [b""])


class Ends:
    """The host's ends of a wire's pipes."""

    def __init__(self, longest: int) -> None:
        source, self.stdin = os.pipe()
        self.stdout, sink = os.pipe()
        self.rung = Event()
        self.own = (source, sink)
        self.wire = Wire(source, sink, self.rung.set, longest)

    def answer(self) -> dict[str, Any]:
        assert select.select([self.stdout], [], [], 2)[0]
        return json.loads(os.read(self.stdout, 65_536))


@contextmanager
def opened(longest: int = 1_000) -> Generator[Ends]:
    ends = Ends(longest)
    try:
        yield ends
    finally:
        for fd in (ends.stdin, ends.stdout):
            with suppress(OSError):
                os.close(fd)


def test_the_end_waits_for_lines_that_nobody_has_read_yet() -> None:
    with opened() as ends:
        ends.wire.open()
        os.write(ends.stdin, REQUEST % b"1" + b"\n{\n")
        ends.answer()
        os.close(ends.stdin)
        assert not ends.rung.wait(0.05)
        assert ends.wire.readline()
        assert ends.wire.readline() == ""
        assert ends.rung.is_set()


def test_a_stopped_wire_gives_nothing_more() -> None:
    with opened() as ends:
        ends.wire.open()
        os.write(ends.stdin, REQUEST % b"1" + b"\n{\n")
        ends.answer()
        ends.wire.stop()
        assert ends.wire.over
        assert ends.wire.readline() == ""
        assert ends.rung.is_set()


def test_a_host_that_does_not_read_stops_the_wire() -> None:
    with opened() as ends:
        os.close(ends.stdout)
        ends.wire.send("{}")
        ends.wire.send("{}")
        assert ends.wire.over


def test_a_long_line_is_written_whole_where_writes_are_short_or_would_block() -> None:
    with opened() as ends:
        for fd in ends.own:
            os.set_blocking(fd, False)
        ends.wire.open()
        text = "é" * 300_000
        script = "import sys; sys.exit(len(sys.stdin.buffer.readline()) != 600_001)"
        reader = subprocess.Popen([sys.executable, "-c", script], stdin=ends.stdout)
        ends.wire.send(text)
        assert reader.wait(10) == 0
        os.write(ends.stdin, REQUEST % b"1" + b"\n")
        assert ends.wire.readline()


def test_the_wire_needs_nothing_but_the_standard_library() -> None:
    script = (
        "import sys, mcp_compaction.server.wire as _;"
        "print([name for name in ('mcp', 'anyio', 'pydantic', 'asyncio') if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert loaded.stdout.strip() == b"[]"
