"""The search takes any text, finds what was said, and never looks into another project."""

from __future__ import annotations

from pathlib import Path

import pytest
from given_store import (
    NOW,
    batch,
    here,
    new_session,
    opened,
    said,
)

from mcp_compaction.core.recall.rank import rank
from mcp_compaction.model import SearchQuery
from mcp_compaction.store import search

pytestmark = pytest.mark.anyio


async def test_of_a_word_that_stands_everywhere_the_newest_and_the_telling_places_are_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "RANKED", 5)
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        texts = [f"error number {number}" for number in range(40)]
        texts[3] = "error of the build"
        for number in range(20, 30):
            texts[number] = f"the build {number}"
        await store.append(session, batch(*(said(text) for text in texts)), NOW)
        alone = await store.find(here(session), SearchQuery(terms=("error",)))
        assert [match.number for match in alone.terms[0].matches] == [40, 39, 38, 37, 36]
        assert alone.terms[0].is_cut
        both = await store.find(here(session), SearchQuery(terms=("error", "build")))
        assert {match.number for terms in both.terms for match in terms.matches} >= {4}
        assert 4 in [worth.row for worth in rank(both)]
        turned = await store.find(here(session), SearchQuery(terms=("build", "error")))
        assert set(turned.terms) == set(both.terms)  # no word counts more for coming first
