"""What the command line says of the calls that summaries took, over a real endpoint."""

from __future__ import annotations

import re

from tests.cli.conftest import CHAT, Shell
from tests.models.server import endpoint

MODEL = {"MCP_COMPACTION_SUMMARIZER": "anthropic", "MCP_COMPACTION_SUMMARIZER_MODEL": "model-x"}


def test_stats_tell_what_summaries_took(shell: Shell) -> None:
    with endpoint("ok") as served:
        asking = shell.with_environ({**MODEL, "MCP_COMPACTION_SUMMARIZER_BASE_URL": served.url})
        asking.done("record", "--session", "tax-2026", stdin=CHAT)
        assert "system: " not in asking.done("stats")
        asking.done("compress", "--window-tokens", "12000")
        said = asking.done("stats")
        found = asking("stats", "--json").json()
    assert re.search(r"^system: \d+ model calls?, [\d.k]+ tokens in, [\d.k]+ out, \d", said, re.M)
    assert found["system"]["calls"] == len(served.asked)
    assert found["system"]["failed"] == 0
    assert found["last_fall"] == ""


def test_stats_tell_how_often_and_why_another_had_to_write(shell: Shell) -> None:
    with endpoint("401") as served:
        asking = shell.with_environ({**MODEL, "MCP_COMPACTION_SUMMARIZER_BASE_URL": served.url})
        asking.done("record", "--session", "tax-2026", stdin=CHAT)
        receipt = asking.done("compress", "--window-tokens", "12000")
        said = asking.done("stats")
    assert "refused the key (HTTP 401)" in receipt
    assert re.search(r"falls to another summarizer: [1-9]", said)
    assert "\nlast fall: anthropic: the endpoint refused the key (HTTP 401); " in said
    assert re.search(r"^system: \d+ model calls? \(\d failed\)", said, re.M)
