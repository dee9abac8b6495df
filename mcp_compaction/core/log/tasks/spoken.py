"""Finds what users said is still to be done."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.tasks.closing import last_closed
from mcp_compaction.core.text.reading import read_once
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, spoken_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.model import Item, Message


def leaves_open(sentence: Sentence) -> bool:
    """Whether a sentence leaves something to be done."""
    is_question = sentence.bare.endswith(("?", "？"))
    return not is_question and find_sign("task", sentence) is not None


def spoken_tasks(messages: Sequence[Message]) -> tuple[Item, ...]:
    """The sentences in which users leave something to do, unless it was said to be done since."""
    found: dict[str, tuple[int, Item]] = {}
    said = conversation_of(messages)
    for place, message in enumerate(said):
        if message.role == "user":
            for text in _tasks_in(message.text):
                item = Item(text=text, refs=(message.ref,), provenance="verbatim")
                found[text] = (place, item)
    if not found:
        return ()
    items = tuple(item for _, item in found.values())
    closed = last_closed(items, said, since=min(place for place, _ in found.values()))
    return tuple(i for place, i in found.values() if closed.get(i.text, -1) <= place)


@read_once
def _tasks_in(text: str) -> tuple[str, ...]:
    """The sentences of a text that leave something to be done and are no rules."""
    return tuple(
        s.text for s in spoken_sentences(text) if leaves_open(s) and not find_rules(s.text)
    )
