"""What was said, cut into pieces that can stand alone, and every one of them word for word."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.excerpts.choose import Snippet, newest_pieces
from mcp_compaction.core.text.words import telling_words
from mcp_compaction.model import Excerpt
from tests.core.saying import Json, assistant, calls, results, user
from tests.sessions import messages_of
from tests.tables import table

# Every word of theirs is said once, so that nothing of what a test says is common or an answer.
SMALL_TALK: list[Json] = [
    (user if n % 2 else assistant)(f"Mentioned alpha{n} beta{n} gamma{n}.") for n in range(12)
]


def said(session: list[Json], earlier: tuple[Excerpt, ...] = ()) -> list[tuple[str, str]]:
    """The pieces of a session's last message, with whose words they are."""
    found = newest_pieces(messages_of(session), earlier)
    last = max(piece.seq for piece in found)
    return [(piece.by, piece.text) for piece in sorted(found, key=_place) if piece.seq == last]


def talk(text: str) -> list[str]:
    """The pieces of what is said last in plain talk."""
    return [piece for _, piece in said([*SMALL_TALK, user(text)])]


def _place(piece: Snippet) -> int:
    return piece.place


def _bare(text: str) -> str:
    return re.sub(r"\s", "", text)


# Word for word

PLAIN = ("the", "a", "not", "never", "we", "Anna", "Lisbon", "42", "2024-05-01", "decided", "don't")
CUTS = table(__file__, "cuts")
WORDS = st.sampled_from((*PLAIN, *CUTS))
TEXTS = st.lists(WORDS, min_size=1, max_size=40).map(" ".join)
MESSAGES = st.lists(
    st.one_of(
        TEXTS.map(user),
        TEXTS.map(assistant),
        st.tuples(TEXTS, TEXTS).map(lambda two: calls(("w", "Run", {"x": two[0]}), text=two[1])),
        st.tuples(TEXTS, TEXTS).map(lambda two: results(("w", two[0]), text=two[1])),
    ),
    min_size=1,
    max_size=16,
)


@given(MESSAGES)
def test_every_piece_stands_word_for_word_in_its_message(session: list[Json]) -> None:
    messages = {message.seq: message for message in messages_of(session)}

    found = newest_pieces(tuple(messages.values()), ())

    for piece in found:
        assert _bare(piece.text) in _bare(messages[piece.seq].text)
        assert _bare(piece.text) in _bare(piece.whole or piece.text)
        assert piece.words == telling_words(piece.text)


@given(MESSAGES)
def test_each_text_is_one_piece_where_it_was_said_last(session: list[Json]) -> None:
    messages = messages_of(session)

    found = newest_pieces(messages, ())
    again = newest_pieces((*messages, *messages_of(session, len(messages) + 1)), ())

    assert len({(p.whole or p.text) for p in found}) == len(found)
    assert all(piece.seq > len(messages) for piece in again)


# Plain talk


@pytest.mark.parametrize(
    "negation",
    table(__file__, "what_negates_is_never_cut_off"),
)
def test_what_negates_is_never_cut_off(negation: str) -> None:
    (at_the_start,) = talk(f"and so it was {negation} visited Lisbon castle")
    (at_the_end,) = talk(f"visited Lisbon castle as we were {negation} then so on with it")

    assert at_the_start == f"{negation} visited Lisbon castle"
    assert at_the_end == f"visited Lisbon castle as we were {negation}"


@given(st.lists(st.sampled_from(["we", "were", "it", "not", "never", "Lisbon", "so", "with"])))
def test_between_the_first_and_the_last_negation_nothing_is_cut(words: list[str]) -> None:
    held = [word for word in words if word in ("not", "never")]
    text = " ".join(words)

    kept = [word for piece in talk(f"{text} Zanzibar") for word in piece.split()]

    assert [word for word in kept if word in ("not", "never")] == held
