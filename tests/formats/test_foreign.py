"""Files that hold no messages are refused whole, by name and with the next step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction import formats
from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.foreign import FOREIGN, FormatMark
from mcp_compaction.model import Shape
from tests.foreign_files import CHATGPT, CLAUDE_CODE, FILES, File
from tests.strategies import SHAPES, Scene, scripts, write

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


@each_file
def test_a_file_of_another_program_is_refused_by_name(file: File) -> None:
    for send in (
        lambda: formats.read_incoming_text(file.text),
        lambda: formats.read_incoming(file.content),
    ):
        with pytest.raises(MalformedMessage) as caught:
            send()
        said = str(caught.value)
        assert f"this is {file.name}, not a list of messages; nothing was recorded. " in said
        assert said.endswith(next(f.next_step for f in FOREIGN if f.name == file.name))


def test_every_format_of_the_table_has_a_file() -> None:
    assert {foreign.name for foreign in FOREIGN} == {file.name for file in FILES}


@pytest.mark.parametrize("number", range(len(CLAUDE_CODE)))
def test_one_line_of_a_transcript_among_messages_is_enough(number: int) -> None:
    lines = [{"role": "user", "content": "x"}, CLAUDE_CODE[number]]
    with pytest.raises(MalformedMessage, match=r"^line 2: this is a Claude Code transcript"):
        formats.read_incoming_text("\n".join(map(json.dumps, lines)))


def test_a_conversation_over_the_size_of_a_message_is_named_all_the_same() -> None:
    long = [{**CHATGPT[0], "note": "x" * 2**24}]
    with pytest.raises(MalformedMessage, match=r"^message 1: this is a ChatGPT export"):
        formats.read_incoming(long)


MARKS = sorted({key for foreign in FOREIGN for mark in foreign.marks for key in mark.keys})


@pytest.mark.parametrize("shape", SHAPES)
@given(script=scripts(max_steps=3), keys=st.sets(st.sampled_from(MARKS)))
@settings(deadline=None)
def test_messages_may_carry_any_key_of_another_format(
    shape: Shape, script: list[Scene], keys: set[str]
) -> None:
    messages: Any = write(script, shape)
    more = dict.fromkeys(keys - {"type", "content"}, "x")
    dressed = [{**more, **message} for message in messages]
    assert len(formats.read_incoming(dressed).messages) == len(messages)


ODD: list[Any] = [None, True, -1, 1e300, "", "user", [], ["user"], [[{}]], {}, {"type": "user"}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    "mark",
    [mark for foreign in FOREIGN for mark in foreign.marks],
    ids=lambda mark: " ".join(sorted(mark.keys)),
)
def test_an_odd_value_under_any_key_is_refused_and_breaks_nothing(
    mark: FormatMark, odd: Any
) -> None:
    known = dict.fromkeys(mark.keys, "x") | {"type": min(mark.types, default="x")}
    for key in known:
        with pytest.raises(MalformedMessage):
            formats.read_incoming([known | {key: odd}])


@pytest.mark.parametrize(
    ("element", "words"),
    [
        ({"type": "human", "content": "hi"}, "has the type 'human', which no message has; "),
        ({"type": "result", "result": "x"}, "has the type 'result', which no message has; "),
        ({"type": "text", "text": "hi"}, "has the type 'text', which no message has; "),
        ({"type": "x" * 999}, f"has the type '{'x' * 40}', which"),
        ({"from": "human", "value": "hi"}, "has no role; "),
        ({"role": "user", "parts": [{"text": "hi"}]}, "has no content; "),
        ({"role": "model", "parts": [{"text": "hi"}]}, "has the role 'model'; "),
        ({"role": "user", "type": "message"}, "has no content; "),
    ],
)
def test_what_is_no_message_is_refused_by_its_place(element: Any, words: str) -> None:
    good = {"role": "user", "content": "x"}
    with pytest.raises(MalformedMessage) as caught:
        formats.read_incoming([good, element, {"type": "later"}])
    assert str(caught.value).startswith(f"message 2 {words}")


def test_items_newer_than_this_program_are_kept_where_a_request_holds_them() -> None:
    item: Any = {"type": "hologram", "text": "hi"}
    assert len(formats.read_incoming({"input": [item]}).messages) == 1
    with pytest.raises(MalformedMessage):
        formats.read_incoming({"messages": [item]})
