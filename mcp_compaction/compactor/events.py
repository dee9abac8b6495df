"""The names of the events that a compactor notes in a session's history, and what they tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from mcp_compaction.ports import HOST_COMPACTED as HOST_COMPACTED
from mcp_compaction.ports import Event

COMPLETED = "CONTEXT_BUDGET_COMPACTION_COMPLETED"
FAILED = "CONTEXT_BUDGET_COMPACTION_FAILED"
SAFETY_NET = "CONTEXT_BUDGET_COMPACTION_SAFETY_NET"
HOST_SUMMARY_CHECKED = "CONTEXT_BUDGET_HOST_SUMMARY_CHECKED"  # its detail: what it had lost
REGRET = "CONTEXT_BUDGET_COMPACTION_REGRET"  # its detail: the refs that had to be recalled
OFFLOADED = "CONTEXT_BUDGET_RESULT_OFFLOADED"  # its detail: the refs of what became a preview
SHORTENED = "CONTEXT_BUDGET_RESULT_SHORTENED"  # its detail: the refs of stale results
PAID = "CONTEXT_BUDGET_GATEWAY_RECEIPT"  # its detail: what a provider counted, in lines
FACT_TOLD = "CONTEXT_BUDGET_FACT_TOLD"  # in stores of earlier versions
FACT_DECLINED = "CONTEXT_BUDGET_FACT_DECLINED"  # its detail: the id of the offer
MASKED = "CONTEXT_BUDGET_SECRET_MASKED"  # its detail: the digests of a value that was masked
THINKING_REFUSED = "CONTEXT_BUDGET_THINKING_REFUSED"  # its detail: how many blocks left
# At the moment of a prompt that a program sent; its detail: the ref of one without a moment.
HEADLESS = "CONTEXT_BUDGET_HEADLESS_PROMPT"
RECORDING = "CONTEXT_BUDGET_RECORDING"  # its detail: off, or on again
FALLBACK = "CONTEXT_BUDGET_COMPACTION_FALLBACK"  # its detail: why a summarizer gave no digest


def count_recalls(events: Iterable[Event]) -> Counter[int]:
    """How many recalls brought back each message that had left the window."""
    details = [event.detail for event in events if event.name == REGRET]
    return Counter(int(seq) for detail in details for seq in {*re.findall(r"\bm(\d+)", detail)})


def paid_in(events: Sequence[Event]) -> str:
    """What the last gateway of a session has told; empty: there was none."""
    return next((one.detail for one in reversed(events) if one.name == PAID), "")
