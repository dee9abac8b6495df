"""Any session on a model that binds its thinking: nothing that is sent is refused, nothing that is
still good is missing, and what was left out once never comes back."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType]
)

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FitOptions, PinWish
from mcp_compaction.formats import read_incoming
from mcp_compaction.formats.thinking import Bindings
from mcp_compaction.model import Ask, Traits
from tests.checkers import BoundThinking, problems
from tests.compactor.small_session import open_session

T = TypeVar("T")
Json = dict[str, Any]
BOUND = "claude-opus-5-5"
SIZES = st.sampled_from((3, 40, 300))


class AnyThinking(RuleBasedStateMachine):
    """A caller that talks to such a model, and whatever changes the beginning of its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.model = BoundThinking()
        self.number = 0
        self.system = "You are a clerk."
        self.tools: list[Json] = [{"name": "Read", "input_schema": {"type": "object"}}]
        self.history: list[Json] = []
        self.pins: list[str] = []

    def run(self, job: Awaitable[T]) -> T:
        async def wait() -> T:
            return await job

        return self.runner.run(wait())

    def open(self) -> None:
        opening = self.stack.enter_async_context(open_session(Path(self.folder.name)))
        self.workspace, self.info = self.run(opening)

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()

    # What the caller does

    def next_words(self, count: int) -> str:
        self.number += 1
        return f"w{self.number} " + " ".join(f"word{n}" for n in range(count))

    def answer_to(self, body: Json, size: int) -> list[Json]:
        """What the model says: it thinks, and calls a tool or speaks."""
        self.model.look_at(body)
        assert self.model.faults == []
        assert problems(body["messages"], "anthropic") == []
        self.number += 1
        thought: Json = {"type": "thinking", "thinking": f"t{self.number}", "signature": ""}
        if self.number % 5 == 0:
            thought = {"type": "redacted_thinking", "data": ""}
        if size == 3:
            said: Json = {"type": "text", "text": f"Said {self.number}."}
            after: Json = {"role": "user", "content": self.next_words(4)}
        else:
            call = f"c{self.number}"
            said = {"type": "tool_use", "id": call, "name": "Read", "input": {"n": self.number}}
            result: Json = {"type": "tool_result", "tool_use_id": call}
            result["content"] = self.next_words(size)
            after = {"role": "user", "content": [result]}
        content = self.model.sign(body, [thought, said])
        return [{"role": "assistant", "content": content}, after]

    # What changes a beginning

    @rule(share=st.sampled_from((20, 40, 60)))
    def compress(self, share: int) -> None:
        ask = Ask(reason="test", force=True, target_percent=share)
        self.run(compactor.compress(self.workspace, self.info, ask))

    @rule()
    def pin(self) -> None:
        text = f"Rule {self.next_words(3)}"
        pinned = self.run(
            compactor.pin(self.workspace, self.info, PinWish(text, by="user", channel="terminal"))
        )
        self.pins.append(pinned.pin.ref)

    @precondition(lambda self: self.pins)
    @rule()
    def unpin(self) -> None:
        self.run(compactor.unpin(self.workspace, self.info, self.pins.pop(), by="user"))

    @rule()
    def restore(self) -> None:
        receipts = self.run(compactor.receipts(self.workspace, self.info))
        if receipts:
            self.run(compactor.restore(self.workspace, self.info, receipts[-1].ref, True))

    @rule(place=st.integers(1, 30))
    def page_in(self, place: int) -> None:
        newest = self.run(self.workspace.load(self.info)).info.messages
        self.run(compactor.page_in(self.workspace, self.info, f"m{min(place, newest)}"))

    @rule()
    def open_again(self) -> None:
        self.run(self.stack.aclose())
        self.stack = AsyncExitStack()
        self.open()

    @rule()
    def change_system(self) -> None:
        self.system = self.next_words(3)

    @rule(deferred=st.booleans())
    def offer_a_tool(self, deferred: bool) -> None:
        tool: Json = {"name": f"Tool{len(self.tools)}", "input_schema": {"type": "object"}}
        self.tools.append({**tool, "defer_loading": True} if deferred else tool)


class WithAHistory(AnyThinking):
    """A caller that keeps its messages, and sends what `fit` gives for them."""

    @initialize(records=st.booleans())
    def begin(self, records: bool) -> None:
        self.records = records  # the answers as they come
        self.open()
        self.history = [{"role": "user", "content": "Read all parts."}]
        self.talk(40, None, False)

    @rule(size=SIZES, offload=st.sampled_from((None, 100)), microcompact=st.booleans())
    def talk(self, size: int, offload: int | None, microcompact: bool) -> None:
        body = {"model": BOUND, "system": self.system, "tools": list(self.tools)}
        request = {**body, "messages": self.history}
        options = FitOptions(True, offload, microcompact)
        before = copy.deepcopy(self.history)
        fitted = self.run(compactor.fit(self.workspace, self.info, request, options))
        assert self.history == before
        self.given = fitted.messages
        answer, after = self.answer_to(copy.deepcopy(fitted.request), size)
        if self.records:
            said = {"type": "message", "model": BOUND, **answer}
            self.run(compactor.record_answer(self.workspace, self.info, said))
        self.history = [*self.history, answer, after]
        self.given = [*self.given, answer, after]

    @rule()
    def talk_on(self) -> None:
        for size in (40, 3, 300):
            self.talk(size, None, False)

    @rule()
    def go_on_with_what_was_given(self) -> None:
        self.history = list(self.given)

    @precondition(lambda self: len(self.history) > 4)
    @rule(back=st.integers(1, 3))
    def rewind(self, back: int) -> None:
        self.history = self.history[: max(1, len(self.history) - 2 * back)]
        self.given = list(self.history)

    @precondition(lambda self: len(self.history) > 6)
    @rule()
    def edit(self) -> None:
        self.history = [{"role": "user", "content": self.next_words(4)}, *self.history[1:]]
        self.given = list(self.history)


class WithoutAHistory(AnyThinking):
    """A caller that records what is said, and sends what `request` gives."""

    @initialize()
    def begin(self) -> None:
        self.open()
        self.info = self.run(compactor.own_window(self.workspace, self.info))
        self.run(self.workspace.store.set_traits(self.info.id, Traits(model=BOUND)))
        first = {"system": self.system, "messages": [{"role": "user", "content": "Read all."}]}
        self.run(compactor.record(self.workspace, self.info, read_incoming(first)))
        self.talk(40)

    @rule(size=SIZES)
    def talk(self, size: int) -> None:
        body = self.run(compactor.context(self.workspace, self.info, "anthropic", begins=True))
        news = self.answer_to(copy.deepcopy(body), size)
        self.run(compactor.record(self.workspace, self.info, read_incoming(news)))

    @rule()
    def talk_on(self) -> None:
        for size in (40, 3, 300):
            self.talk(size)

    @rule()
    def relieve(self) -> None:
        self.run(compactor.relieve(self.workspace, self.info))


RUNS = {"a history": WithAHistory, "no history": WithoutAHistory}


def test_what_a_caller_goes_on_with_is_bound_as_it_was_sent_whatever_its_system_is_then() -> None:
    run = WithAHistory()
    try:
        run.begin(records=False)
        for _ in range(2):
            run.change_system()
            run.talk(3, None, False)
            run.go_on_with_what_was_given()
    finally:
        run.teardown()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", RUNS)
def test_any_thinking_that_is_sent_is_good_and_what_is_good_is_sent(kind: str) -> None:
    run_state_machine_as_test(
        RUNS[kind], settings=settings(max_examples=20, stateful_step_count=25)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_any_thinking_in_many_long_sessions(kind: str) -> None:
    run_state_machine_as_test(
        RUNS[kind], settings=settings(max_examples=300, stateful_step_count=50)
    )


@pytest.mark.parametrize("kind", RUNS)
def test_without_the_rule_such_sessions_are_refused(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_never_bound(_: Bindings, model: str) -> bool:
        return False

    monkeypatch.setattr(Bindings, "is_bound", is_never_bound)
    quick = settings(max_examples=50, stateful_step_count=25, phases=[Phase.generate])
    with pytest.raises(AssertionError, match="bound to a different conversation"):
        run_state_machine_as_test(RUNS[kind], settings=quick)
