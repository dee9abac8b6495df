"""The summarizer that needs no model: a digest taken from the span by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mcp_compaction.core.digest.text import ASKED, TOLD, DigestSections, as_sections
from mcp_compaction.core.log.content import is_talk
from mcp_compaction.core.log.decisions.statement import decided
from mcp_compaction.core.log.decisions.supersede import newest_first, settle
from mcp_compaction.core.log.failures import causes, ending, is_failure
from mcp_compaction.core.log.identifiers import find
from mcp_compaction.core.log.tasks.jobs import left_running
from mcp_compaction.core.log.tasks.plans import TaskList, read_tasks
from mcp_compaction.core.log.tasks.spoken import spoken_tasks
from mcp_compaction.core.log.tool_calls import Task, action_of, answered_calls
from mcp_compaction.core.text import sentences as markers
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence
from mcp_compaction.core.text.words import fold, telling_words
from mcp_compaction.model import Draft, Item, Message, SectionName, SummaryRequest

_Pick = Callable[[Sentence], bool]

_MOST_CHARS = 240
_MOST_FACTS = 40
_FEWEST_TELLING = 2  # words that say something, in what is told as asked for
_MOST_REQUESTS = 12


def standing_plan(messages: Sequence[Message]) -> str:
    """The ref of the newest plan, which stands; the tasks of older ones are settled by it."""
    return read_tasks(messages).plan


def open_tasks(messages: Sequence[Message]) -> tuple[Item, ...]:
    """What the plan that stands, and what users said in words, still leave to do."""
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
        for message in messages
        if message.role == "user"
        for rule in find_rules(message.text)
    ]


def must_keep(messages: Sequence[Message], plan: str) -> DigestSections:
    """What every digest of these messages has to hold: the user's rules, what users said is
    still to be done, and the open tasks if the plan that stands is among them."""
    rules = stated_rules(messages)
    planned = _still_open(read_tasks(messages), plan)
    return as_sections({"CONSTRAINTS": rules, "OPEN": [*planned, *spoken_tasks(messages)]})


def _still_open(ledger: TaskList, plan: str) -> Iterable[Item]:
    for entry in ledger.entries:
        if (entry.is_single or entry.ref == plan) and not entry.task.is_closed:
            yield Item(text=f"{_named(entry.task)}{_state(entry.task)}", refs=(entry.ref,))


def remembered(memory: str | None) -> DigestSections:
    """The lines of a memory, which is shown nowhere else once it is folded into a digest."""
    lines = [
        Item(text=line, provenance="verbatim", must_stay=True)
        for line in markers.sentences(memory or "")
    ]
    return as_sections({"FACTS": lines})


class _Said(NamedTuple):
    """A message and the sentences spoken in it."""

    message: Message
    text: str
    sentences: tuple[Sentence, ...]


def extract(request: SummaryRequest) -> Draft:
    """A draft of lines that stand in the span, none of them reworded."""
    messages = request.messages
    said = [
        _Said(message, text, markers.speech(text))
        for message in messages
        if (text := message.text) and not message.results
    ]
    decisions = _decisions(said)
    # In plain talk everything is a doubt or a plan of somebody's; passages tell it better, and
    # they tell what users said anyway.
    spoken = [] if is_talk(messages) else [s for s in said if s.message.role == "assistant"]
    found: dict[SectionName, list[Item]] = {
        "PROGRESS": list(_progress(messages, said)),
        "DECISIONS": list(decisions),
        "FACTS": list(_facts(messages, said, decisions)),
        "ERRORS": list(_errors(messages)),
        "ARTIFACTS": list(_artifacts(request)),
        "NEXT": [
            *left_running(messages),
            *_last_question(messages, said),
            *reversed(list(_spoken(spoken, markers.is_next_step))),
        ],
        "UNCERTAIN": list(_spoken(spoken, markers.is_doubt)),
    }
    return Draft(author="extractive", sections=as_sections(_unsaid(found, request)))


def _unsaid(
    found: dict[SectionName, list[Item]], request: SummaryRequest
) -> dict[SectionName, list[Item]]:
    """What was found without what must be kept: that has its own line, which no size leaves out."""
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


def _progress(messages: Sequence[Message], said: Sequence[_Said]) -> Iterable[Item]:
    for entry in read_tasks(messages).entries:
        if entry.task.state == "done":
            yield Item(text=f"done: {entry.task.text}", refs=(entry.ref,))
    for one in said if _is_work(messages) else ():
        if first := _asked(one.text) if one.message.is_request else "":
            by = ASKED if one.message.via == "host" else TOLD
            yield Item(text=f"{by}{_short(first)}", refs=(one.message.ref,))
    yield from _results_of_commands(messages)


def _asked(text: str) -> str:
    """The first sentence of a request that says something; the whole of it where it is the only."""
    sentences = [said for said in markers.sentences(text) if not markers.is_pleasantry(said)]
    if len(sentences) == 1:
        return sentences[0]
    return next((said for said in sentences if len(telling_words(said)) >= _FEWEST_TELLING), "")


def _is_work(messages: Sequence[Message]) -> bool:
    """Whether requests lead to work; in plain talk passages say more than what was asked."""
    requests = sum(message.is_request for message in messages)
    return requests <= _MOST_REQUESTS or any(message.calls for message in messages)


def _results_of_commands(messages: Sequence[Message]) -> Iterable[Item]:
    last: dict[str, Item] = {}
    for message, call, result in answered_calls(messages):
        if action_of(call).kind == "run" and (how := ending(result)):
            command = _command(action_of(call).target)
            last.pop(command, None)
            last[command] = Item(text=f"ran {command}: {how}", refs=(message.ref,))
    yield from reversed(last.values())


def _decisions(said: Sequence[_Said]) -> tuple[Item, ...]:
    made = [
        Item(text=_short(decision), refs=(one.message.ref,))
        for one in said
        if one.message.role in ("user", "assistant")
        for decision in decided(one.text, one.sentences, one.message.role == "user")
    ]
    return newest_first(settle(made))


def _spoken(said: Sequence[_Said], pick: _Pick) -> Iterable[Item]:
    for one in said:
        for sentence in one.sentences:
            if pick(sentence):
                yield Item(text=_short(sentence.text), refs=(one.message.ref,))


def _last_question(messages: Sequence[Message], said: Sequence[_Said]) -> Iterable[Item]:
    """The question a span ends with; only what follows can tell whether it was answered."""
    if not said or not said[-1].text.rstrip().endswith(("?", "？")):
        return
    message, _, sentences = said[-1]
    if message.role == "assistant":
        is_left = message is messages[-1] and not message.calls  # else it went on by itself
    else:  # a request of one sentence is told as progress
        is_left = message.role == "user" and (len(sentences) > 1 or not _is_work(messages))
    if is_left and sentences:
        yield Item(text=f"last question: {_short(sentences[-1].text)}", refs=(message.ref,))


class _Failure(NamedTuple):
    """What went wrong, how often, and the command that may have gone right since."""

    item: Item
    times: int
    command: str


def _errors(messages: Sequence[Message]) -> Iterable[Item]:
    seen: dict[str, _Failure] = {}
    mended: set[str] = set()
    for message, call, result in answered_calls(messages):
        act = action_of(call)
        command = _command(act.target) if act.kind == "run" else ""
        mended.discard(command)
        found = () if act.kind == "recall" else causes(result)
        for why in map(_short, reversed(found)):
            old = seen.pop(why, None)
            item = Item(text=why, refs=(message.ref,))
            seen[why] = _Failure(item, old.times + 1 if old else 1, command)
        if command and not found and not is_failure(result):
            mended.add(command)
    failures = [_told(one, one.command in mended) for one in reversed(seen.values())]
    yield from (item for item, is_fixed in failures if not is_fixed)
    yield from (item for item, is_fixed in failures if is_fixed)


def _told(failure: _Failure, is_fixed: bool) -> tuple[Item, bool]:
    notes = [f"{failure.times} times"] if failure.times > 1 else []
    notes += ["fixed later"] if is_fixed else []
    text = f"{failure.item.text} ({', '.join(notes)})" if notes else failure.item.text
    return failure.item.model_copy(update={"text": text}), is_fixed


def _artifacts(request: SummaryRequest) -> Iterable[Item]:
    for item in request.index:
        if item.kind == "file" and item.note in ("edited", "created"):
            yield Item(text=f"{item.text} {item.note}", refs=item.refs)


_INTENT = re.compile(
    r"(?:(?:ok(?:ay)?|great|good|perfect|now|next|first|then|alright|so|and|right)[,.!:]? )*"
    r"(?:let me|let's|I(?:'ll| will|'m going to| am going to|'m about to| need to| should)\b"
    r"|looking at|checking|reading|running|searching)",
    re.I,
)
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*(?: ?(?:%|ms|s|[kKMG]i?B|px)\b|\d)")


def _facts(
    messages: Sequence[Message], said: Sequence[_Said], decisions: Sequence[Item]
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
                Item(text=_short(sentence.text), refs=(one.message.ref,))
                for sentence in one.sentences
                if fold(sentence.text) not in told and _is_fact(sentence, is_work)
            )
    return [*ranked[0], *ranked[1]][:_MOST_FACTS]


def _is_fact(sentence: Sentence, is_work: bool) -> bool:
    said = sentence.text
    if len(said) <= 20 or said.endswith("?") or _INTENT.match(said):
        return False
    if is_work and _NUMBER.search(said):
        return True
    return any(is_work or finding.kind != "number" for finding in find(said))


def _named(task: Task) -> str:
    return f"#{task.id} {task.text}" if task.id else task.text


def _state(task: Task) -> str:
    return "" if task.state == "open" else f" [{task.state}]"


def _command(target: str) -> str:
    return _short(target.strip().split("\n", 1)[0], 100)


def _short(text: str, most: int = _MOST_CHARS) -> str:
    """A text cut at a word's end."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " …"
