"""What a host's reports tell of its window: what stays, how the model counts, what leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.core.tokens import estimate
from mcp_compaction.model import Ask, Compaction
from mcp_compaction.viewer import describe_session
from tests.hosts.given_hosts import claude_line, found_in, record, workspace_in, write_chat

pytestmark = pytest.mark.anyio

PROMPT_AND_TOOLS = 30_000  # as the model counts, in no message
FACTOR = 1.4  # tokens of the model for one of ours


def chat(turns: int, unseen: int = PROMPT_AND_TOOLS, factor: float = FACTOR) -> Iterator[str]:
    """A chat of some 1,000 tokens a turn; after each answer stands what the provider counted."""
    counted = 0
    for number in range(turns):
        asked = f"Look at module_{number}.py and tell what it does."
        said = f"module_{number}.py: " + f"it checks row {number} of the table. " * 100
        yield claude_line(2 * number, asked)
        counted += estimate(asked) + estimate(said) + 8
        reported = {"input_tokens": 0, "cache_read_input_tokens": round(unseen + factor * counted)}
        content = [{"type": "text", "text": said}]
        message = {"id": f"msg_{number}", "role": "assistant", "content": content}
        line = json.loads(claude_line(2 * number + 1, ""))
        line |= {"type": "assistant", "message": {**message, "usage": reported}}
        yield json.dumps(line)


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_only_the_hosts_prompt_and_tools_are_no_part_of_a_target(
    tmp_path: Path, in_pieces: bool
) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    lines = list(chat(90))
    async with workspace_in(tmp_path) as work:
        for number in (2, 60) if in_pieces else ():
            write_chat(environ, lines[:number])
            await record(work, found_in(environ)[0])
        write_chat(environ, lines)
        taken = await record(work, found_in(environ)[0])
        assert taken.session is not None
        info = taken.session
        fill = (await work.read_window(info)).fill
        assert abs(fill.scaled(fill.unseen) - PROMPT_AND_TOOLS) < 1_000
        assert abs(fill.ratio - FACTOR) < 0.03

        outcome = await compactor.compress(
            work, info, Ask(reason="x", target_percent=30, force=True)
        )
        assert isinstance(outcome, Compaction)
        receipt = outcome.receipt
        assert receipt.before == fill.tokens
        assert 45_000 < receipt.after <= 60_000
        assert receipt.shortfall is None

        after = (await work.read_window(info)).fill
        assert after.tokens == fill.tokens  # until the host takes the view over
        assert abs(after.view_tokens - receipt.after) <= 2
        shown = await describe_session(work, info)
        assert shown["fill"]["view"] == shown["curve"][-1][1] == after.view_tokens

        # What is planned behind a view counts what stays as well.
        again = await compactor.compress(work, info, Ask(reason="y", target_percent=20, force=True))
        assert isinstance(again, Compaction)
        assert abs(again.receipt.before - receipt.after) <= 2
        assert PROMPT_AND_TOOLS + 3_000 < again.receipt.after <= 40_000

        # Undone, it is told by the sizes of the view, too: the host's window does not change.
        back = await compactor.restore(work, info, again.receipt.ref)
        assert isinstance(back, Compaction)
        assert abs(back.receipt.before - again.receipt.after) <= 2
        assert abs(back.receipt.after - again.receipt.before) <= 2
        shown = await describe_session(work, info)
        *_, before, after, now = [tokens for _, tokens, _ in shown["curve"]]
        assert [before, after] == [back.receipt.before, back.receipt.after]
        assert abs(now - after) <= 2
