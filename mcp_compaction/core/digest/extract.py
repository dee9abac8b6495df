"""Extracts a digest from a span by rules: the summarizer that needs no model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mcp_compaction.core.digest.text import ASKED, TOLD, DigestSections, as_sections
from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.decisions.statement import decisions_among
from mcp_compaction.core.log.decisions.supersede import mark_superseded, newest_first
from mcp_compaction.core.log.failures import causes_of, ending_of, is_failure
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.log.tasks.jobs import running_jobs
from mcp_compaction.core.log.tasks.plans import TaskList, read_tasks
from mcp_compaction.core.log.tasks.spoken import spoken_tasks
from mcp_compaction.core.log.tool_calls import Task, action_of, answered_calls
from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, split_sentences, spoken_sentences
from mcp_compaction.core.text.words import first_line, fold, shorten, telling_words
from mcp_compaction.model import Draft, Item, Message, SectionName, SummaryRequest

_Pick = Callable[[Sentence], bool]

_MOST_CHARS = 240
_MOST_FACTS = 40
_FEWEST_TELLING = 2  # words that say something, in what is told as asked for
_MOST_REQUESTS = 12


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
    """What every digest of these messages has to hold: the user's rules, what users said is
    still to be done, and the open tasks if the plan that stands is among them."""
    rules = stated_rules(messages)
    planned = _still_open(read_tasks(messages), plan)
    return as_sections({"CONSTRAINTS": rules, "OPEN": [*planned, *spoken_tasks(messages)]})


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


class _Speech(NamedTuple):
    """A message and the sentences spoken in it."""

    message: Message
    text: str
    sentences: tuple[Sentence, ...]


def extract(request: SummaryRequest) -> Draft:
    """A draft of lines that stand in the span, none of them reworded."""
    messages = conversation_of(request.messages)
    said = [
        _Speech(message, text, spoken_sentences(text))
        for message in messages
        if (text := message.text) and not message.results
    ]
    decisions = _decision_items(said)
    # In plain talk everything is a doubt or a plan of somebody's; passages tell it better, and
    # they tell what users said anyway.
    spoken = [] if is_talk(messages) else [s for s in said if s.message.role == "assistant"]
    found: dict[SectionName, list[Item]] = {
        "DONE": [*_progress_items(messages, said), *_artifact_items(request)],
        "DECISIONS": list(decisions),
        "FACTS": list(_fact_items(messages, said, decisions)),
        "LEARNED": list(_error_items(messages)),
        "NEXT": [
            *running_jobs(request.messages),  # a host tells of their end
            *_question_items(messages, said),
            *reversed(list(_sentence_items(spoken, remarks.is_next_step))),
        ],
        "UNCERTAIN": list(_sentence_items(spoken, remarks.is_doubt)),
    }
    return Draft(author="extractive", sections=as_sections(_without_kept(found, request)))


def _without_kept(
    found: dict[SectionName, list[Item]], request: SummaryRequest
) -> dict[SectionName, list[Item]]:
    """The items found without those that must be kept: these have lines of their own."""
    kept = {fold(item.text) for _, items in request.must_keep for item in items}
    if not kept:
        return found
    return {
        name: [
            item
            for item in items
            if fold(item.text.removeprefix(ASKED).removeprefix(TOLD)) not in kept
        ]
        for name, items in found.items()
    }


def _progress_items(messages: Sequence[Message], said: Sequence[_Speech]) -> Iterable[Item]:
    for entry in read_tasks(messages).entries:
        if entry.task.state == "done":
            yield Item(text=f"done: {entry.task.text}", refs=(entry.ref,))
    for one in said if _is_work(messages) else ():
        if first := _main_sentence(one.text) if one.message.is_request else "":
            by = ASKED if one.message.via == "host" else TOLD
            yield Item(text=f"{by}{_shorten(first)}", refs=(one.message.ref,))
    yield from _command_items(messages)


def _main_sentence(text: str) -> str:
    """The first sentence of a request that says something; the whole of it where it is the only."""
    sentences = [said for said in split_sentences(text) if not remarks.is_pleasantry(said)]
    if len(sentences) == 1:
        return sentences[0]
    return next((said for said in sentences if len(telling_words(said)) >= _FEWEST_TELLING), "")


def _is_work(messages: Sequence[Message]) -> bool:
    """Whether requests lead to work; in plain talk passages say more than what was asked."""
    requests = sum(message.is_request for message in messages)
    return requests <= _MOST_REQUESTS or any(message.calls for message in messages)


def _command_items(messages: Sequence[Message]) -> Iterable[Item]:
    last: dict[str, Item] = {}
    for message, call, result in answered_calls(messages):
        if action_of(call).kind == "run" and (how := ending_of(result)):
            command = first_line(action_of(call).target)
            last.pop(command, None)
            last[command] = Item(text=f"ran {command}: {how}", refs=(message.ref,))
    yield from reversed(last.values())


def _decision_items(said: Sequence[_Speech]) -> tuple[Item, ...]:
    made = [
        Item(text=_shorten(decision), refs=(one.message.ref,))
        for one in said
        if one.message.role in ("user", "assistant")
        for decision in decisions_among(one.text, one.sentences, one.message.role == "user")
    ]
    return newest_first(mark_superseded(made))


def _sentence_items(said: Sequence[_Speech], pick: _Pick) -> Iterable[Item]:
    for one in said:
        for sentence in one.sentences:
            if pick(sentence):
                yield Item(text=_shorten(sentence.text), refs=(one.message.ref,))


def _question_items(messages: Sequence[Message], said: Sequence[_Speech]) -> Iterable[Item]:
    """The question a span ends with; only what follows can tell whether it was answered."""
    if not said or not said[-1].text.rstrip().endswith(("?", "？")):
        return
    message, _, sentences = said[-1]
    if message.role == "assistant":
        is_left = message is messages[-1] and not message.calls  # else it went on by itself
    else:  # a request of one sentence is told as progress
        is_left = message.role == "user" and (len(sentences) > 1 or not _is_work(messages))
    if is_left and sentences:
        yield Item(text=f"last question: {_shorten(sentences[-1].text)}", refs=(message.ref,))


class _Failure(NamedTuple):
    """What went wrong, how often, and the command that may have gone right since."""

    item: Item
    times: int
    command: str


def _error_items(messages: Sequence[Message]) -> Iterable[Item]:
    seen: dict[str, _Failure] = {}
    mended: set[str] = set()
    for message, call, result in answered_calls(messages):
        act = action_of(call)
        command = first_line(act.target) if act.kind == "run" else ""
        mended.discard(command)
        found = causes_of(result)
        for why in map(_shorten, reversed(found)):
            old = seen.pop(why, None)
            item = Item(text=why, refs=(message.ref,))
            seen[why] = _Failure(item, old.times + 1 if old else 1, command)
        if command and not found and not is_failure(result):
            mended.add(command)
    failures = [_failure_item(one, one.command in mended) for one in reversed(seen.values())]
    yield from (item for item, is_fixed in failures if not is_fixed)
    yield from (item for item, is_fixed in failures if is_fixed)


def _failure_item(failure: _Failure, is_fixed: bool) -> tuple[Item, bool]:
    notes = [f"{failure.times} times"] if failure.times > 1 else []
    notes += ["fixed later"] if is_fixed else []
    text = f"{failure.item.text} ({', '.join(notes)})" if notes else failure.item.text
    return failure.item.model_copy(update={"text": text}), is_fixed


def _artifact_items(request: SummaryRequest) -> Iterable[Item]:
    for item in request.index:
        if item.kind == "file" and item.note and item.note != "read":
            yield Item(text=f"{item.text} {item.note}", refs=item.refs)


_NUMBER = pattern_of(r"(?<![\w.])\d[\d.,]*(?: ?(?:%|ms|s|[kKMG]i?B|px)\b|\d)")


def _fact_items(
    messages: Sequence[Message], said: Sequence[_Speech], decisions: Sequence[Item]
) -> Iterable[Item]:
    """Sentences of the assistant that name something exact: of closing words, then the newest."""
    told = {fold(item.text) for item in decisions}
    is_work = any(message.calls for message in messages)
    ranked: tuple[list[Item], list[Item]] = ([], [])
    for one in reversed(said):
        if len(ranked[0]) >= _MOST_FACTS:
            break
        found = ranked[bool(one.message.calls)]
        if one.message.role == "assistant" and len(found) < _MOST_FACTS:
            found.extend(
                Item(text=_shorten(sentence.text), refs=(one.message.ref,))
                for sentence in one.sentences
                if fold(sentence.text) not in told and _is_fact(sentence, is_work)
            )
    return [*ranked[0], *ranked[1]][:_MOST_FACTS]


def _is_fact(sentence: Sentence, is_work: bool) -> bool:
    said = sentence.text
    if len(said) <= 20 or said.endswith("?") or pattern_of_kind("intent").match(said):
        return False
    if is_work and _NUMBER.search(said):
        return True
    return any(is_work or finding.kind != "number" for finding in find_identifiers(said))


def _name_of(task: Task) -> str:
    return f"#{task.id} {task.text}" if task.id else task.text


def _state_note(task: Task) -> str:
    return "" if task.state == "open" else f" [{task.state}]"


def _shorten(text: str) -> str:
    return shorten(text, _MOST_CHARS)
