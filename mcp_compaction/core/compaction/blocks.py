"""The window that a plan is worked out on: blocks, each with its tokens and its guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Literal

from mcp_compaction.core.log.content import shown_parts, tokens_of
from mcp_compaction.core.log.conversation import has_request
from mcp_compaction.core.log.steps import count_head, is_directive, steps
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill
from mcp_compaction.core.window.render import entries_of
from mcp_compaction.model import (
    Cut,
    Digest,
    Digested,
    Entry,
    Message,
    MessageEntry,
    Session,
    Step,
    Trimmed,
    Value,
)

# Why a step may not be summarized. `loop` gives way when the goal cannot be reached otherwise:
# it is the work in progress and the larger tail; the others never do.
Guard = Literal["tail", "request", "open", "loop", "told"]


class StepBlock(Value):
    """A step as the view shows it."""

    step: Step
    entries: tuple[MessageEntry, ...]
    tokens: int
    guard: Guard | None = None
    unread: frozenset[int] = frozenset()  # its messages with results that no answer followed yet

    def with_guard(self, guard: Guard | None) -> StepBlock:
        """The same step under another guard."""
        return self if self.guard == guard else self.model_copy(update={"guard": guard})

    @property
    def tokens_beside_unread(self) -> int:
        """The tokens of the step without the messages that bring unread results."""
        if not self.unread:
            return self.tokens
        shown = zip(self.step.messages, self.entries, strict=True)
        return self.tokens - sum(entry_tokens(m, e) for m, e in shown if m.seq in self.unread)

    def gives_way(self, guard: Guard | None = None) -> bool:
        """Whether a digest may stand for it where this guard does; never for an unread result."""
        return self.guard == guard and not self.unread


class DigestBlock(Value):
    """A digest that is in the view already."""

    digest: Digest
    tokens: int


class SpanBlock(Value):
    """Steps that a new digest shall stand for; its tokens are the most the digest may take."""

    steps: tuple[Step, ...]
    replaced: int  # the tokens the steps took
    limit: int
    tokens: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages of the span."""
        return tuple(m for step in self.steps for m in step.messages)


class MergeBlock(Value):
    """Digests that one digest shall stand for."""

    digests: tuple[Digest, ...]
    limit: int
    tokens: int


Block = StepBlock | DigestBlock | SpanBlock | MergeBlock
Freed = tuple[tuple[str, int], ...]
"""What each rung freed, by its name and in the order of the work."""


class WindowPlan(Value):
    """The window as a plan sees it."""

    head: tuple[MessageEntry, ...]
    head_messages: tuple[Message, ...]
    head_tokens: int
    sections: int = 0  # tokens of the system, the tools, the memory, and what only the host sees
    pinned: int = 0
    index: int = 0  # tokens of the index now; its limit as soon as a new digest is planned
    excerpts: int = 0
    tail_most: int | None = None  # the most that recent steps may take of an explicit target
    index_most: int | None = None  # and the index
    blocks: tuple[Block, ...]
    freed: Freed = ()

    @property
    def tokens(self) -> int:
        """The projected size of the window."""
        around = self.sections + self.pinned + self.index + self.excerpts + self.head_tokens
        return around + sum(block.tokens for block in self.blocks)

    @property
    def fixed(self) -> int:
        """The tokens of what stands before all steps and digests: sections, pins and the head."""
        return self.sections + self.pinned + self.head_tokens

    def room_in(self, goal: int) -> int:
        """The tokens of a goal that are shared out: the sections stay, whatever is taken out; where
        they alone are above it, no share would reach it."""
        return goal - self.sections if goal > self.sections else goal

    @property
    def has_new_digests(self) -> bool:
        """Whether a digest is planned, so that the projection is only an upper bound."""
        return any(isinstance(block, SpanBlock | MergeBlock) for block in self.blocks)

    def shorten_index(self, rung: str, goal: int, least: int) -> WindowPlan:
        """The window whose index gives way to what stands beside it, down to its least: it tells
        where things are, and a digest or a step tells what they are."""
        over = self.tokens - goal
        if over <= 0 or self.index <= least:
            return self
        most = max(least, self.index - over)
        return self.after(rung, index=most, index_most=most)

    def trimmed(
        self, rung: str, cuts: Mapping[int, dict[int, list[Cut]]], count: CountTokens
    ) -> WindowPlan:
        """The window with some parts shown shorter, by the place of a step and by message."""
        blocks = (
            trim(block, cuts[place], count)
            if isinstance(block, StepBlock) and place in cuts
            else block
            for place, block in enumerate(self.blocks)
        )
        return self.after(rung, blocks=tuple(blocks))

    def after(self, rung: str, **changes: object) -> WindowPlan:
        """The window with a rung's work done, and what it freed noted."""
        changed = self.model_copy(update=changes)
        freed = self.tokens - changed.tokens
        if not freed:
            return self
        return changed.model_copy(update={"freed": (*self.freed, (rung, freed))})


def window_of(session: Session, policy: Policy, fill: Fill, pinned: int) -> WindowPlan:
    """The window of a session as blocks, with the tokens of what stands around them."""
    parts = dict(fill.parts)
    around = {
        "sections": parts["system and tools"] + parts["memory"] + parts["unseen"],
        "pinned": pinned,
        "index": parts["index"],
        "excerpts": parts["promoted"],
    }
    return blocks_of(session, policy).model_copy(update=around)


def blocks_of(session: Session, policy: Policy) -> WindowPlan:
    """The view of a session cut into blocks, each guarded or free."""
    head, rest = _split_head(session, policy)
    shown = {e.seq: e for e in (*head, *rest) if not isinstance(e, Digested)}
    messages = {m.seq: m for m in session.messages}
    head_messages = tuple(messages[e.seq] for e in head)

    def size(message: Message) -> int:
        return entry_tokens(message, shown[message.seq]) + policy.overhead_per_message

    def step_blocks() -> list[Block]:
        return [
            StepBlock(
                step=step,
                entries=tuple(shown[m.seq] for m in step.messages),
                tokens=sum(map(size, step.messages)),
                # What is open stays whole, whatever of it has been answered.
                unread=unread.intersection(() if step.is_open else (m.seq for m in step.messages)),
            )
            for step in steps(run)
        ]

    unread = find_unread(session)
    digests = {d.number: d for d in session.digests}
    blocks: list[Block] = []
    run: list[Message] = []
    for entry in rest:
        if isinstance(entry, Digested):
            blocks += step_blocks()
            run = []
            digest = digests[entry.digest]
            tokens = digest.tokens + policy.overhead_per_message
            blocks.append(DigestBlock(digest=digest, tokens=tokens))
        else:
            run.append(messages[entry.seq])
    blocks += step_blocks()
    return WindowPlan(
        head=head,
        head_messages=head_messages,
        head_tokens=sum(map(size, head_messages)),
        blocks=with_guards(blocks, policy, None),
    )


def trim(block: StepBlock, cuts: dict[int, list[Cut]], count: CountTokens) -> StepBlock:
    """A step with some parts of its messages shown shorter; unchanged where that saves nothing."""
    shown: list[MessageEntry] = []
    saved = 0
    for message, entry in zip(block.step.messages, block.entries, strict=True):
        new = cuts.get(message.seq, [])
        shorter = trim_entry(message, entry, new, count) if new else entry
        shown.append(shorter)
        saved += entry_tokens(message, entry) - entry_tokens(message, shorter)
    if saved <= 0:
        return block
    return block.model_copy(update={"entries": tuple(shown), "tokens": block.tokens - saved})


def cuts_of(entry: MessageEntry) -> tuple[Cut, ...]:
    """The cuts of an entry; none where it is shown whole."""
    return entry.cuts if isinstance(entry, Trimmed) else ()


def trim_entry(
    message: Message, entry: MessageEntry, new: Sequence[Cut], count: CountTokens
) -> MessageEntry:
    """A message with some more parts shown shorter; unchanged where that saves nothing."""
    by_part = {cut.part: cut for cut in (*cuts_of(entry), *new)}
    cuts = tuple(by_part[part] for part in sorted(by_part))
    tokens = tokens_of(shown_parts(message, cuts), count)
    if tokens >= entry_tokens(message, entry):
        return entry
    return Trimmed(seq=message.seq, cuts=cuts, tokens=tokens)


def entry_tokens(message: Message, entry: MessageEntry) -> int:
    """The tokens of a message as an entry shows it."""
    return entry.tokens if isinstance(entry, Trimmed) else message.tokens


def _split_head(
    session: Session, policy: Policy
) -> tuple[tuple[MessageEntry, ...], tuple[Entry, ...]]:
    """The head, found once at the first compaction, and the entries after it."""
    view = session.view
    if view.upto:
        # A view that was begun has the first request in its head, whatever the policy wants.
        number = len(view.head) if policy.keep_first_request else _count_system(session)
        return view.head[:number], entries_of(view, session.messages)[number:]
    number = count_head(session.messages, policy.keep_first_request)
    said = [e for e in entries_of(view, session.messages) if not isinstance(e, Digested)]
    return tuple(said[:number]), (*view.body, *said[number:])


def _count_system(session: Session) -> int:
    """How many leading messages of a view's head are the system's."""
    roles = {message.seq: message.role for message in session.messages}
    return sum(1 for _ in takewhile(lambda entry: roles[entry.seq] == "system", session.view.head))


def find_unread(session: Session) -> frozenset[int]:
    """The messages with results that came after all that the model said."""
    said = (message.seq for message in session.messages if message.role == "assistant")
    newest = max((*said, *(digest.last for digest in session.digests)), default=0)
    return frozenset(m.seq for m in session.messages if m.seq > newest and m.results)


def with_guards(
    blocks: Sequence[Block], policy: Policy, tail_most: int | None
) -> tuple[Block, ...]:
    """The blocks, each step with the guard that its place among them gives it."""
    guards = iter(_guards_of([b for b in blocks if isinstance(b, StepBlock)], policy, tail_most))
    return tuple(
        block.with_guard(next(guards)) if isinstance(block, StepBlock) else block
        for block in blocks
    )


def _guards_of(
    blocks: Sequence[StepBlock], policy: Policy, tail_most: int | None
) -> list[Guard | None]:
    guards: list[Guard | None] = [None] * len(blocks)
    least, larger = _tail_starts(blocks, policy)
    if tail_most is not None and policy.preserve_recent_messages is None:
        # As many of the newest steps as fit; the very newest gives way only to need.
        larger = _extend_back(blocks, 0, len(blocks), tail_most)
        least = max(least, larger)
        larger = min(larger, max(0, len(blocks) - 1))
    for number in range(larger, len(blocks)):
        guards[number] = "loop"
    for number in range(least, len(blocks)):
        guards[number] = "tail"
    request = _newest_request(blocks)
    if request is not None:
        guards[request] = "request"
    if blocks and blocks[-1].step.is_open:
        guards[-1] = "open"
    for number, block in enumerate(blocks):
        if any(map(is_directive, block.step.messages)):
            guards[number] = "told"
    return guards


def _tail_starts(blocks: Sequence[StepBlock], policy: Policy) -> tuple[int, int]:
    """The first step of the least tail, and of the larger tail, given up when the goal needs it."""
    total = sum(len(b.entries) for b in blocks)
    if policy.preserve_recent_messages is not None:
        start = _start_of_last(blocks, policy.preserve_recent_messages)
        return start, start
    if policy.compaction_ratio is not None:
        start = _start_of_last(blocks, total - int(total * policy.compaction_ratio))
        return start, start
    least = _start_of_last(blocks, 2 * policy.least_recent_turns)
    average = 2 * sum(b.tokens for b in blocks) / total if total else 0.0
    larger = _start_of_last(blocks, 2 * policy.recent_turns(average))
    request = _newest_request(blocks)
    wanted = min(larger, least if request is None else request)
    return least, _extend_back(blocks, wanted, least, policy.tail_limit)


def _start_of_last(blocks: Sequence[StepBlock], messages: int) -> int:
    start = len(blocks)
    while start and messages > 0:
        start -= 1
        messages -= len(blocks[start].entries)
    return start


def _extend_back(blocks: Sequence[StepBlock], wanted: int, least: int, limit: int) -> int:
    """The first step of a tail that reaches back to `wanted` as far as its tokens allow."""
    sizes = [block.tokens_beside_unread for block in blocks]  # what is unread has its own room
    used = sum(sizes[least:])
    start = least
    while start > wanted and used + sizes[start - 1] <= limit:
        start -= 1
        used += sizes[start]
    return start


def _newest_request(blocks: Sequence[StepBlock]) -> int | None:
    newest_first = reversed(range(len(blocks)))
    return next((n for n in newest_first if has_request(blocks[n].step.messages[0])), None)
