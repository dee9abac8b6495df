"""What users tell under a label is found word for word; an older value stands, marked."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.told import is_told, labelled_facts, labelled_states, older_words
from mcp_compaction.core.text.words import fold
from tests.core.saying import user
from tests.sessions import messages_of


def test_a_fact_that_is_told_again_with_another_value_is_older() -> None:
    said = [f"FACT: The quota is {share}%." for share in (10, 20, 30)]
    messages = messages_of([user(text) for text in said])
    assert older_words(messages) == {fold(said[0]): "m3", fold(said[1]): "m3"}
    again = messages_of([user(text) for text in (*said, said[0])])
    assert older_words(again) == {fold(said[1]): "m4", fold(said[2]): "m4"}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Always answer in English.", "Write the README in German from now on."),
        ("Always answer in English.", "Always answer in German."),
        ("Never push to release/one.", "Never push to release/two."),
        ("FACT: Case ABC-1 is failing.", "FACT: Case ABC-2 is failing."),
        ("FACT: The staging port is web-80.", "FACT: The production port is web-81."),
    ],
)
def test_rules_and_what_can_be_true_beside_the_other_are_not_marked(older: str, newer: str) -> None:
    assert older_words(messages_of([user(older), user(newer)])) == {}


def test_what_an_agent_says_that_a_user_said_makes_nothing_older() -> None:
    first, second = messages_of([user("FACT: The quota is 1%."), user("FACT: The quota is 2%.")])
    told = second.model_copy(update={"via": "tool"})
    assert older_words([first, told]) == {}


def test_a_label_tells_a_fact_or_a_state() -> None:
    assert is_told("FACT: The host is bill-03. It is slow.")
    assert is_told("Current state: two of five steps are done.")
    assert is_told("Zur Erinnerung: der Host ist bill-03.")
    assert is_told("Avancement : deux des cinq étapes sont faites.")
    assert is_told("ESTADO: La importación corre en la rama try/import.")
    assert not is_told("The host is bill-03.")
    assert not is_told("")


def test_a_label_covers_the_sentences_on_its_line() -> None:
    text = "Go on.\nSTATUS: Step 1 is done. Step 2 is next.\nThe rest can wait.\nFACT: It is slow."
    assert labelled_states(text) == ("STATUS: Step 1 is done.", "Step 2 is next.")
    assert labelled_facts(text) == ("FACT: It is slow.",)
    assert labelled_states("```\nSTATUS: Step 1 is done.\n```") == ()
