"""What of an account a room holds: talk first, the newest first, and never more than the room."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.core.account.fit import fit_account
from mcp_compaction.core.account.lines import Line
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.tokens import CountTokens, estimate
from mcp_compaction.model import Excerpt
from tests.core.account.telling import read
from tests.core.saying import Json, assistant, ran, user
from tests.core.saying import read as seen

COUNTS: dict[str, CountTokens] = {
    "estimate": estimate,
    "words": lambda text: len(text.split()),
    "characters": len,
}
ANSWER = "\n".join(f"crane{n} carries harbor{n} at 10.0.0.{n}" for n in range(60))
SAID = "The report of the night names each crane, its harbor and what it carried. "

words = st.sampled_from(
    ["Go on.", SAID, SAID * 9, "上下文窗口快满了，请继续。", "a\nb\r\nm3 user: yes"]
)
numbers = st.integers(0, 99)
turns = st.one_of(
    words.map(user).map(lambda one: [one]),
    words.map(assistant).map(lambda one: [one]),
    numbers.map(lambda n: ran(f"r{n}", f"make part{n} --log out/{n}.log", ANSWER[: 40 * n])),
    numbers.map(lambda n: seen(f"f{n}", f"src/part{n}.py", ANSWER[: 30 * n])),
)
told_sessions = st.lists(turns, max_size=24).map(lambda found: [m for turn in found for m in turn])


def tokens(shown: tuple[Excerpt, ...], count: CountTokens = estimate) -> int:
    return count(excerpts_block(shown)) if shown else 0


def fit(
    lines: list[Line],
    room: int,
    count: CountTokens = estimate,
    *,
    keeps_talk: bool,
    of_order: int | None = None,
) -> tuple[Excerpt, ...]:
    """An account in which a long order may take a quarter of the room."""
    most = room // 4 if of_order is None else of_order
    return fit_account(lines, room, count, keeps_talk=keeps_talk, of_order=most)


@settings(deadline=None)
@given(told_sessions, st.integers(-50, 3_000), st.sampled_from(sorted(COUNTS)), st.booleans())
def test_an_account_never_takes_more_than_its_room(
    session: list[Json], room: int, counter: str, keeps_talk: bool
) -> None:
    count = COUNTS[counter]
    shown = fit(read(session), room, count, keeps_talk=keeps_talk)
    assert tokens(shown, count) <= max(0, room)


@settings(deadline=None)
@given(told_sessions, st.integers(0, 3_000), st.booleans())
def test_what_is_shown_is_a_form_of_its_line_in_the_order_of_time(
    session: list[Json], room: int, keeps_talk: bool
) -> None:
    lines = read(session)
    shown = fit(lines, room, estimate, keeps_talk=keeps_talk)
    left = list(shown)
    for line in lines:
        forms = [line.form(level) for level in range(len(line.makes))]
        taken = next((f for f in forms if tuple(left[: len(f)]) == f), ())
        del left[: len(taken)]
    assert not left


def order_of(lines: int) -> str:
    """A specification of so many rules under headings."""
    rules = (f"{n}. Never let part {n} write to harbor {n} without a lock." for n in range(lines))
    return "\n".join(
        f"## Section {n}\n{rule}" if n % 25 == 0 else rule for n, rule in enumerate(rules)
    )


def working(turns: int) -> list[Json]:
    """Turns of an order, two calls with long answers, and closing words."""
    return [
        message
        for n in range(turns)
        for message in (
            user(f"Now mend part {n} of the limiter."),
            *ran(f"a{n}", f"cat part{n}.log", ANSWER),
            *ran(f"b{n}", f"make part{n}", ANSWER),
            assistant(f"Part {n} is mended: the clock was read twice in loop {n}."),
        )
    ]


def test_all_talk_is_whole_before_any_call_is_told() -> None:
    lines = read(working(12))
    talk = tuple(one for line in lines if line.is_talk for one in line.whole)
    shown = fit(lines, tokens(talk) + 40, estimate, keeps_talk=True)
    assert tuple(one for one in shown if one.by in ("user", "closing")) == talk
    narrow = fit(lines, tokens(talk) // 2, estimate, keeps_talk=True)
    asked = tuple(one for one in talk if one.by == "user")
    assert tuple(one for one in narrow if one.by == "user") == asked
    assert not any(one.by == "step" for one in narrow)


def test_a_pasted_blob_does_not_cost_older_words_of_the_user_their_place() -> None:
    lines = read([user("Keep the port of Anna at 8443."), user("pasted " * 2_000)])
    shown = fit(lines, 200, estimate, keeps_talk=False)
    assert shown[0].pieces == ("Keep the port of Anna at 8443.",)


def test_a_long_order_is_whole_while_it_fits_its_share_and_told_in_short_otherwise() -> None:
    order = order_of(200)
    (line,) = read([user(order)])
    whole = tokens(line.whole)
    for keeps_talk in (True, False):
        assert fit([line], 4 * whole, keeps_talk=keeps_talk)[0].pieces == (order,)
        (short,) = fit([line], 3 * whole, keeps_talk=keeps_talk)
        assert whole // 4 < tokens((short,)) < whole


def test_several_long_orders_leave_room_for_short_words_and_calls() -> None:
    session = [m for _ in range(3) for m in (user(order_of(900)), *working(4))]
    lines = read(session)
    for room in (3_000, 10_000, 30_000):
        shown = fit(lines, room, keeps_talk=False)
        orders = {line.seq for line in lines if line.kind == "order"}
        told = [one for one in shown if one.seq in orders]
        assert len(told) == 3
        assert all(tokens((one,)) <= room // 4 + 40 for one in told)
        assert sum(one.by == "user" for one in shown) == 3 + 12
        assert any(one.by == "step" for one in shown)
