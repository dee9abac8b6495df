"""A compaction is graded by the files that are read again after it, beside a tail of its size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.grading import describe_grade
from mcp_compaction.core.policy import Policy
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Grade, SessionInfo
from tests.compactor.small_session import assistant, open_session, user
from tests.core.saying import call, results

pytestmark = pytest.mark.anyio

WIDE = Policy(window_tokens=60_000)
HALVE = Ask(reason="a boundary", force=True, target_percent=8)


def text_of(path: str, first: int = 1) -> str:
    return "\n".join(f"line {n} of {path} says what it says" for n in range(first, first + 60))


def read(path: str, number: int, text: str = "") -> list[dict[str, Any]]:
    asked = call(f"r{number}", "Read", file_path=path)
    return [asked, results((f"r{number}", text or text_of(path)))]


def edit(path: str, number: int) -> list[dict[str, Any]]:
    asked = call(f"e{number}", "Edit", file_path=path, old_string="a", new_string="b")
    return [asked, results((f"e{number}", "changed"))]


def steps(first: int, last: int) -> list[dict[str, Any]]:
    return [one for n in range(first, last) for one in (assistant(f"Step {n}."), user("Go on."))]


async def say(work: Workspace, info: SessionInfo, *said: dict[str, Any]) -> None:
    await compactor.record(work, info, read_incoming(list(said)))


async def begin(work: Workspace, info: SessionInfo) -> None:
    """Read four files and talk, and compact that."""
    files = [one for n, path in enumerate("abcd") for one in read(f"src/{path}.py", n)]
    others = [one for n in range(20) for one in read(f"docs/{n}.md", 100 + n)]
    await say(work, info, user("Mend the parser."), *files, *others, *steps(0, 6))
    assert isinstance(await compactor.compress(work, info, HALVE), Compaction)


async def test_what_is_read_again_and_what_a_tail_would_lack_is_told(tmp_path: Path) -> None:
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await begin(work, info)
        again = [*read("src/a.py", 200), *edit("src/b.py", 201)]
        other_part = read("src/c.py", 202, text_of("src/c.py", first=500))
        await say(work, info, *again, *other_part, *steps(10, 20))
        grade = (await compactor.read_stats(work, info)).grade
        assert grade is not None
        assert (grade.compaction, grade.answers) == (1, 13)
        assert (grade.files, grade.again, grade.tail_lacks) == (2, 1, 2)
        counted = work.counter.count(text_of("src/a.py"))
        assert (grade.again_tokens, grade.tail_tokens) == (counted, 2 * counted)
        second = await compactor.compress(work, info, HALVE)
        assert isinstance(second, Compaction)
        assert second.receipt.notes[0] == describe_grade(grade)
        assert (await compactor.read_stats(work, info)).grade is None  # nothing came after it yet


async def test_a_file_whose_text_still_stands_in_the_window_is_not_read_again(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await begin(work, info)
        await say(work, info, *read("src/new.py", 300), *read("src/new.py", 301), *steps(10, 20))
        grade = (await compactor.read_stats(work, info)).grade
        assert grade is not None
        assert (grade.files, grade.again) == (0, 0)
        assert "no file was used that had been read before it" in describe_grade(grade)


async def test_after_few_answers_and_before_any_compaction_there_is_no_grade(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await say(work, info, user("Begin."), *steps(0, 20))
        assert (await compactor.read_stats(work, info)).grade is None
        await begin(work, info)
        await say(work, info, *read("src/a.py", 400), *steps(30, 35))
        assert (await compactor.read_stats(work, info)).grade is None


def test_a_grade_is_told_in_one_line() -> None:
    grade = Grade(
        compaction=4,
        answers=40,
        files=8,
        again=1,
        again_tokens=900,
        tail_lacks=5,
        tail_tokens=8_400,
    )
    assert describe_grade(grade) == (
        "since c4 (40 answers): 1 of 8 files read again, 900 tokens; the newest messages in as "
        "many tokens would have lacked 5, 8.4k tokens"
    )
