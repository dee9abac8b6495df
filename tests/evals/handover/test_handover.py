"""Handovers are measured by what the rest of a session needed, ours beside plain ways."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.errors import InputError
from mcp_compaction.evals.evaluation import WantedSessions, evaluate
from mcp_compaction.evals.handover import PLAIN_WAYS, WITH_RECALL, Needs, judge_claims
from mcp_compaction.evals.handover_sessions import (
    find_origins,
    names_in,
    read_session,
    turns_of,
    with_runs_written_out,
)
from mcp_compaction.evals.report import headlines_of, make_page, make_tables
from mcp_compaction.evals.results import PRODUCT, Report
from mcp_compaction.formats import read_incoming
from mcp_compaction.hosts.folders import known_hosts
from mcp_compaction.model import Digest, Item, SectionName
from tests.core.saying import Json, assistant, calls, ran, used, user
from tests.evals.handover.working import small_session
from tests.hosts.given_hosts import make_home
from tests.sessions import NOW, messages_of


def written(folder: Path, messages: list[Json], name: str = "work.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(message) for message in messages))
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = written(tmp_path_factory.mktemp("own"), small_session())
    wanted = WantedSessions(sessions=0, rounds=0, origins=tuple(find_origins(str(path), {})))
    return asyncio.run(evaluate(wanted, EstimateCounter(), lambda _: None))


def test_names_are_what_work_goes_on_by() -> None:
    text = "In src/api/limits.py the rate_limit of RateLimiter was 4096; sha 7f3a91c2, 1.2.3. Well."
    assert names_in(text) == {
        "src/api/limits.py", "rate_limit", "RateLimiter", "4096", "7f3a91c2", "1.2.3",
    }  # fmt: skip
    assert "a_2.py" in with_runs_written_out("a_1..3.py").split("\n")
    assert with_runs_written_out("m1..m9, 5..1, 1..9999") == "m1..m9, 5..1, 1..9999"


def test_what_is_needed_is_what_later_turns_use_and_earlier_ones_had() -> None:
    early = [user("See src/a.py and src/b.py."), *ran("1", "make check-all", "done: old_name")]
    later = [
        calls(("2", "Bash", {"command": "make check-all\ncat src/a.py src/b.py"}), text="On it."),
        assistant("The old_name and the new_name are gone from src/a.py."),
    ]
    needs = Needs(*(turns_of(read_incoming(part).messages) for part in (early, later)))
    assert needs.in_calls == dict.fromkeys(("src/a.py", "src/b.py", "make check-all"), "On it.")
    assert needs.pairs == [{"src/a.py", "src/b.py"}]
    assert needs.in_talk == ["old_name"]
    assert needs.lines == []


def digest_of(**sections: Item) -> Digest:
    held: dict[SectionName, Item] = sections  # pyright: ignore[reportAssignmentType]
    return Digest(
        number=1, first=1, last=9, messages=9, author="extractive", began=NOW, ended=NOW,
        sections=tuple((name, (item,)) for name, item in held.items()),
    )  # fmt: skip


def test_files_are_told_of_as_they_stand_or_not() -> None:
    early = messages_of(
        [
            *used("1", "Write", "File created successfully", file_path="src/kept_file.py"),
            *used("2", "Write", "File created successfully", file_path="src/gone_file.py"),
            *ran("3", "rm src/gone_file.py", ""),
        ]
    )
    lie = digest_of(DONE=Item(text="src/kept_file.py created; src/gone_file.py created"))
    found = judge_claims(early, (), [lie])
    assert found["files whose state is told"] == (1, 2)
    assert found["files told of falsely"] == (1, 2)
    truth = digest_of(DONE=Item(text="kept_file.py created; gone_file.py deleted"))
    other = digest_of(DONE=Item(text="lib/gone_file.py created"))
    assert judge_claims(early, (), [other])["files told of falsely"] == (0, 2)
    assert judge_claims(early, (), [truth])["files whose state is told"] == (2, 2)


def test_what_is_next_is_stale_where_its_own_message_did_it_or_long_ago() -> None:
    early = messages_of(
        [
            user("Then mend src/second.py."),
            assistant("Next I look at src/third.py."),
            *[assistant("Well.")] * 12,
            calls(("1", "Read", {"file_path": "src/first.py"}), text="Next: src/first.py"),
        ]
    )
    last = f"m{len(early)}"
    later = turns_of(read_incoming([assistant("Now src/second.py.")]).messages)

    def judge(text: str, *refs: str) -> tuple[int, int]:
        found = judge_claims(early, later, [digest_of(NEXT=Item(text=text, refs=refs))])
        return found["NEXT that is not stale"][0], found["NEXT that comes true"][0]

    assert judge("mend src/second.py", "m1") == (1, 1)
    assert judge("look at src/third.py", "m2") == (0, 0)
    assert judge("read src/first.py", last) == (0, 0)
    assert judge("look at src/fourth.py", last) == (1, 0)
    assert judge("mend src/second.py") == (0, 1)


def test_ours_and_the_plain_ways_are_asked_for_the_same(report: Report) -> None:
    asked = {(s.budget, s.way): s.asked for s in report.handover if s.measure.endswith("calls")}
    assert len({way for _, way in asked}) == 2 + len(PLAIN_WAYS)
    assert len(set(asked.values())) == 1
    for one in report.handover:
        assert 0 <= one.kept <= one.asked
    for budget in ("25 %", "10 %"):
        kept = {s.way: s.kept for s in report.handover
                if (s.budget, s.measure) == (budget, "names in later calls")}  # fmt: skip
        assert kept[PRODUCT] <= kept[WITH_RECALL]
    assert [cost.sessions for cost in report.handover_costs] == [1, 1, 1]


def test_a_person_reads_a_table_for_each_budget_and_a_headline(report: Report) -> None:
    tables = list(make_tables(report))
    assert [heading.split(":")[0] for heading, _ in tables] == [
        f"handover, 1 session of plain messages, to {budget}"
        for budget in ("the default", "25 %", "10 %")
    ]
    for _, rows in tables:
        assert len({len(row) for row in rows}) == 1
    first = next(headlines_of(report))
    assert first.figure.endswith(" %")
    assert first.words == "names in later calls that are in view, plain messages to the default"
    assert first.beside.strip(" (").partition(":")[0] in PLAIN_WAYS
    assert first.words in make_page(report)


def test_transcripts_of_every_host_are_read(tmp_path: Path) -> None:
    environ = make_home(tmp_path)
    for host in (one.name for one in known_hosts()):
        found = [read_session(origin) for origin in find_origins(host, environ)]
        assert {session.source for session in found} == {host}
        assert all(session.early for session in found)


def test_a_file_without_a_message_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    written(tmp_path, [], "empty.jsonl")
    written(tmp_path, small_session(6))
    wanted = WantedSessions(sessions=0, rounds=0, origins=tuple(find_origins(str(tmp_path), {})))
    found = asyncio.run(evaluate(wanted, EstimateCounter(), lambda _: None))
    assert [cost.sessions for cost in found.handover_costs] == [1, 1, 1]
    assert any(note.startswith("left out: ") and "empty.jsonl" in note for note in found.notes)


def test_what_is_too_short_is_left_out_and_said(tmp_path: Path) -> None:
    path = written(tmp_path, [user("hi"), assistant("hello")])
    wanted = WantedSessions(
        sessions=0, rounds=0, origins=tuple(find_origins(str(path), {})), left=3
    )
    found = asyncio.run(evaluate(wanted, EstimateCounter(), lambda _: None))
    assert found.handover == ()
    assert found.notes == (
        "left out: 1 session too short to be cut",
        "left out: 3 older sessions; see --limit",
    )


def test_a_source_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no host and no file"):
        find_origins("nowhere", {})
    with pytest.raises(InputError, match="no session in"):
        find_origins(str(tmp_path), {})
