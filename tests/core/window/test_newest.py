"""What is given back of the newest words after a host's own compaction, and whose they are."""

from __future__ import annotations

from mcp_compaction.core.log.content import texts_by_speaker
from mcp_compaction.core.window.records import newest_block
from mcp_compaction.model import Message, Text

CONTEXT = "<session_context>\nThis is the Gemini CLI. Today's date is Monday.\n</session_context>"


def said(seq: int, text: str) -> Message:
    """A message in the user's role."""
    parts = (Text(text=text),)
    return Message(seq=seq, role="user", parts=parts, shape="anthropic", raw="{}")


def test_what_a_host_told_in_the_users_role_is_none_of_the_newest_words() -> None:
    block = newest_block([said(1, CONTEXT), said(2, "Never push.")], 1_000)
    assert "m2 user\n| Never push." in block
    assert "session_context" not in block


def test_what_a_host_told_in_the_users_role_is_shown_as_the_hosts() -> None:
    told = [texts_by_speaker(said(1, text), {}) for text in (CONTEXT, f"Go on.\n{CONTEXT}")]
    assert [who for ((who, _),) in told] == ["host", "user"]
