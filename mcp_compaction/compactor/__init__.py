"""The one asynchronous shell: load, drive the flow, save; every host and command enters here."""

from mcp_compaction.compactor.facade import (
    COMPLETED,
    FAILED,
    FALLBACK,
    REGRET,
    SAFETY_NET,
    Brief,
    Compactor,
    Parts,
    Pinned,
    PinWish,
    Progress,
    Quote,
    Recalled,
    Regret,
    Stats,
    check_ask,
)

__all__ = [
    "COMPLETED",
    "FAILED",
    "FALLBACK",
    "REGRET",
    "SAFETY_NET",
    "Brief",
    "Compactor",
    "Parts",
    "PinWish",
    "Pinned",
    "Progress",
    "Quote",
    "Recalled",
    "Regret",
    "Stats",
    "check_ask",
]
