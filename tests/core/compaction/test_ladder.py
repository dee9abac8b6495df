"""The rungs, gentlest first: what each frees, what it says instead, what it keeps."""

from __future__ import annotations

from collections.abc import Callable
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
from mcp_compaction.core.compaction.ladder.shrink import shrink
from mcp_compaction.core.compaction.ladder.shrink_request import shrink_request
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens, estimate
from mcp_compaction.model import (
    Item,
    Text,
    ToolCall,
    ToolResult,
)
from tests.core.saying import (
    assistant,
    chatter,
    planned,
    read,
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


def test_of_the_plans_the_newest_is_kept() -> None:
    tasks = [(f"a task that takes some words to tell, number {n}", "pending") for n in range(5)]
    session = [*planned("1", *tasks), *planned("2", ("short", "pending")), *planned("3", *tasks)]
    window = climbed(deduplicate, [*session, *TAIL])
    assert cut_calls(window) == {2: {"superseded_by": "m6"}}


# Shrink


def test_a_preview_notes_the_size_and_the_ref_between_beginning_and_end() -> None:
    window = climbed(shrink, [*used("1", "f", PROSE), *TAIL])
    shown = cut_texts(window)[3]
    assert shown.startswith("aa begins line 0\n")
    assert shown.rstrip().endswith("jp begins line 399")
    size = f"401 lines, {len(PROSE):,} characters in all"
    note = f"\n[... {size}; the whole: recall_archived refs m3 ...]\n"
    assert note in shown
    assert len(shown) < 1_100
    assert why(window) == {"preview"}


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


# Merge and truncate


def lines(count: int, kind: str) -> tuple[Item, ...]:
    return tuple(Item(text=f"{kind} number {n} that has some words to it") for n in range(count))


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
