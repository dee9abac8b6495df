"""Any history: whatever a caller does with its messages, what it should send is right.

The caller appends, cuts, clears, rewinds, edits and compacts its own history, keeps all of it or
goes on with what it was given, and a simple model says what has to come of it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType]
)

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.core.window.history import is_record
from mcp_compaction.formats import FORMATS
from mcp_compaction.model import Ask as Wish
from mcp_compaction.model import Compaction, Shape
from tests.checkers import problems
from tests.compactor.small_session import open_session
from tests.strategies import SHAPES, Ask, Batch, Call, Say, Scene, write

T = TypeVar("T")
Json = dict[str, Any]
WORDS = ("river", "stone", "cloud", "lantern", "harbor", "meadow", "copper", "violet")
SIZES = st.sampled_from((3, 40, 300))


class AnyHistory(RuleBasedStateMachine):
    """A caller with a history of its own, and what must be true of all that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.runner = asyncio.Runner()
        self.number = 0
        self.history: list[Json] = []
        self.sent: list[Json] = []  # what the last request came to
        self.sent_text = ""
        self.is_steady = False  # nothing but news since then
        self.marks: set[str] = set()  # a word of each message that was ever sent
        self.pins: dict[str, str] = {}  # in force: the ref and the words
        self.untold: set[str] = set()  # made outside, and no user spoke since
        self.released: set[str] = set()

    # What the caller has, and how it is opened

    @initialize(shape=st.sampled_from(SHAPES), replaces=st.booleans(), has_pin=st.booleans())
    def begin(self, shape: Shape, replaces: bool, has_pin: bool) -> None:
        self.shape: Shape = shape
        self.replaces = replaces
        self.open()
        if has_pin:
            self.pin()
        self.history = self.write(Ask(self.words(5)))
        self.fit()

    def run(self, job: Awaitable[T]) -> T:
        async def wait() -> T:
            return await job

        return self.runner.run(wait())

    def open(self) -> None:
        self.stack = AsyncExitStack()
        entered = self.stack.enter_async_context(open_session(Path(self.folder.name)))
        self.workspace, self.info = self.run(entered)

    def words(self, size: int) -> str:
        self.number += 1
        filler = " ".join(WORDS[(self.number + n) % len(WORDS)] for n in range(size))
        return f"mark{self.number}x {filler}."

    def write(self, *scenes: Scene) -> list[Json]:
        written = write(scenes, self.shape)
        self.number += 1
        return [{**o, "id": f"rs_{self.number}"} if "id" in o else o for o in written]

    def call(self, size: int, calls: int = 1) -> Batch:
        made = [
            Call(f"call_{self.number}_{n}", "Read", {"path": f"{n}.py"}, self.words(size))
            for n in range(calls)
        ]
        return Batch(tuple(made), text=self.words(3), thinking=self.words(2))

    # What a caller does

    @rule(size=SIZES)
    def say(self, size: int) -> None:
        self.history = [*self.history, *self.write(Say("Done."), Ask(self.words(size)))]
        self.fit()

    @rule(size=SIZES, calls=st.integers(1, 3))
    def use_tools(self, size: int, calls: int) -> None:
        self.history = [*self.history, *self.write(self.call(size, calls))]
        self.fit()

    @rule(size=SIZES, restarts=st.booleans())
    def record_the_answer_first(self, size: int, restarts: bool) -> None:
        written = self.write(self.call(size))
        answer = [o for o in written if FORMATS[self.shape].read(o, "it")[0] == "assistant"]
        known = len(self.run(self.workspace.load(self.info)).messages)
        self.run(compactor.record_answer(self.workspace, self.info, self.answer_of(answer)))
        assert len(self.run(self.workspace.load(self.info)).messages) == known + len(answer)
        if restarts:
            self.restart()
        self.history = [*self.history, *written]
        count = self.fit()
        assert count == len(written) - len(answer)

    def answer_of(self, messages: list[Json]) -> Json:
        if self.shape == "responses":
            return {"output": messages}
        if self.shape == "openai":
            extra: Json = {"refusal": None, "annotations": [], "audio": None}
            return {"choices": [{"message": {**messages[0], **extra}}]}
        return {"id": "msg_1", "type": "message", "stop_reason": "tool_use", **messages[0]}

    @rule()
    def say_continue(self) -> None:
        self.history = [*self.history, *self.write(Say("Done."), Ask("continue"))]
        self.fit()

    @rule()
    def send_the_same_again(self) -> None:
        assert self.fit() == 0

    @rule(back=st.integers(1, 6), size=SIZES)
    def rewind(self, back: int, size: int) -> None:
        at = self.ends()[max(0, len(self.ends()) - 1 - back)]
        self.history = [*self.history[:at], *self.write(Say("Again."), Ask(self.words(size)))]
        self.change()

    @rule(data=st.data())
    def cut_the_middle(self, data: st.DataObject) -> None:
        ends = self.ends()
        first, last = sorted(data.draw(st.tuples(*[st.sampled_from(ends)] * 2)))
        self.history = [*self.history[:first], *self.history[last:]]
        self.change()

    @rule(size=SIZES)
    def clear(self, size: int) -> None:
        self.history = self.write(Ask(self.words(size)))
        self.change()

    @rule(data=st.data())
    def compact_by_itself(self, data: st.DataObject) -> None:
        keep = data.draw(st.sampled_from(self.ends()))
        summary = self.write(Ask(f"The story so far: {self.words(9)}"), Say("I see."))
        self.history = [*summary, *self.history[keep:]]
        if FORMATS[self.shape].read(self.history[-1], "it")[0] == "assistant":
            self.history += self.write(Ask(self.words(3)))
        self.change()

    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        asked = [n for n, o in enumerate(self.history) if self.is_asked(o)]
        if asked:
            at = data.draw(st.sampled_from(asked))
            self.history = [*self.history]
            self.history[at] = self.write(Ask(self.words(4)))[0]
            self.change()

    def is_asked(self, obj: Json) -> bool:
        role, parts = FORMATS[self.shape].read(obj, "it")
        return role == "user" and all(p.kind == "text" for p in parts) and not is_ours(obj)

    def ends(self) -> list[int]:
        """The places at which a history may be cut: no call is parted from its result."""
        found = [1]
        for at in range(2, len(self.history) + 1):
            role, is_last = self.role_at(at - 1), at == len(self.history)
            ends_batch = role == "tool" and (is_last or self.role_at(at) != "tool")
            if ends_batch or (role == "user" and not is_ours(self.history[at - 1])):
                found.append(at)
        return found

    def role_at(self, at: int) -> str:
        return FORMATS[self.shape].read(self.history[at], "it")[0]

    # What happens beside it

    @rule()
    def pin(self) -> None:
        text = f"Rule {self.words(2)}"
        done = self.run(
            compactor.pin(self.workspace, self.info, PinWish(text, by="user", channel="terminal"))
        )
        self.pins[done.pin.ref] = text
        self.untold.add(done.pin.ref)

    @precondition(lambda self: bool(self.pins))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        ref = data.draw(st.sampled_from(sorted(self.pins)))
        self.run(compactor.unpin(self.workspace, self.info, ref, by="user"))
        self.released.add(self.pins.pop(ref))
        self.untold.discard(ref)
        self.is_steady = False

    @rule(percent=st.sampled_from((5, 20, 40)))
    def compress(self, percent: int) -> None:
        wish = Wish(reason="test", force=True, target_percent=percent)
        if isinstance(self.run(compactor.compress(self.workspace, self.info, wish)), Compaction):
            self.untold.clear()
            self.is_steady = False

    @rule()
    def undo(self) -> None:
        receipts = self.run(compactor.receipts(self.workspace, self.info))
        if receipts:
            done = self.run(
                compactor.restore(self.workspace, self.info, receipts[-1].ref, force=True)
            )
            if isinstance(done, Compaction):
                self.untold.clear()
                self.is_steady = False

    @rule()
    def restart(self) -> None:
        self.run(self.stack.aclose())
        self.open()

    @rule()
    def another_process_sends_it(self) -> None:
        async def send() -> tuple[list[Json], int]:
            async with open_session(Path(self.folder.name)) as (other, info):
                fitted = await compactor.fit(other, info, self.history)
                return fitted.messages, fitted.recorded.new

        messages, new = self.run(send())
        assert new == 0
        if self.is_steady and not self.untold:
            assert json.dumps(messages) == self.sent_text

    # What must be true

    def change(self) -> None:
        self.is_steady = False
        self.fit()

    def fit(self) -> int:
        fitted = self.run(compactor.fit(self.workspace, self.info, self.history))
        if isinstance(fitted.outcome, Compaction):
            self.untold.clear()
            self.is_steady = False
        own = [obj for obj in self.history if not is_ours(obj)]
        if self.is_asked(own[-1]):
            self.untold.clear()
        sent = fitted.messages
        self.check_sent(sent)
        self.check_pins(sent)
        self.check_bytes(sent)
        self.marks |= set(marks_of(own))
        self.sent, self.sent_text = sent, json.dumps(sent)
        if self.replaces:
            self.history = [*sent]
        self.is_steady = True
        return fitted.recorded.new

    def check_sent(self, sent: list[Json]) -> None:
        assert problems(sent, self.shape) == []
        said = [obj for obj in sent if not is_ours(obj)]
        own = [obj for obj in self.history if not is_ours(obj)]
        assert said[0] is own[0] or self.is_ours_to_show(said[0])  # at a tight target: a preview
        assert said[-1] is own[-1] or self.is_ours_to_show(said[-1])
        places = {id(obj): n for n, obj in enumerate(self.history)}
        known = [places[id(obj)] for obj in said if id(obj) in places]
        assert known == sorted(known)
        view = self.run(self.workspace.load(self.info)).view
        if not view.body and not any(e.kind == "trimmed" for e in (*view.head, *view.since)):
            assert len(said) == len(own)
            pairs = zip(said, own, strict=True)
            assert all(shown is obj or self.is_ours_to_show(shown) for shown, obj in pairs)
        assert all(id(obj) in places or self.is_ours_to_show(obj) for obj in said)

    def is_cut(self, obj: Json) -> bool:
        return any(note in json.dumps(obj) for note in ("recall_archived refs", "read again in"))

    def is_ours_to_show(self, obj: Json) -> bool:
        """Whether a message is cut, or whole again after an undo where the caller has it cut."""
        cut = [own for own in self.history if self.is_cut(own)]
        return self.is_cut(obj) or any(marks_of(own)[:1] == marks_of(obj)[:1] for own in cut)

    def check_pins(self, sent: list[Json]) -> None:
        text = json.dumps(sent)
        for ref, words in self.pins.items():
            times = text.count(words)
            assert times == 1 or (times == 0 and ref in self.untold), (ref, text)
            self.untold.discard(ref if times else "")
        assert not any(words in text for words in self.released)

    def check_bytes(self, sent: list[Json]) -> None:
        if self.is_steady:
            assert json.dumps(sent[: len(self.sent)]) == self.sent_text

    def teardown(self) -> None:
        try:
            newest = self.run(self.workspace.load(self.info)).info.messages
            log = self.run(compactor.originals(self.workspace, self.info, f"m1..m{newest}"))
            text = " ".join(one.message.raw for one in log)
            assert not [mark for mark in self.marks if mark not in text]
            for mark in sorted(self.marks)[:3]:
                assert self.run(compactor.recall(self.workspace, self.info, mark)).hits
        finally:
            self.run(self.stack.aclose())
            self.runner.close()
            self.folder.cleanup()


def marks_of(said: object) -> list[str]:
    """The words that tell messages apart."""
    return re.findall(r"mark\d+x", json.dumps(said))


def is_ours(obj: Json) -> bool:
    """Whether a message is a record of ours."""
    content = obj.get("content")
    return isinstance(content, str) and is_record(content)


@pytest.mark.thorough
def test_what_is_sent_of_any_history_is_right() -> None:
    run_state_machine_as_test(
        AnyHistory, settings=settings(max_examples=20, stateful_step_count=12, deadline=None)
    )
