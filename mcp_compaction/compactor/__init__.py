"""The one asynchronous shell: load, drive the flow, save; every host and command enters here.

What it gives back is loaded when it is first named: it needs the core, and a look-up does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
from mcp_compaction.compactor.workspace import Collaborators

if TYPE_CHECKING:
    from mcp_compaction.compactor.results import (
        Brief,
        HostSummary,
        Pinned,
        PinWish,
        Prepared,
        Quote,
        Recalled,
    )
    from mcp_compaction.compactor.statistics import Regret, Stats

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


def __getattr__(name: str) -> object:
    """A value that a compactor takes or gives back."""
    if name not in __all__:
        raise AttributeError(f"mcp_compaction.compactor has no {name!r}")
    module = "statistics" if name in ("Regret", "Stats") else "results"
    return getattr(import_module(f"mcp_compaction.compactor.{module}"), name)
