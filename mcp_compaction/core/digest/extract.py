"""Extracts a digest from a span by rules: the summarizer that needs no model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, islice, zip_longest
from typing import NamedTuple

from mcp_compaction.core.digest.fit import DigestSections, as_sections
from mcp_compaction.core.digest.outcomes import done_items, error_items, fact_items, state_items
from mcp_compaction.core.digest.reading import MOST_LINES, Reading, Speech, short
from mcp_compaction.core.digest.requests import goal_items, next_items, rejected_items
from mcp_compaction.core.limits import LONGEST_LINE
from mcp_compaction.core.log.content import is_of_others
from mcp_compaction.core.log.conversation import Conversation, conversation_of
from mcp_compaction.core.log.decisions import decisions_among
from mcp_compaction.core.log.spoken_rules import whole_rules
from mcp_compaction.core.log.tasks import TaskList, read_tasks, spoken_tasks
from mcp_compaction.core.log.told import labelled_facts, labelled_states
from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import split_sentences, spoken_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import first_line, telling_words
from mcp_compaction.model import AccountValue, Draft, Item, Message, SectionName, SummaryRequest


def ref_of_standing_plan(messages: Sequence[Message]) -> str:
    """The ref of the newest plan, which stands; the tasks of older ones are settled by it."""
    return read_tasks(messages).plan


def open_tasks(messages: Sequence[Message]) -> tuple[Item, ...]:
    """The tasks that the standing plan and the words of users leave to do."""
    tasks = read_tasks(messages)
    return (*_still_open(tasks, tasks.plan), *spoken_tasks(messages))


def stated_rules(
    messages: Sequence[Message], rules_in: Callable[[str], Iterable[str]] = find_rules
) -> list[Item]:
    """The user's rules, word for word; what is only an agent's word for it is not quoted."""
    said = conversation_of(messages)
    return [
        Item(
            text=rule,
            refs=(message.ref,),
            provenance="verbatim" if message.via == "host" else "extracted",
        )
        for message in (() if is_of_others(said) else said)
        if message.role == "user"
        for rule in rules_in(message.text)
    ]


def must_keep(messages: Sequence[Message], plan: str) -> DigestSections:
    """What every digest of these messages has to hold: the user's rules, what users call a fact,
    what they permit of what a rule speaks of and, where no call was made since, a state; what they
    said is still to be done, and the open tasks if the plan that stands is among them."""
    said = conversation_of(messages)
    rules = stated_rules(said, whole_rules)
    facts = _told_by_users(said, labelled_facts)
    permitted = _told_by_users(said, _permissions_in)
    facts += _spoken_of(permitted, rules)
    last_call = max((place for place, m in enumerate(said) if m.calls), default=-1)
    states = _told_by_users(said[last_call + 1 :], labelled_states)
    planned = _still_open(read_tasks(messages), plan)
    tasks = [*planned, *spoken_tasks(said)]
    return as_sections({"CONSTRAINTS": rules, "STATE": states, "FACTS": facts, "OPEN": tasks})


def _permissions_in(text: str) -> Iterable[str]:
    """The sentences of a user that permit something and are no rules, word for word."""
    shown = ((s, find_sign("permission", s)) for s in spoken_sentences(text))
    permits = [s for s, sign in shown if sign is not None and sign.sign.strength == "firm"]
    rules = find_rules(text) if permits else ()
    return [said for s in permits if (said := text[s.start : s.end]) not in rules]


def _spoken_of(items: Sequence[Item], others: Sequence[Item]) -> list[Item]:
    """The items that may speak of the same thing as one of the others."""
    known = {pair for other in others if items for pair in _word_pairs(other)}
    return [item for item in items if not known.isdisjoint(_word_pairs(item))]


def _word_pairs(item: Item) -> Iterable[tuple[str, ...]]:
    return combinations(telling_words(item.text), 2)


def _told_by_users(said: Sequence[Message], told_in: Callable[[str], Iterable[str]]) -> list[Item]:
    return [
        Item(text=told, refs=(message.ref,), provenance="verbatim", must_stay=True)
        for message in said
        if message.is_request and message.via == "host"
        for told in told_in(message.text)
    ]


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
    """A draft of lines that stand in the span, or that tell what calls did; none is reworded."""
    reading = Reading(request)
    if is_of_others(reading.messages):
        return Draft(author="extractive")  # excerpts say more than what sounds like a decision
    found: dict[SectionName, list[Item]] = {
        family.section: [*family.read(reading)]
        for family in FAMILIES.values()
        if (request.is_newest or not family.is_of_now)
        and not (family.is_of_work and reading.is_talk)
    }
    if not any(found.values()) and not request.must_keep:
        found["DONE"] = _steps_in_short(reading)
    return Draft(author="extractive", sections=as_sections(found))


def _decision_items(reading: Reading) -> list[Item]:
    """What was decided, the newest first, but for rules, which have lines of their own; a user's
    words are quoted."""
    found: list[Item] = []
    for one in reversed(reading.said):
        is_users = one.message.role == "user"
        if is_users or one.message.role == "assistant":
            rules = set(find_rules(one.text)) if is_users else set[str]()
            decided = decisions_among(one.text, one.sentences, is_users)
            found += (
                _decision_item(short(decision, LONGEST_LINE), one)
                for decision in decided
                if decision not in rules
            )
    return found


def _decision_item(text: str, one: Speech) -> Item:
    is_of_user = one.message.role == "user" and one.message.via == "host"
    is_quoted = is_of_user and text in one.text
    provenance = "verbatim" if is_quoted else "extracted"
    return Item(text=text, refs=(one.message.ref,), provenance=provenance)


def _doubts(reading: Reading) -> Iterable[Item]:
    """What an assistant was not sure of, the newest first."""
    doubts = (
        Item(text=short(sentence.text), refs=(one.message.ref,))
        for one in reversed(reading.said)
        if one.message.role == "assistant"
        for sentence in one.sentences
        if remarks.is_doubt(sentence)
    )
    return islice(doubts, MOST_LINES)


def _left_by_agent(reading: Reading) -> Iterable[Item]:
    """What the agent left to do in the closing words of its last turn, and did not say is done;
    before that it goes on to do it, and what was left earlier the user has passed over."""
    follows = zip_longest(reading.window, reading.window[1:])
    closing = [
        m for m, after in follows if m and (after is None or after.is_request) and not m.calls
    ]
    last = next((m for m in reversed(closing) if reading.is_in_span(m.ref)), None)
    since = Conversation(m for m in reading.window if last is not None and m.seq >= last.seq)
    left = spoken_tasks(since, "assistant")
    return [item for item in left if last is not None and item.refs[0] == last.ref]


def _steps_in_short(reading: Reading) -> list[Item]:
    """What a span did last, or else said last, where nothing in it is worth a line of its own."""
    calls = {f"{e.call.name} {first_line(e.action.target)}".strip(): e.ref for e in reading.entries}
    steps = [Item(text=short(text), refs=(ref,)) for text, ref in reversed(calls.items())]
    said = [Item(text=short(one.text), refs=(one.message.ref,)) for one in reading.said[-1:]]
    return steps[:MOST_LINES] or said


class Family(NamedTuple):
    """The rules that fill one section, and why they are worth their lines.

    `benchmarks/weigh.py` takes them out one by one and measures what the views lose.
    """

    section: SectionName
    read: Callable[[Reading], Iterable[Item]]
    why: str
    is_of_now: bool = False  # only the newest digest tells it
    is_of_work: bool = False  # in plain talk everything is somebody's doubt or plan


FAMILIES: dict[str, Family] = {
    "goal": Family("GOAL", goal_items, "the task in the user's words"),
    "rejected": Family("REJECTED", rejected_items, "what a user refused is the user's word"),
    "state": Family("STATE", state_items, "the last test result and commit", is_of_now=True),
    "done": Family("DONE", done_items, "how files stand: false where it is not told"),
    "decisions": Family("DECISIONS", _decision_items, "a structured digest names them"),
    "errors": Family("ERRORS", error_items, "failed calls and why, until they pass"),
    "facts": Family("FACTS", fact_items, "what tools found and the agent used"),
    "doubts": Family("UNCERTAIN", _doubts, "doubts are kept by default", is_of_work=True),
    "left": Family("OPEN", _left_by_agent, "what the agent put off", is_of_work=True),
    "next": Family("NEXT", next_items, "pairs of names", is_of_now=True, is_of_work=True),
}
"""The families of rules that fill a digest beside what must be kept."""
