"""What is done when a provider has refused a request as too large."""

from __future__ import annotations

from mcp_compaction.compactor import Compactor
from mcp_compaction.model import Ask, SessionInfo, Traits

_SHARE = 0.6  # of the fill that was too much, or of the whole window where that is less
_LEAST_WINDOW = 1_000  # tokens; a provider that names fewer means something else
_REASON = "the provider refused the request: too large for the window"


async def plan_after_overflow(
    compactor: Compactor, info: SessionInfo, limit: int | None
) -> tuple[SessionInfo, Ask]:
    """The compaction after an overflow; a window that is smaller than we took it for is learned.

    `limit`: the tokens that the provider said are allowed.
    """
    fill = await compactor.fill(info)
    if limit is not None and _LEAST_WINDOW <= limit < fill.window:
        info = await compactor.set_traits(info, Traits(window_tokens=limit))
        fill = await compactor.fill(info)
    target = _SHARE * min(100.0, fill.percent)
    return info, Ask(reason=_REASON, target_percent=max(0.1, target), force=True)
