"""The summarizer that is always there: no model, no network, every line taken from the span."""

from __future__ import annotations

from mcp_compaction.model import Draft, SummaryRequest
from mcp_compaction.threads import Threads


class ExtractiveSummarizer:
    """Answers at once and never fails."""

    name = "extractive"

    def __init__(self) -> None:
        self._threads = Threads()

    async def summarize(self, request: SummaryRequest) -> Draft:
        """A draft by rules."""
        from mcp_compaction.core.digest.extract import extract  # most commands ask for no draft

        return await self._threads.run(extract, request)
