"""The layout of a history: what the gateway sends for it, with what the host told beside it."""

from __future__ import annotations

from mcp_compaction.compactor.histories import layout_between
from mcp_compaction.gateway.keeping import keep_words_of_host
from mcp_compaction.model import JsonObject


def test_what_the_host_tells_the_model_stays_once_in_its_last_order_behind_the_first() -> None:
    tells: JsonObject = {"role": "developer", "content": "The folder is /work."}
    tools: JsonObject = {"type": "additional_tools", "tools": []}
    asks: JsonObject = {"role": "user", "content": "Sort the receipts."}
    answers: JsonObject = {"role": "assistant", "content": "All 300 are sorted."}
    newest: JsonObject = {"role": "user", "content": "Thanks."}
    digest: JsonObject = {"role": "user", "content": "What happened so far."}
    history = [asks, tells, tools, answers, dict(tells), newest]
    prints = [b"asks", b"tells", b"tools", b"answers", b"tells", b"newest"]
    layout = layout_between(prints, history, [asks, digest, newest])
    layout = keep_words_of_host(layout, prints, history)
    more: JsonObject = {"role": "assistant", "content": "You are welcome."}
    assert layout.apply([*history, more]) == [asks, tools, tells, digest, newest, more]
