"""A program that follows the directive of a tool, on a model that binds its thinking."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.checkers import BoundThinking, Json, problems
from tests.server.talking import Talk, talk

pytestmark = pytest.mark.anyio

BOUND = "claude-opus-5-5"
RULE = "Never push to main."


class Program:
    """A loop with messages of its own, which it replaces as a directive says."""

    def __init__(self, server: Talk) -> None:
        self.server = server
        self.model = BoundThinking()
        self.known: dict[str, Json] = {}  # every message by its ref
        self.window: list[Json] = []
        self.number = 0

    async def add(self, *messages: Json) -> None:
        """Record messages, and have them in the window."""
        body = {"model": BOUND, "messages": list(messages)}
        after = {"after": next(reversed(self.known))} if self.known else {}
        done = await self.server.call("record_messages", messages=body, session="s", **after)
        assert done.meta is not None
        self.known |= dict(zip(done.meta["refs"], messages, strict=True))
        self.window += messages
        if "compaction_directive" in done.meta:  # the safety net has acted
            self.follow(done.meta)

    async def work(self, turns: int) -> None:
        """Ask the model, and run the tool that it calls."""
        for _ in range(turns):
            body = copy.deepcopy({"messages": self.window})
            self.model.look_at(body)
            assert self.model.faults == []
            assert problems(body["messages"], "anthropic") == []
            self.number += 1
            thought = {"type": "thinking", "thinking": f"thought {self.number}", "signature": ""}
            call: Json = {"type": "tool_use", "id": f"c{self.number}", "name": "Read", "input": {}}
            result: Json = {"type": "tool_result", "tool_use_id": f"c{self.number}"}
            result["content"] = f"row of file {self.number}\n" * 60
            said = self.model.sign(body, [thought, call])
            await self.add(
                {"role": "assistant", "content": said}, {"role": "user", "content": [result]}
            )

    async def compress(self) -> None:
        """Have the window replaced."""
        asked = {"reason": "test", "force": True, "session": "s"}
        done = await self.server.call("compress_context", **asked)
        assert done.meta is not None
        self.follow(done.meta)

    def follow(self, told: dict[str, Any]) -> None:
        """Lay the window out as a directive says."""
        window: list[Json] = []
        for item in told["layout"]:
            if isinstance(item, str):
                message = self.known[item]
                window += [_bare(message) if item in told["without_thinking"] else message]
            elif isinstance(item, dict):
                window.append({"role": "user", "content": item["text"]})
            else:
                window += told["replace"][item]["with"]
        self.window = window


def _bare(message: Json) -> Json:
    blocks: list[Json] = message["content"]
    return {**message, "content": [one for one in blocks if one["type"] != "thinking"]}


async def test_a_program_that_leaves_out_what_the_directive_names_is_never_refused(
    tmp_path: Path,
) -> None:
    async with talk(tmp_path) as server:
        program = Program(server)
        await program.add({"role": "user", "content": f"Read all files. {RULE}"})
        for _ in range(3):
            await program.work(14)
            await program.compress()
        await program.work(4)
        assert program.model.faults == []
        assert program.model.kept > 42
