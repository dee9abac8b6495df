"""A doubt is told whatever is said of its words later: no word alone settles it. What was only
supposed beside a call goes when calls have followed."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import assistant, calls, ran, results


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
    first = "I am unsure whether the tests cover the retry path."
    again = "It remains unknown if tests cover the retry path under load."
    told = texts(drafted([*ran("1", "ls", "a"), assistant(first), assistant(again)]), "UNCERTAIN")
    assert first in told


def test_what_was_not_known_beside_a_call_stays_when_calls_have_followed() -> None:
    doubt = "I am not sure whether the staging password was rotated."
    step = [calls(("1", "Bash", {"command": "ls"}), text=doubt), results(("1", "ok"))]
    more = [message for n in range(2, 8) for message in ran(str(n), "ls", "a")]
    assert texts(drafted([*step, *more]), "UNCERTAIN") == [doubt]


@pytest.mark.parametrize(
    "said",
    [
        "Start with the simplest thing that could possibly work.",
        "This makes the test suite fragile and unclear.",
    ],
)
def test_what_leads_on_or_weighs_something_is_no_doubt(said: str) -> None:
    assert texts(drafted([*ran("1", "ls", "a"), assistant(said)]), "UNCERTAIN") == []
