"""Large results when they come: a hook of Claude Code gets a preview, and the whole is archived."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Implementation

from mcp_compaction.home import default_home
from mcp_compaction.hosts import results
from mcp_compaction.hosts.events import TOOL
from mcp_compaction.hosts.results import has_call
from mcp_compaction.model import Session
from tests.hosts.given_hosts import SHOP, claude_line, write_chat
from tests.server.talking import Talk, talk

pytestmark = pytest.mark.anyio

CHAT = "5a1c"
ROWS = "\n".join(f"row {n} of the nightly run went well" for n in range(400))
BASH = {"stdout": ROWS, "stderr": "", "interrupted": False, "isImage": False}
READ = {"type": "text", "file": {"filePath": "/p/log", "content": ROWS, "numLines": 400}}
PARTS = [{"type": "text", "text": ROWS}, {"type": "text", "text": "the end"}]


def call_line(number: int, call: str, tool: str) -> str:
    """A line in which the model calls a tool."""
    content: list[Any] = [{"type": "tool_use", "id": call, "name": tool, "input": {}}]
    message = {"role": "assistant", "model": "claude-opus-5", "content": content}
    return claude_line(number, "", type="assistant", message=message)


def result_line(number: int, call: str, text: str) -> str:
    """A line with what a tool answered."""
    content = [{"type": "tool_result", "tool_use_id": call, "content": text}]
    return claude_line(number, "", message={"role": "user", "content": content})


class Chat:
    """A chat of Claude Code in which tools are called."""

    def __init__(self, talk: Talk, environ: dict[str, str]) -> None:
        self.talk = talk
        self._environ = environ
        self._lines = [claude_line(0, "How was the night?")]

    def grow(self, *lines: str) -> str:
        """Write more into the transcript, as the host does; where it is."""
        self._lines += lines
        return str(write_chat(self._environ, self._lines, CHAT))

    async def tell_result(self, tool: str, response: Any, call: str = "t1", **more: str) -> Any:
        """What the host is to show of a result; None: all of it."""
        path = self.grow()
        given = {"session_id": CHAT, "transcript_path": path, "tool": tool, "call": call, **more}
        told = response if isinstance(response, str) else json.dumps(response)
        answer = await self.talk.say(TOOL, event="PostToolUse", response=told, **given)
        return json.loads(answer).get("hookSpecificOutput", {}).get("updatedToolOutput")

    async def recall(self, ref: str) -> str:
        """What the archive has under a ref."""
        return await self.talk.say("recall_archived", refs=ref, max_tokens=20_000)


@asynccontextmanager
async def claude_code(folder: Path, **policy: str) -> AsyncGenerator[Chat]:
    """A chat of Claude Code whose user wants previews."""
    environ = {"HOME": str(folder / "home"), "CLAUDE_CODE_SESSION_ID": CHAT}
    client: dict[str, Any] = {"client_info": Implementation(name="claude-code", version="2")}
    wish = {"offload_over_tokens": "1000", **policy}
    home = default_home(environ)
    async with talk(
        folder, project=SHOP, environ=environ, policy=wish, home=home, **client
    ) as connected:
        yield Chat(connected, environ)


async def test_a_large_result_becomes_a_preview_whose_ref_gives_the_whole(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as chat:
        chat.grow(call_line(1, "t1", "Bash"))
        shown = await chat.tell_result("Bash", BASH)
        assert shown == {**BASH, "stdout": shown["stdout"]}
        assert len(shown["stdout"]) < len(ROWS) // 4
        assert "the whole: recall_archived refs m3" in shown["stdout"]
        chat.grow(result_line(2, "t1", shown["stdout"]), claude_line(3, "Thanks."))
        assert ROWS in await chat.recall("m3")
        assert "Thanks." in await chat.recall("m4")  # the preview is no message of its own


async def test_a_call_that_the_host_writes_down_a_moment_later_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with claude_code(tmp_path) as chat:
        looked: list[bool] = []

        def look_then_write(session: Session, call: str) -> bool:
            looked.append(has_call(session, call))
            if len(looked) == 1:
                chat.grow(call_line(1, "t1", "Bash"))
            return looked[-1]

        monkeypatch.setattr(results, "has_call", look_then_write)
        shown = await chat.tell_result("Bash", BASH)
        assert looked == [False, True]
        assert "the whole: recall_archived refs m3" in shown["stdout"]


@pytest.mark.parametrize("answered", ["preview", "whole"])
async def test_a_result_is_archived_once_whether_or_not_its_preview_came_in_time(
    tmp_path: Path, answered: str
) -> None:
    async with claude_code(tmp_path) as chat:
        chat.grow(call_line(1, "t1", "Bash"))
        shown = await chat.tell_result("Bash", BASH)
        text = shown["stdout"] if answered == "preview" else ROWS
        chat.grow(result_line(2, "t1", text), claude_line(3, "Thanks."))
        assert "Thanks." in await chat.recall("m4")
        # The same id again is another result: some models count their calls anew.
        chat.grow(call_line(4, "t1", "Bash"), result_line(5, "t1", "all is well"))
        assert "all is well" in await chat.recall("m6")


async def test_of_a_file_only_the_beginning_is_shown_since_the_host_numbers_its_lines(
    tmp_path: Path,
) -> None:
    async with claude_code(tmp_path) as chat:
        chat.grow(call_line(1, "t1", "Read"))
        shown = await chat.tell_result("Read", READ)
        text = shown["file"]["content"]
        assert {**shown, "file": {**shown["file"], "content": ROWS}} == READ
        begin, _, note = text.rpartition("\n")
        assert ROWS.startswith(begin + "\n")
        assert begin
        assert "recall_archived refs m3" in note


@pytest.mark.parametrize("response", [PARTS, ROWS, {"rows": ROWS}])
async def test_what_an_mcp_server_answered_becomes_a_text(tmp_path: Path, response: Any) -> None:
    async with claude_code(tmp_path) as chat:
        chat.grow(call_line(1, "t1", "mcp__log__read"))
        shown = await chat.tell_result("mcp__log__read", response)
        assert "recall_archived refs m3" in shown
        whole = f"{ROWS}\nthe end" if response is PARTS else response
        whole = whole if isinstance(whole, str) else json.dumps(whole)
        assert whole in await chat.recall("m3")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("tool", "response"),
    [
        ("Bash", {**BASH, "stdout": "all is well"}),
        ("Bash", {**BASH, "stderr": "beside it"}),
        ("Bash", {**BASH, "persistedOutputPath": "/p/1.txt"}),
        ("Bash", ROWS),
        ("Bash", [ROWS]),
        ("Read", {"type": "image", "file": {"base64": ROWS}}),
        ("Read", {"type": "text", "file": ROWS}),
        ("mcp__log__read", [*PARTS, {"type": "image", "data": "x"}]),
        ("mcp__compaction__recall_archived", PARTS),
        ("WebFetch", {"result": ROWS}),
        ("Glob", ""),
    ],
)
async def test_what_is_small_ours_or_of_another_shape_stays_as_it_is(
    tmp_path: Path, tool: str, response: Any
) -> None:
    async with claude_code(tmp_path) as chat:
        chat.grow(call_line(1, "t1", tool))
        assert await chat.tell_result(tool, response) is None
        assert "m1..m2" in await chat.talk.say("context_stats", detail="full")
