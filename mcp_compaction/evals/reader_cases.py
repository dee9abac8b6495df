"""The questions that chats of others and generated sessions bring along, with the views to ask."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Literal

from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.baselines import BASELINES, tokens_of
from mcp_compaction.evals.corpora import EvalCase, Probe
from mcp_compaction.evals.reader import AskedOfView, ReadCase
from mcp_compaction.evals.results import PRODUCT
from mcp_compaction.evals.subject import Subject, subject
from mcp_compaction.ports import TokenCounter

WAYS = ("keep last", "first 100, to 500", "first 200 each", "novelty")
_OF_SESSIONS = ("number", "id", "path", "decision", "reversal", "error")
_FINDINGS = (*_OF_SESSIONS, "answer", "search", "receipt", "talk")
_TESTS: dict[str, Literal["words", "exact", "path", "close"]] = {
    "words": "words",
    "exact": "exact",
    "keyed": "exact",
}


def questions_of(probes: Sequence[Probe], most: int) -> Iterator[AskedOfView]:
    """The questions of a session whose answers a rule knows: so many, drawn evenly from all."""
    asked = [one for one in probes if one.kind in _FINDINGS and one.questions]
    step = max(1, len(asked) // most)
    for probe in asked[::step][:most]:
        # A sentence comes back in other words; what names a thing comes back as it is.
        is_sentence = probe.kind in ("decision", "reversal", "error")
        test = "close" if is_sentence else _TESTS[probe.test]
        yield AskedOfView(kind=probe.kind, text=probe.questions[0], answer=probe.needle, test=test)


async def cases_of(
    cases: Sequence[EvalCase], percent: int, most: int, counter: TokenCounter, count: CountTokens
) -> AsyncIterator[ReadCase]:
    """Each session compressed to so many percent, beside simple ways in as many tokens."""
    for case in cases:
        questions = tuple(questions_of(case.probes, most))
        if not questions:
            continue
        total = tokens_of(case.lines, count)
        async with subject(case, counter) as ours:
            await ours.set_window(total)
            shown = await ours.compress(percent)
            views = {PRODUCT: "\n".join(shown.context.lines)}
            for way in WAYS:
                kept = BASELINES[way](case.lines, total * percent / 100, count)
                views[way] = "\n".join(line.text for line in kept)
            yield ReadCase(f"{case.corpus} {case.name}", questions, views, recall_of(ours))


def recall_of(ours: Subject):
    """The archive of a session, as a model's words are looked for in it."""

    async def recall(words: str) -> str:
        return "\n".join((await ours.recall(words)).context.lines)

    return recall
