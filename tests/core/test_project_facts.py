"""What a session taught that later ones may need: what is offered, what never is, what is used."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.log.pinned import is_pinned_block, pinned_block
from mcp_compaction.core.project_facts import facts_told, is_used, offer_facts
from mcp_compaction.core.text.secrets import redact
from mcp_compaction.model import Draft, FactOffer, Item, Pin
from tests.sessions import NOW, messages_of

PLACE = "The settings of production are in deploy/prod.toml."
CHOICE = "We chose SQLite over Postgres because one file is enough."
KEY = "sk-ant-api03-" + "a1B2" * 24 + "-AA"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def agent(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def run(command: str, result: str, number: int, *, failed: bool = False) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}
    answer = {
        "type": "tool_result",
        "tool_use_id": f"t{number}",
        "content": result,
        "is_error": failed,
    }
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]


def pin(text: str, **fields: Any) -> Pin:
    return Pin(number=7, text=text, session="monday", at=NOW, kind="fact", **fields)


def texts(said: list[dict[str, Any]], *pins: Pin) -> list[str]:
    return [offer.text for offer in offer_facts(messages_of(said), pins)]


def test_where_things_are_and_what_was_chosen_are_offered() -> None:
    said = [user(f"Look at the shop. {PLACE}"), agent("I see."), user(CHOICE)]
    assert texts(said) == [CHOICE, PLACE]


@pytest.mark.parametrize(
    "sentence",
    [
        "Die Einstellungen der Produktion liegen in `deploy/prod.toml`.",
        "Les réglages de production se trouvent dans `deploy/prod.toml`.",
        "Los ajustes de producción están en `deploy/prod.toml`.",
        "The staging server lives at https://staging.example.org.",
    ],
)
def test_a_place_is_understood_in_several_languages(sentence: str) -> None:
    assert texts([user(sentence)]) == [sentence]


def test_a_decision_that_was_overtaken_is_not_offered() -> None:
    later = "We chose Postgres over SQLite because two servers write."
    assert texts([user(CHOICE), agent("Fine."), user(later)]) == [later]


@pytest.mark.parametrize(
    "said",
    [
        "Never push to main, since deploy/prod.toml is in use.",  # a rule, offered as one
        "Let's start with the tests.",  # what is done next
        "Is the list in data/rates.csv?",
        "The settings are in [masked:aws-key] of deploy/prod.toml.",
        f"The key {KEY} is in ops/key.txt.",
        "[pinned: rules] The settings are in deploy/prod.toml.",
    ],
)
def test_rules_next_steps_questions_secrets_and_labels_are_no_facts(said: str) -> None:
    assert texts([user(said)]) == []


def test_a_command_that_works_is_one_that_was_proved_and_passed_the_last_time() -> None:
    right, wrong = "cd shop && .venv/bin/pytest -q", "pytest -q"
    said = [
        *run(wrong, "No module named shop", 1, failed=True),
        *run(right, "12 passed in 0.4s", 2),
        *run("ls", "a.py", 3),
        *run("ls", "a.py", 4),
        *run(right, "13 passed in 0.4s", 5),
    ]
    assert texts(said) == [f"Works here: {right}"]
    assert texts([*said, *run(wrong, "No module named shop", 6, failed=True)]) == []


def test_what_is_kept_or_declined_is_not_offered_again() -> None:
    said = [user(f"{PLACE} {CHOICE}")]
    assert texts(said, pin(PLACE)) == [CHOICE]
    (choice,) = offer_facts(messages_of(said), [pin(PLACE)])
    assert offer_facts(messages_of(said), [pin(PLACE)], [choice.id]) == ()


@given(st.lists(st.text(max_size=80) | st.sampled_from([PLACE, CHOICE, KEY]), max_size=4))
def test_no_offer_holds_a_secret_and_each_stands_in_a_message(parts: list[str]) -> None:
    messages = messages_of([user(" ".join(["Hello.", *parts]))])
    for offer in offer_facts(messages, ()):
        assert not redact(offer.text).counts
        assert offer.text.split() == [w for w in offer.text.split() if w in messages[0].text]


def test_a_session_uses_a_fact_whose_names_it_types_or_whose_words_it_says() -> None:
    assert is_used(PLACE, messages_of(run("vim deploy/prod.toml", "", 1)))
    assert not is_used(PLACE, messages_of([user("Look at production.")]))
    assert is_used("Works here: make check", messages_of(run("make check", "ok", 1)))
    words = "Orders are kept for ten years by law."
    assert is_used(words, messages_of([agent("By law orders are kept ten years, so I keep it.")]))
    assert not is_used(words, messages_of([agent("The orders are sorted.")]))


def test_a_fact_is_told_as_one_of_an_earlier_session_with_its_day() -> None:
    fact, rule = pin(PLACE, used=NOW, author="user"), pin(CHOICE)
    lines = pinned_block([fact, rule]).splitlines()
    assert lines[1] == f"p7 fact, by user, kept 2026-11-15 from session monday: {PLACE}"
    assert lines[2] == f"p7 fact, by agent: {CHOICE}"
    assert is_pinned_block("\n".join(lines), [fact, rule])


def told(*items: Item) -> tuple[FactOffer, ...]:
    return facts_told([Draft(author="model-x", sections=(("FACTS", items), ("NEXT", items)))])


def test_what_a_model_found_is_offered_behind_the_users_words() -> None:
    finding = Item(text="The importer needs Python 3.12.", refs=("m1", "m2"), by="model")
    said = messages_of([user(PLACE), agent("The importer needs Python 3.12.")])
    offers = offer_facts(said, (), (), told(finding))
    assert [(one.text, one.ref, one.by) for one in offers] == [
        (PLACE, "m1", ""),
        ("The importer needs Python 3.12.", "m2", "model"),
    ]
    assert offers[1].others == ("m1",)


@pytest.mark.parametrize(
    "item",
    [
        Item(text="The importer was rewritten.", refs=("m2",), by="model", doubt="unshown"),
        Item(text="It runs on Python 3.9.", refs=("m2",), by="model", superseded=True),
        Item(text="It runs on Python 3.9.", by="model"),
        Item(text="It runs on Python 3.9.", refs=("d1",), by="model"),
        Item(text="It runs on Python 3.9.", refs=("m2",), by="agent"),
        Item(text="It runs on Python 3.9.", refs=("m2",)),
        Item(text="Never push to main.", refs=("m2",), by="model"),
        Item(text=PLACE.rstrip("."), refs=("m2",), by="model"),
    ],
)
def test_what_nothing_shows_a_rule_and_what_is_offered_anyway_is_not_taken_from_a_model(
    item: Item,
) -> None:
    assert [o.by for o in offer_facts(messages_of([user(PLACE)]), (), (), told(item))] == [""]
