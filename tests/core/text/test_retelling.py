"""A sentence is still told where it stands, or where one line has most of its words."""

from __future__ import annotations

from mcp_compaction.core.text.retelling import Retelling

TEXT = Retelling("- the pool  leaks\n  connections (m4)\n- cause: worker never returns connection")


def test_a_sentence_is_told_word_for_word_whatever_the_line_breaks() -> None:
    assert TEXT.tells("the pool leaks connections")


def test_a_sentence_is_told_in_other_words_by_one_line() -> None:
    assert TEXT.tells("The worker never returns its connection.")
    assert not TEXT.tells("The pool of workers never was so large.")
    assert not TEXT.tells("of the")


def test_words_that_stand_everywhere_tell_nothing() -> None:
    same = Retelling("\n".join(["limit reached"] * 300))
    assert not same.tells("reached the limit")
