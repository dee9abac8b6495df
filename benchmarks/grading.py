"""What it costs that a compaction is graded by what came after it, beside that compaction.

    python benchmarks/grading.py ~/chats [--limit 100]

CPU seconds of this process, both taken within one run, for each compaction that hosts have made of
the transcripts there: ours of the same chat to the size that our module leaves, and its grade once
the rest is recorded. It exits with 1 where all grades take more than 15 % of all compactions.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence

from mcp_compaction.audit.auditing import AuditCase, LookedAt, WantedAudit, find_cases
from mcp_compaction.compactor.grading import read_grade
from mcp_compaction.core.compaction.grading import (
    ACCOUNT,
    NEWEST,
    OURS,
    TICKETS,
    describe_grade,
)
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.evals.handover import SMALLEST_WINDOW
from mcp_compaction.evals.handover_sessions import turns_of
from mcp_compaction.evals.subject import subject
from mcp_compaction.formats import Incoming
from mcp_compaction.hosts.limits import room_beside_host
from mcp_compaction.model import Grade
from mcp_compaction.ports import TokenCounter

MOST_SHARE = 0.15


async def measure(case: AuditCase, counter: TokenCounter) -> tuple[float, float, Grade] | None:
    """The seconds of a compaction, those of its grade, and the grade; None where it has none."""
    if case.is_ours or not case.came or not case.later:
        return None
    seen = sum(counter.count(turn.text) for turn in turns_of(case.came))
    async with subject(None, counter) as ours:
        await ours.record(Incoming(messages=tuple(case.came)))
        await ours.set_window(window := max(seen, SMALLEST_WINDOW))
        began = time.process_time()
        await ours.compress(min(99.0, 100 * room_beside_host(seen) / window), force=True)
        compacted = time.process_time() - began
        await ours.record(Incoming(messages=tuple(case.later)))
        session, past = await ours.workspace.load_with_past(ours.info)
        began = time.process_time()
        grade = await read_grade(ours.workspace, session, past.events)
        graded = time.process_time() - began
    return None if grade is None else (compacted, graded, grade)


def describe_sum(way: str, grades: Sequence[Grade]) -> str:
    """What one way held of all that was needed after all compactions."""
    of_way = [one for grade in grades for one in grade.ways if one.way == way]
    names, files = sum(g.names for g in grades), sum(g.files for g in grades)
    lacked = f"lacked {sum(one.lacks for one in of_way)} of {files} files"
    tokens = sum(one.lacks_tokens for one in of_way)
    return (
        f"{way}: {sum(one.names for one in of_way)} of {names} names, {lacked}, {tokens:,} tokens"
    )


async def main(argv: Sequence[str] | None = None) -> int:
    """Print each, and all of them together."""
    parser = argparse.ArgumentParser(description="What grading costs beside compacting.")
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--limit", type=int, default=100)
    options = parser.parse_args(argv)
    counter, found, grades = best_counter(), list[tuple[float, float]](), list[Grade]()
    counter.count("its ranks are read once")
    wanted = WantedAudit(sources=tuple(options.sources), most=options.limit)
    for _, cases in find_cases(wanted, os.environ, _tell_nothing, LookedAt()):
        for case in cases:
            if (one := await measure(case, counter)) is not None:
                compacted, graded, grade = one
                grades.append(grade)
                told = describe_grade(grade)
                found.append((compacted, graded))
                print(f"{case.chat} {case.number}: {compacted:.2f} s, grade {graded:.3f} s; {told}")
    if not found:
        print("no compaction with enough after it was found there")
        return 1
    for way in (OURS, NEWEST, ACCOUNT, TICKETS):
        print(describe_sum(way, grades))
    total, spent = sum(one for one, _ in found), sum(one for _, one in found)
    worst = max(graded / compacted for compacted, graded in found)
    print(
        f"{len(found)} compactions {total:.1f} s, their grades {spent:.2f} s: "
        f"{spent / total:.1%} more, {worst:.0%} in the worst"
    )
    return int(spent > MOST_SHARE * total)


def _tell_nothing(_percent: float, _words: str) -> None:
    """Progress is what it prints."""


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
