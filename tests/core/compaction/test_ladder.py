"""The rungs, gentlest first: what each frees, what it says instead, what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pkgutil import iter_modules
from typing import Any

import pytest

from mcp_compaction.core.compaction import ladder
from mcp_compaction.core.compaction.blocks import (
    DigestBlock,
    MergeBlock,
    SpanBlock,
    StepBlock,
    WindowPlan,
    blocks_of,
    cuts_of,
)
from mcp_compaction.core.compaction.ladder import LADDER, Rung
from mcp_compaction.core.compaction.ladder.deduplicate import deduplicate
from mcp_compaction.core.compaction.ladder.merge import merge
from mcp_compaction.core.compaction.ladder.shrink import shrink
from mcp_compaction.core.compaction.ladder.shrink_request import shrink_request
from mcp_compaction.core.compaction.ladder.summarize import summarize, summarize_all
from mcp_compaction.core.compaction.ladder.truncate import truncate
from mcp_compaction.core.digest.fit import DigestSections, measure_digest
from mcp_compaction.core.digest.fit import merge as merge_digests
from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens, estimate
from mcp_compaction.core.window.preview import is_large, preview, preview_chars
from mcp_compaction.model import (
    Digest,
    Digested,
    Item,
    Kept,
    Text,
    ToolCall,
    ToolResult,
    View,
)
from tests.core.saying import (
    WORDS,
    assistant,
    call,
    calls,
    chatter,
    failed,
    planned,
    read,
    results,
    used,
    user,
)
from tests.sessions import session_of

Json = dict[str, Any]
LONG = "".join(f"line {n} of the file\n" for n in range(40))
LARGE = "".join(f"line {n} of a large file\n" for n in range(400))
PROSE = "".join(f"{chr(97 + n % 26)}{chr(97 + n // 26)} begins line {n}\n" for n in range(400))
BARE = Policy(preserve_recent_turns=0, preserve_recent_percent=None, tail_max_percent=0)
TAIL = [user("newest"), assistant("so")]


Run = Callable[[WindowPlan, int, Policy, CountTokens], WindowPlan]


def climbed(rung: Run, originals: list[Json], policy: Policy = BARE, goal: int = 0) -> WindowPlan:
    before = blocks_of(session_of([user("go"), *originals]), policy)
    return rung(before, goal, policy, estimate)


def cut_texts(window: WindowPlan) -> dict[int, str]:
    """What is shown instead, by message."""
    return {
        entry.seq: cut.shown.text if isinstance(cut.shown, ToolResult | Text) else ""
        for block in window.blocks
        if isinstance(block, StepBlock)
        for entry in block.entries
        for cut in cuts_of(entry)
    }


def cut_calls(window: WindowPlan) -> dict[int, dict[str, Any]]:
    return {
        entry.seq: cut.shown.arguments
        for block in window.blocks
        if isinstance(block, StepBlock)
        for entry in block.entries
        for cut in cuts_of(entry)
        if isinstance(cut.shown, ToolCall)
    }


def why(window: WindowPlan) -> set[str]:
    return {
        cut.why
        for block in window.blocks
        if isinstance(block, StepBlock)
        for entry in block.entries
        for cut in cuts_of(entry)
    }


# Deduplicate


def test_of_the_same_result_of_the_same_tool_the_newest_is_kept() -> None:
    session = [
        *used("1", "Search", LONG, q="a"),
        *used("2", "Other", LONG, q="a"),
        *used("3", "Search", LONG, q="b"),
        *used("4", "Search", LONG, q="a"),
        *TAIL,
    ]
    window = climbed(deduplicate, session)
    assert cut_texts(window) == {3: "[the same as in m9]", 7: "[the same as in m9]"}
    assert why(window) == {"duplicate"}
    assert window.freed[0][0] == "deduplicate"


def test_short_results_are_left_alone() -> None:
    window = climbed(deduplicate, [*used("1", "f", "ok"), *used("2", "f", "ok"), *TAIL])
    assert cut_texts(window) == {}
    assert window.freed == ()


def test_of_one_file_the_newest_read_is_kept() -> None:
    session = [
        *read("1", "a.py", "1" + LONG),
        *read("2", "b.py", "2" + LONG),
        *read("3", "a.py", "3" + LONG),
        *TAIL,
    ]
    window = climbed(deduplicate, session)
    assert cut_texts(window) == {3: "[a.py was read again in m7; that is the newer text]"}
    assert why(window) == {"superseded"}


def test_a_whole_read_supersedes_ranges_but_a_range_only_the_same_range() -> None:
    session = [
        *read("1", "a.py", "1" + LONG, offset=5),
        *read("2", "a.py", "2" + LONG),
        *read("3", "a.py", "3" + LONG, offset=5),
        *read("4", "a.py", "4" + LONG, offset=90),
        *read("5", "a.py", "5" + LONG, offset=5),
        *TAIL,
    ]
    window = climbed(deduplicate, session)
    assert cut_texts(window) == {
        3: "[a.py was read again in m5; that is the newer text]",
        7: "[a.py was read again in m11; that is the newer text]",
    }


def test_a_read_that_failed_supersedes_nothing() -> None:
    session = [
        *read("1", "a.py", "1" + LONG),
        call("2", "Read", file_path="a.py"),
        failed("2", "no such file " + LONG),
        *used("3", "Read", "3" + LONG),
        *TAIL,
    ]
    assert cut_texts(climbed(deduplicate, session)) == {}


def test_an_earlier_recall_answer_goes_but_not_one_in_the_tail() -> None:
    session = [
        *used("1", "recall_archived", "1" + LONG, query="x"),
        *TAIL,
        *used("2", "recall_archived", "2" + LONG, query="y"),
    ]
    policy = BARE.model_copy(update={"preserve_recent_turns": 1})
    window = climbed(deduplicate, session, policy)
    assert cut_texts(window) == {3: "[an earlier recall answer; ask recall_archived again]"}
    assert why(window) == {"recalled"}


def test_one_reason_for_a_stub_is_enough() -> None:
    session = [*read("1", "a.py", LONG), *read("2", "a.py", LONG), *TAIL]
    assert cut_texts(climbed(deduplicate, session)) == {3: "[the same as in m5]"}


def test_of_the_plans_the_newest_is_kept() -> None:
    tasks = [(f"a task that takes some words to tell, number {n}", "pending") for n in range(5)]
    session = [*planned("1", *tasks), *planned("2", ("short", "pending")), *planned("3", *tasks)]
    window = climbed(deduplicate, [*session, *TAIL])
    assert cut_calls(window) == {2: {"superseded_by": "m6"}}


def test_what_is_cut_already_and_what_is_in_the_tail_is_not_cut_again() -> None:
    session = [*read("1", "a.py", LONG), *read("2", "a.py", LONG), *TAIL]
    once = climbed(deduplicate, session)
    assert deduplicate(once, 0, BARE, estimate) is once
    policy = BARE.model_copy(update={"preserve_recent_turns": 3})
    assert cut_texts(climbed(deduplicate, session, policy)) == {}


def test_a_result_without_a_call_is_left_alone() -> None:
    session = [results(("ghost", LONG)), results(("ghost", LONG)), *TAIL]
    assert cut_texts(climbed(deduplicate, session)) == {}


# Shrink


def test_a_preview_notes_the_size_and_the_ref_between_beginning_and_end() -> None:
    window = climbed(shrink, [*used("1", "f", PROSE), *TAIL])
    shown = cut_texts(window)[3]
    assert shown.startswith("aa begins line 0\n")
    assert shown.rstrip().endswith("jp begins line 399")
    note = f"\n[... 401 lines, {len(PROSE):,} characters; the whole: recall_archived refs m3 ...]\n"
    assert note in shown
    assert len(shown) < 1_100
    assert why(window) == {"preview"}


def test_a_tail_over_its_limit_is_shrunk_even_where_the_goal_is_met_without_it() -> None:
    policy = Policy(window_tokens=8_000, preserve_recent_turns=1)
    messages = [user("go"), *used("1", "f", PROSE * 3), *used("2", "f", PROSE), assistant("so")]
    before = blocks_of(session_of(messages), policy)
    assert before.blocks[-2].tokens > policy.tail_limit
    cut = cut_texts(shrink(before, before.tokens - 1, policy, estimate))
    assert list(cut) == [5]


def test_large_arguments_of_a_write_are_previewed() -> None:
    window = climbed(shrink, [*used("1", "Write", "ok", file_path="a.py", content=LARGE), *TAIL])
    arguments = cut_calls(window)[2]
    assert arguments["file_path"] == "a.py"
    assert "recall_archived refs m2" in arguments["content"]


def test_both_large_arguments_of_an_edit_are_previewed() -> None:
    edit = used("1", "Edit", "ok", file_path="a.py", old_string=LARGE, new_string=PROSE)
    arguments = cut_calls(climbed(shrink, [*edit, *TAIL]))[2]
    assert "recall_archived refs m2" in arguments["old_string"]
    assert "recall_archived refs m2" in arguments["new_string"]


def test_shrinking_stops_at_the_goal_oldest_first() -> None:
    session = [*used("1", "f", LARGE), *used("2", "f", LARGE + "."), *TAIL]
    whole = climbed(shrink, session, goal=10**9)
    assert cut_texts(whole) == {}
    half = climbed(shrink, session, goal=whole.tokens - 500)
    assert list(cut_texts(half)) == [3]


def test_the_tail_shrinks_only_where_it_is_too_large_and_never_its_newest_step() -> None:
    session = [*used("1", "f", LARGE), *used("2", "f", LARGE + ".")]
    policy = BARE.model_copy(update={"preserve_recent_turns": 4})
    assert list(cut_texts(climbed(shrink, session, policy))) == [3]
    roomy = policy.model_copy(update={"tail_max_percent": 30})
    assert cut_texts(climbed(shrink, session, roomy)) == {}


def test_requests_open_steps_and_digests_are_not_shrunk() -> None:
    batch = [calls(("1", "f", {}), ("2", "f", {})), results(("1", LARGE))]
    assert cut_texts(climbed(shrink, [user(LARGE), *batch])) == {}
    assert shrink(digests_and_steps(2), 0, BARE, estimate).freed == ()


def test_a_first_request_over_its_limit_is_previewed_and_stays_behind_its_ref() -> None:
    policy = Policy(window_tokens=3_000)
    request = "Build it.\n" + "detail and more detail\n" * 700
    before = blocks_of(session_of([user(request), *TAIL]), policy)
    assert before.head_tokens > 2_000
    shrunk = shrink_request(before, 1_800, policy, estimate)
    (cut,) = cuts_of(shrunk.head[0])
    assert isinstance(cut.shown, Text)
    assert cut.shown.text.startswith("Build it.\n")
    assert "recall_archived refs m1" in cut.shown.text
    assert 300 < shrunk.head_tokens <= 450 + policy.overhead_per_message
    assert shrunk.tokens == before.tokens - shrunk.freed[0][1]
    assert shrink_request(shrunk, 1_800, policy, estimate) is shrunk
    assert shrink_request(shrunk, 1_000, policy, estimate).head_tokens <= 254
    assert shrink_request(shrunk, 0, policy, estimate).head_tokens < 100


def test_rules_and_exact_sentences_of_a_long_first_request_stay_word_for_word() -> None:
    rule, exact = "Never touch the vendor folder.", "The parser takes 40 ms."
    request = "Build it.\n" + f"{LARGE}\n{rule}\n{LARGE}\n{exact}\n{LARGE}"
    before = blocks_of(session_of([user(request), *TAIL]), Policy())
    (cut,) = cuts_of(shrink_request(before, 400, Policy(), estimate).head[0])
    assert isinstance(cut.shown, Text)
    assert f"\n{rule}\n{exact}" in cut.shown.text


def test_a_long_first_request_is_shown_by_its_tasks_rather_than_by_its_examples() -> None:
    tasks = "Your tasks:\n\n1. Create /srv/cache\n2. Limit each answer to 100 KB"
    examples = "## Examples\n\n" + "```\nsed -n '10,20p' file.py\n```\n\n" * 60
    request = f"Mend the feed.\n\n{tasks}\n\n{examples}"
    before = blocks_of(session_of([user(request), *TAIL]), Policy())
    (cut,) = cuts_of(shrink_request(before, 400, Policy(), estimate).head[0])
    assert isinstance(cut.shown, Text)
    assert cut.shown.text.startswith(f"Mend the feed.\n\n{tasks}\n")


def test_a_long_newest_request_takes_two_fifths_of_the_goal() -> None:
    request = user("Now read this.\n" + "detail and more detail\n" * 700)
    policy = Policy(preserve_recent_turns=0)
    messages = [user("go"), *TAIL, request, assistant("so")]
    before = blocks_of(session_of(messages), policy)
    shrunk = shrink_request(before, 1_000, policy, estimate)
    (block,) = [b for b in shrunk.blocks if isinstance(b, StepBlock) and b.guard == "request"]
    assert block.tokens <= 404
    assert shrunk.tokens == before.tokens - shrunk.freed[0][1]
    assert shrink_request(shrunk, 1_000, policy, estimate) is shrunk


def test_a_first_request_within_its_limit_stays_whole() -> None:
    policy = Policy(window_tokens=3_000)
    small = blocks_of(session_of([user("word " * 1_500), *TAIL]), policy)
    assert shrink_request(small, 90_000, policy, estimate) is small
    system: Json = {"role": "system", "content": "word " * 3_000}
    other = blocks_of(session_of([system, assistant("so")]), policy)
    assert shrink_request(other, 90_000, policy, estimate) is other
    headless = blocks_of(session_of([assistant("so")]), policy)
    assert shrink_request(headless, 90_000, policy, estimate) is headless


def test_large_is_judged_by_tokens_or_by_characters() -> None:
    assert not is_large("x" * 500, Policy(), estimate)
    assert is_large("x" * 4_001, Policy(), lambda text: 0)
    assert is_large("word " * 600, Policy(), estimate)
    assert not is_large("word " * 400, Policy(), estimate)
    lab = Policy(shrink_over_chars=500)
    assert (is_large("x" * 501, lab, estimate), is_large("x" * 500, lab, estimate)) == (True, False)
    assert (preview_chars(Policy()), preview_chars(lab)) == (900, 250)


def test_a_preview_is_cut_at_lines_else_at_words_else_anywhere() -> None:
    lines = preview("one\ntwo three\n" * 50, "m1", 36)
    assert lines.split("\n")[0] == "one"
    assert lines.split("\n")[-2:] == ["two three", ""]
    words = preview("alpha beta " * 50, "m1", 30)
    assert words.startswith("alpha beta alpha\n[... 1 lines, 550 characters;")
    assert words.endswith("]\nbeta ")
    assert preview("x" * 90, "m1", 30).split("\n") == [
        "x" * 20,
        "[... 1 lines, 90 characters; the whole: recall_archived refs m1 ...]",
        "x" * 10,
    ]


# Summarize


def test_the_fewest_old_steps_that_reach_the_goal_are_taken() -> None:
    policy = Policy(window_tokens=10_000, preserve_recent_percent=None)
    before = blocks_of(session_of([user("go"), *chatter(60)]), policy)
    window = summarize(before, before.tokens - 500, policy, estimate)
    (span,) = [block for block in window.blocks if isinstance(block, SpanBlock)]
    assert window.tokens <= before.tokens - 500
    assert (span.messages[0].seq, len(span.steps)) == (2, len(span.messages))
    fewer = summarize_all(before, policy, range(len(span.steps) - 1))
    assert fewer.tokens > before.tokens - 500
    assert 10 < len(span.steps) < 54


def test_the_work_in_progress_is_taken_only_where_it_must_be() -> None:
    work = [message for n in range(40) for message in used(f"{n}", "f", f"{n} {WORDS}")]
    policy = Policy(window_tokens=10_000, preserve_recent_percent=None)
    before = blocks_of(session_of([user("go"), *chatter(30), *work]), policy)
    loops = [b for b in before.blocks if isinstance(b, StepBlock) and b.guard == "loop"]
    assert loops
    free = [b for b in before.blocks if isinstance(b, StepBlock) and b.guard is None]
    gentle = summarize(before, before.tokens - 500, policy, estimate)
    assert all(loop in gentle.blocks for loop in loops)
    hard = summarize(before, before.tokens - sum(b.tokens for b in free), policy, estimate)
    assert loops[0] not in hard.blocks
    assert loops[-1] in hard.blocks


def test_steps_too_small_for_a_digest_stay() -> None:
    window = climbed(summarize, [user("a"), assistant("b"), *TAIL])
    assert not window.has_new_digests
    assert window.freed == ()


def test_a_digest_that_would_take_more_than_it_frees_is_not_planned() -> None:
    before = blocks_of(session_of([user("go"), *chatter(3), *TAIL]), BARE)
    assert summarize(before, 0, BARE, estimate) is before
    assert summarize_all(before, BARE, [0, 1, 2]) is before


def test_a_digest_is_planned_at_half_of_what_it_replaces_at_most() -> None:
    policy = Policy(window_tokens=10_000, index_max_tokens=1)
    before = blocks_of(session_of([user("go"), *chatter(20)]), policy)
    window = summarize_all(before, policy, [0, 1, 4, 5])
    spans = [block for block in window.blocks if isinstance(block, SpanBlock)]
    assert [(s.messages[0].seq, s.messages[-1].seq) for s in spans] == [(2, 3), (6, 7)]
    assert [span.limit for span in spans] == [span.replaced // 2 for span in spans]


# Merge and truncate


def lines(count: int, kind: str) -> tuple[Item, ...]:
    return tuple(Item(text=f"{kind} number {n} that has some words to it") for n in range(count))


def a_digest(number: int, facts: int = 20, rules: int = 2) -> Digest:
    sections: DigestSections = (
        ("FACTS", lines(facts, "a fact")),
        ("CONSTRAINTS", lines(rules, f"never {number}")),
    )
    made = Digest(number=number, first=number, last=number, messages=1, sections=sections)
    return measure_digest(made, estimate)


def digests_and_steps(count: int, more: Sequence[Json] = (), policy: Policy = BARE) -> WindowPlan:
    digests = tuple(a_digest(n + 2) for n in range(count))
    body = tuple(Digested(digest=d.number) for d in digests)
    session = session_of(
        [user("go"), *more], view=View(version=1, head=(Kept(seq=1),), body=body, upto=1)
    ).model_copy(update={"digests": digests})
    return blocks_of(session, policy)


def test_neighbouring_digests_are_merged_into_one() -> None:
    window = digests_and_steps(4, TAIL)
    merged = merge(window, 0, BARE, estimate)
    block = merged.blocks[0]
    assert isinstance(block, MergeBlock)
    assert [digest.number for digest in block.digests] == [2, 3, 4, 5]
    assert block.tokens == BARE.digest_limit + 4
    assert merged.blocks[1:] == window.blocks[4:]
    assert merged.freed == (("merge", window.tokens - merged.tokens),)


def test_a_merged_digest_keeps_its_limit_however_many_rules_must_stay() -> None:
    rules = [
        a_digest(n).model_copy(
            update={"sections": (("CONSTRAINTS", (Item(text=f"Never {n}, {WORDS}"),)),)}
        )
        for n in range(2, 8)
    ]
    body = tuple(Digested(digest=one.number) for one in rules)
    view = View(version=1, head=(Kept(seq=1),), body=body, upto=1)
    session = session_of([user("go")], view=view).model_copy(update={"digests": tuple(rules)})
    one = estimate(render_digest(rules[0]))
    policy = BARE.model_copy(update={"digest_max_tokens": 3 * one - 20})
    blocks = merge(blocks_of(session, policy), 0, policy, estimate).blocks
    groups = [block.digests for block in blocks if isinstance(block, MergeBlock)]
    assert [len(group) for group in groups] == [3, 3]
    assert merge_digests(rules, 9, policy.digest_limit, estimate).tokens > policy.digest_limit
    sizes = [merge_digests(group, 9, policy.digest_limit, estimate).tokens for group in groups]
    assert max(sizes) <= policy.digest_limit


def test_one_digest_or_small_ones_are_not_merged() -> None:
    for window in (digests_and_steps(1, TAIL), digests_and_steps(0, TAIL)):
        assert merge(window, 0, BARE, estimate) is window
    roomy = BARE.model_copy(update={"digest_max_tokens": 5_000})
    small = digests_and_steps(2, TAIL, roomy)
    assert merge(small, 0, roomy, estimate) is small


def test_digests_with_a_step_between_them_are_not_merged() -> None:
    digests = (a_digest(2), a_digest(4))
    body = (Digested(digest=2), Kept(seq=2), Digested(digest=4))
    session = session_of(
        [user("go"), assistant("between")],
        view=View(version=1, head=(Kept(seq=1),), body=body, upto=2),
    ).model_copy(update={"digests": digests})
    window = blocks_of(session, BARE)
    assert merge(window, 0, BARE, estimate) is window


def test_results_are_truncated_and_digests_are_not() -> None:
    window = digests_and_steps(1, [*TAIL, *used("1", "f", LARGE), assistant("read")])
    policy = BARE.model_copy(update={"preserve_recent_turns": 2})
    first = truncate(window, window.tokens - 100, policy, estimate)
    assert first.tokens <= window.tokens - 100
    assert first.blocks[0] == window.blocks[0]
    assert "recall_archived refs m5" in cut_texts(first)[5]
    last = truncate(window, 0, policy, estimate)
    assert last.blocks[0] == window.blocks[0]
    assert truncate(last, 0, policy, estimate) is last


def test_the_index_gives_way_as_far_as_the_goal_needs() -> None:
    window = digests_and_steps(1, TAIL).model_copy(update={"index": 100})
    assert truncate(window, window.tokens - 50, BARE, estimate).index == 50
    assert truncate(window, window.tokens - 101, BARE, estimate).index == 0


def test_a_preview_gives_way_to_less_but_a_stub_does_not() -> None:
    session = [*used("1", "f", PROSE), *read("2", "a.py", LONG), *read("3", "a.py", LONG), *TAIL]
    before = shrink(climbed(deduplicate, session), 0, BARE, estimate)
    window = truncate(before, 0, BARE, estimate)
    assert why(window) == {"preview", "duplicate"}
    assert len(cut_texts(window)[3]) < len(cut_texts(before)[3])
    assert cut_texts(window)[5] == cut_texts(before)[5]


def test_requests_and_open_steps_are_not_truncated_and_small_results_stay() -> None:
    batch = [calls(("1", "f", {}), ("2", "f", {})), results(("1", LARGE))]
    window = climbed(truncate, [*used("0", "f", "small"), user(LARGE), *batch])
    assert cut_texts(window) == {}


def covered_by(window: WindowPlan) -> set[int]:
    """The messages that a window shows, or that stand under a digest of it."""
    found = {entry.seq for entry in window.head}
    for block in window.blocks:
        match block:
            case StepBlock(entries=entries):
                found |= {entry.seq for entry in entries}
            case SpanBlock(steps=steps):
                found |= {message.seq for step in steps for message in step.messages}
            case DigestBlock(digest=digest):
                found |= {*range(digest.first, digest.last + 1)}
            case MergeBlock(digests=digests):
                found |= {n for one in digests for n in range(one.first, one.last + 1)}
    return found


@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung.name)
def test_no_rung_loses_a_message(rung: Rung) -> None:
    silent = [*used("a", "rm -rf build-old", ""), *used("b", "cat f", "")]
    long = [*used("c", "cat f", LARGE), *used("d", "cat f", LARGE), *used("e", "f", PROSE)]
    originals = [*silent, *long, assistant(""), *chatter(9)]
    before = blocks_of(session_of([user("go"), *originals, *TAIL]), BARE)
    assert covered_by(before) == {*range(1, len(originals) + len(TAIL) + 2)}
    assert covered_by(rung.run(before, 0, BARE, estimate)) == covered_by(before)


def test_every_file_of_the_ladder_is_a_rung_of_the_table_under_its_own_name() -> None:
    files = {module.name for module in iter_modules(ladder.__path__)}
    assert {rung.name for rung in LADDER} == files
    assert all(rung.run.__name__ == rung.name for rung in LADDER)
    assert len({rung.shown_as for rung in LADDER}) == len(LADDER)
