"""What users tell under a label is found word for word."""

from __future__ import annotations

from mcp_compaction.core.log.told import is_told, labelled_facts, labelled_states


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
