"""Sessions of findings: each is told once, and a rule knows who answers what was asked of it."""

from __future__ import annotations

import pytest

from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.evals.corpora import EvalCase
from mcp_compaction.evals.findings import KINDS, make_findings
from mcp_compaction.evals.reader_cases import cases_of, questions_of
from mcp_compaction.evals.results import PRODUCT

NUMBER = len(KINDS)


@pytest.fixture(scope="module")
def cases() -> list[EvalCase]:
    return [*make_findings(1, NUMBER)]


def test_each_finding_is_told_by_one_message_and_asked_by_one_question(
    cases: list[EvalCase],
) -> None:
    for case in cases:
        assert len({probe.questions for probe in case.probes}) == len(case.probes)
        for probe, question in zip(case.probes, questions_of(case.probes, 99), strict=True):
            source = probe.source
            assert source is not None
            assert question.is_answered_by(case.lines[source].text.replace("\n", " "))
            if probe.test == "exact":  # a count may be told of two buildings
                others = [n for n, line in enumerate(case.lines) if probe.needle in line.text]
                assert source in others


def test_the_same_seed_gives_the_same_sessions_and_another_one_others() -> None:
    first, again, other = (
        [line for case in make_findings(seed, NUMBER) for line in case.lines] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_what_the_question_tells_is_no_answer(cases: list[EvalCase]) -> None:
    for case in cases:
        asked = [*questions_of(case.probes, 99)]
        assert {case.name.split()[0] for case in cases} == {*KINDS}
        assert not any(question.is_answered_by(question.text) for question in asked)
        assert not any(question.is_answered_by("UNKNOWN") for question in asked)


@pytest.mark.anyio
async def test_a_view_holds_some_of_each_kind_and_the_newest_lines_not_all(
    cases: list[EvalCase],
) -> None:
    counter = EstimateCounter()
    kinds: set[str] = set()
    async for case in cases_of(cases, 25, 99, counter, counter.count):
        wanted = {question.answer for question in case.questions}
        assert any(answer in case.views[PRODUCT] for answer in wanted), case.name
        assert not all(answer in case.views["keep last"] for answer in wanted), case.name
        kinds |= {question.kind for question in case.questions}
    assert kinds == {"search", "receipt", "talk"}
