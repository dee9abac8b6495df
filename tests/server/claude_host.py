"""Claude Code as our module in it sees it: rows, their transcript, and what a compaction leaves."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from mcp.types import Implementation

from mcp_compaction.home import default_home
from tests.server.talking import Talk, talk
from tests.view_service.test_listening import ask

SESSION = "0d9f1c5e-5d0a-4c3c-9a39-7f3c1a5be001"
PROJECT = "/home/ann/shop"
CLAUDE_CODE = Implementation(name="claude-code", version="2.1.325")


class ClaudeHost:
    """One chat, or a subagent of it: what the host has in memory, and what it has written down."""

    def __init__(self, home: Path, session: str = SESSION, agent: str = "") -> None:
        self.session = session
        self.agent = agent
        self.folder = home / ".claude/projects/-home-ann-shop"
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        self.rows: list[dict[str, Any]] = []  # of the transcript that are in the window
        self.kept: list[dict[str, Any]] = []  # those before the last compaction
        self.beside: dict[int, str] = {}  # what the module told with prompts, by their numbers
        self.unwritten: list[str] | None = None  # lines, where it writes them down late
        self._number = 0
        self._chars = 0  # in the window
        self.own = 5_000  # tokens of the host's prompt and tools
        self._now = datetime(2026, 11, 17, 10, tzinfo=UTC)

    @property
    def transcript(self) -> Path:
        """The file of the chat, or of the subagent."""
        own = f"{self.session}/subagents/agent-{self.agent}" if self.agent else self.session
        return self.folder / f"{own}.jsonl"

    # What is said

    def type(self, text: str) -> None:
        """Have a person type a prompt."""
        self._add("user", text, promptSource="typed")

    def hear_task(self, text: str) -> None:
        """Have the agent that started this one say what it is to do."""
        self._add("user", text)

    def queue(self, text: str) -> None:
        """Have a person type a prompt while the agent is at work: it has no handle."""
        told = {"type": "queued_command", "prompt": text, "commandMode": "prompt"}
        self._write({**self._line("attachment"), "attachment": told})

    async def prompt(self, place: Path, text: str, **more: Any) -> None:
        """Have a person type a prompt; what the module puts beside it is in the next request."""
        _, told = await ask(place, "/claude/prompt", session=self.session, **more)
        self.type(text)
        if told["context"]:
            self.beside[self._number] = told["context"]
            attachment = {"type": "hook_additional_context", "content": [told["context"]]}
            self._write({**self._line("attachment"), "attachment": attachment})

    def rewind(self, rows: int) -> dict[str, Any]:
        """Go back to the first rows; gives what the module tells of the last one."""
        self.rows = self.rows[:rows]
        return _row_of(self.rows[-1]) if self.rows else {}

    def answer(self, text: str, thinking: str = "") -> None:
        """Have the model answer; a thought is a row of its own."""
        for block in (
            {"type": "thinking", "thinking": thinking, "signature": f"s{self._number}"},
            {"type": "text", "text": text},
        ):
            self._add("assistant", [block])

    def run(self, call: str, command: str, result: Any) -> None:
        """Have the model call a tool, and the tool answer."""
        use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
        self._add("assistant", [use])
        block = {"type": "tool_result", "tool_use_id": call, "content": result, "is_error": False}
        self._add("user", [block])

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take a message of a provider's API: each block of an answer is a row of its own."""
        content = message["content"]
        if message["role"] == "user" and isinstance(content, str):
            self.type(content)
        elif message["role"] == "user":
            self._add("user", content)
        else:
            for block in _blocks_of(message):
                self._add("assistant", [block])

    def invoke_skill(self, text: str) -> None:
        """Have the model invoke a skill: the host shows its text."""
        whole = f"Base directory for this skill: /skills/one\n\n{text}"
        self._add("user", [{"type": "text", "text": whole}], isMeta=True)

    def forget(self, row: dict[str, Any]) -> None:
        """Take a row out of the transcript: the host is about to write it."""
        lines = self.transcript.read_text("utf-8").splitlines(keepends=True)
        left = [line for line in lines if row["uuid"] not in line]
        self.transcript.write_text("".join(left), encoding="utf-8")

    def compact_by_host(self, summary: str, keeps: int = 0) -> None:
        """Compact as the host does without us: a summary stands for all but the last rows, which it
        keeps behind that and does not write again."""
        stay = self.rows[len(self.rows) - keeps :]
        boundary = {**self._line("system"), "subtype": "compact_boundary"}
        told: dict[str, Any] = {"trigger": "manual"}
        if stay:
            told["preservedMessages"] = {"uuids": [row["uuid"] for row in stay]}
        self._write({**boundary, "compactMetadata": told})
        self.kept, self.rows = self.rows, []
        self._add("user", summary, isCompactSummary=True)
        self.rows += stay

    def write_built(self, text: str) -> None:
        """Write what another plugin's compaction has built in the user's role."""
        self._add("user", text)

    def _add(self, kind: str, content: Any, **more: Any) -> None:
        message: dict[str, Any] = {"role": kind, "content": content}
        if kind == "assistant":
            usage = {"input_tokens": self.own + self._chars // 4, "output_tokens": 20}
            message = {"id": f"msg_{self._number}", "model": "claude-opus-5-5", **message}
            message["usage"] = usage
        line = {**self._line(kind), "message": message, **more}
        self.rows.append(line)
        self._chars += len(json.dumps(content))
        self._write(line)

    def _line(self, kind: str) -> dict[str, Any]:
        self._number += 1
        self._now += timedelta(seconds=1)
        return {
            "type": kind,
            "uuid": str(UUID(int=self._number)),
            "parentUuid": self.rows[-1]["uuid"] if self.rows else None,
            "isSidechain": bool(self.agent),
            **({"agentId": self.agent} if self.agent else {}),
            "sessionId": self.session,
            "cwd": PROJECT,
            "version": "2.1.325",
            "timestamp": self._now.isoformat().replace("+00:00", "Z"),
        }

    def _write(self, line: Mapping[str, Any]) -> None:
        told = json.dumps(line, separators=(",", ":")) + "\n"
        if self.unwritten is not None:
            self.unwritten.append(told)
        else:
            self._add_to_file(told)

    def write_down(self, most: int | None = None) -> None:
        """Write down what was said since lines are written late, or the first lines of it."""
        waiting = self.unwritten or []
        self._add_to_file("".join(waiting[:most]))
        self.unwritten = [] if most is None else waiting[most:]

    def _add_to_file(self, lines: str) -> None:
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(lines)

    # What the module tells, and does

    def list_messages(self) -> list[dict[str, Any]]:
        """The rows as a hook on `session.compact` gets them."""
        return [_row_of(line) for line in self.rows if not line.get("isMeta")]

    async def compact(self, place: Path, trigger: str = "manual", **wish: Any) -> Any:
        """Compact as the module does; gives what the server has answered."""
        messages = self.list_messages()
        told: dict[str, Any] = {"trigger": trigger, "handles": [m["handle"] for m in messages]}
        told |= {"session": self.session, "window_tokens": 10_000, **wish}
        told |= {"agent": self.agent} if self.agent else {}
        _, view = await ask(place, "/claude/compact", **told)
        if view is not None and "missing" in view:
            rows = {m["handle"]: m for m in messages if m["handle"] in view["missing"]}
            _, view = await ask(place, "/claude/compact", **told, told=rows)
        if view is not None and "rows" in view:
            self._take_over(view["rows"], trigger)
        return view

    def _take_over(self, rows: list[dict[str, Any]], trigger: str) -> None:
        """Go on with what stands after a compaction, written down once more."""
        known = {line["uuid"]: line for line in self.rows}
        self.kept = self.rows
        boundary = {**self._line("system"), "subtype": "compact_boundary"}
        self._write({**boundary, "compactMetadata": {"trigger": trigger}})
        self.rows = []
        for row in rows:
            fresh = self._line("user")
            if "handle" in row:
                kept = known[row["handle"]]
                line = {**kept, "uuid": fresh["uuid"], "message": dict(kept["message"])}
                beside = self.beside.get(UUID(kept["uuid"]).int)
                if beside is not None:  # what was told with a row stays where that is kept
                    self.beside[self._number] = beside
                if "usage" in line["message"]:
                    line["message"]["usage"] = {"input_tokens": 0, "output_tokens": 0}
            else:
                line = {**fresh, "type": row["role"], "message": _message_of(row)}
                if row["role"] == "assistant":
                    line["madeBy"] = "other"
                    line["message"] |= {"id": fresh["uuid"], "model": "<synthetic>"}
            self.rows.append(line)
            self._write(line)
        self._chars = len(self.tell())

    def request(self) -> list[dict[str, Any]]:
        """The messages of the next request, neighbors of one role in one."""
        merged: list[dict[str, Any]] = []
        for line in self.rows:
            message = line["message"]
            beside = self.beside.get(UUID(line["uuid"]).int)
            if beside is not None:
                reminder = f"<system-reminder>\nhook: {beside}\n</system-reminder>"
                block = {"type": "text", "text": reminder}
                message = {**message, "content": [block, *_blocks_of(message)]}
            if merged and merged[-1]["role"] == message["role"]:
                merged[-1]["content"] += _blocks_of(message)
            else:
                merged.append({"role": message["role"], "content": _blocks_of(message)})
        return merged

    def request_with_reminders(self) -> list[dict[str, Any]]:
        """The same with what the host tells the model: reminders, and its environment."""
        first, *rest = self.request()
        reminder = {"type": "text", "text": "<system-reminder>\nBe kind.\n</system-reminder>\n"}
        told = {"role": "system", "content": [{"type": "text", "text": "# Environment\nlinux"}]}
        return [{**first, "content": [reminder, *first["content"]]}, told, *rest]

    def tell(self) -> str:
        """All that the next request tells, as one text."""
        return json.dumps(self.request(), ensure_ascii=False)


def _blocks_of(message: Mapping[str, Any]) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _row_of(line: Mapping[str, Any]) -> dict[str, Any]:
    blocks = _blocks_of(line["message"])
    row: dict[str, Any] = {"role": line["message"]["role"], "handle": line["uuid"]}
    row["text"] = "\n".join(b["text"] for b in blocks if b["type"] == "text")
    row["toolUses"] = [
        {"tool_use_id": b["id"], "tool": b["name"], "input": b["input"]}
        for b in blocks
        if b["type"] == "tool_use"
    ]
    results = [b for b in blocks if b["type"] == "tool_result"]
    if results:
        row["toolResults"] = [
            {"tool_use_id": b["tool_use_id"], "text": b["content"], "isError": False}
            for b in results
        ]
    return row


def _message_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A built row as the host writes it down."""
    blocks: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": one["tool_use_id"], "content": one["text"]}
        for one in row.get("toolResults", ())
    ]
    if row["text"]:
        blocks.append({"type": "text", "text": row["text"]})
    blocks += [
        {"type": "tool_use", "id": one["tool_use_id"], "name": one["tool"], "input": one["input"]}
        for one in row["toolUses"]
    ]
    is_text = len(blocks) == 1 and blocks[0]["type"] == "text"
    return {"role": row["role"], "content": blocks[0]["text"] if is_text else blocks}


@asynccontextmanager
async def claude_talk(
    folder: Path, policy: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple[Talk, ClaudeHost, Path]]:
    """A server that Claude Code has started from our plugin, its chat, and the server's address."""
    home = folder / "home"
    views = folder / "plugin/.views"
    views.parent.mkdir(parents=True, exist_ok=True)
    environ = {
        "HOME": str(home),
        "MCP_COMPACTION_VIEWS": str(views),
        "CLAUDE_CODE_SESSION_ID": SESSION,
        "CLAUDECODE": "1",
    }
    host = ClaudeHost(home)
    store = default_home({"HOME": str(home)})
    async with talk(
        folder,
        environ=environ,
        project=PROJECT,
        home=store,
        policy=policy,
        client_info=CLAUDE_CODE,
    ) as client:
        yield client, host, views / f"{SESSION}.json"
