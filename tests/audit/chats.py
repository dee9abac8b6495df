"""Writes chats as Claude Code and Codex keep them, with compactions in them."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

RULE = "Never run migrations against prod-db-2."
SUMMARY = "The user works on the importer. We read src/load.py and spoke of src/ghost_file.py."


class ClaudeChat:
    """A transcript of Claude Code, written line by line."""

    def __init__(self, folder: Path, session: str = "3f2a91c0-chat") -> None:
        self.path = folder / f"{session}.jsonl"
        self._session = session
        self._ids = count(1)
        self._lines: list[dict[str, Any]] = []

    def _add(self, kind: str, **rest: Any) -> str:
        number = next(self._ids)
        line = {
            "type": kind,
            "uuid": f"u{number}",
            "timestamp": f"2026-11-01T10:{number // 60:02}:{number % 60:02}.000Z",
            "sessionId": self._session,
            "cwd": "/work",
            "version": "2.1.200",
            **rest,
        }
        self._lines.append(line)
        text = "\n".join(json.dumps(one) for one in self._lines)
        self.path.write_text(f"{text}\n", encoding="utf-8")
        return f"u{number}"

    def ask(self, text: str) -> str:
        """What the user types."""
        return self._add("user", message={"role": "user", "content": text})

    def say(self, text: str) -> str:
        """What the agent says."""
        content = [{"type": "text", "text": text}]
        message = {"role": "assistant", "model": "claude-opus-5-5", "content": content}
        return self._add("assistant", message=message)

    def call(self, name: str, result: str, **given: Any) -> str:
        """A call of the agent, and its result."""
        call = f"toolu_{next(self._ids)}"
        use = {"type": "tool_use", "id": call, "name": name, "input": given}
        message = {"role": "assistant", "model": "claude-opus-5-5", "content": [use]}
        where = self._add("assistant", message=message)
        block = {"type": "tool_result", "tool_use_id": call, "content": result}
        self._add("user", message={"role": "user", "content": [block]})
        return where

    def compact(self, summary: str, kept: tuple[str, ...] = (), **told: Any) -> None:
        """A compaction by the host."""
        told = {"trigger": "manual", "preTokens": 90_000, "postTokens": 4_000, **told}
        told |= {"preservedMessages": {"uuids": list(kept)}} if kept else {}
        self._add("system", subtype="compact_boundary", compactMetadata=told)
        message = {"role": "user", "content": summary}
        self._add("user", isCompactSummary=True, message=message)

    def compact_by_us(self, record: str) -> None:
        """A compaction by our own module, which leaves a record of ours."""
        version = "2.1.325"  # which says of each prompt where it came from
        told = {"trigger": "manual"}
        self._add("system", subtype="compact_boundary", compactMetadata=told, version=version)
        self._add("user", message={"role": "user", "content": record}, version=version)

    def write_again(self, uuid: str) -> None:
        """A row that a compaction keeps, once more under its old id."""
        self._lines.append(next(line for line in self._lines if line["uuid"] == uuid))

    def name(self, title: str) -> None:
        """A title that the host gives the chat."""
        self._add("custom-title", customTitle=title)

    def title(self, text: str) -> None:
        """A title, which is no compaction."""
        self._lines.append({"type": "summary", "summary": text, "leafUuid": "u1"})


def write_rollout(path: Path, lines: list[tuple[str, dict[str, Any]]]) -> None:
    """A rollout of Codex."""
    meta = {"id": "c0de", "cwd": "/work", "originator": "codex_cli_rs"}
    written = [("session_meta", meta), *lines]
    path.write_text(
        "".join(
            json.dumps({"timestamp": f"2026-11-02T10:00:{n:02}Z", "type": kind, "payload": payload})
            + "\n"
            for n, (kind, payload) in enumerate(written)
        ),
        encoding="utf-8",
    )
