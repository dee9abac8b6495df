"""A summarizer under test: what it took, and how often another had to step in for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mcp_compaction.core.compaction.receipt.text import spent_line
from mcp_compaction.model import Draft, ModelCall, Spent, SummaryRequest
from mcp_compaction.ports import Summarizer

_MOST_REASONS = 3


class AskedSummarizer:
    """Passes every request on, and keeps account of the answers."""

    def __init__(self, summarizer: Summarizer, model: str) -> None:
        self._summarizer = summarizer
        self.model = model
        self._requests = 0
        self._calls: list[ModelCall] = []
        self._falls: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The summarizer's name on a receipt."""
        return self._summarizer.name

    async def summarize(self, request: SummaryRequest) -> Draft:
        """The draft, with its calls and its reason for a fall noted."""
        self._requests += 1
        draft = await self._summarizer.summarize(request)
        self._calls += draft.calls
        if draft.note:
            self._falls[draft.note] += 1
        return draft

    def account(self) -> Iterator[str]:
        """The calls that were made, and the reasons why digests were extracted instead."""
        took = spent_line(_sum_calls(self._calls)).removeprefix("system: ")
        yield f"{self.model}, asked for {self._requests:,} digests: {took}"
        for reason, times in self._falls.most_common(_MOST_REASONS):
            yield f"{self.model}, {times:,} times: {reason}"


def _sum_calls(calls: Sequence[ModelCall]) -> Spent:
    return Spent(
        calls=len(calls),
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        cached_tokens=sum(call.cached_tokens for call in calls),
        cost=sum(call.cost or 0.0 for call in calls),
        seconds=sum(call.seconds for call in calls),
        failed=sum(bool(call.failed) for call in calls),
    )
