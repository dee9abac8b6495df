"""Adds up what an audit found, and puts it into words: one screen for all, one compaction in full,
and one page with both.
"""

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
from mcp_compaction.core.wording import escape, plural
from mcp_compaction.evals.handover import Needs
from mcp_compaction.evals.handover_sessions import Turn, names_in
from mcp_compaction.evals.pages import (
    Bar,
    BarLine,
    Table,
    draw_bars,
    fold_in,
    write_key,
    write_lines,
    write_page,
    write_table,
)
from mcp_compaction.evals.results import add_up
from mcp_compaction.formats import IncomingMessage, read
from mcp_compaction.home import mask
from mcp_compaction.model import Message, Text, ToolCall, ToolResult, Value

HOW = (
    "before: said since the compaction before it, or left by that one",
    "stood: in the host's summary or what it kept; rules and tasks word for word, names as typed",
    "needed again: passed by a call of the next 40 answers, or said again by the user",
    "again: a call with the same arguments as one before; tests that are run again count, too",
    "said nowhere: a name of the summary that the transcript lacks; system prompts are not in it",
    "may have broken: a later call does what a rule forbids that was gone; read both",
)
_KEY = {"mark": "stood after the host's compactions", "ours": "stands in ours, of the same size"}
_MOST_SHOWN = 3
_LONGEST = 110


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
    title: str
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
    """Everything that an audit found."""

    chats: int  # that were read
    findings: tuple[Audited, ...]
    skipped: tuple[str, ...]  # files that could not be read, and why
    left: int = 0  # compactions that --limit left out


def total_of(findings: tuple[Audited, ...]) -> tuple[Count, ...]:
    """The counts of several compactions together, by kind."""
    found = add_up((count for one in findings for count in one.counts), "kind")
    return tuple(sorted(found, key=lambda one: (RULES, TASKS, *_NAMES.values()).index(one.kind)))


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
    """The rules, tasks and names in messages, which a summary should keep."""
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


def make_page(audit: Audit) -> str:
    """The page of an audit."""
    counts = total_of(hosts_own(audit))
    rows = {one.kind: _bars_of(one) for one in counts}
    parts = (
        f"<h1>{escape(headline_of(audit))}</h1>",
        write_key(_KEY) + draw_bars(rows, "What stood of what there was") if rows else "",
        write_table(table_of(counts)),
        write_lines(mask(line) for line in lines_of(audit) if line),
        "<h2>Each compaction</h2>",
        *(
            fold_in(
                mask(name_of(one)),
                write_table(table_of(one.counts)),
                f"<ul>{write_lines(map(mask, full_lines(one)), 'li')}</ul>",
            )
            for one in audit.findings
        ),
        f"<h2>How it is counted</h2>{write_lines(HOW)}",
    )
    return write_page("What past compactions lost", parts)


def _bars_of(count: Count) -> list[BarLine]:
    """How much of a kind stood after the hosts' compactions, and in ours."""
    lines: list[BarLine] = []
    for stood, style in ((count.stood, "mark"), (count.ours, "ours")):
        if stood is not None:
            share = stood / count.before
            words = f"{stood} of {count.before}"
            lines.append(BarLine([Bar(share, style, f"{count.kind}: {share:.0%}")], words))
    return lines


def headline_of(audit: Audit) -> str:
    """The one sentence that tells most."""
    hosts = hosts_own(audit)
    rules = next((one for one in total_of(hosts) if one.kind == "rules"), None)
    lost = rules.before - rules.stood if rules else 0
    gone = f"; {lost} of {plural(rules.before, 'rule')} not word for word" if rules else ""
    ours = len(audit.findings) - len(hosts)
    beside = f" (and {ours} by mcp-compaction or another plugin)" if ours else ""
    many = f"{plural(len(hosts), 'compaction')} by hosts{beside} in {plural(audit.chats, 'chat')}"
    return f"{many}{gone}"


def hosts_own(audit: Audit) -> tuple[Audited, ...]:
    """The compactions that hosts made themselves."""
    return tuple(one for one in audit.findings if not one.is_ours)


def table_of(counts: Sequence[Count]) -> Table:
    """What stood, of what there was and of what was needed, beside our view of the same size."""
    has_ours = any(one.ours is not None for one in counts)
    head = ["", "before", "stood", "needed again", "of these stood"]
    head += ["ours: stood", "of the needed"] if has_ours else []
    rows = [head]
    for one in counts:
        row = [one.kind, str(one.before), str(one.stood), str(one.needed), str(one.needed_stood)]
        row += ["" if n is None else str(n) for n in (one.ours, one.ours_needed)] * has_ours
        rows.append(row)
    return rows


def lines_of(audit: Audit) -> Iterator[str]:
    """The lines that stand below the table."""
    hosts = hosts_own(audit)
    yield from _again(hosts)
    yield from _price(hosts)
    invented = sum(len(one.invented) for one in hosts)
    if invented:
        yield f"said nowhere before, but in a summary: {plural(invented, 'name')}"
    ours = [one.ours for one in hosts if one.ours is not None]
    if ours:
        most = max(one.seconds for one in ours)
        yield f"ours: the same input in the same tokens, {most:.1f} s at most, no model"
    yield from worst_case(hosts)
    yield from (f"not read: {one}" for one in audit.skipped[:_MOST_SHOWN])
    if len(audit.skipped) > _MOST_SHOWN:
        yield f"not read: {len(audit.skipped) - _MOST_SHOWN} more; --json has all"
    if audit.left:
        yield f"{plural(audit.left, 'older compaction')} left out; --limit takes more"


def _again(findings: Sequence[Audited]) -> Iterator[str]:
    parts: list[str] = []
    for kind in ("read", "run", "said"):
        found = [one for finding in findings for one in finding.again if one.kind == kind]
        times, tokens = sum(one.times for one in found), sum(one.tokens for one in found)
        if times:
            parts.append(f"{kind} again {plural(times, 'time')} ({tokens:,} tokens)")
    if parts:
        yield f"after them: {', '.join(parts)}"


def _price(findings: Sequence[Audited]) -> Iterator[str]:
    waits = [one.cost.seconds for one in findings if one.cost.seconds is not None]
    read = [one.cost.read_anew for one in findings if one.cost.read_anew is not None]
    money = [one.cost.dollars for one in findings if one.cost.dollars is not None]
    known = f" (told for {len(waits)} of {len(findings)})" if len(waits) < len(findings) else ""
    parts = [f"{sum(waits):,.0f} s of waiting{known}"] * bool(waits)
    parts += [f"{sum(read):,} tokens read anew"] * bool(read)
    parts += [f"about ${sum(money):,.2f} by list prices, cache included"] * bool(money)
    if parts:
        yield f"they took: {', '.join(parts)}"


def worst_case(findings: Sequence[Audited]) -> Iterator[str]:
    """A rule that was gone and the call that may have broken it, side by side."""
    hurt = next((one for one in findings if one.broken), None)
    if hurt is None:
        return
    broken = hurt.broken[0]
    yield ""
    yield f"may have broken a rule that was gone ({hurt.host}, {hurt.chat}):"
    yield f"  the rule   {_short(broken.rule)}   [{broken.said_in or 'earlier'}]"
    yield f"  the call   {_short(broken.call)}   [{broken.called_in}]"


def worst_chat(findings: Sequence[Audited]) -> Audited | None:
    """The compaction that lost most: rules that may have been broken, rules, what was needed."""

    def harm(one: Audited) -> tuple[int, int, int]:
        needed = sum(count.needed - count.needed_stood for count in one.counts)
        return len(one.broken), len(one.lost_rules), needed

    return max(findings, key=harm, default=None)


def name_of(finding: Audited) -> str:
    """One compaction by its chat, its number, who made it and when."""
    by = "mcp-compaction" if finding.is_ours else finding.host
    when = f", {finding.at[:16].replace('T', ' ')}" if finding.at else ""
    title = f'"{finding.title}", ' if finding.title else ""
    return f"{title}{finding.chat}, compaction {finding.number} by {by}{when}"


def full_lines(finding: Audited) -> Iterator[str]:
    """One compaction in full, but for its table."""
    sizes = [f"{n:,}" if n else "not told" for n in (finding.tokens_before, finding.tokens_after)]
    yield f"{sizes[0]} tokens before, {sizes[1]} after; {finding.trigger}"
    yield from _again([finding])
    yield from _price([finding])
    for rule in finding.lost_rules:
        yield f"gone: {rule}"
    for name in finding.invented:
        yield f"said nowhere before: {name}"
    for broken in finding.broken:
        yield f"may be broken: {_short(broken.rule)} [{broken.said_in or 'earlier'}]"
        yield f"           by: {_short(broken.call)} [{broken.called_in}]"
    if finding.ours is not None:
        size = f"{finding.ours.tokens:,} of {finding.ours.of_tokens:,} tokens"
        yield f"ours: {size}, {finding.ours.seconds:.1f} s"


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
