"""What is known of tools, endings and shell commands is shown by its own examples."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mcp_compaction.core.log.conversation import users_words_in
from mcp_compaction.core.log.effects import effects_of
from mcp_compaction.core.log.endings import failed_tests_in, is_said
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.lexicon import read_table
from mcp_compaction.lexicon.tools import (
    AnswerShape,
    EndingSign,
    FailedTest,
    ToolNames,
    known_tools,
)
from mcp_compaction.model import ToolCall, ToolResult
from mcp_compaction.shell import FileChange, changes_in


@pytest.mark.parametrize("tool", known_tools().tool, ids=lambda tool: tool.kind)
def test_the_example_of_a_kind_of_tool_is_of_that_kind(tool: ToolNames) -> None:
    example = tool.example
    call = ToolCall(id="1", name=example.name, arguments=example.arguments)
    assert action_of(call)[:2] == (tool.kind, example.target)


@pytest.mark.parametrize("sign", known_tools().ending, ids=lambda sign: f"{sign.host} {sign.kind}")
def test_an_ending_is_known_by_its_example_and_not_by_its_near_miss(sign: EndingSign) -> None:
    assert is_said(sign, sign.example)
    assert not any(is_said(other, sign.near_miss) for other in known_tools().ending)


@pytest.mark.parametrize("entry", read_table("tools.toml")["command"], ids=lambda one: one["name"])
def test_a_command_does_to_files_what_its_example_says(entry: dict[str, Any]) -> None:
    assert {*entry} <= {*FileChange._fields, "example", "files"}
    done = {effect.path: effect.does for effect in effects_of(entry["example"])}
    done |= {effect.to: "write" for effect in effects_of(entry["example"]) if effect.to}
    assert done == (entry.get("files") or {"": "unknown"})


@pytest.mark.parametrize("sign", known_tools().failed_test, ids=lambda sign: sign.name)
def test_a_failed_test_is_known_by_its_example_and_not_by_its_near_miss(sign: FailedTest) -> None:
    assert failed_tests_in(ToolResult(call="1", text=f"x\n{sign.example}\ny")) == (sign.name,)
    assert failed_tests_in(ToolResult(call="1", text=sign.near_miss)) == ()


def test_an_ending_without_a_sign_is_refused() -> None:
    with pytest.raises(ValidationError, match="begins or says"):
        EndingSign(kind="failed", host="x", example="a", near_miss="b")


@pytest.mark.parametrize(
    "entry", read_table("checks.toml")["change"], ids=lambda one: one["example"]
)
def test_a_further_program_changes_the_files_of_its_example(entry: dict[str, Any]) -> None:
    name, *words = entry["example"].split()
    (change,) = changes_in([entry])[name]
    assert change.is_done(words)
    assert change.files_in(words) == entry["files"]


@pytest.mark.parametrize("shape", known_tools().answer, ids=lambda shape: shape.host)
def test_words_of_the_user_are_found_in_the_example_of_a_result_and_not_in_its_near_miss(
    shape: AnswerShape,
) -> None:
    assert tuple(one.words for one in users_words_in(shape.example)) == shape.words
    assert users_words_in(shape.near_miss) == ()
