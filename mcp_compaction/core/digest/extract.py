"""Extracts a digest from a span by rules: the summarizer that needs no model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations, islice, pairwise

from mcp_compaction.core.digest.ahead import next_items
from mcp_compaction.core.digest.facts import fact_items
from mcp_compaction.core.digest.learned import learned_items
from mcp_compaction.core.digest.reading import Reading, Speech, short
from mcp_compaction.core.digest.state import done_items, state_items
from mcp_compaction.core.digest.text import OUR_PREFIX, DigestSections, as_sections
from mcp_compaction.core.digest.wishes import (
    REFUSED,
    asked_items,
    goal_items,
    objects,
    rejected_items,
)
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.decisions.statement import decisions_among, is_acceptance
from mcp_compaction.core.log.decisions.supersede import mark_superseded, newest_first
from mcp_compaction.core.log.tasks.plans import TaskList, read_tasks
from mcp_compaction.core.log.tasks.spoken import spoken_tasks
from mcp_compaction.core.log.tool_calls import Task
from mcp_compaction.core.log.updates import told_facts, told_states
from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import split_sentences, spoken_sentences
from mcp_compaction.core.text.signs import find_sign, shows_sign
from mcp_compaction.core.text.words import first_line, fold, telling_words
from mcp_compaction.model import Draft, Item, Message, SectionName, SummaryRequest

_FEWEST_TELLING = 2  # words that say something, in a decision, or in both a ban and a permission
_MOST_CALLS = 4
_LONGEST_CONCESSION = 2  # sentences
_NEWEST = 10  # messages, beside whose calls a guess may still be open
_MOST_DOUBTS = 4  # the newest; what was doubted before has mostly been settled


def ref_of_standing_plan(messages: Sequence[Message]) -> str:
    """The ref of the newest plan, which stands; the tasks of older ones are settled by it."""
    return read_tasks(messages).plan


def open_tasks(messages: Sequence[Message]) -> tuple[Item, ...]:
    """The tasks that the standing plan and the words of users leave to do."""
    planned = (
        Item(text=entry.task.text, refs=(entry.ref,))
        for entry in read_tasks(messages).entries
        if not entry.task.is_closed
    )
    return (*planned, *spoken_tasks(messages))


def stated_rules(messages: Sequence[Message]) -> list[Item]:
    """The user's rules, word for word; what is only an agent's word for it is not quoted."""
    return [
        Item(
            text=rule,
            refs=(message.ref,),
            provenance="verbatim" if message.via == "host" else "extracted",
        )
        for message in conversation_of(messages)
        if message.role == "user"
        for rule in find_rules(message.text)
    ]


def must_keep(messages: Sequence[Message], plan: str) -> DigestSections:
    """What every digest of these messages has to hold: the user's rules, what users call a fact,
    what they permit of what a rule speaks of and, where no call was made since, a state; what they
    said is still to be done, and the open tasks if the plan that stands is among them."""
    said = conversation_of(messages)
    rules = stated_rules(said)
    facts = _told_by_users(said, told_facts)
    permitted = _told_by_users(said, _permissions_in)
    facts += _spoken_of(permitted, rules)
    last_call = max((place for place, m in enumerate(said) if m.calls), default=-1)
    states = _told_by_users(said[last_call + 1 :], told_states)
    planned = _still_open(read_tasks(messages), plan)
    tasks = [*planned, *spoken_tasks(said)]
    return as_sections({"CONSTRAINTS": rules, "STATE": states, "FACTS": facts, "OPEN": tasks})


def _permissions_in(text: str) -> Iterable[str]:
    """The sentences of a user that permit something and are no rules, word for word."""
    permits = [s for s in spoken_sentences(text) if find_sign("permits", s) is not None]
    rules = find_rules(text) if permits else ()
    return [said for s in permits if (said := text[s.start : s.end]) not in rules]


def _spoken_of(items: Sequence[Item], others: Sequence[Item]) -> list[Item]:
    """The items that may speak of the same thing as one of the others."""
    known = {pair for other in others if items for pair in _word_pairs(other)}
    return [item for item in items if not known.isdisjoint(_word_pairs(item))]


def _word_pairs(item: Item) -> Iterable[tuple[str, ...]]:
    return combinations(telling_words(item.text), _FEWEST_TELLING)


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
            yield Item(text=f"{_name_of(entry.task)}{_state_note(entry.task)}", refs=(entry.ref,))


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
    decisions = _decision_items(reading)
    # In plain talk everything is a doubt or a plan of somebody's; passages tell it better, and
    # they tell what users said anyway.
    is_work = not reading.is_talk
    done = done_items(reading)
    found: dict[SectionName, list[Item]] = {
        "GOAL": list(goal_items(reading)),
        "REJECTED": rejected_items(reading),
        "STATE": state_items(reading) if request.is_newest else [],
        "DONE": done,
        "DECISIONS": list(decisions),
        "LEARNED": learned_items(reading),
        "FACTS": fact_items(reading, (*decisions, *done)),
        "UNCERTAIN": [*islice(_doubts(reading), _MOST_DOUBTS)] if is_work else [],
        "ASKED": list(asked_items(reading)) if request.is_newest else [],
        "NEXT": next_items(reading) if is_work and request.is_newest else [],
    }
    kept = _without_unsupported(_without_lines(found, request), reading)
    if not any(kept.values()) and not request.must_keep:
        kept["DONE"] = list(_steps_in_short(reading))
    return Draft(author="extractive", sections=as_sections(kept))


def _without_lines(
    found: dict[SectionName, list[Item]], request: SummaryRequest
) -> dict[SectionName, list[Item]]:
    """The items found without those that must be kept, which have lines of their own."""
    left_out = {fold(item.text) for _, items in request.must_keep for item in items}
    if not left_out:
        return found
    return {
        name: [item for item in items if fold(OUR_PREFIX.sub("", item.text)) not in left_out]
        for name, items in found.items()
    }


def _without_unsupported(
    found: dict[SectionName, list[Item]], reading: Reading
) -> dict[SectionName, list[Item]]:
    """The items whose exact words stand in the messages that they name."""
    return {
        name: [item for item in items if reading.supports(item)] for name, items in found.items()
    }


def _decision_items(reading: Reading) -> tuple[Item, ...]:
    """What was decided, the newest first; a user's own words are quoted. What the assistant only
    recommends is decided when the user accepts it."""
    turned_down, accepted = _turned_down(reading), _accepted(reading)
    conceded = _conceded(reading)
    made = [
        _decision_item(short(decision), one)
        for one in reading.said
        if one.message.role in ("user", "assistant") and one.message.seq not in turned_down
        for decision in decisions_among(one.text, one.sentences, one.message.role == "user")
        if not _announces(decision) and len(telling_words(decision)) >= _FEWEST_TELLING
        if len(conceded.get(one.message.seq, set()).intersection(telling_words(decision)))
        < _FEWEST_TELLING
        if one.message.role == "user"
        or not (_is_only_looking(decision) or _only_suggests(decision, one.message, accepted))
    ]
    return newest_first(mark_superseded(made))


def _only_suggests(decision: str, message: Message, accepted: Collection[int]) -> bool:
    return message.seq not in accepted and shows_sign("suggests", decision)


def _turned_down(reading: Reading) -> frozenset[int]:
    """The numbers of the assistant's messages to which the user objected right after them, and of
    those whose calls the user refused. What follows a question only answers it."""
    objected = (
        one.message.seq
        for one, answer in pairwise((*reading.said, *reading.said_later))
        if one.message.role == "assistant" and not _ends_with_question(one)
        if answer.message.is_request and objects(answer)
    )
    ended = (int(e.ref[1:]) for e in reading.ledger.entries if e.ending in REFUSED)
    return frozenset((*objected, *ended))


def _ends_with_question(one: Speech) -> bool:
    return any(s.text.endswith(remarks.QUESTION_MARKS) for s in one.sentences[-1:])


def _conceded(reading: Reading) -> dict[int, set[str]]:
    """The words about which an assistant said that the user is right, by the number of its message
    to which the user spoke."""
    said = (*reading.said, *reading.said_later)
    return {
        one.message.seq: {
            word
            for text in (answer.text, *(s.text for s in then.sentences[:_LONGEST_CONCESSION]))
            for word in telling_words(text)
        }
        for one, answer, then in zip(said, said[1:], said[2:], strict=False)
        if one.message.role == "assistant" and answer.message.is_request and _concedes(then)
    }


def _accepted(reading: Reading) -> frozenset[int]:
    """The numbers of the assistant's messages to which the user said yes right after them."""
    pairs = pairwise((*reading.said, *reading.said_later))
    return frozenset(
        one.message.seq
        for one, answer in pairs
        if answer.message.is_request and is_acceptance(answer.text)
    )


def _concedes(one: Speech) -> bool:
    """Whether an assistant begins by saying that the user is right."""
    is_assistant = one.message.role == "assistant"
    return is_assistant and any(find_sign("concedes", s) is not None for s in one.sentences[:1])


def _decision_item(text: str, one: Speech) -> Item:
    is_of_user = one.message.role == "user" and one.message.via == "host"
    is_quoted = is_of_user and text in one.text
    provenance = "verbatim" if is_quoted else "extracted"
    return Item(text=text, refs=(one.message.ref,), provenance=provenance)


def _is_only_looking(decision: str) -> bool:
    """Whether an assistant says what to look at or what is needed, and does not choose."""
    return bool(pattern_of_kind("looks").match(decision))


def _doubts(reading: Reading) -> Iterable[Item]:
    """What an assistant was not sure of, the newest first. What it only supposed as it made a call
    goes when calls have shown it; no rule tells what settles other doubts."""
    for one in reversed(reading.said):
        is_followed = bool(one.message.calls) and one.message.seq <= reading.end - _NEWEST
        for sentence in one.sentences if one.message.role == "assistant" else ():
            if not remarks.is_doubt(sentence) or _is_only_looking(sentence.text):
                continue
            is_shown = is_followed and remarks.only_supposes(sentence)
            if not is_shown and not _announces(sentence.text):
                yield Item(text=short(sentence.text), refs=(one.message.ref,))


def _announces(text: str) -> bool:
    """Whether a sentence only leads to what stands behind it."""
    return text.rstrip("*_").endswith((":", "："))


def _steps_in_short(reading: Reading) -> Iterable[Item]:
    """What a span did or said, where nothing in it is worth a line of its own."""
    calls = [f"{e.call.name} {first_line(e.action.target, 60)}".strip() for e in reading.entries]
    said = [short(one.text, 80) for one in reading.said]
    refs = tuple(dict.fromkeys((f"m{reading.request.first}", f"m{reading.request.last}")))
    if shown := [*dict.fromkeys(calls)][-_MOST_CALLS:] or said[-1:]:
        yield Item(text="; ".join(shown), refs=refs)


def _name_of(task: Task) -> str:
    return f"#{task.id} {task.text}" if task.id else task.text


def _state_note(task: Task) -> str:
    return "" if task.state == "open" else f" [{task.state}]"
