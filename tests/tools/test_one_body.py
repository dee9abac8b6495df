"""A tool's arguments are said once, and its answer has one body, whichever way it is called."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from mcp_compaction import OpenSession
from mcp_compaction.cli.console.options import add_tool, typed_as
from mcp_compaction.server.tools import list_tools
from mcp_compaction.server.tools.replying import takes
from mcp_compaction.tools import arguments
from mcp_compaction.tools.arguments import Arguments, PinConstraint, definition_of
from mcp_compaction.tools.pinning import wish_of
from tests.adapters.kits import WAYS, kit_of, user
from tests.adapters.scripted import use

MODELS = tuple(tool.described_by for tool in list_tools() if tool.is_listed)

# How the API and the commands call what a tool takes, where they do not call it the same; what a
# terminal prints as a whole has no size, page or detail, and no window of its own to keep refs in.
METHODS: dict[type[Arguments], tuple[Callable[..., Any], ...]] = {
    arguments.CompressContext: (OpenSession.compress,),
    arguments.PinConstraint: (OpenSession.pin,),
    arguments.RecallArchived: (OpenSession.recall, OpenSession.quote, OpenSession.page_in),
    arguments.ContextStats: (OpenSession.stats,),
    arguments.UnpinConstraint: (OpenSession.unpin,),
    arguments.RestoreContext: (OpenSession.restore,),
    arguments.RecordMessages: (OpenSession.record,),
}
COMMANDS: dict[type[Arguments], str] = {
    arguments.CompressContext: "compress",
    arguments.PinConstraint: "pin",
    arguments.RecallArchived: "recall",
    arguments.ContextStats: "stats",
    arguments.UnpinConstraint: "unpin",
    arguments.RestoreContext: "restore",
    arguments.RecordMessages: "record",
}
OTHERWISE: dict[tuple[type[Arguments], str], str | None] = {
    (arguments.RecallArchived, "cursor"): "skip",
    (arguments.RecallArchived, "keep"): None,  # a method of its own, page_in
    (arguments.ContextStats, "detail"): None,
}
TYPED_OTHERWISE: dict[tuple[type[Arguments], str], str | None] = {
    **OTHERWISE,
    (arguments.RecordMessages, "messages"): "file",
}


def expected(
    model: type[Arguments], otherwise: dict[tuple[type[Arguments], str], str | None]
) -> set[str]:
    names = (otherwise.get((model, name), name) for name in model.model_fields)
    return {name for name in names if name is not None}


def options_of(command: str) -> set[str]:
    parser = ArgumentParser()
    import_module(f"mcp_compaction.cli.commands.{command}").add_arguments(parser)
    return set(vars(parser.parse_known_args(["x"])[0]))


@pytest.mark.parametrize("model", MODELS)
def test_every_way_takes_the_arguments_of_the_model(model: type[Arguments]) -> None:
    (tool,) = (tool for tool in list_tools() if tool.described_by is model)
    assert tool.arguments == {*model.model_fields, "session"}
    taken = {name for method in METHODS[model] for name in inspect.signature(method).parameters}
    assert taken - {"self", "by"} == expected(model, OTHERWISE)
    assert expected(model, TYPED_OTHERWISE) <= options_of(COMMANDS[model])


class WiderPin(PinConstraint):
    """A tool with one argument more, said in one line."""

    reason: str | None = Field(None, description="Why it must hold.")


def test_one_line_adds_an_argument_to_server_kit_and_command() -> None:
    @takes(WiderPin)
    async def pin(place: object, asked: WiderPin) -> str:
        return f"{place} {asked}"

    parser = ArgumentParser()
    add_tool(parser, WiderPin)
    typed = typed_as(WiderPin, parser.parse_args(["Be kind.", "--reason", "manners"]))
    published = inspect.signature(pin).parameters
    assert [*published] == ["ctx", *WiderPin.model_fields, "session"]
    kit: dict[str, Any] = {**definition_of(WiderPin).schema}
    assert [*kit["properties"]] == [*WiderPin.model_fields]
    assert (typed.text, typed.reason) == ("Be kind.", "manners")


def test_an_argument_that_no_pin_has_is_not_lost_in_silence() -> None:
    with pytest.raises(TypeError, match="reason"):
        wish_of(WiderPin.model_validate({"text": "Be kind.", "reason": "manners"}))


QUESTION = "What is the retry limit of the mail worker?"
FACT = "The mail worker tries five times, then parks the letter in the dead box; so is its limit."


@pytest.mark.anyio
@pytest.mark.parametrize("way", WAYS)
async def test_what_a_loop_asks_for_comes_before_its_own_question(
    memory_path: Path, way: str
) -> None:
    said = [user("Let us begin."), {"role": "assistant", "content": FACT}, user("Good.")]
    for number in range(12):
        said += [{"role": "assistant", "content": f"Step {number}."}, user(f"Go on with {number}.")]
    said += [{"role": "assistant", "content": "Ready."}, user(QUESTION)]
    async with kit_of(way, memory_path) as kit:
        await kit.fit(said)
        asked = use("r", "recall_archived", query="retry limit mail worker", max_tokens=300)
        answer = str((await kit.call(asked))["content"])
    assert "five times" in answer.partition(QUESTION)[0]
