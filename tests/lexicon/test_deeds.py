"""What is known of deeds is shown by its own examples."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from mcp_compaction.core.digest.check.record import claims_in
from mcp_compaction.lexicon.tools import KnownDeed, known_deeds


def names(line: str) -> list[str]:
    return [claim.deed.name for claim in claims_in(line)]


@pytest.mark.parametrize("deed", known_deeds().deed, ids=lambda deed: deed.name)
def test_a_deed_is_claimed_by_its_example_and_not_by_its_near_miss(deed: KnownDeed) -> None:
    assert deed.name in names(deed.example)
    assert deed.name not in names(deed.near_miss)
    assert re.search(deed.shown_by, deed.call.replace("_", " "))


def test_a_deed_is_claimed_by_words_or_said_of_a_thing() -> None:
    with pytest.raises(ValidationError, match="give claims or about"):
        KnownDeed(name="x", shown_by="x", example="x", call="x", near_miss="y")


@pytest.mark.parametrize(
    ("line", "claimed"),
    [
        ("Die Änderung wurde committet und gepusht", ["commit", "push"]),
        ("Le correctif a été poussé", ["push"]),
        ("El paquete fue publicado en npm", ["release"]),
        ("代码已提交并推送", ["commit", "push"]),
        ("Noch nichts committet", []),
        ("Nothing is committed yet", []),
        ("It will be deployed once CI is green", []),
        ("Aún no fue publicado", []),
    ],
)
def test_a_claim_is_known_in_several_languages_and_a_denial_is_none(
    line: str, claimed: list[str]
) -> None:
    assert names(line) == claimed
