"""A doubt is told whatever is said of its words later: no word alone settles it."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import assistant, ran


@pytest.mark.parametrize(
    ("doubt", "said"),
    [
        (
            "I am not sure whether the staging database password was rotated.",
            "The production database password was rotated by the operator.",
        ),
        (
            "The race condition might be in the session cache cleanup.",
            "I opened the session cache cleanup code and read the race condition notes.",
        ),
        (
            "There might be a Hugging Face token as well.",
            "Let me look for a Hugging Face token.",
        ),
        (
            "There might be a Hugging Face token as well.",
            "Is there a Hugging Face token?",
        ),
    ],
)
def test_a_doubt_stays_whatever_else_is_said_of_its_words(doubt: str, said: str) -> None:
    span = [*ran("1", "ls", "a"), assistant(doubt)]
    assert doubt in texts(drafted([*span, assistant(said)]), "UNCERTAIN")
    assert doubt in texts(drafted(span, [assistant(said)]), "UNCERTAIN")


def test_a_doubt_stays_when_it_is_raised_again() -> None:
    first = "It is unclear whether the tests cover the retry path."
    again = "It remains unknown if tests cover the retry path under load."
    told = texts(drafted([*ran("1", "ls", "a"), assistant(first), assistant(again)]), "UNCERTAIN")
    assert first in told
