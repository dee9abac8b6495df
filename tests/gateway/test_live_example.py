"""The example that asks a real API, run against a strict provider on loopback."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests.gateway.talking import StrictProvider, size_of
from tests.gateway.upstream import provide

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

PROGRAM = Path(__file__).parents[2] / "examples/gateway_live/gateway_live.py"
SHAPES = {"messages": "anthropic", "responses": "responses", "chat": "openai"}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The program as a module."""
    spec = spec_from_file_location("gateway_live", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("api", SHAPES)
async def test_ten_turns_are_told_as_accepted_with_their_usage_and_one_compaction(
    example: ModuleType,
    api: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "no key")
    strict = StrictProvider(SHAPES[api], is_streamed=False)
    for _ in range(example.TURNS):
        strict.said += [{"tool": "read_file", "input": {"path": "a.py"}}, {"text": "the last"}]
    async with provide(strict) as upstream:
        given = example.read_arguments([api, "--upstream", upstream.url])
        assert await example.run(given) == 0
    told = capsys.readouterr().out
    assert told.count("  accepted: ") == 2 * example.TURNS
    assert "c1 done" in told
    assert f"{api}: 10 of 10 turns accepted" in told
    assert "tokens a request" in told  # what the compaction cost and saved
    assert strict.faults == []
    sizes = [size_of(one.get("messages") or one["input"]) for one in strict.requests]
    after = 2 * example.COMPACTS_AFTER
    assert sizes[after] < 0.8 * sizes[after - 1]


async def test_a_refusal_is_told_in_the_providers_words(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "no key")
    async with provide(StrictProvider(status=401)) as upstream:
        given = example.read_arguments(["messages", "--upstream", upstream.url])
        assert await example.run(given) == 1
    told = capsys.readouterr().out
    assert "refused: 401 " + json.dumps({"type": "error"}) in told
    assert "0 of 10 turns accepted" in told
