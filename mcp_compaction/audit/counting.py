"""Counts, as values that add up, what a compaction left of what the window held, what the rest of
the chat needed, and the calls that may have broken a rule which was lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_compaction.checks.judge import Rule, judge
from mcp_compaction.checks.match import Call
from mcp_compaction.checks.offer import offer_checks
from mcp_compaction.core.digest.extract import open_tasks, stated_rules
from mcp_compaction.core.log.identifiers import find_identifiers, identifiers_by_message
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.text.words import fold, one_line
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.evals.handover.measure import Needs
from mcp_compaction.evals.handover.sessions import Turn, names_in
from mcp_compaction.evals.results import add_up
from mcp_compaction.formats import IncomingMessage, read
from mcp_compaction.model import Message, Text, ToolCall, ToolResult, Value


class Count(Value):
    """How many things of a kind the window held before, and how many stood in it after."""

    kind: str
    before: int
    stood: int
    needed: int = 0  # of those before, how many the rest of the chat needed
    needed_stood: int = 0  # of these, how many stood
    ours: int | None = None  # how many stand in our view of the same size
    ours_needed: int | None = None


class Again(Value):
    """Calls after a compaction that were made before with the same arguments."""

    kind: str  # read, run or said
    times: int
    tokens: int


class Broken(Value):
    """A rule that was gone, and a later call that may have broken it."""

    rule: str
    said_in: str  # the host's id of the message
    call: str
    called_in: str


class CompactionCost(Value):
    """What a compaction took; None where the transcript does not tell."""

    seconds: float | None
    read_anew: int | None  # tokens of the new beginning, which no cache had
    summary_read: int | None
    summary_written: int | None
    dollars: float | None


class Ours(Value):
    """The same compaction by us: the size of the view, and how long it took."""

    tokens: int
    of_tokens: int  # of what the host left
    seconds: float


class Audited(Value):
    """One compaction, audited."""

    host: str
    chat: str
    number: int
    at: str | None
    trigger: str
    is_ours: bool
    tokens_before: int | None
    tokens_after: int | None
    counts: tuple[Count, ...]
    invented: tuple[str, ...]  # names in the summary that were said nowhere before
    again: tuple[Again, ...]
    broken: tuple[Broken, ...]
    lost_rules: tuple[str, ...]
    cost: CompactionCost
    ours: Ours | None


class Audit(Value):
    """All that was found."""

    chats: int  # that were read
    findings: tuple[Audited, ...]
    skipped: tuple[str, ...]  # files that could not be read, and why
    left: int = 0  # compactions that --limit left out


def total_of(findings: tuple[Audited, ...]) -> tuple[Count, ...]:
    """The counts of several compactions together, by kind."""
    return add_up((count for one in findings for count in one.counts), "kind")


RULES, TASKS = "rules", "open tasks"
_NAMES = {"file": "paths", "command": "commands", "url": "URLs", "id": "ids", "number": "numbers"}
_MOST_INVENTED = 20
_LONGEST_CALL = 300
_AGAIN = {"read": "read", "search": "read", "list": "read", "run": "run"}

Things = Mapping[str, frozenset[str]]  # the texts of each kind


class WindowText(NamedTuple):
    """The text of a window, in which things are looked for."""

    text: str
    folded: str
    numbers: frozenset[str]  # with their keys, however these stand there

    def holds(self, kind: str, thing: str) -> bool:
        """Whether a thing stands in it: rules and tasks word for word but for blanks and case."""
        if kind in (RULES, TASKS):
            return fold(thing) in self.folded
        return thing in self.numbers or thing in self.text


def window_of(text: str) -> WindowText:
    """A window by its text."""
    found = find_identifiers(text)
    return WindowText(
        text, fold(text), frozenset(one.text for one in found if one.kind == "number")
    )


def things_of(messages: Sequence[Message]) -> Things:
    """What messages say that a summary should keep."""
    typed = [message for message in messages if message.role != "user" or message.via != "tool"]
    found: dict[str, set[str]] = {RULES: {rule.text for rule in stated_rules(typed)}}
    found[TASKS] = {task.text for task in open_tasks(typed)}
    for identifiers in identifiers_by_message(messages).values():
        for one in identifiers:
            if one.kind in _NAMES:
                found.setdefault(_NAMES[one.kind], set()).add(one.text)
    return {kind: frozenset(texts) for kind, texts in found.items()}


def carry(fresh: Things, earlier: Things, left: WindowText) -> Things:
    """What a window held: what was said since the last compaction, and what that one left."""
    stood = {
        kind: {one for one in texts if left.holds(kind, one)} for kind, texts in earlier.items()
    }
    kinds = dict.fromkeys((*fresh, *stood))
    return {kind: fresh.get(kind, frozenset()) | stood.get(kind, set()) for kind in kinds}


def needed_of(held: Things, early: Sequence[Turn], later: Sequence[Turn]) -> Things:
    """What the rest of the chat needed of it: what later calls pass, and what users say again."""
    passed = Needs(early, later).in_calls.keys()
    said = fold("\n".join(turn.said for turn in later if turn.role == "user"))
    return {
        kind: frozenset(
            one for one in texts if (fold(one) in said if kind in (RULES, TASKS) else one in passed)
        )
        for kind, texts in held.items()
    }


def count_things(
    held: Things, needed: Things, left: WindowText, ours: WindowText | None
) -> tuple[Count, ...]:
    """The counts of each kind that there is."""

    def stand(kind: str, texts: Iterable[str], window: WindowText) -> int:
        return sum(window.holds(kind, one) for one in texts)

    return tuple(
        Count(
            kind=kind,
            before=len(texts),
            stood=stand(kind, texts, left),
            needed=len(needed[kind]),
            needed_stood=stand(kind, needed[kind], left),
            ours=None if ours is None else stand(kind, texts, ours),
            ours_needed=None if ours is None else stand(kind, needed[kind], ours),
        )
        for kind, texts in held.items()
        if texts
    )


def find_invented(summary: str, everything: str, chat: str) -> tuple[str, ...]:
    """The names in a summary that were said nowhere before; a host names its own file in it."""
    known = everything.casefold()
    names = sorted(names_in(summary), key=len, reverse=True)
    own = chat.split(" ")[0]
    # A path may be spelled from another folder: its last part tells.
    new = [n for n in names if n.rpartition("/")[2].casefold() not in known and own not in n]
    whole = [n for place, n in enumerate(new) if not any(n in longer for longer in new[:place])]
    return tuple(sorted(whole))[:_MOST_INVENTED]


def count_again(
    early: Sequence[Turn], later: Sequence[Turn], rules: Iterable[str], count: CountTokens
) -> tuple[Again, ...]:
    """The calls that were made before with the same arguments, and rules that were said again."""
    made = {key for turn in early for _, key in _calls_of(turn)}
    results = {
        part.call: count(part.text)
        for turn in later
        for part in turn.parts
        if isinstance(part, ToolResult)
    }
    times: dict[str, list[int]] = {}
    for call, key in (one for turn in later for one in _calls_of(turn)):
        if key in made:
            times.setdefault(key[0], []).append(results.get(call.id, 0))
    said = [fold(turn.said) for turn in later if turn.role == "user"]
    again = [rule for rule in rules if any(fold(rule) in text for text in said)]
    found = [Again(kind=k, times=len(v), tokens=sum(v)) for k, v in sorted(times.items())]
    if again:
        found.append(Again(kind="said", times=len(again), tokens=sum(map(count, again))))
    return tuple(found)


def _calls_of(turn: Turn) -> Iterable[tuple[ToolCall, tuple[str, str]]]:
    """The calls of a turn that read or run something, by what they do and to what."""
    for part in turn.parts:
        if isinstance(part, ToolCall):
            action = action_of(part)
            kind = _AGAIN.get(action.kind)
            if kind is not None and action.target:
                yield part, (kind, action.target)


class _Made(NamedTuple):
    """A call, where it stands, and what the user had said by then."""

    where: str
    call: ToolCall
    said: str


def find_broken(
    rules: Iterable[tuple[str, str]], later: Sequence[IncomingMessage], folder: str = ""
) -> Iterator[Broken]:
    """The first call against each rule, where the chat worked in a folder; `rules`: the words, and
    the id of the message."""
    made = list(_calls_in(later))
    for text, said_in in rules:
        rule = Rule(0, text, tuple(c for c in offer_checks(text) if c.verdict == "deny"))
        broken = next((one for one in made if _breaks(rule, one, folder)), None)
        if broken is not None:
            target = one_line(action_of(broken.call).target)[:_LONGEST_CALL]
            yield Broken(rule=text, said_in=said_in, call=target, called_in=broken.where)


def _calls_in(messages: Sequence[IncomingMessage]) -> Iterator[_Made]:
    said = ""
    for message in messages:
        role, parts = read(message.shape, message.raw)
        for part in parts:
            if isinstance(part, ToolCall):
                yield _Made(message.host_id or "", part, said)
            elif isinstance(part, Text) and role == "user":
                said = f"{said}\n{part.text.casefold()}"


def _breaks(rule: Rule, made: _Made, folder: str) -> bool:
    """Whether the check that would be offered for a rule stops a call, and the user has not named
    the thing since."""
    given = cast("dict[str, Any]", made.call.arguments)
    held = judge(Call(made.call.name, given, folder, folder), [rule])
    named = (one.check.glob.casefold().strip("*/") for one in held if one.verdict == "deny")
    return any(name not in made.said for name in named)
