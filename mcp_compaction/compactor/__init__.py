"""The one asynchronous shell: load, drive the flow, save; every host and command enters here."""

from mcp_compaction.compactor.events import (
    COMPLETED,
    FAILED,
    FALLBACK,
    HEADLESS,
    HOST_COMPACTED,
    HOST_SUMMARY_CHECKED,
    REGRET,
    SAFETY_NET,
)
from mcp_compaction.compactor.facade import Compactor
from mcp_compaction.compactor.progress import Progress, ignore_progress
from mcp_compaction.compactor.results import (
    Brief,
    HostSummary,
    Pinned,
    PinWish,
    Prepared,
    Quote,
    Recalled,
    Regret,
    Stats,
)
from mcp_compaction.compactor.workspace import Collaborators

__all__ = [
    "COMPLETED",
    "FAILED",
    "FALLBACK",
    "HEADLESS",
    "HOST_COMPACTED",
    "HOST_SUMMARY_CHECKED",
    "REGRET",
    "SAFETY_NET",
    "Brief",
    "Collaborators",
    "Compactor",
    "HostSummary",
    "PinWish",
    "Pinned",
    "Prepared",
    "Progress",
    "Quote",
    "Recalled",
    "Regret",
    "Stats",
    "ignore_progress",
]
