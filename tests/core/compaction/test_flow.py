"""One compaction from gate to receipt: what is asked of the outside, what is kept, what is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mcp_compaction.core.compaction.flow import flow
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.policy import PRESETS, Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.core.wording import kilo
from mcp_compaction.model import (
    Ask,
    Calibration,
    Compaction,
    Digest,
    Digested,
    Draft,
    Found,
    Item,
    Kept,
    Message,
    NothingToDo,
    Outcome,
    Projection,
    Refusal,
    SearchRequest,
    Sections,
    Session,
    ShownRecord,
    SummaryRequest,
    Text,
    ToolResult,
    Traits,
    Trimmed,
)
from tests.core.saying import (
    WORDS,
    assistant,
    chatter,
    planned,
    ran,
    read,
    used,
    user,
)
from tests.sessions import NOW, Outside, after, compress, pin, said, session_of

Json = dict[str, Any]
SMALL = Policy(window_tokens=2_000)
LARGE = "".join(f"line {n} of a large file\n" for n in range(400))


NOTHING_MUCH = Draft(
    author="terse", sections=(("DONE", (Item(text="the build went on for a while"),)),)
)


class Hostile(Outside):
    """Gives always the same draft, and finds nothing."""

    def __init__(self, archive: Sequence[Message], draft: Draft | None = None) -> None:
        super().__init__(archive)
        self.draft = draft

    def answer(self, request: SummaryRequest | SearchRequest) -> Draft | Found:
        told = super().answer(request)
        if isinstance(request, SearchRequest):
            return Found(hits=tuple(() for _ in request.queries))
        return self.draft or told


def text_of_cut(outcome: Compaction, seq: int) -> str:
    """What a view shows of the one part of a message that it cuts."""
    entries = (*outcome.view.head, *outcome.view.body)
    (cut,) = next(e.cuts for e in entries if isinstance(e, Trimmed) and e.seq == seq)
    assert isinstance(cut.shown, Text | ToolResult)
    return cut.shown.text


def done(outcome: Outcome) -> Compaction:
    assert isinstance(outcome, Compaction), outcome
    return outcome


def records(session: Session, policy: Policy = SMALL) -> str:
    shown = lay_out(session, policy.index_limit, estimate)
    return "\n".join(piece.text for piece in shown if isinstance(piece, ShownRecord))


def open_tasks_in(digest: Digest) -> list[str]:
    """The tasks of a digest: what was only in hand is none."""
    tasks = (item for item in digest.items("OPEN") if item.value and item.value.kind == "task")
    return [item.text for item in tasks]


def working(steps: int, start: int = 0) -> list[Json]:
    return [
        message
        for n in range(start, start + steps)
        for message in read(f"c{n}", f"src/mod{n}.py", f"def f{n}(): {WORDS}")
    ]


# The gate


def test_few_messages_are_refused_with_numbers_and_the_next_step() -> None:
    assert compress(session_of([user("go"), assistant("yes")]), SMALL) == Refusal(
        reason="few_messages",
        held_by=(("first_request", 6), ("recent_steps", 6)),
        text="not compressed: 2 messages in the window, fewer than 4; 12 of 2.0k tokens is 1 %, "
        "held by the first request 6, recent steps 6. Nothing to gain yet; go on.",
    )


def test_a_window_below_the_release_mark_is_refused_with_numbers_and_the_next_step() -> None:
    session = session_of([user("go"), *chatter(8)])
    outcome = compress(session, SMALL)
    tokens = measure(session, SMALL, estimate).tokens
    assert outcome == Refusal(
        reason="below_release",
        held_by=(("first_request", 6), ("recent_steps", 360), ("older_steps", tokens - 366)),
        worth_from_tokens=1_300,
        text="not compressed: the window is below the 60 % a compaction goes down to; "
        f"{tokens} of 2.0k tokens is {tokens / 20:.0f} %, held by the first request 6, recent "
        f"steps 360, older steps {tokens - 366}. Worth it from about 65 % (1.3k). Go on. "
        "Before a large input pass room_tokens; force=true compresses all the same.",
    )


def test_force_keeps_the_newest_turns_alone_where_all_of_a_window_is_recent() -> None:
    session = session_of([user("go"), *working(40)])
    policy = Policy(window_tokens=1_000_000)
    assert compress(session, policy, force=True, dry_run=True).kind == "projection"
    seen = after(session, done(compress(session, policy, force=True)))
    assert [m.ref for m in seen.messages[1:]] == [m.ref for m in session.messages[-6:]]
    exact = policy.model_copy(update={"preserve_recent_messages": 200})
    assert compress(session, exact, force=True).kind == "nothing"


def test_too_little_gain_is_refused_with_numbers_and_the_next_step() -> None:
    policy = SMALL.model_copy(update={"min_gain_percent": 90})
    outside = Outside(())
    outcome = compress(session_of([user("go"), *chatter(30)]), policy, outside)
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "too_little_gain"
    assert dict(outcome.held_by)["recent_steps"] == 120
    assert "would free about " in outcome.text
    assert "of 2.0k tokens, less than 90 % (1.8k), from which on it is worth it" in outcome.text
    assert "the fill is 90 %, " in outcome.text
    assert "held by the first request 6, recent steps 120" in outcome.text
    assert outcome.text.endswith(
        "Go on until more steps are done, pass target_percent below 60 for more, or pass "
        "force=true."
    )
    assert not outside.summaries


def test_fixed_sections_that_are_too_large_are_named_with_their_numbers() -> None:
    session = session_of([user("go"), *chatter(6)], section_tokens=5_000)
    outside = Outside(session.messages)
    outcome = compress(session, PRESETS["subagent"], outside)
    assert isinstance(outcome, NothingToDo | Refusal)
    assert "The fixed sections alone take 5.0k of 4.1k" in outcome.text
    assert "shorten the system prompt, the tools or the pins. Go on" in outcome.text
    assert not outside.summaries


def test_a_shortfall_is_named_with_what_holds_the_window() -> None:
    session = session_of([user("go"), *chatter(40)], section_tokens=1_500)
    receipt = done(compress(session, SMALL)).receipt
    assert receipt.shortfall is not None
    assert receipt.shortfall.startswith(
        f"{kilo(receipt.after)} is above the target of 1.2k: held by"
    )
    assert "system and tools 1.5k" in receipt.shortfall
    assert "digests" in receipt.shortfall
    assert "The fixed sections alone take 1.5k of 2.0k" in receipt.shortfall
    assert not receipt.is_enough
    held = dict(receipt.held_by)
    assert held["system"] == 1_500
    assert list(held) == ["system", "first_request", "recent_steps", "digests"]


# The plan


def test_a_dry_run_asks_nothing_and_says_what_would_come_of_it() -> None:
    session = session_of([user("go"), *chatter(40)])
    outside = Outside(session.messages)
    outcome = compress(session, SMALL, outside, dry_run=True)
    assert isinstance(outcome, Projection)
    assert (outside.summaries, outside.searches) == ([], [])
    receipt = done(compress(session, SMALL)).receipt
    assert outcome.before == receipt.before
    assert outcome.after >= receipt.after
    assert outcome.spans == tuple((span.first, span.last) for span in receipt.replaced)
    assert sum(tokens for _, tokens in outcome.freed) == outcome.before - outcome.after


def test_a_span_takes_exactly_the_whole_steps_inside_it() -> None:
    session = session_of([user("go"), *working(40), user("newest"), assistant("so")])
    outcome = done(compress(session, Policy(), span=(3, 50)))
    (replaced,) = outcome.receipt.replaced
    assert (replaced.first, replaced.last) == (4, 49)
    assert outcome.receipt.target is None
    assert outcome.receipt.shortfall is None
    assert [e.seq for e in outcome.view.body if isinstance(e, Kept)] == [2, 3, *range(50, 84)]


# The summarizer


def test_the_summarizer_is_shown_the_old_steps_and_none_that_stay() -> None:
    session = session_of([user("go"), *chatter(40)])
    outside = Outside(session.messages)
    seen = after(session, compress(session, SMALL, outside, focus="the parser"))
    (request,) = outside.summaries
    kept = {message.seq for message in seen.messages}
    assert [m.seq for m in request.messages] == list(range(request.first, request.last + 1))
    assert kept.isdisjoint(m.seq for m in request.messages)
    assert kept | {m.seq for m in request.messages} == set(range(1, 42))
    assert request.focus == "the parser"
    assert request.max_tokens <= SMALL.digest_limit


def test_must_keep_lines_and_the_index_go_with_the_request() -> None:
    session = session_of(
        [user("go"), user("Never push to main."), *read("1", "src/a.py", WORDS), *chatter(40)]
    )
    outside = Outside(session.messages)
    compress(session, SMALL, outside)
    (request,) = outside.summaries
    ((section, items),) = request.must_keep
    assert (section, [item.text for item in items]) == ("CONSTRAINTS", ["Never push to main."])
    assert [item.text for item in request.index if item.kind == "file"] == ["src/a.py"]


def test_the_agents_digest_stands_for_the_newest_span_and_gets_what_it_forgot() -> None:
    session = session_of(
        [
            user("go"),
            user("Never push."),
            *planned("1", ("ship", "pending")),
            assistant("We use Redis for the limiter."),
            *chatter(40),
        ]
    )
    outside = Outside(session.messages)
    outcome = done(compress(session, SMALL, outside, digest="DECISIONS\n- use Redis"))
    (digest,) = outcome.digests
    assert (digest.author, digest.checked) == ("agent", True)
    assert [item.text for item in digest.items("CONSTRAINTS")] == ["Never push."]
    assert open_tasks_in(digest) == ["ship"]
    decided = [(item.text, item.by) for item in digest.items("DECISIONS")]
    assert decided == [("use Redis", "agent")]
    assert not outside.summaries


@pytest.mark.parametrize("answers", [[Found(hits=())], [Draft(author="x"), Draft(author="x")]])
def test_an_answer_of_the_wrong_kind_is_an_error(answers: list[Draft | Found]) -> None:
    session = session_of([user("go"), *working(40)])
    policy = Policy(
        window_tokens=2_000, index_max_tokens=1, recall_max_tokens=1, promoted_max_percent=0
    )
    running = flow(session, policy, Ask(reason="x", force=True), NOW, estimate)
    next(running)
    for answer in answers[:-1]:
        running.send(answer)
    with pytest.raises(TypeError, match="is answered by"):
        running.send(answers[-1])


# A digest alone


def test_a_digest_where_nothing_is_recorded_is_kept_unchecked() -> None:
    session = session_of([], [pin(1, "Never push.")])
    outcome = done(compress(session, SMALL, digest="PROGRESS\n- half way"))
    (digest,) = outcome.digests
    assert (digest.author, digest.checked, digest.messages) == ("agent", False, 0)
    assert outcome.view.body == (Digested(digest=1),)
    assert outcome.view.pinned == (1,)
    receipt = outcome.receipt
    assert (receipt.kind, receipt.checked) == ("digest", False)
    assert receipt.after - receipt.before == digest.tokens
    again = after(session, outcome)
    assert done(compress(again, SMALL, digest="NEXT\n- rest")).view.body == (
        Digested(digest=1),
        Digested(digest=2),
    )


# Memory


def test_memory_is_folded_once_into_the_first_digest_and_not_shown_twice() -> None:
    session = session_of(
        [user("go"), *chatter(40)],
        sections=Sections(memory="The staging host is db-7."),
        memory_tokens=9,
    )
    outside = Outside(session.messages)
    outcome = done(compress(session, SMALL, outside))
    seen = after(session, outcome)
    assert [request.memory for request in outside.summaries] == ["The staging host is db-7."]
    assert outcome.view.memory_in == 1
    assert records(seen).count("db-7") == 1
    more = said(seen, chatter(40), 41)
    again = Outside(())
    last = after(more, compress(more, SMALL, again))
    assert [request.memory for request in again.summaries] == [None]
    assert last.view.memory_in == 1
    assert records(last).count("db-7") == 1


@pytest.mark.parametrize("ask", [{"strategy": "archive"}, {"digest": "PROGRESS\n- x"}])
def test_memory_that_no_summarizer_took_in_stays_in_sight(ask: dict[str, Any]) -> None:
    session = session_of(
        [user("go"), *chatter(40)],
        sections=Sections(memory="The staging host is db-7."),
        memory_tokens=9,
    )
    outcome = done(compress(session, SMALL, **ask))
    assert outcome.view.memory_in is None
    assert "db-7" in records(after(session, outcome))


# Checking


def test_what_no_search_finds_is_put_back_word_for_word() -> None:
    told = " ".join(f"build 7f3a91c{n} took t{n}x: {n}00ms" for n in range(9))
    session = session_of([user("go"), assistant(told), *chatter(60)])
    policy = Policy(
        window_tokens=3_000, index_max_tokens=60, recall_max_tokens=1, promoted_max_percent=0
    )
    outside = Hostile(session.messages, NOTHING_MUCH)
    outcome = done(compress(session, policy, outside, strategy="archive"))
    (digest,) = outcome.digests
    facts = [item.text for item in digest.items("FACTS")]
    assert facts
    assert all(item.refs == ("m2",) for item in digest.items("FACTS"))
    assert all(item.provenance == "verbatim" for item in digest.items("FACTS"))
    shown = records(after(session, outcome), policy)
    assert all(f"7f3a91c{n}" in shown and f"t{n}x={n}00ms" in shown for n in range(9))
    assert sum(tally.lost for tally in outcome.receipt.tallies) == 0


def test_what_is_put_back_stands_in_the_order_it_was_said() -> None:
    told = " ".join(f"build 7f3a91c{n}" for n in range(9))
    session = session_of([user("go"), assistant(told), *chatter(60)])
    policy = Policy(
        window_tokens=3_000, index_max_tokens=1, recall_max_tokens=1, promoted_max_percent=0
    )
    outside = Hostile((), NOTHING_MUCH)
    outcome = done(compress(session, policy, outside, strategy="archive"))
    names = [item.text for item in outcome.digests[0].items("NAMES")]
    assert names == [f"7f3a91c{n}" for n in range(9)]


def test_a_head_that_hides_what_no_search_finds_ends_with_it() -> None:
    code = "```\nthe build is 7f3a91c2\nRetries:\n7\n```\n"
    request = f"Build it.\n{LARGE}{code}{LARGE}"
    session = session_of([user(request), *used("2", "f", LARGE * 2), *chatter(20)])
    policy = Policy(window_tokens=6_000, recall_max_tokens=1)
    assert "7f3a91c2" not in text_of_cut(done(compress(session, policy)), 1)
    outcome = done(compress(session, policy, Hostile(())))
    assert "7f3a91c2" in text_of_cut(outcome, 1)
    assert sum(tally.lost for tally in outcome.receipt.tallies) == 0


# The receipt


def test_a_receipts_numbers_are_those_of_the_view() -> None:
    session = session_of(
        [user("go"), *working(40), *ran("x", "pytest", "exit code 0"), *chatter(20)],
        [pin(1, "Never push to main.")],
    )
    for model, calibration in (
        (None, Calibration()),
        ("claude-opus-4-8", Calibration()),
        ("gpt-5", Calibration(counted=1_000, reported=700)),
    ):
        info = session.info.model_copy(update={"traits": Traits(model=model)})
        given = session.model_copy(update={"info": info, "calibration": calibration})
        for window in (900, 4_000):
            policy = Policy(window_tokens=window)
            receipt = done(outcome := compress(given, policy)).receipt
            assert receipt.before == measure(given, policy, estimate).tokens
            assert receipt.after == measure(after(given, outcome), policy, estimate).tokens
            freed = sum(tokens for _, tokens in receipt.freed)
            assert abs(freed - (receipt.before - receipt.after)) <= len(receipt.freed) + 1
            assert receipt.window == window
            assert receipt.pins == 1


# Many compactions


def test_a_summarizer_that_writes_too_much_is_not_believed_and_not_asked_again() -> None:
    session = session_of([user("go"), *chatter(400)])
    policy = Policy(window_tokens=20_000, digest_max_tokens=100, index_max_tokens=1)
    lines = tuple(
        Item(text=f"an open task that nobody has done yet, number {n}") for n in range(60)
    )
    outside = Hostile(session.messages, Draft(author="verbose", sections=(("OPEN", lines),)))
    outcome = done(compress(session, policy, outside))
    assert len(outside.summaries) == 1
    assert outcome.receipt.author == "extractive"
    assert "the draft of verbose was refused" in outcome.receipt.notes[0]


def test_only_the_digest_of_the_span_that_lost_something_is_patched() -> None:
    work = [message for n in range(40) for message in used(f"{n}", "f", f"{n} {WORDS}")]
    session = session_of(
        [user("go"), assistant("build 7f3a91c2"), *chatter(30), user("Newest request."), *work]
    )
    policy = Policy(
        window_tokens=2_000, index_max_tokens=1, recall_max_tokens=1, promoted_max_percent=0
    )
    outcome = done(compress(session, policy, Hostile((), NOTHING_MUCH)))
    assert [[i.text for i in digest.items("NAMES")] for digest in outcome.digests] == [
        ["7f3a91c2"],
        [],
    ]


def plan_call(number: int, *tasks: tuple[str, str]) -> list[dict[str, Any]]:
    todos = [{"content": text, "status": status} for text, status in tasks]
    return used(f"plan{number}", "TodoWrite", "ok", todos=todos)


def test_a_task_that_a_later_plan_settles_is_open_no_longer() -> None:
    first = plan_call(1, ("migrate", "pending"), ("docs", "pending"))
    session = session_of([user("go"), *first, *chatter(40)])
    before = done(compress(session, SMALL, force=True))
    assert open_tasks_in(before.digests[0]) == ["migrate", "docs"]
    later = plan_call(2, ("migrate", "completed"), ("docs", "pending"))
    known = len(session.messages)
    session = said(after(session, before), [*later, *chatter(40)], known)
    outcome = done(compress(session, SMALL, force=True))
    seen = after(session, outcome)
    assert [task for digest in seen.digests for task in open_tasks_in(digest)] == ["docs"]


def test_what_a_model_left_out_is_put_back_word_for_word_and_no_model_is_asked_again() -> None:
    session = session_of([user("go"), assistant("build 7f3a91c2"), *chatter(30)])
    policy = Policy(
        window_tokens=2_000, index_max_tokens=1, recall_max_tokens=1, promoted_max_percent=0
    )
    outside = Hostile((), NOTHING_MUCH.model_copy(update={"author": "stubborn"}))
    outcome = done(compress(session, policy, outside))
    assert len(outside.summaries) == 1
    assert "7f3a91c2" in [item.text for item in outcome.digests[0].items("NAMES")]
    assert [t.lost for t in outcome.receipt.tallies if t.kind == "ids"] == [0]


UNSURE = (
    "Wait, the cache may not be the cause. Let me reconsider. Perhaps the pool is; "
    "let me verify that before I touch it."
)


def kept_words(outcome: Outcome) -> str:
    return excerpts_block(done(outcome).view.promoted)


def test_what_an_agent_was_unsure_of_stays_word_for_word() -> None:
    session = session_of([user("go"), assistant(UNSURE), *chatter(30)])
    assert f"m2 Uncertainty points preserved: {UNSURE}" in kept_words(compress(session, SMALL))
    without = kept_words(compress(session, SMALL, preserve_markers=False))
    assert "Uncertainty points" not in without
