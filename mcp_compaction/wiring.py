"""The only place that names a concrete store, summarizer, counter and clock."""

from __future__ import annotations

from datetime import UTC, datetime

from mcp_compaction.compactor import Compactor, Parts
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.ports import Clock
from mcp_compaction.settings import Settings
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return datetime.now(UTC)  # noqa: TID251  # the one place that reads the clock


async def open_compactor(settings: Settings, clock: Clock | None = None) -> Compactor:
    """A compactor as the settings want it; close it when done."""
    store = await open_store(store_path(settings.home))
    return Compactor(
        Parts(
            store=store,
            summarizer=ExtractiveSummarizer(),
            counter=best_counter(),
            clock=clock or SystemClock(),
            policy=settings.policy,
            mask_secrets=settings.redact,
        )
    )
