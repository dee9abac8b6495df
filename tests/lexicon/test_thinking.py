"""Models whose thinking is bound, and errors that refuse it, are told from all others."""

from __future__ import annotations

import pytest

from mcp_compaction.lexicon.models import (
    BlockRefusal,
    ModelFamily,
    find_refused_block,
    known_thinking,
    rule_of,
)


@pytest.mark.parametrize("family", known_thinking().family, ids=lambda family: family.name)
def test_a_family_knows_its_models_by_their_names_on_every_platform(family: ModelFamily) -> None:
    assert {rule_of(name) for name in family.bound} == {"bound"}
    assert {rule_of(name.upper()) for name in family.bound} == {"bound"}
    assert {rule_of(name) for name in family.free} == {"free"}


@pytest.mark.parametrize(
    "name", ["", "m", "gpt-oss-120b", "chatgpt-latest", "opus", "octopus-5-5", "claude-opus-latest"]
)
def test_of_a_model_of_no_family_nothing_is_known(name: str) -> None:
    assert rule_of(name) == "unknown"


@pytest.mark.parametrize("refusal", known_thinking().refusal, ids=lambda refusal: "refusal")
def test_a_refusal_names_its_block_and_another_error_does_not(refusal: BlockRefusal) -> None:
    assert find_refused_block(refusal.example) == (5, 0)
    assert find_refused_block(f"Error code: 400 - {{'message': '{refusal.example}'}}") == (5, 0)
    assert find_refused_block(refusal.near_miss) is None
