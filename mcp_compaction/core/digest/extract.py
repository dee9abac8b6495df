"""Extracts a digest from a span by what calls did: the summarizer that needs no model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mcp_compaction.core.digest.fit import DigestSections, as_sections
from mcp_compaction.core.digest.outcomes import Reading, done_items, error_items, state_items
from mcp_compaction.core.limits import LONGEST_LINE, LONGEST_ORDER
from mcp_compaction.core.log.content import is_of_others
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.spoken_rules import whole_rules
from mcp_compaction.core.log.tool_calls import TaskList, read_tasks
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.model import AccountValue, Draft, Item, Message, SectionName, SummaryRequest

_LAST_CALLS = 3


def ref_of_standing_plan(messages: Sequence[Message]) -> str:
    """The ref of the newest plan, which stands; the tasks of older ones are settled by it."""
    return read_tasks(messages).plan


def open_tasks(messages: Sequence[Message]) -> tuple[Item, ...]:
    """The tasks that the standing plan and the host's own list leave to do."""
    tasks = read_tasks(messages)
    return tuple(_still_open(tasks, tasks.plan))


def stated_rules(
    messages: Sequence[Message],
    rules_in: Callable[[str], Iterable[str]] = find_rules,
    longest: int | None = LONGEST_ORDER,
) -> list[Item]:
    """The user's rules, word for word; what is only an agent's word for it is not quoted. Those
    of an order that is longer stay in it."""
    said = conversation_of(messages)
    return [
        Item(
            text=rule,
            refs=(message.ref,),
            provenance="verbatim" if message.via == "host" else "extracted",
        )
        for message in (() if is_of_others(said) else said)
        if message.role == "user" and message.speaker != "agent"
        if longest is None or len(message.text) <= longest
        for rule in rules_in(message.text)
    ]


def must_keep(messages: Sequence[Message], plan: str) -> DigestSections:
    """What every digest of these messages has to hold: the user's rules, and the open tasks if the
    plan that stands is among them."""
    rules = stated_rules(conversation_of(messages), whole_rules)
    planned = [*_still_open(read_tasks(messages), plan)]
    return as_sections({"CONSTRAINTS": rules, "OPEN": planned})


def _still_open(tasks: TaskList, plan: str) -> Iterable[Item]:
    for entry in tasks.entries:
        if (entry.is_single or entry.ref == plan) and not entry.task.is_closed:
            value = AccountValue(kind="task", status=entry.task.state, key=entry.task.id)
            yield Item(text=entry.task.text, refs=(entry.ref,), value=value)


def memory_lines(memory: str | None) -> DigestSections:
    """The lines of a memory, which is shown nowhere else once it is folded into a digest."""
    lines = [
        Item(text=line, provenance="verbatim", must_stay=True)
        for line in split_sentences(memory or "")
    ]
    return as_sections({"FACTS": lines})


def extract(request: SummaryRequest) -> Draft:
    """A draft of what calls did in the span: nothing that anybody said is read for its meaning."""
    reading = Reading(request)
    found: dict[SectionName, list[Item]] = {
        family.section: [*family.read(reading)]
        for family in FAMILIES.values()
        if request.is_newest or not family.is_of_now
    }
    return Draft(author="extractive", sections=as_sections(found))


def _in_hand(reading: Reading) -> Iterator[Item]:
    """The last calls of the window; the request that they are made for stays in it."""
    last = list(islice(reversed(reading.ledger.entries), _LAST_CALLS))[::-1]
    if not last:
        return
    yield Item(
        text="; ".join(dict.fromkeys(entry.line(LONGEST_LINE // 2) for entry in last)),
        refs=tuple(dict.fromkeys(entry.ref for entry in last)),
        value=AccountValue(kind="label", status="last calls"),
    )


class Family(NamedTuple):
    """The rules that fill one section, and why they are worth their lines.

    `benchmarks/weigh.py` takes them out one by one and measures what the views lose.
    """

    section: SectionName
    read: Callable[[Reading], Iterable[Item]]
    why: str
    is_of_now: bool = False  # only the newest digest tells it


FAMILIES: dict[str, Family] = {
    "state": Family("STATE", state_items, "the last test result and commit", is_of_now=True),
    "done": Family("DONE", done_items, "how files stand: false where it is not told"),
    "errors": Family("ERRORS", error_items, "failed calls and why, until they pass"),
    "in hand": Family("OPEN", _in_hand, "what the agent was about to go on with", is_of_now=True),
}
"""The families of rules that fill a digest beside what must be kept."""
