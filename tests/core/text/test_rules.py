"""Candidates for pins: what users want kept is found, and their ordinary words are let be."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcp_compaction.core.log.spoken_rules import unpinned_rules
from mcp_compaction.core.pins import suggest_pins
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.model import Candidate, Digest, Item
from tests.core.saying import assistant, results, user
from tests.sessions import messages_of, pin
from tests.tables import table

_WORDINGS = {
    name: tuple(line.replace("⏎", "\n") for line in block.strip().splitlines())
    for name, block in tomllib.loads(
        (Path(__file__).parents[1] / "constraint_wordings.toml").read_text(encoding="utf-8")
    ).items()
}
_MARKED = re.compile(r"⟦(.*?)⟧", re.S)


def _is_found(wording: str) -> bool:
    marked = _MARKED.search(wording)
    said = _MARKED.sub(r"\1", wording)
    wanted = marked[1] if marked else said
    return any(wanted in found or found in wanted for found in find_rules(said))


def _share(hits: Sequence[str], of: Sequence[str]) -> float:
    return len(hits) / len(of)


@pytest.mark.parametrize(
    ("constraints", "ordinary"),
    [
        (_WORDINGS["develop_constraints"], _WORDINGS["develop_ordinary"]),
        (_WORDINGS["held_out_constraints"], _WORDINGS["held_out_ordinary"]),
    ],
    ids=["develop", "held out"],
)
def test_nine_of_ten_constraints_are_found_and_one_of_sixteen_ordinary_messages_at_most(
    constraints: tuple[str, ...], ordinary: tuple[str, ...]
) -> None:
    found = [wording for wording in constraints if _is_found(wording)]
    flagged = [wording for wording in ordinary if find_rules(wording)]

    assert _share(found, constraints) >= 0.90, set(constraints) - set(found)
    assert _share(flagged, ordinary) <= 0.06, flagged


@pytest.mark.parametrize(
    "report",
    [
        "The map is lost on save. This causes the share to always return 0, so lines are missing.",
        "Is there a reason for it? We got a report that it stopped without touching the cache.",
        "Using UTC would be more consistent with the others and avoid trouble with time zones.",
        "No don't turn it on, let's see if it happens again.",
    ],
)
def test_a_report_and_a_thought_order_nothing_for_good(report: str) -> None:
    assert find_rules(report) == ()
    assert find_rules(f"{report} Never push to main.") == ("Never push to main.",)


def test_the_two_sets_of_wordings_share_nothing() -> None:
    assert not {*_WORDINGS["develop_constraints"], *_WORDINGS["develop_ordinary"]} & {
        *_WORDINGS["held_out_constraints"],
        *_WORDINGS["held_out_ordinary"],
    }


def test_a_candidate_is_the_users_own_sentence_with_its_ref() -> None:
    said = [
        user("Fix the limiter. Never push to `main`. Thanks!"),
        assistant("I must never push to main."),
        results(("a", "You must never push to main."), text="Always use the staging key."),
    ]

    assert unpinned_rules(messages_of(said), ()) == (
        Candidate(ref="m1", text="Never push to `main`."),
        Candidate(ref="m3", text="Always use the staging key."),
    )


def test_what_is_pinned_or_was_said_before_is_not_offered_again() -> None:
    said = [
        user("Never push to main."),
        user("never push to main"),
        user("No new dependencies, please."),
    ]

    found = unpinned_rules(messages_of(said), [pin(1, "No new dependencies")])

    assert found == (Candidate(ref="m1", text="Never push to main."),)


@pytest.mark.parametrize(
    "text", ["e", "main", "The user withdrew: Never push to main. Push freely."]
)
def test_no_pin_of_an_agent_hides_what_the_user_said(text: str) -> None:
    said = messages_of([user("Never push to main.")])
    agents = pin(1, text).model_copy(update={"author": "agent"})
    assert [one.text for one in suggest_pins(said, (), [agents], most=3).candidates] == [
        "Never push to main."
    ]
    exact = agents.model_copy(update={"text": "never push to main"})
    assert suggest_pins(said, (), [exact], most=3).candidates == ()


def test_the_newest_are_offered_first_and_the_rest_are_counted() -> None:
    said = [user(f"Never touch table {n}.") for n in range(1, 6)]

    offered = suggest_pins(messages_of(said), (), [pin(1, "Never touch table 5.")], most=3)

    assert [candidate.ref for candidate in offered.candidates] == ["m4", "m3", "m2"]
    assert offered.more == 1
    assert suggest_pins(messages_of(said[:2]), (), (), most=3).more == 0


def test_the_plainest_are_offered_first_and_hints_only_where_rules_leave_room() -> None:
    said = [
        user("Never touch table 1."),
        user("Explain jargon like a teacher."),
        user("Use tabs."),
    ]

    offered = suggest_pins(messages_of(said), (), (), most=3)

    assert [candidate.ref for candidate in offered.candidates] == ["m1", "m3", "m2"]
    assert suggest_pins(messages_of(said), (), (), most=1).more == 1
    assert [one.ref for one in unpinned_rules(messages_of(said), ())] == ["m1", "m3"]


def test_what_was_offered_three_times_in_vain_is_not_offered_until_it_is_said_again() -> None:
    said = [user("Never push to main."), user("Thanks!")]
    once = suggest_pins(messages_of(said), (), (), most=3)

    assert suggest_pins(messages_of(said), (), (), most=3, earlier=[once] * 2) == once
    assert suggest_pins(messages_of(said), (), (), most=3, earlier=[once] * 3).candidates == ()
    said.append(user("never push to main"))
    again = suggest_pins(messages_of(said), (), (), most=3, earlier=[once] * 3)
    assert [candidate.ref for candidate in again.candidates] == ["m3"]


def test_what_only_an_agent_says_the_user_said_is_offered_as_told() -> None:
    (said,) = messages_of([user("Never push to main.")])
    told = said.model_copy(update={"via": "tool"})

    for message, is_told in ((said, False), (told, True)):
        (offered,) = suggest_pins([message], (), (), most=3).candidates
        assert offered == Candidate(ref="m1", text="Never push to main.", is_told=is_told)


@pytest.mark.parametrize(
    "text",
    table(__file__, "code_quotations_and_logs_are_not_the_users_words"),
)
def test_code_quotations_and_logs_are_not_the_users_words(text: str) -> None:
    assert find_rules(text) == ()


@pytest.mark.parametrize(
    "rule",
    table(__file__, "a_standing_rule_is_found_word_for_word_among_other_lines"),
)
def test_a_standing_rule_is_found_word_for_word_among_other_lines(rule: str) -> None:
    assert find_rules(f"Hello there.\n{rule}\nThat is it") == (rule,)


@pytest.mark.parametrize(
    "text",
    [
        "The shimmer effect that Stephanie made is slow.",
        "Discuss the mussels in Debenham.",
        "I know what they do not know.",
        "```\nassert never\n```",
        "call `never()` here",
        "never",
        "never " * 200,
    ],
)
def test_what_only_looks_like_a_rule_is_none(text: str) -> None:
    assert find_rules(text) == ()


def test_a_rule_whose_message_has_left_the_window_is_offered_from_its_digest() -> None:
    rule = Item(text="Never push to main.", refs=("m2",), provenance="verbatim")
    told = Item(text="Never eat.", refs=("m3",))  # an agent's word that a user said it
    written = Item(text="Never sleep.", refs=("m4",), provenance="summarized")
    items = (rule, told, written)
    digest = Digest(number=1, first=2, last=9, messages=8, sections=(("CONSTRAINTS", items),))
    of_the_agent = Candidate(ref="m3", text="Never eat.", is_told=True)
    of_the_user = Candidate(ref="m2", text="Never push to main.")
    assert suggest_pins((), [digest], (), most=3).candidates == (of_the_agent, of_the_user)
    pinned = [pin(1, "Never push to main.")]
    assert suggest_pins((), [digest], pinned, most=3).candidates == (of_the_agent,)


@pytest.mark.parametrize(
    "text",
    table(__file__, "a_rule_as_others_write_it_is_found"),
)
def test_a_rule_as_others_write_it_is_found(text: str) -> None:
    assert find_rules(text)


@pytest.mark.parametrize(
    "text",
    table(__file__, "a_one_off_small_talk_or_a_report_is_no_rule"),
)
def test_a_one_off_small_talk_or_a_report_is_no_rule(text: str) -> None:
    assert find_rules(text) == ()


@pytest.mark.parametrize(
    "text",
    table(__file__, "what_a_program_does_lacks_or_needs_is_no_rule"),
)
def test_what_a_program_does_lacks_or_needs_is_no_rule(text: str) -> None:
    assert find_rules(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "Logging: use the shared logger.",
        "Type hints are required for all functions.",
        "No new dependencies.",
        "Imports at the top, not in functions.",
        "Use parameterized queries to prevent injection.",
        "Move the file without changing its public names.",
    ],
)
def test_an_order_that_sounds_like_such_a_description_is_a_rule(text: str) -> None:
    assert find_rules(text) == (text,)
