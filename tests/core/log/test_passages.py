"""Passages: every word of a message in order, cut at the joints of its own kind of text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.log.passages import passages_of
from mcp_compaction.model import Part, Text


def said(parts: list[Part]) -> tuple[str, ...]:
    """The texts of an assistant's passages."""
    found = passages_of("assistant", parts)
    assert all(piece.by == "assistant" for piece in found)
    return tuple(piece.text for piece in found)


def test_passages_are_cut_at_lines_sentences_or_words() -> None:
    line, sentence = "a" * 400 + "\n", "b" * 400 + ". "
    assert said([Text(text=line + "c" * 400)]) == ("a" * 400, "c" * 400)
    assert said([Text(text=sentence + "c" * 400)]) == ("b" * 400 + ".", "c" * 400)
    assert said([Text(text="d" * 700)]) == ("d" * 600, "d" * 100)
    assert said([Text(text="中" * 400 + "。" + "文" * 400)]) == ("中" * 400 + "。", "文" * 400)


def test_records_on_one_line_are_cut_between_their_fields() -> None:
    records = [{"id": f"order{n}", "state": "sent"} for n in range(60)]
    found = said([Text(text=json.dumps(records, separators=(",", ":")))])
    assert len(found) > 2
    assert all(piece.endswith((",", "]")) for piece in found)
    assert not any(piece.count('"') % 2 for piece in found)


@given(st.lists(st.text("abc.\u00e9中", min_size=1, max_size=90), max_size=300))
def test_passages_hold_every_word_in_order_and_none_is_long(words: list[str]) -> None:
    found = said([Text(text=" ".join(words))])
    assert all(0 < len(passage) <= 600 for passage in found)
    assert "".join(" ".join(found).split()) == "".join(words)
