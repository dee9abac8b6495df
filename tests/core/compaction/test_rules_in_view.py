"""Every rule a user stated stands word for word in every view that a compaction leaves; of those
of a program's long prompt a small view shows its share, and says how many more there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.core.compaction.receipt import receipt_text
from mcp_compaction.core.digest.extract import must_keep, stated_rules
from mcp_compaction.core.log.content import shown_parts, words_of
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.preview import is_large, lines_to_keep
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import Compaction, Message, Session, ShownRecord, Trimmed
from tests.core.saying import Json, assistant, chatter, ran, results, user
from tests.sessions import Outside, after, compress, messages_of, said, session_of
from tests.strategies import sessions
from tests.tables import table

RULES = table(__file__, "rules")
FILLER = "The limiter reads the clock in the loop and counts what the tenants ask of it. "


def view_text(session: Session, policy: Policy) -> str:
    pieces = lay_out(session, policy.index_limit, estimate)
    return fold(
        "\n".join(
            piece.text
            if isinstance(piece, ShownRecord)
            else "\n".join(words_of(part) for part in shown_parts(piece.message, piece.cuts))
            for piece in pieces
        )
    )


def hidden_rules(told: Sequence[Message], session: Session, policy: Policy) -> list[str]:
    text = view_text(session, policy)
    users = [message.text for message in told if message.role == "user"]
    return [rule for words in users for rule in find_rules(words) if fold(rule) not in text]


def long_request(rules: Sequence[str], sentences: int) -> str:
    return "\n".join(part for rule in rules for part in (FILLER * sentences, rule))


def work(steps: int) -> list[Json]:
    return [m for n in range(steps) for m in ran(f"t{n}", f"ls {n}", f"file {n} " * 200)]


def test_a_shrunk_first_request_keeps_all_its_rules() -> None:
    rules = RULES[:7]
    policy = Policy(window_tokens=12_000)
    session = session_of([user(long_request(rules, 30)), *work(20), user("Go on.")])

    outcome = compress(session, policy, target_percent=20.0)

    assert isinstance(outcome, Compaction)
    assert isinstance(outcome.view.head[0], Trimmed)
    assert hidden_rules(session.messages, after(session, outcome), policy) == []
    assert "rules 7/7 in view" in receipt_text(outcome.receipt)
    assert "lost 0" in receipt_text(outcome.receipt)


def test_a_small_view_shows_its_share_of_the_rules_of_a_long_prompt_and_says_how_many_more() -> (
    None
):
    tips = [f"Never open {name} without a lock, since two may write." for name in "abcdefghijklmn"]
    finish = "Finish your work with this command: `submit --final`."
    later = "Never push to main."
    policy = Policy(window_tokens=4_000)
    prompt = "\n".join([f"Mend the limiter. {FILLER * 20}", *tips, finish, FILLER])
    session = session_of([user(prompt), *work(16), user(later), *chatter(2)])

    outcome = compress(session, policy, target_percent=10.0)

    assert isinstance(outcome, Compaction)
    shown = view_text(after(session, outcome), policy)
    left_out = [tip for tip in tips if fold(tip) not in shown]
    assert 0 < len(left_out) < len(tips)
    assert f"{len(left_out)} more rules; the whole: recall_archived refs m1" in shown
    assert all(fold(words) in shown for words in ("Mend the limiter.", finish, later))
    receipt = receipt_text(outcome.receipt)
    kept = len(tips) - len(left_out)
    assert f"rules {kept + 1}/{len(tips) + 1} in view" in receipt
    assert "lost 0" in receipt


def test_a_shrunk_first_request_keeps_the_command_that_a_rule_speaks_of() -> None:
    command = "Finish your work with this command: `submit --final result.json`."
    rule = "Do not combine it with any other command."
    policy = Policy(window_tokens=12_000)
    about = "The limiter is off where `limit = 0` stands in the table."
    request = f"{FILLER * 90}\n{command}\n{rule}\n{about}\n{FILLER * 90}"
    session = session_of([user(request), *work(20), user("Go on.")])

    outcome = compress(session, policy, target_percent=20.0)

    assert isinstance(outcome, Compaction)
    shown = view_text(after(session, outcome), policy)
    assert fold(command) + ". " + fold(rule) in shown
    assert lines_to_keep(session.messages[0]) == ([command, rule], [about])


def test_a_rule_after_code_that_two_parts_share_is_kept() -> None:
    """Of the second part alone, what follows the fence would be code."""
    blocks = [
        {"type": "text", "text": f"{FILLER * 60}\n```\ncode"},
        {"type": "text", "text": f"{FILLER * 60}\n```\nNever push to main.\n{FILLER * 60}"},
    ]
    policy = Policy(window_tokens=9_000)
    session = session_of([{"role": "user", "content": blocks}, *work(16), user("Go on.")])

    outcome = compress(session, policy, target_percent=20.0)

    assert isinstance(outcome, Compaction)
    assert isinstance(outcome.view.head[0], Trimmed)
    assert hidden_rules(session.messages, after(session, outcome), policy) == []


def test_what_is_exact_in_a_shrunk_first_request_stays_in_sight() -> None:
    task = "Rotate the staging key of `db-7` first."
    policy = Policy(window_tokens=9_000)
    request = f"{FILLER * 90}\n{task}\n{FILLER * 90}"
    session = session_of([user(request), *work(16), user("Go on.")])

    outcome = compress(session, policy, target_percent=20.0)

    assert isinstance(outcome, Compaction)
    assert isinstance(outcome.view.head[0], Trimmed)
    assert fold(task) in view_text(after(session, outcome), policy)


def test_a_head_that_an_older_version_shrank_without_its_rules_gets_them_back() -> None:
    policy = Policy(window_tokens=12_000)
    session = session_of([user(long_request(RULES[:7], 30)), *work(20), user("Go on.")])
    once = after(session, compress(session, policy, target_percent=20.0))
    (entry,) = once.view.head
    assert isinstance(entry, Trimmed)
    text: Any = entry.cuts[0].shown
    bare = text.model_copy(update={"text": text.text.partition("[...")[0]})
    forgotten = entry.model_copy(
        update={"cuts": (entry.cuts[0].model_copy(update={"shown": bare}),)}
    )
    view = once.view.model_copy(update={"head": (forgotten,)})
    lossy = said(once.model_copy(update={"view": view}), chatter(40), len(session.messages))
    assert hidden_rules(session.messages, lossy, policy)

    outcome = compress(lossy, policy, Outside(lossy.messages), force=True)

    assert isinstance(outcome, Compaction)
    assert hidden_rules(session.messages, after(lossy, outcome), policy) == []


@st.composite
def told(draw: st.DrawFn) -> list[Json]:
    """A session with rules in a long first request, between its steps and beside results."""
    rules = st.lists(st.sampled_from(RULES), min_size=1, max_size=6)
    messages = [user(long_request(draw(rules), draw(st.sampled_from((40, 80, 2)))) + FILLER * 20)]
    for number in range(draw(st.integers(1, 4))):
        messages += draw(sessions("anthropic", max_steps=5))
        if messages[-1]["role"] == "user":
            messages.append(assistant("I see."))
        messages.append(user(f"{FILLER}\n{draw(st.sampled_from(RULES))}"))
        step = ran(f"x{number}", "make", f"built {number} " * draw(st.sampled_from((1, 300))))
        beside = draw(st.none() | st.sampled_from(RULES))
        if beside:
            step[1] = results((f"x{number}", "built " * 300), text=beside)
        messages += step
    return messages


@settings(max_examples=20, deadline=None)
@given(
    told(),
    st.sampled_from([12_000, 6_000, 3_000, 1_000]),
    st.lists(
        st.tuples(
            st.integers(8, 30),
            st.sampled_from([10.0, 40.0, None, 2.0]),
            st.sampled_from(["summarize", "archive"]),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_every_committed_compaction_has_every_stated_rule_in_view(
    originals: list[Json], window: int, rounds: list[tuple[int, float | None, str]]
) -> None:
    policy = Policy(window_tokens=window, min_gain_percent=0)
    archive = messages_of(originals)
    session = session_of([])
    known = 0
    for number, (size, target, strategy) in enumerate(rounds, 1):
        until = len(originals) if number == len(rounds) else known + size
        session = said(session, originals[known:until], known)
        known = min(until, len(originals))
        outcome = compress(
            session,
            policy,
            Outside(archive),
            force=True,
            target_percent=target,
            strategy=strategy,
        )
        session = after(session, outcome)
        assert hidden_rules(archive[1:known], session, policy) == []
        if left_out := hidden_rules(archive[:1], session, policy):
            counted = re.search(r"(\d+) more rules?; the whole", view_text(session, policy))
            assert counted  # one of them may stand elsewhere in the view
            assert int(counted[1]) >= len(set(left_out))
            assert is_large(archive[0].text, policy, estimate)
        if isinstance(outcome, Compaction):
            lost = [tally for tally in outcome.receipt.tallies if tally.kind == "rules"]
            assert not any(tally.lost for tally in lost)


OVERTAKEN = table(__file__, "overtaken")


def lines_of(session: Session, policy: Policy) -> list[str]:
    """The lines of all records of a view."""
    pieces = lay_out(session, policy.index_limit, estimate)
    texts = (p.text for p in pieces if isinstance(p, ShownRecord))
    return [line for text in texts for line in text.splitlines()]


@pytest.mark.parametrize(("older", "newer"), OVERTAKEN)
def test_a_rule_stands_beside_a_later_one_on_the_same_matter(older: str, newer: str) -> None:
    policy = Policy(window_tokens=6_000)
    session = session_of([user("Go."), user(older), *work(6), user(newer), *work(6), user("On.")])
    later = next(m.ref for m in session.messages if m.text == newer)

    outcome = compress(session, policy, target_percent=30.0)

    assert isinstance(outcome, Compaction)
    lines = lines_of(after(session, outcome), policy)
    assert f'- "{older}" (m2)' in lines
    assert f'- "{newer}" ({later})' in lines
    assert "rules 2/2 in view" in receipt_text(outcome.receipt)


def test_what_a_user_calls_a_fact_stays_when_another_is_told() -> None:
    facts = [f"FACT: The owner of the queue is {name}." for name in ("Dana Ruiz", "Kim Lee")]
    policy = Policy(window_tokens=6_000)
    session = session_of([user("Go."), user(facts[0]), *work(12), user("On.")])
    once = after(session, compress(session, policy, target_percent=10.0))
    assert fold(facts[0]) in view_text(once, policy)

    more = said(once, [user(facts[1]), *work(12), user("On.")], len(session.messages))
    twice = after(more, compress(more, policy, Outside(more.messages), target_percent=10.0))

    assert fold(facts[1]) in view_text(twice, policy)
    assert fold(facts[0]) in view_text(twice, policy)


@pytest.mark.parametrize(("older", "newer"), OVERTAKEN)
def test_a_rule_of_an_earlier_digest_stays_through_each_compaction_whatever_is_said_later(
    older: str, newer: str
) -> None:
    policy = Policy(window_tokens=6_000)
    session = session_of([user("Go."), user(older), *work(12), user("On.")])
    session = after(session, compress(session, policy, target_percent=30.0))
    assert f'- "{older}" (m2)' in lines_of(session, policy)
    spoken = [user(newer), *work(12), user("On.")]
    later = f"m{session.messages[-1].seq + 1}"
    for more in (spoken, [*work(12), user("On.")], [*work(12), user("On.")]):
        session = said(session, more, session.messages[-1].seq)
        outcome = compress(session, policy, Outside(session.messages), target_percent=30.0)
        assert isinstance(outcome, Compaction)
        session = after(session, outcome)
        lines = lines_of(session, policy)
        assert [line for line in lines if older in line] == [f'- "{older}" (m2)']
        assert [line for line in lines if newer in line] == [f'- "{newer}" ({later})']
        assert "rules 2/2 in view" in receipt_text(outcome.receipt)


def test_a_digest_holds_what_governs_a_rule_and_the_check_looks_for_the_rule_itself() -> None:
    told = messages_of([user("Here is what the intern wrote:\n- Never push to main.")])
    ((_, (kept,)),) = must_keep(told, "")
    assert kept.text == "Here is what the intern wrote: - Never push to main."
    # A preview of the message shows the rule, and so nothing of it has to be put back.
    assert [item.text for item in stated_rules(told)] == ["Never push to main."]
    assert lines_to_keep(told[0]) == (["Never push to main."], [])
