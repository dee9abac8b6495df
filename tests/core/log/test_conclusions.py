"""What an agent found out is seen in plain prose, without a heading or a list."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.conclusions import conclusions_of
from tests.core.saying import assistant, calls, user
from tests.sessions import messages_of


def found_in(text: str) -> list[str]:
    return [one.text for one in conclusions_of(messages_of([assistant(text)]))]


@pytest.mark.parametrize(
    "sentence",
    [
        "The root cause is that the cache is never cleared.",
        "It turns out the server drops the header.",
        "The import fails because the module was moved.",
        "The limit of the pool is set in conf/pool.toml and nowhere else.",
    ],
)
def test_a_cause_or_a_result_is_a_conclusion(sentence: str) -> None:
    assert found_in(f"Hello there, my friend. {sentence} Let me go on.") == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Let me look at conf/pool.toml for the reason.",
        "Is the problem in conf/pool.toml or in the parser?",
        "If the cause is a lock, we will see it.",
        "limit_of_pool = read_limit(conf)",
        "conf/pool.toml, conf/limits.toml, src/a.py",
        "What a day.",
    ],
)
def test_an_intent_a_question_code_or_a_listing_is_none(sentence: str) -> None:
    assert found_in(sentence) == []


def test_before_a_call_only_what_is_said_to_be_found_counts() -> None:
    said = "The pool is set in conf/pool.toml as it should be. The bug is in the parser."
    messages = messages_of([user(said), calls(("1", "Bash", {"command": "ls"}), text=said)])
    assert [(one.text, one.ref) for one in conclusions_of(messages)] == [
        ("The bug is in the parser.", "m2")
    ]
