"""Long orders: a plan, a lead's orders, a pasted specification. The one at hand stands as it did;
of the others a view tells headings and what they order, and it reaches its goal."""

from __future__ import annotations

import pytest

from mcp_compaction.core.compaction.receipt import receipt_text
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure
from mcp_compaction.model import Compaction, Excerpt, Session
from tests.core.saying import Json, assistant, ran, user
from tests.sessions import Outside, after, compress, messages_of, said, session_of

NAMES = ("shop", "port", "bank")
PARTS = ("ledger", "queue", "mailer", "search", "export", "billing", "audit", "login")
FORMS = (
    "Never let the {p} write field {n} unlocked.",
    "Always check value {n} of the {p} before use.",
    "The {p} must refuse request {n} when it is old.",
    "Do not retry step {n} of the {p} twice.",
)


def specification(name: str, rules: int = 1_230) -> str:
    """A text of 70 kB in which nearly every line is a rule."""
    lines = [f"# The {name}"]
    for n in range(rules):
        part = PARTS[n // 40 % len(PARTS)]
        if n % 40 == 0:
            lines += ["", f"## {part.title()} {n // 40} of the {name}", ""]
        lines.append(f"{n + 1}. " + FORMS[n % 4].format(p=f"{name} {part}", n=n))
    return "\n".join(lines)


SPECIFICATIONS = [*map(specification, NAMES)]


def work(steps: int, first: int) -> list[Json]:
    return [m for n in range(first, first + steps) for m in ran(f"t{n}", f"make {n}", BUILT)]


BUILT = "The part was built as asked.\n" * 160
PASTED: list[Json] = [
    message
    for number, text in enumerate(SPECIFICATIONS)
    for message in (user(text), *work(12, 100 * number), assistant(f"Text {number} is built."))
]


def orders_told(session: Session) -> list[Excerpt]:
    return [one for one in session.view.promoted if one.by == "user" and len(one.pieces[0]) > 90]


@pytest.mark.parametrize(
    ("window", "target", "is_at_hand"),
    [(200_000, None, False), (200_000, 25.0, True), (64_000, None, False), (64_000, 25.0, True)],
)
def test_three_pasted_specifications_fit_the_goal_of_a_view(
    window: int, target: float | None, is_at_hand: bool
) -> None:
    assert all(len(text) > 69_000 and len(find_rules(text)) > 1_200 for text in SPECIFICATIONS)
    policy = Policy(window_tokens=window)
    before = [user("Build what the next texts say."), *PASTED]
    then = [] if is_at_hand else [user("Now run all the tests.")]
    originals = [*(before[:-1] if is_at_hand else before), *then, *work(70, 500)]
    session = session_of(originals)

    outcome = compress(session, policy, force=True, target_percent=target)

    assert isinstance(outcome, Compaction)
    shrunk = after(session, outcome)
    goal = policy.release_tokens if target is None else policy.share(target)
    assert measure(shrunk, policy, estimate).counted <= goal
    assert not any(one.items("CONSTRAINTS") for one in outcome.digests)
    assert "lost 0" in receipt_text(outcome.receipt)
    told = orders_told(shrunk)
    assert len(told) == (2 if is_at_hand else 3)
    for one in told:
        assert one.pieces[0] in SPECIFICATIONS or estimate(one.pieces[0]) <= goal // 4
        heading, first, *_ = filter(None, one.pieces[0].split("\n"))
        assert heading.startswith("# The ")
        assert first.startswith("## Ledger 0 of the ")


def test_a_request_at_hand_is_whole_while_it_fits_and_shows_its_share_of_rules_otherwise() -> None:
    session = session_of([user("Build it."), *PASTED[:1], *work(70, 500)])
    for window, is_whole in ((200_000, True), (64_000, False)):
        policy = Policy(window_tokens=window)
        outcome = compress(session, policy, force=True, target_percent=25.0)
        assert isinstance(outcome, Compaction)
        (entry,) = [one for one in outcome.view.body if one.kind != "digested" and one.seq == 2]
        assert (entry.kind == "kept") == is_whole
        assert "lost 0" in receipt_text(outcome.receipt)


def test_a_long_order_is_told_again_by_the_next_compaction() -> None:
    policy = Policy(window_tokens=64_000)
    originals = [user("Build it."), *PASTED, user("Now run all the tests."), *work(40, 500)]
    once = after(session_of(originals), compress(session_of(originals), policy, force=True))
    first = orders_told(once)
    more = [user("And now the docs."), *work(60, 700)]
    longer = said(once, more, len(originals))

    outcome = compress(longer, policy, Outside(messages_of([*originals, *more])), force=True)

    assert isinstance(outcome, Compaction)
    again = orders_told(after(longer, outcome))
    assert [one.seq for one in again] == [one.seq for one in first]
    for old, new in zip(first, again, strict=True):
        lines = {line.removesuffix(" …") for line in old.pieces[0].split("\n")}
        assert {line.removesuffix(" …") for line in new.pieces[0].split("\n")} <= lines
