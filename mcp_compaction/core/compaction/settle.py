"""Settles a compaction: checks the view against its source and puts back what it would lose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from mcp_compaction.core.compaction.budget import keeps_all_rules
from mcp_compaction.core.compaction.outcomes import compaction_of
from mcp_compaction.core.compaction.patch import Line, Lines, lines_of_findings, put_back
from mcp_compaction.core.compaction.progress import Asking, Inputs, Progress
from mcp_compaction.core.compaction.receipt.notes import note_of_rules
from mcp_compaction.core.compaction.room import add_excerpts, fit_index, fit_steps
from mcp_compaction.core.compaction.verify import (
    Check,
    Record,
    compare,
    find_lost,
    find_missing_lines,
    read_record,
    search_request_for,
    tally_findings,
    tally_lines,
)
from mcp_compaction.core.digest.extract import open_tasks, stated_rules
from mcp_compaction.core.digest.fit import as_sections, mark_older
from mcp_compaction.core.log.identifiers import Finding
from mcp_compaction.core.log.pinned import shown_text
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import (
    Found,
    Item,
    Message,
    NothingToDo,
    Outcome,
    SectionName,
    Session,
    Shown,
    ShownMessage,
    Tally,
)

_AS_LARGE = "nothing to do: the digest would be as large as what it stands for. Go on."

PlacedLine = tuple[int, Item]  # the number of the message that holds a line, and the line


@dataclass(frozen=True)
class _Comparison:
    """A view beside its source."""

    shown: tuple[Shown, ...]
    gone: list[Message]  # those that the view no longer shows whole
    prompts: frozenset[int]  # of these: of whose rules it shows no more than their share
    source: _Source

    @cached_property
    def check(self) -> Check:
        """Where the identifiers of the messages are that are gone."""
        inputs, read = self.source.inputs, self.source.read_record
        limit = inputs.policy.recall_max_tokens
        return compare(self.gone, self.shown, inputs.found, limit, read)


@dataclass(frozen=True)
class _Source:
    """What a view is held against: the session before, read once however often that is."""

    before: Session
    inputs: Inputs
    room: int  # of the target, beside the sections

    def beside(self, session: Session) -> _Comparison:
        """The view of a session beside what it was made of."""
        shown = lay_out(session, self.inputs.given_policy.index_limit, self.inputs.count)
        whole = {p.message.seq for p in shown if isinstance(p, ShownMessage) and not p.cuts}
        gone = [message for message in self.before.messages if message.seq not in whole]
        first = {entry.seq for entry in session.view.head}
        policy, count = self.inputs.policy, self.inputs.count
        prompts = (
            message.seq
            for message in gone
            if message.seq in first and not keeps_all_rules(message, self.room, policy, count)
        )
        return _Comparison(shown, gone, frozenset(prompts), self)

    @cached_property
    def read_record(self) -> Callable[[str], Record]:
        """Reads a record once: most stay as they are from one view to the next."""
        return cache(read_record)

    def lines_to_keep(self, seen: _Comparison) -> dict[SectionName, list[PlacedLine]]:
        """The rules and open tasks that must stand in the view, each with where it was said."""
        told = ((d.last, item) for d in self.before.digests for item in d.items("CONSTRAINTS"))
        earlier = [(last, item) for last, item in told if item.by != "model"]
        numbers = {message.seq for message in seen.gone} - seen.prompts
        said = ((seq, rule) for seq, rule in self._rules if seq in numbers)
        return {"CONSTRAINTS": [*earlier, *said], "OPEN": self._tasks}

    def rules_of_prompts(self, seen: _Comparison) -> list[Item]:
        """The rules of a long first request, of which the view shows its share."""
        return _without_repeats([rule for rule in self._rules if rule[0] in seen.prompts])

    @cached_property
    def _rules(self) -> list[PlacedLine]:
        rules = as_sections({"CONSTRAINTS": stated_rules(self.inputs.said)})
        marked = mark_older(rules, self.inputs.overtaken)
        return [(_number_of(rule), rule) for _, items in marked for rule in items]

    @cached_property
    def _tasks(self) -> list[PlacedLine]:
        return [(_number_of(task), task) for task in open_tasks(self.before.messages)]


def _number_of(line: Item) -> int:
    """The number of the message that says a line."""
    return int(line.refs[0][1:])


def settle(before: Session, progress: Progress, inputs: Inputs) -> Asking[Outcome]:
    """Check the view against its source, put back what is lost, fill the room, finish."""
    progress = fit_steps(progress, inputs)
    source = _Source(before, inputs, progress.plan.window.room_in(progress.plan.budget.target))
    found: set[Finding] = set()  # what the archive's own search gives back
    progress, missing = yield from _put_lost_back(source, progress, found)
    shorter = fit_index(progress, inputs)
    if shorter is not progress:  # what was put back took the room of the index
        progress, missing = yield from _put_lost_back(source, shorter, found)
    progress = add_excerpts(before, progress, inputs)
    after = inputs.measure(progress.session)
    if after.counted >= inputs.fill.counted:
        return NothingToDo(reason="digest_as_large", text=_AS_LARGE)
    seen = source.beside(progress.session)
    prompts = source.rules_of_prompts(seen)
    left_out = find_missing_lines(prompts, seen.shown)
    kept = _tallies_of_lines(before, source.lines_to_keep(seen), seen.shown, prompts)
    tallies = (*kept, *tally_findings(seen.check, missing))
    progress = replace(progress, notes=(*progress.notes, *note_of_rules(left_out)))
    return compaction_of(before, progress, inputs, after, tallies)


def _put_lost_back(
    source: _Source, progress: Progress, found: set[Finding]
) -> Asking[tuple[Progress, tuple[Finding, ...]]]:
    """The view with what it would lose shown again, and what is lost still."""
    inputs = source.inputs
    seen = source.beside(progress.session)
    missing = yield from _find_missing(seen.check, found, inputs)
    if missing:
        lines = lines_of_findings(missing, seen.gone, inputs.found)
        progress = _put_lines_back(progress, lines, inputs)
        seen = source.beside(progress.session)
        missing = _still_missing(missing, seen.check)
    if missing_now := _lines_missing(source.lines_to_keep(seen), seen.shown):
        progress = _put_lines_back(progress, missing_now, inputs)
    return progress, missing


def _find_missing(check: Check, found: set[Finding], inputs: Inputs) -> Asking[tuple[Finding, ...]]:
    """The identifiers that neither the view nor the archive's own search gives back; those that
    it does are added to what was `found` before, and not searched for again."""
    unseen = [finding for finding in check.unseen if finding not in found]
    if not unseen:
        return ()
    answer = yield search_request_for(unseen)
    if not isinstance(answer, Found):
        raise TypeError("a SearchRequest is answered by Found")
    lost = find_lost(unseen, answer.hits, inputs.found)
    found.update(set(unseen).difference(lost))
    return lost


def _still_missing(missing: Iterable[Finding], check: Check) -> tuple[Finding, ...]:
    unseen = set(check.unseen)
    return tuple(finding for finding in missing if finding in unseen)


def _put_lines_back(progress: Progress, lines: Lines, inputs: Inputs) -> Progress:
    """The lines are shown again: in a digest, in a preview, or with their whole message."""
    new = {digest.number for digest in progress.digests}
    session = put_back(progress.session, new, lines, inputs.count)
    shown = {digest.number: digest for digest in session.digests}
    digests = tuple(shown.get(digest.number, digest) for digest in progress.digests)
    return replace(progress, session=session, digests=digests)


def _lines_missing(
    must_stay: Mapping[SectionName, Sequence[PlacedLine]], shown: Sequence[Shown]
) -> Lines:
    lines: dict[int, list[Line]] = {}
    items = [item for placed in must_stay.values() for _, item in placed]
    missing = set(find_missing_lines(items, shown))
    for section, placed in must_stay.items():
        for seq, item in placed:
            if item in missing:
                lines.setdefault(seq, []).append((section, item))
    return lines


def _tallies_of_lines(
    before: Session,
    must_stay: Mapping[SectionName, Sequence[PlacedLine]],
    shown: Sequence[Shown],
    prompts: Sequence[Item],
) -> list[Tally]:
    pins = [Item(text=shown_text(pin.text)) for pin in before.pins]
    rules = [*pins, *_without_repeats(must_stay["CONSTRAINTS"])]
    found = (
        tally_lines("rules", rules, shown, prompts),
        tally_lines("open tasks", _without_repeats(must_stay["OPEN"]), shown),
    )
    return [tally for tally in found if tally.total]


def _without_repeats(placed: Sequence[PlacedLine]) -> list[Item]:
    """Each line once, however often it was said."""
    return list({fold(item.text): item for _, item in placed}.values())
