"""A doubt is told until it was settled."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import drafted, texts
from tests.core.saying import assistant, ran

DOUBT = "There might be a Hugging Face token as well."
SPAN = [*ran("1", "ls", "a"), assistant(DOUBT)]


@pytest.mark.parametrize(
    "said",
    ["The Hugging Face token stands in line 7.", "No Hugging Face token is left in the file."],
)
def test_a_doubt_that_was_settled_since_is_no_longer_told(said: str) -> None:
    assert texts(drafted([*SPAN, assistant(said)]), "UNCERTAIN") == []
    assert texts(drafted(SPAN, [assistant(said)]), "UNCERTAIN") == []


@pytest.mark.parametrize(
    "said",
    [
        "Let me look for a Hugging Face token.",
        "Is there a Hugging Face token?",
        "The AWS token stands in line 7.",
    ],
)
def test_a_doubt_stays_while_nobody_states_what_is_so(said: str) -> None:
    assert texts(drafted([*SPAN, assistant(said)]), "UNCERTAIN") == [DOUBT]
