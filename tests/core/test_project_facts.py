"""What a session taught that later ones may need: what is offered, what never is, what is used."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.project_facts import facts_told, is_used, offer_facts
from mcp_compaction.core.text.secrets import redact
from mcp_compaction.model import Draft, FactOffer, Item, Pin
from tests.sessions import messages_of, proved, run

WORKS = "Works here: .venv/bin/pytest -q"
PLACE = "The settings of production are in deploy/prod.toml."
KEY = "sk-ant-api03-" + "a1B2" * 24 + "-AA"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def agent(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def texts(said: list[dict[str, Any]], *pins: Pin) -> list[str]:
    return [offer.text for offer in offer_facts(messages_of(said), pins)]


@pytest.mark.parametrize(
    "said",
    [
        PLACE,
        "We chose SQLite over Postgres because one file is enough.",
        "Nous avons choisi SQLite plutôt que Postgres, car un fichier suffit.",
        "The staging server lives at https://staging.example.org.",
    ],
)
def test_no_fact_is_read_from_the_phrases_of_anybody(said: str) -> None:
    assert texts([user(said), agent(said)]) == []


@pytest.mark.parametrize(
    "command",
    [
        "export AWS_SECRET=[masked:aws-key]; pytest -q",
        f"API_KEY={KEY} pytest -q",
        "pytest -q '[pinned: rules]'",
        "cd /tmp/copy && pytest -q",
        "pytest -q\nrm -r out",
    ],
)
def test_no_command_with_a_secret_a_label_or_of_a_passing_place_is_a_fact(command: str) -> None:
    assert texts(proved(command)) == []


def test_a_command_that_works_is_one_that_was_proved_and_passed_the_last_time() -> None:
    right, wrong = "cd shop && .venv/bin/pytest -q", "pytest -q"
    said = [
        *run(wrong, "No module named shop", "t1", failed=True),
        *run(right, "12 passed in 0.4s", "t2"),
        *run("ls", "a.py", "t3"),
        *run("ls", "a.py", "t4"),
        *run(right, "13 passed in 0.4s", "t5"),
    ]
    assert texts(said) == [f"Works here: {right}"]
    assert texts([*said, *run(wrong, "No module named shop", "t6", failed=True)]) == []


@given(st.lists(st.text(max_size=80) | st.sampled_from([PLACE, "pytest", KEY]), max_size=4))
def test_no_offer_holds_a_secret_and_each_stands_in_a_call(parts: list[str]) -> None:
    command = " ".join(["pytest", *parts])
    for offer in offer_facts(messages_of(proved(command)), ()):
        assert not redact(offer.text).counts
        assert offer.text.removeprefix("Works here: ") == command.strip()


def test_a_session_uses_a_fact_whose_names_it_types_or_whose_words_it_says() -> None:
    assert is_used(PLACE, messages_of(run("vim deploy/prod.toml", "")))
    assert not is_used(PLACE, messages_of([user("Look at production.")]))
    assert is_used("Works here: make check", messages_of(run("make check", "ok")))
    words = "Orders are kept for ten years by law."
    assert is_used(words, messages_of([agent("By law orders are kept ten years, so I keep it.")]))
    assert not is_used(words, messages_of([agent("The orders are sorted.")]))


def told(*items: Item) -> tuple[FactOffer, ...]:
    return facts_told([Draft(author="model-x", sections=(("FACTS", items), ("NEXT", items)))])


def test_what_a_model_found_is_offered_behind_what_calls_proved() -> None:
    finding = Item(text="The importer needs Python 3.12.", refs=("m1", "m6"), by="model")
    said = messages_of([*proved(".venv/bin/pytest -q"), user("And?"), agent(finding.text)])
    offers = offer_facts(said, (), (), told(finding))
    assert [(one.text, one.ref, one.by) for one in offers] == [
        (WORKS, "m3", ""),
        ("The importer needs Python 3.12.", "m6", "model"),
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
        Item(text=WORKS.removesuffix(" -q"), refs=("m2",), by="model"),
    ],
)
def test_what_nothing_shows_a_rule_and_what_is_offered_anyway_is_not_taken_from_a_model(
    item: Item,
) -> None:
    said = messages_of(proved(".venv/bin/pytest -q"))
    assert [o.by for o in offer_facts(said, (), (), told(item))] == [""]
