"""The kinds of what happens on the way of requests, which are counted."""

from __future__ import annotations

from collections.abc import Mapping

FITTED = "requests sent with our records in them"
AS_IT_CAME = "requests passed as they came"
SIDE = "side calls passed"
NAMELESS = "requests that named no chat, passed as they came"
UNREADABLE = "requests that could not be read, passed as they came"
TORN = "requests with a history that has no beginning, passed as they came"
SLOW = "took too long, sent with the last records or as they came"
FAILED = "failed, sent with the last records or as they came"
NOT_RECORDED = "requests that could not be recorded"
REPLAYED = "made smaller and sent again after an overflow"
WITHOUT_THINKING = "refused for their thinking, and sent again without it"
STILL_REFUSED = "refused again without their thinking"
NOT_ALLOWED = "refused with our records in them, and accepted as they came"
CUT = "connections cut that asked for nothing in time"
COMPACTED = "compactions"
BY_OTHERS = "compactions that the agent asked for or the host made"
COMPACTION_FAILED = "compactions that failed"

# With --shadow, where nothing is changed.
WOULD_FIT = "requests that would have been sent with our records in them"
WOULD_REPLAY = "requests that would have been made smaller and sent again after an overflow"
WOULD_COMPACT = "compactions that would have been made"


def say_counts(counts: Mapping[str, int]) -> str:
    """What happened so far, in words."""
    said = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(counts.items()))
    return said or "no call of a model"
