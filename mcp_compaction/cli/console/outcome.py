"""The outcome of a compaction or its undoing: in words or JSON, and as an exit code."""

from __future__ import annotations

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.wording import for_person
from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.model import Outcome, SessionInfo


def tell_outcome(call: Invocation, outcome: Outcome, info: SessionInfo) -> int:
    """Write the outcome, and answer with the code: 1 for what was refused or came to nothing."""
    if call.args.json:
        document = outcome.model_dump(mode="json")
        if outcome.kind == "compaction":  # a receipt is stored without what holds the window
            document["receipt"]["held_by"] = [list(held) for held in outcome.receipt.held_by]
        call.screen.write_json(document)
    else:
        text = outcome_text(outcome, info.traits.mode, info.name)
        first, *rest = call.complete(for_person(text)).split("\n")
        call.screen.say("\n".join([call.screen.bold(first), *rest]))
    return 1 if outcome.kind in ("refusal", "failed") else 0
