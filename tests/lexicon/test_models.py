"""The windows of models are known by their names, and of a model that has no entry none is."""

from __future__ import annotations

import pytest

from mcp_compaction.lexicon.models import (
    KnownModel,
    TokenizerFamily,
    family_of_model,
    known_families,
    known_models,
    window_of_model,
)


@pytest.mark.parametrize("model", known_models(), ids=lambda model: model.examples[0])
def test_a_model_is_known_by_its_names_on_every_platform_and_another_is_not(
    model: KnownModel,
) -> None:
    assert {window_of_model(name) for name in model.examples} == {model.tokens}
    assert {window_of_model(name.upper()) for name in model.examples} == {model.tokens}
    assert window_of_model(model.near_miss) != model.tokens


@pytest.mark.parametrize("name", ["", "m", "gpt-7", "my-own-model", "claude-opus-latest", "<none>"])
def test_of_a_model_without_an_entry_nothing_is_known(name: str) -> None:
    assert window_of_model(name) is None


@pytest.mark.parametrize("family", known_families(), ids=lambda family: family.examples[0])
def test_each_family_is_known_by_the_names_of_its_models_and_by_no_other(
    family: TokenizerFamily,
) -> None:
    assert all(family_of_model(name) == family for name in family.examples)
    assert family_of_model(family.near_miss) != family
