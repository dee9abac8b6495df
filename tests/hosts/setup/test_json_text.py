"""JSON edited as text: an insertion and its removal leave every byte as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.hosts.setup.json_text import KeyPath, UnreadableJson, insert, parse, remove

KEYS = st.sampled_from(["a", "b", "mcpServers", "hooks", 'q"', "ä"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["", "x // no", "/* no */", "{"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
BLANKS = st.sampled_from(
    ["", " ", "\n", "\n  ", "\n\t", " // why\n", " /* why */ ", "\n  // on\n  "]
)
NEW: Any = {"command": "/opt/with space/it", "hooks": [{"type": "x"}]}


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value as somebody may have written it, with comments and commas at ends."""
    if not isinstance(value, (dict, list)):
        return json.dumps(value)
    parts: list[str] = []
    is_object = isinstance(value, dict)
    items: list[Any] = [*value]  # of an object: its keys
    for item in items:
        inner = draw(written(value[item] if is_object else item))
        name = f"{json.dumps(item)}{draw(BLANKS)}:{draw(BLANKS)}" if is_object else ""
        parts.append(f"{draw(BLANKS)}{name}{inner}{draw(BLANKS)}")
    body = ",".join(parts) + ("," if parts and draw(st.booleans()) else "") + draw(BLANKS)
    return f"{{{body}}}" if is_object else f"[{body}]"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A file of a host, with a mark, line ends and an end of some kind."""
    value = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    text = draw(BLANKS) + draw(written(value)) + draw(st.sampled_from(["", "\n", "\r\n", "\n\n"]))
    text = text.replace("\n", "\r\n") if draw(st.booleans()) else text
    return draw(st.sampled_from(["", "\ufeff"])) + text


def as_inserted(data: Any, path: KeyPath) -> Any:
    """The data with the new value at a path, by other means."""
    key, rest = path[0], path[1:]
    if key == -1:
        return [*(data or []), NEW]
    there: dict[str | int, Any] = data or {}
    return {**there, key: as_inserted(there.get(key), rest) if rest else NEW}


PATHS = st.sampled_from(
    [("new",), ("new", "compaction"), ("new", "Stop", -1), ("a", "new"), ("hooks", "new", -1)]
)


@given(texts(), PATHS)
def test_what_is_inserted_is_there_and_removed_again_to_the_byte(text: str, path: KeyPath) -> None:
    data = parse(text).data
    if path[0] != "new" and not isinstance(data.get(path[0], {}), dict):
        with pytest.raises(ValueError, match="is taken"):
            insert(text, path, NEW)
        return
    after = insert(text, path, NEW)
    assert parse(after).data == as_inserted(data, path)
    made = next(n for n in range(1, len(path) + 1) if parse(text).find(path[:n]) is None)
    assert remove(after, path[:made]) == text


@given(texts(), st.lists(SCALARS, min_size=1, max_size=3))
def test_what_others_add_after_an_insertion_stays(text: str, later: list[Any]) -> None:
    edited = insert(text, ("new", "ours"), NEW)
    expected = text
    for number, value in enumerate(later):
        edited = insert(edited, (f"later{number}",), value)
        expected = insert(expected, (f"later{number}",), value)
    assert parse(remove(edited, ("new",))).data == parse(expected).data


NO_JSON = ("", "{", '{"a": }', '{"a" 1}', '{"a": 1 "b": 2}', "{} {}", '{"a": 1, "a": 2}', "{a: 1}")
NO_VALUES = ('{"a": 01}', '{"a": "\\x"}', '{"a": "x\n"}', "{,}", "[1,,2]", "nil", '{"a\\x": 1}')


@pytest.mark.parametrize("text", [*NO_JSON, *NO_VALUES, "[" * 9999])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(UnreadableJson):
        parse(text)


@given(VALUES)
def test_all_that_json_writes_is_read_the_same(value: Any) -> None:
    assert parse(json.dumps(value), allow_comments=False).data == value
    assert parse(json.dumps(value, indent=2)).data == value
