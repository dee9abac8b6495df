"""Finds which open tasks were said to be done since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.tasks.done import (
    DoneThing,
    OpenTask,
    done_in_text,
    read_task,
    words_of_task,
)
from mcp_compaction.core.log.tool_calls import (
    CLOSED,
    is_plan,
    is_task,
    task_change_of,
    tasks_of,
)
from mcp_compaction.model import Item, Message


def unfinished_tasks(items: Sequence[Item], later: Sequence[Message]) -> tuple[Item, ...]:
    """The open tasks that no later message says are done."""
    closed, by_number = last_closed(items, later), _closed_numbers(later)
    return tuple(item for item in items if not by_number.get(_number_of(item), item.text in closed))


def _number_of(item: Item) -> str:
    """The number that a tool gave a task."""
    return item.value.key if item.value is not None and item.value.kind == "task" else ""


def _closed_numbers(messages: Sequence[Message]) -> dict[str, bool]:
    """Whether each task that is called by its number was last said to be closed."""
    changes = (task_change_of(call) for m in messages for call in m.calls if is_task(call))
    return {c.id: c.state in CLOSED for c in changes if c.id and c.state is not None}


def last_closed(
    items: Sequence[Item], messages: Sequence[Message], since: int = 0
) -> dict[str, int]:
    """The place in the conversation where each task was last said to be done, by its text; what
    stands before a place is not looked at."""
    wanted = {item.text: read_task(item.text) for item in items}
    by_word = _tasks_by_rarest_words(wanted)
    closed: dict[str, int] = {}
    said = enumerate(conversation_of(messages)) if by_word else ()
    for place, message in islice(said, since, None):
        for told in _done_things(message):
            near = {text for word in told.words for text in by_word.get(word, ())}
            closed.update((text, place) for text in near if _closes(told, wanted[text]))
    return closed


def _tasks_by_rarest_words(wanted: dict[str, OpenTask]) -> dict[str, list[str]]:
    """Tasks by so many of their rarest words that whatever closes them says one of these."""
    often = Counter(word for task in wanted.values() for word in task.words)
    found: dict[str, list[str]] = {}
    for text, task in wanted.items():
        rarest = sorted(task.words, key=lambda word: (often[word], word))
        for word in rarest[: task.missable + 1]:
            found.setdefault(word, []).append(text)
    return found


def _closes(told: DoneThing, task: OpenTask) -> bool:
    said = told.words
    missing = len(task.words - said)
    if (told.verbs and told.verbs != task.verbs) or missing > task.missable:
        return False
    if told.is_spoken and len(task.words) < 2:
        return False
    if (missing or not told.verbs) and not said - told.verbs <= task.words:
        return False  # it may be another thing of that kind
    things = task.words - told.verbs  # "the deploy key logs" are not the deploy key
    return not any(
        word in things and following and following not in task.words
        for word, following in pairwise((*told.of, ""))
    )


def _done_things(message: Message) -> Iterable[DoneThing]:
    """Each thing that a message says is done, in speech or in a plan."""
    for call in message.calls:
        for task in tasks_of(call) if is_plan(call) else ():
            if task.is_closed:
                of = words_of_task(task.text)
                yield DoneThing(frozenset(), of, is_spoken=False)
                if verbs := read_task(task.text).verbs:
                    yield DoneThing(verbs, of, is_spoken=False)
    if message.role in ("assistant", "user"):
        yield from done_in_text(message.text)
