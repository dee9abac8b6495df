"""Agent-controlled compaction of a context window; importing this alone loads nothing heavy.

    from mcp_compaction import open_store

    async with open_store() as store:
        session = await store.session("tax-2026")

`docs/api.md` has every name; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_compaction.api import (
        BlockingSession,
        BlockingStore,
        Compaction,
        Failed,
        Fitted,
        NothingToDo,
        OpenSession,
        OpenStore,
        Outcome,
        Pin,
        Pinned,
        Prepared,
        Projection,
        Quote,
        Recalled,
        Recorded,
        Refusal,
        Stats,
        errors,
        open_store,
        outcome_text,
    )

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


def __getattr__(name: str) -> object:
    """The public name, loaded now; the errors alone load nothing but themselves."""
    if name not in __all__:
        raise AttributeError(f"mcp_compaction has no {name!r}; it has: {', '.join(__all__)}.")
    from importlib import import_module

    if name == "errors":
        return import_module("mcp_compaction.errors")
    return getattr(import_module("mcp_compaction.api"), name)


def __dir__() -> list[str]:
    """The names that an interactive session completes."""
    return sorted({*globals(), *__all__})
