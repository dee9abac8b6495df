"""The public API: all that `from mcp_compaction import …` gives, in one place."""

from mcp_compaction import errors
from mcp_compaction.api.blocking import BlockingSession, BlockingStore, open_store
from mcp_compaction.api.handles import OpenSession, OpenStore
from mcp_compaction.compactor.gauge import Stats
from mcp_compaction.compactor.history_fitting import Fitted
from mcp_compaction.compactor.results import Pinned, Prepared, Quote, Recalled
from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.model import Compaction, Failed, NothingToDo, Outcome, Pin, Projection, Refusal
from mcp_compaction.ports import Recorded

__all__ = [
    "BlockingSession",
    "BlockingStore",
    "Compaction",
    "Failed",
    "Fitted",
    "NothingToDo",
    "OpenSession",
    "OpenStore",
    "Outcome",
    "Pin",
    "Pinned",
    "Prepared",
    "Projection",
    "Quote",
    "Recalled",
    "Recorded",
    "Refusal",
    "Stats",
    "errors",
    "open_store",
    "outcome_text",
]
