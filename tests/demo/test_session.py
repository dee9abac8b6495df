"""The session that the demo plays: long, the same every time, and like real work."""

from __future__ import annotations

import json
from typing import Any

from mcp_compaction.demo import DETAIL, RULE, Act, Message, beats, body
from mcp_compaction.formats import read_incoming, validate


def messages() -> list[Message]:
    """All that is said in the story, without the calls of our own tools."""
    return [message for beat in beats() if isinstance(beat, list) for message in beat]


def blocks_of(message: Message) -> list[dict[str, Any]]:
    """The blocks of a message; none where it is only text."""
    return [] if isinstance(message["content"], str) else message["content"]


def blocks(kind: str) -> list[dict[str, Any]]:
    """All blocks of one kind."""
    return [b for message in messages() for b in blocks_of(message) if b["type"] == kind]


def test_it_is_the_same_every_time() -> None:
    assert list(beats()) == list(beats())


def test_a_provider_accepts_it_as_it_is() -> None:
    said = messages()
    assert validate(said, "anthropic") == ()
    assert len(read_incoming(body(said)).messages) == len(said)


def places_of(words: str) -> list[int]:
    said = [json.dumps(message["content"], ensure_ascii=False) for message in messages()]
    wanted = json.dumps(words, ensure_ascii=False)[1:-1]
    return [number for number, text in enumerate(said) if wanted in text]


def test_the_rule_is_said_once_near_the_beginning_by_the_user() -> None:
    (place,) = places_of(RULE)
    assert place < 10
    assert messages()[place]["role"] == "user"


def test_the_detail_stands_only_in_what_the_agent_read_early() -> None:
    places = places_of(DETAIL)
    assert places
    assert max(places) < len(messages()) // 2


def test_the_agent_pins_looks_compresses_and_recalls_in_this_order() -> None:
    acts = [beat.tool for beat in beats() if isinstance(beat, Act)]
    assert acts == ["pin_constraint", "context_stats", "compress_context", "recall_archived"]
