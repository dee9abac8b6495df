"""TOML edited as text: a table put in and taken out leaves every byte as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.hosts.setup.edits import UnreadableToml, insert_table, parse, remove_table

AT = ("mcp_servers", "compaction")
TAG = "Written by a test"
TABLE: dict[str, Any] = {
    "command": '/opt/a "quoted" \\ place/it\x7f',
    "args": ["x y", "ü"],
    "env": {"CODEX HOME": "/c"},
    "required": True,
    "tools": {"pin": {"mode": "approve"}},
}
PIECES = (
    "# a comment\n",
    "\n",
    "   \n",
    '[mcp_servers.other]\ncommand = "x" # why\n',
    '[mcp_servers."comp.action"]\ncommand = "x"\n',
    '[projects."/a]b"]\ntrust_level = "trusted"\n# after\n',
    "[[profiles]]\nlist = [\n  [1, 2],\n  # [mcp_servers.compaction]\n]\n",
    'text = """\n[mcp_servers.compaction]\n"""\n',
    "literal = '''\n[x]\n'''\n",
    "[ spaced . 'name' ]\nk = { a = 1 }\n",
)


@st.composite
def configs(draw: st.DrawFn) -> str:
    """A configuration of Codex as somebody may have written it."""
    pieces = draw(st.lists(st.sampled_from(PIECES), max_size=5, unique=True))
    text = draw(st.sampled_from(["", 'model = "x"\n', "a.b = 1\n"])) + "".join(pieces)
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@given(configs())
def test_a_table_is_there_and_taken_out_again_to_the_byte(text: str) -> None:
    after = insert_table(text, AT, TABLE, TAG)
    data, before = parse(after), parse(text)
    assert data["mcp_servers"].pop("compaction") == TABLE
    if "mcp_servers" not in before:
        assert data.pop("mcp_servers") == {}
    assert data == before
    assert remove_table(after, AT, TAG) == text


@given(configs(), st.sampled_from(["[later]\nk = 1\n", "# only a comment\n\n[later]\n"]))
def test_what_is_written_after_the_table_stays(text: str, later: str) -> None:
    inserted = insert_table(text, AT, TABLE, TAG)
    gap = "\n" if inserted.endswith("\n") else "\n\n"
    after = remove_table(inserted + gap + later, AT, TAG)
    assert after.endswith(later)
    assert parse(after) == {**parse(text), "later": parse(later)["later"]}


def test_what_is_not_toml_is_refused() -> None:
    with pytest.raises(UnreadableToml):
        parse("a = ")
