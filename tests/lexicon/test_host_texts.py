"""Every kind of host text in the lexicon is known by its example and not by its near miss."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mcp_compaction.core.text.host_texts import (
    host_texts_in,
    without_host_text_behind,
    without_host_texts,
)
from mcp_compaction.lexicon.host_texts import HostText, known_host_texts, own_tools
from mcp_compaction.server.tools import list_tools

each_kind = pytest.mark.parametrize(
    "kind", known_host_texts(), ids=[f"{one.host} {one.kind}" for one in known_host_texts()]
)


def words_in(kind: HostText) -> str:
    """What a user has typed in the example of a kind."""
    return kind.example.removeprefix(kind.begins).removesuffix(kind.ends) if kind.spoken else ""


@each_kind
def test_the_example_is_host_text_as_a_whole_also_behind_other_host_text(kind: HostText) -> None:
    said = words_in(kind)
    assert without_host_texts(kind.example) == said
    assert without_host_texts(f"  {kind.example}\n ").strip() == said
    assert without_host_texts(f"<bash-input>ls</bash-input>\n{kind.example}").strip() == said
    assert without_host_texts(f"<bash-input>ls</bash-input>{kind.example}").strip() == said


@each_kind
def test_the_near_miss_stays(kind: HostText) -> None:
    assert host_texts_in(kind.near_miss) == ()


@each_kind
def test_an_example_that_somebody_shows_in_a_code_fence_stays(kind: HostText) -> None:
    for fence in ("```", "~~~"):
        shown = f"My host writes this:\n{fence}xml\n{kind.example}\n{fence}\nIs that right?"
        assert without_host_texts(shown) == shown


@each_kind
def test_what_a_user_says_beside_host_text_that_ends_stays_word_for_word(kind: HostText) -> None:
    if kind.ends:
        said = f"Fix the login.\n{kind.example}\nAnd the logout."
        assert without_host_texts(said) == f"Fix the login.\n{words_in(kind)}\nAnd the logout."
    else:
        said = f"Fix the login.\n{kind.example}"
        assert without_host_texts(said) == said


@each_kind
def test_behind_a_result_only_what_hosts_put_there_is_host_text(kind: HostText) -> None:
    result = f"41 passed\n\n{kind.example}\n"
    assert without_host_text_behind(result) == ("41 passed" if kind.in_results else result)
    inside = f"{kind.example}\n41 passed"
    assert without_host_text_behind(inside) == inside


def test_our_own_tools_are_those_that_the_server_publishes() -> None:
    assert sorted(own_tools()) == sorted(tool.name for tool in list_tools())


@pytest.mark.parametrize(
    "fault",
    [{"begins": ""}, {"example": ""}, {"near_miss": ""}, {"in_results": True}, {"surprise": 1}],
)
def test_an_entry_that_lacks_something_is_refused(fault: dict[str, Any]) -> None:
    whole = {"kind": "x", "host": "y", "begins": "<x>", "example": "<x>", "near_miss": "x"}
    HostText.model_validate(whole)
    with pytest.raises(ValidationError):
        HostText.model_validate(whole | fault)
