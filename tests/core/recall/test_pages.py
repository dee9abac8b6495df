"""Pages give every character once, wherever they end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.recall.answer import cut_page

# Half characters, families of them, none at all.
TEXTS = st.lists(
    st.text(st.characters(codec=None), max_size=30)
    | st.sampled_from(["", "\ud83d", "👩‍👩‍👧", "a\n"]),
    min_size=1,
    max_size=6,
)


@given(TEXTS, st.integers(1, 20))
def test_all_pages_together_are_the_whole_and_each_text_is_shown(
    texts: list[str], most: int
) -> None:
    joined = [""] * len(texts)
    shown: list[int] = []
    start: int | None = 0
    left = None
    while start is not None:
        found = cut_page(texts, start, most)
        for number, piece in found.pieces:
            joined[number] += piece
            shown.append(number)
        assert sum(max(1, len(piece)) for _, piece in found.pieces) <= most
        assert left is None or found.left < left
        start, left = found.after, found.left
    assert joined == texts
    assert set(shown) == set(range(len(texts)))
    assert all(shown.count(n) == 1 for n, text in enumerate(texts) if not text)
