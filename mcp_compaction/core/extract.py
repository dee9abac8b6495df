"""The summarizer that needs no model: a digest taken from the span by rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mcp_compaction.core import markers
from mcp_compaction.core.candidates import standing
from mcp_compaction.core.deeds import Task, deed, tasks
from mcp_compaction.core.digest import Sections, as_sections
from mcp_compaction.core.identifiers import error_lines, find, outcome
from mcp_compaction.core.parts import calls_by_id
from mcp_compaction.core.pieces import is_talk
from mcp_compaction.model import Draft, Item, Message, SectionName, SummaryRequest

_Pick = Callable[[str], tuple[str, ...]]

_MOST_CHARS = 240
_MOST_FACTS = 40
_MOST_REQUESTS = 12


def standing_plan(messages: Sequence[Message]) -> str:
    """The ref of the newest plan, which stands; the tasks of older ones are settled by it."""
    return _newest_plan(messages)[0]


def open_tasks(messages: Sequence[Message]) -> tuple[Item, ...]:
    """What the plan that stands still leaves to do."""
    ref, plan = _newest_plan(messages)
    return tuple(Item(text=task.text, refs=(ref,)) for task in plan if task.state != "done")


def must_keep(messages: Sequence[Message], plan: str) -> Sections:
    """What every digest of these messages has to hold: the user's rules, and the open tasks
    if the plan that stands is among them."""
    rules = [
        Item(text=rule, refs=(message.ref,), provenance="verbatim")
        for message in messages
        if message.role == "user"
        for rule in standing(message.text)
    ]
    ref, tasks_of_plan = _newest_plan(messages)
    still_open = [
        Item(text=f"{task.text}{_state(task)}", refs=(ref,))
        for task in tasks_of_plan
        if task.state != "done" and ref == plan
    ]
    return as_sections({"CONSTRAINTS": rules, "OPEN": still_open})


def remembered(memory: str | None) -> Sections:
    """The lines of a memory, which is shown nowhere else once it is folded into a digest."""
    lines = [
        Item(text=line, provenance="verbatim", must_stay=True)
        for line in markers.sentences(memory or "")
    ]
    return as_sections({"FACTS": lines})


def extract(request: SummaryRequest) -> Draft:
    """A draft of lines that stand in the span, none of them reworded."""
    messages = request.messages
    if is_talk(messages):
        return Draft(author="extractive")
    found: dict[SectionName, list[Item]] = {
        "PROGRESS": list(_progress(messages)),
        "DECISIONS": list(_spoken(messages, markers.decisions)),
        "FACTS": list(_facts(messages)),
        "ERRORS": list(_errors(messages)),
        "ARTIFACTS": list(_artifacts(request)),
        "NEXT": list(_spoken(messages, markers.next_steps))[::-1],
        "UNCERTAIN": list(_spoken(messages, markers.doubts)),
    }
    return Draft(author="extractive", sections=as_sections(found))


def _progress(messages: Sequence[Message]) -> Iterable[Item]:
    ref, plan = _newest_plan(messages)
    for task in plan:
        if task.state == "done":
            yield Item(text=f"done: {task.text}", refs=(ref,))
    for message in messages if _is_work(messages) else ():
        first = next(iter(markers.sentences(message.text)), "") if message.is_request else ""
        if first and not markers.is_pleasantry(first):
            yield Item(text=f"asked: {_short(first)}", refs=(message.ref,))
    yield from _results_of_commands(messages)


def _is_work(messages: Sequence[Message]) -> bool:
    """Whether requests lead to work; in plain talk passages say more than what was asked."""
    requests = sum(message.is_request for message in messages)
    return requests <= _MOST_REQUESTS or bool(calls_by_id(messages))


def _results_of_commands(messages: Sequence[Message]) -> Iterable[Item]:
    calls = calls_by_id(messages)
    last: dict[str, Item] = {}
    for message in messages:
        for result in message.results:
            call = calls.get(result.call)
            if call is None or deed(call).act != "run" or not (how := outcome(result)):
                continue
            command = _short(deed(call).target.strip().split("\n", 1)[0], 100)
            last.pop(command, None)
            last[command] = Item(text=f"ran {command}: {how}", refs=(message.ref,))
    yield from reversed(last.values())


def _spoken(messages: Sequence[Message], pick: _Pick) -> Iterable[Item]:
    for message in messages:
        if not message.results:
            for sentence in pick(message.text):
                yield Item(text=_short(sentence), refs=(message.ref,))


def _errors(messages: Sequence[Message]) -> Iterable[Item]:
    seen: dict[str, Item] = {}
    for message in messages:
        for result in message.results:
            lines = list(error_lines(result.text))
            if result.is_error and not lines:
                lines = [result.text.strip().split("\n", 1)[0]]
            for line in lines[-1:]:  # the last line of a trace names the cause
                seen.pop(line, None)
                seen[line] = Item(text=_short(line), refs=(message.ref,))
    return reversed(seen.values())


def _artifacts(request: SummaryRequest) -> Iterable[Item]:
    for item in request.index:
        if item.kind == "file" and item.note in ("edited", "created"):
            yield Item(text=f"{item.text} {item.note}", refs=item.refs)


def _facts(messages: Sequence[Message]) -> Iterable[Item]:
    """Sentences of the assistant that name something exact, the newest first."""
    facts = [
        Item(text=_short(sentence), refs=(message.ref,))
        for message in reversed(messages)
        if message.role == "assistant"
        for sentence in markers.sentences(message.text)
        if len(sentence) > 20 and not markers.is_pleasantry(sentence) and find(sentence)
    ]
    return facts[:_MOST_FACTS]


def _newest_plan(messages: Sequence[Message]) -> tuple[str, tuple[Task, ...]]:
    for message in reversed(messages):
        for call in reversed(message.calls):
            if deed(call).act == "plan" and (plan := tasks(call)):
                return message.ref, plan
    return "", ()


def _state(task: Task) -> str:
    return "" if task.state == "open" else f" [{task.state}]"


def _short(text: str, most: int = _MOST_CHARS) -> str:
    """A text cut at a word's end."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " …"
