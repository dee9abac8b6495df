"""A compaction is graded by what was used, read again, recalled and said again after it, beside
other views of its size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.grading import (
    ACCOUNT,
    NEWEST,
    NO_PROSE,
    OURS,
    TICKETS,
    describe_grade,
    grade_last,
)
from mcp_compaction.core.policy import Policy
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, Grade, SessionInfo, View, WayGrade
from mcp_compaction.viewer import describe_session
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
    await begin_with(work, info, HALVE)


async def begin_with(work: Workspace, info: SessionInfo, ask: Ask) -> None:
    """Read four files and talk, and compact that as it is asked for."""
    files = [one for n, path in enumerate("abcd") for one in read(f"src/{path}.py", n)]
    others = [one for n in range(20) for one in read(f"docs/{n}.md", 100 + n)]
    await say(work, info, user("Mend the parser."), *files, *others, *steps(0, 6))
    assert isinstance(await compactor.compress(work, info, ask), Compaction)


def by_way(grade: Grade) -> dict[str, WayGrade]:
    return {one.way: one for one in grade.ways}


async def grade_of(work: Workspace, info: SessionInfo) -> Grade:
    grade = (await compactor.read_stats(work, info)).grade
    assert grade is not None
    return grade


async def test_what_is_read_again_is_told_beside_what_other_views_would_lack(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await begin(work, info)
        again = [*read("src/a.py", 200), *edit("src/b.py", 201)]
        other_part = read("src/c.py", 202, text_of("src/c.py", first=500))
        newest = read("docs/19.md", 203)
        await say(work, info, *again, *other_part, *newest, *steps(10, 20))
        grade = await grade_of(work, info)
        assert (grade.compaction, grade.answers) == (1, 14)
        # Another part of c.py was never read before, and b.py was edited without a look; docs/19.md
        # still stands there.
        counted = work.counter.count(text_of("src/a.py"))
        assert (grade.files, grade.again, grade.again_tokens) == (3, 1, counted)
        ways = by_way(grade)
        assert [*ways] == [OURS, NEWEST, ACCOUNT, TICKETS]
        assert ways[NEWEST].lacks == 2
        assert ways[NEWEST].lacks_tokens == 2 * counted
        assert ways[OURS].lacks == 2
        assert max(one.tokens for one in grade.ways) <= 1.05 * ways[OURS].tokens
        # Of the four names that calls passed, the newest lines have that of the newest file.
        assert (grade.names, ways[OURS].names, ways[NEWEST].names) == (4, 4, 1)
        assert (await describe_session(work, info))["grade"] == describe_grade(grade)
        second = await compactor.compress(work, info, HALVE)
        assert isinstance(second, Compaction)
        assert second.receipt.notes[0] == describe_grade(grade)
        assert (await compactor.read_stats(work, info)).grade is None  # nothing came after it yet


async def test_a_view_that_lost_what_is_used_next_is_graded_lower(tmp_path: Path) -> None:
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await begin(work, info)
        await say(work, info, *read("src/a.py", 200), *edit("src/b.py", 201), *steps(10, 20))
        whole = by_way(await grade_of(work, info))[OURS].names
        assert whole == 2
        session = await work.load(info)
        emptied = tuple(
            digest.model_copy(update={"sections": (), "index": ()}) for digest in session.digests
        )
        view = session.view.model_copy(update={"promoted": ()})
        lost = session.model_copy(update={"digests": emptied, "view": view})
        found = await work.store.load(info.id, work.now(), View())
        grade = grade_last(lost, found.messages, (), *work.index_terms(session))
        assert grade is not None
        assert by_way(grade)[OURS].names == 0


async def test_prose_is_graded_apart(tmp_path: Path) -> None:
    prose = "GOAL\nMend the parser, which src/secret_helper.py feeds.\nNEXT\nLook at src/a.py."
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await say(
            work, info, user("Mend the parser."), assistant("I look at src/secret_helper.py.")
        )
        await begin_with(work, info, HALVE.model_copy(update={"digest": prose}))
        edited = edit("src/secret_helper.py", 210)
        await say(work, info, *edited, *steps(10, 20))
        ways = by_way(await grade_of(work, info))
        assert [*ways][:2] == [OURS, NO_PROSE]
        assert ways[NO_PROSE].tokens < ways[OURS].tokens


async def test_what_is_recalled_and_said_again_is_counted(tmp_path: Path) -> None:
    rule = "Never touch the generated tables in that folder."
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await say(work, info, user(f"Begin. {rule}"))
        await begin(work, info)
        await compactor.recall(work, info, "line 7 of src/a.py says what it says")
        again = user("Stop! Never touch the generated tables in that folder, please.")
        question = assistant("Shall I write the tests for the parser first?")
        await say(work, info, again, *steps(10, 20), question, user("Yes."))
        grade = await grade_of(work, info)
        assert grade.told == 1  # the question is asked for the first time
        assert grade.recalled >= 1
        ways = by_way(grade)
        assert (ways[OURS].told, ways[NEWEST].told) == (1, 0)
        assert ways[OURS].recalled == 0  # else nobody had had to recall it
        assert "1 sentence said again" in describe_grade(grade)


async def test_a_file_whose_text_still_stands_in_the_window_is_not_read_again(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await begin(work, info)
        await say(work, info, *read("src/new.py", 300), *read("src/new.py", 301), *steps(10, 20))
        grade = await grade_of(work, info)
        assert (grade.files, grade.again) == (0, 0)
        assert "nothing was used that had been known before it" in describe_grade(grade)


async def test_after_few_answers_and_before_any_compaction_there_is_no_grade(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path, policy=WIDE) as (work, info):
        await say(work, info, user("Begin."), *steps(0, 20))
        assert (await compactor.read_stats(work, info)).grade is None
        await begin(work, info)
        await say(work, info, *read("src/a.py", 400), *steps(30, 35))
        assert (await compactor.read_stats(work, info)).grade is None


async def test_one_setting_turns_it_off(tmp_path: Path) -> None:
    silent = WIDE.model_copy(update={"grade": False})
    async with open_session(tmp_path, policy=silent) as (work, info):
        await begin(work, info)
        await say(work, info, *read("src/a.py", 200), *steps(10, 20))
        assert (await compactor.read_stats(work, info)).grade is None
        second = await compactor.compress(work, info, HALVE)
        assert isinstance(second, Compaction)
        assert not any(note.startswith("since c") for note in second.receipt.notes)


def test_a_grade_is_told_in_one_line() -> None:
    def way(name: str, names: int, lacks: int) -> WayGrade:
        return WayGrade(
            way=name,
            tokens=9_000,
            names=names,
            lacks=lacks,
            lacks_tokens=1_680 * lacks,
            recalled=0,
            told=0,
        )

    grade = Grade(
        compaction=4,
        answers=40,
        files=8,
        again=1,
        again_tokens=900,
        names=30,
        recalled=2,
        ways=(way(OURS, 28, 0), way(NEWEST, 12, 5), way(TICKETS, 20, 1)),
    )
    assert describe_grade(grade) == (
        "since c4 (40 answers): 1 of 8 files read again, 900 tokens, 2 messages recalled. Of 30 "
        "known names used our view had 28; in its size the newest lines had 12 (lacked 5 files, "
        "8.4k tokens), tickets had 20 (lacked 1 file, 1.7k tokens). The agent followed our view; "
        "where another had led, nobody knows"
    )
