"""A later value of one thing overtakes the older one, which is marked; two things stay two."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.log.updates import (
    find_overtaken,
    is_told,
    overtaken_statements,
    told_facts,
    told_states,
)
from mcp_compaction.core.text.values import values_of, without_values
from mcp_compaction.core.text.words import fold
from tests.core.saying import user
from tests.sessions import messages_of

CHANGED = [
    ("LIMIT: The hotel must not cost more than $120.", "New limit for the hotel: 90 euros."),
    ("FACT: The review is on 2027-04-02.", "Update: the review moved to May 4."),
    ("FACT: The app is called LIMA-17.", "We are calling the app NOVA-9 now."),
    ("FACT: Dana Ruiz owns the queue.", "Kim Lee now owns the queue."),
    ("STATUS: the import runs on branch try/a-1.", "We switched the import to try/b-2."),
    ("Always answer in English.", "From now on, answer in German."),
    ("Always indent with tabs.", "From now on indent with spaces."),
    ("Always write terse notes.", "I would rather read playful notes."),
    ("Always indent with tabs.", "Always indent with spaces."),
    (
        "Always write formal letters in metric units.",
        "Keep the letters casual, stay with imperial units.",
    ),
    ("FACT: The quota is 40%.", "FACT: The quota is 55%."),
    ("Only Python 3.11 is allowed.", "The allowed version is now Python 3.12."),
    (
        "Never tell anybody the door code rose-12.",
        "Never tell anybody the door code lily-98; the old code is retired.",
    ),
]
CHANGED_ELSEWHERE = [
    ("FAKT: Das Review ist am 2. April.", "Das Review wurde auf den 4. Mai verschoben."),
    ("FAKT: Die Warteschlange gehört Dana Ruiz.", "Die Warteschlange gehört jetzt Kim Lee."),
    ("Das Hotel darf nie mehr als 120 Euro kosten.", "Neue Grenze für das Hotel: neunzig Euro."),
    ("Antworte immer auf Englisch.", "Ab jetzt antworte auf Deutsch."),
    ("FAKT: Die Quote ist 40 %.", "FAKT: Die Quote ist 55 %."),
    ("FAIT : La revue est le 2 avril.", "La revue est repoussée au 4 mai."),
    ("FAIT : La file appartient à Dana Ruiz.", "La file appartient maintenant à Kim Lee."),
    ("Réponds toujours en français.", "À partir de maintenant, réponds en anglais."),
    ("HECHO: La revisión es el 2 de abril.", "La revisión se aplazó al 4 de mayo."),
    ("HECHO: La cola pertenece a Dana Ruiz.", "La cola pertenece ahora a Kim Lee."),
    ("Responde siempre en español.", "A partir de ahora responde en inglés."),
]
BOTH_STAND = [
    ("FAKT: Der Port der Tests ist web-80.", "FAKT: Der Port im Betrieb ist web-81."),
    ("FAIT : La revue est le 2 avril.", "La revue est-elle repoussée au 4 mai ?"),
    ("HECHO: El puerto de pruebas es web-80.", "El build está verde desde el 4 de mayo."),
    ("FACT: The staging port is web-80.", "FACT: The production port is web-81."),
    ("Always keep the travel budget below $500.", "New limit for the hotel: 90 euros."),
    ("Never push to release/one.", "From now on never push to release/two."),
    ("Never commit without running the tests.", "From now on, run the tests with -x."),
    ("Always use tabs.", "Always use spaces in YAML files."),
    (
        "Always write formal letters in metric units.",
        "Keep the letters casual, stay with metric units.",
    ),
    ("Write every log line in UTC.", "For the dashboard, show clocks in Pacific time."),
    ("FACT: Case ABC-1 is failing.", "FACT: Case ABC-2 is failing."),
    ("FACT: The review is on 2027-04-02.", "Has the review moved to May 4?"),
    ("FACT: The review is on 2027-04-02.", "The build is now green since May 4."),
]


@pytest.mark.parametrize(("older", "newer"), CHANGED + CHANGED_ELSEWHERE)
def test_a_later_value_of_the_same_thing_overtakes_the_one_before(older: str, newer: str) -> None:
    assert set(find_overtaken([older, newer])) == {fold(older)}


@pytest.mark.parametrize(("older", "newer"), BOTH_STAND)
def test_what_can_be_true_beside_the_other_stands(older: str, newer: str) -> None:
    assert find_overtaken([older, newer]) == {}


def test_an_update_that_may_mean_either_of_two_overtakes_neither() -> None:
    said = ["FACT: The api review is on 2027-04-02.", "FACT: The ui review is on 2027-04-03."]
    assert find_overtaken([*said, "Update: the review moved to May 4."]) == {}


def test_of_three_values_the_last_stands_and_one_that_is_said_again_stands_again() -> None:
    said = [f"FACT: The quota is {share}%." for share in (10, 20, 30)]
    assert set(find_overtaken(said)) == {fold(said[0]), fold(said[1])}
    assert set(find_overtaken([*said, said[0]])) == {fold(said[1]), fold(said[2])}


def test_values_that_are_named_twice_are_compared_too() -> None:
    said = ["FACT: The hosts are web-1 and web-2.", "FACT: The hosts are web-1 and web-1."]
    assert set(find_overtaken(said)) <= {fold(said[0])}
    assert set(find_overtaken(said[::-1])) <= {fold(said[1])}


def test_what_an_agent_says_that_a_user_said_overtakes_nothing() -> None:
    older, newer = CHANGED[0]
    first, second = messages_of([user(older), user(newer)])
    assert overtaken_statements([first, second]) == {fold(older): second.ref}
    told = second.model_copy(update={"via": "tool"})
    assert overtaken_statements([first, told]) == {}


def test_only_what_is_meant_to_hold_is_overtaken() -> None:
    said = ["Yesterday the review was on 2027-04-02.", "Update: the review moved to May 4."]
    assert find_overtaken(said) == {}


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
    assert told_states(text) == ("STATUS: Step 1 is done.", "Step 2 is next.")
    assert told_facts(text) == ("FACT: It is slow.",)
    assert told_states("```\nSTATUS: Step 1 is done.\n```") == ()


class Counted(str):
    """A text that counts how many of its signs are read in search of others."""

    read = 0

    def count(self, *looked_for: Any) -> int:
        _, start, end = looked_for
        self.read += end - start
        return super().count(*looked_for)


def test_a_long_text_is_read_once_for_its_lines() -> None:
    text = Counted("FACT: The host is slow.\n" + "It is said to be slow again.\n" * 200)
    assert told_facts(text) == ("FACT: The host is slow.",)
    assert text.read <= len(text)


@given(st.lists(st.sampled_from([text for pair in CHANGED + BOTH_STAND for text in pair])))
def test_what_was_said_last_is_never_overtaken(said: list[str]) -> None:
    overtaken = set(find_overtaken(said))
    assert overtaken <= {fold(text) for text in said}
    assert not said or fold(said[-1]) not in overtaken


def test_values_have_the_kind_by_which_they_can_be_compared() -> None:
    text = "Kim Lee pays $20 or five euros by 2027-04-02 for NOVA-9, Python 3.12 on try/a-1."
    assert {(one.kind, one.text) for one in values_of(text)} == {
        ("person", "Kim Lee"),
        ("money", "$20"),
        ("money", "five euros"),
        ("date", "2027-04-02"),
        ("code A-0", "NOVA-9"),
        ("version of python", "3.12"),
        ("branch try", "try/a-1"),
    }
    assert without_values("Kim Lee pays $20.").split() == ["pays", "."]
    assert values_of("Das Haus gehört The Queue.") == ()


@pytest.mark.parametrize(
    "first", ["An", "Don", "Ella", "May", "Mia", "Per", "Su", "Uma", "Una", "Will"]
)
def test_somebody_called_like_a_function_word_is_a_value(first: str) -> None:
    assert [one.text for one in values_of(f"It belongs to {first} Wong.")] == [f"{first} Wong"]
    older = f"FACT: The owner of the queue is {first} Wong."
    assert set(find_overtaken([older, "The new owner of the queue is Kim Lee."])) == {fold(older)}


@pytest.mark.parametrize("text", ["Für Rechnungen gilt das.", "Is Kim ill?", "Im Haus ist Licht."])
def test_a_small_word_at_the_beginning_is_no_first_name(text: str) -> None:
    assert values_of(text) == ()
