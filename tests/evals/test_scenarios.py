"""The generated sessions: the same for the same seed, sound, and true to what was planted."""

from __future__ import annotations

from collections import Counter

import pytest

from mcp_compaction.core.tokens import estimate
from mcp_compaction.evals.corpora import Context, EvalCase, line_of, survives
from mcp_compaction.evals.runner import context_of
from mcp_compaction.evals.scenarios import grow_session, make_sessions


@pytest.fixture(scope="module")
def cases() -> tuple[EvalCase, ...]:
    return make_sessions(7, 4, 12_000)


def test_all_that_was_planted_stands_in_the_message_it_is_said_to_stand_in(
    cases: tuple[EvalCase, ...],
) -> None:
    for case in cases:
        for probe in case.probes:
            assert probe.source is not None
            assert survives(probe, context_of([case.lines[probe.source]])), probe


def test_every_kind_is_planted_and_some_wordings_are_apart(cases: tuple[EvalCase, ...]) -> None:
    kinds = Counter(probe.kind for case in cases for probe in case.probes)
    assert kinds.keys() == {
        "rule", "task", "decision", "reversal", "path", "command", "id", "number", "error", "url",
        "doubt",
    }  # fmt: skip
    rules = [probe for case in cases for probe in case.probes if probe.kind == "rule"]
    assert {probe.is_apart for probe in rules} == {True, False}
    assert all(case.pins[0] in {probe.needle for probe in rules} for case in cases)


def test_a_decision_that_was_taken_back_is_no_longer_the_truth() -> None:
    case = make_sessions(7, 1, 12_000)[0]
    reversal = next(probe for probe in case.probes if probe.kind == "reversal")
    same = [probe for probe in case.probes if probe.questions == reversal.questions]
    assert same == [reversal]


def test_a_growing_session_knows_what_stands_after_each_round() -> None:
    spans = list(grow_session(7, 0, 4, 2))
    said: list[str] = []
    for span in spans:
        said += [part for m in span.messages for part in line_of(m).text.splitlines()]
        assert all(survives(probe, Context(tuple(said))) for probe in span.probes)
    sizes = [sum(estimate(line_of(m).text) for m in span.messages) for span in spans]
    assert max(sizes) < 1.4 * min(sizes)
    assert len(spans[3].probes) > 3 * len(spans[0].probes)
