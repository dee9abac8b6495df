"""Small files of other programs, made by hand with the field names that those programs write."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

Json = dict[str, Any]


class File(NamedTuple):
    """What a file holds, as lines or as one document, and the format it is recognized as."""

    name: str
    content: list[Any] | Json
    as_lines: bool

    @property
    def text(self) -> str:
        """The file as its program writes it."""
        if self.as_lines:
            return "".join(json.dumps(line) + "\n" for line in self.content)
        return json.dumps(self.content, indent=2)


MOMENT = "2026-11-12T14:03:00.000Z"
CHAIN: Json = {"isSidechain": False, "sessionId": "5a1c", "cwd": "/p", "version": "2.1.325"}
CLAUDE_CODE: list[Json] = [
    {"type": "queue-operation", "operation": "dequeue", "timestamp": MOMENT, "sessionId": "5a1c"},
    {
        **CHAIN,
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "timestamp": MOMENT,
        "message": {"role": "user", "content": "Fix the parser."},
    },
    {
        **CHAIN,
        "type": "assistant",
        "uuid": "u2",
        "parentUuid": "u1",
        "message": {
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "text", "text": "Fixed."}],
            "stop_reason": "end_turn",
        },
    },
    {"type": "system", "subtype": "compact_boundary", "uuid": "u3", "parentUuid": None},
]
SUMMARY_FIRST: list[Json] = [
    {"type": "summary", "summary": "Parser", "leafUuid": "u2"},
    *CLAUDE_CODE[1:],
]
SNAPSHOT_FIRST: list[Json] = [
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False},
    *CLAUDE_CODE[1:],
]
CODEX: list[Json] = [
    {"timestamp": MOMENT, "ordinal": 0, "type": "session_meta", "payload": {"id": "t1"}},
    {
        "timestamp": MOMENT,
        "ordinal": 1,
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Fix the parser."}],
        },
    },
    {"timestamp": MOMENT, "ordinal": 2, "type": "event_msg", "payload": {"type": "token_count"}},
]
GEMINI_MESSAGES: list[Json] = [
    {"id": "g1", "timestamp": MOMENT, "type": "user", "content": "Fix the parser."},
    {
        "id": "g2",
        "timestamp": MOMENT,
        "type": "gemini",
        "content": "Fixed.",
        "toolCalls": [],
        "tokens": {"input": 9},
        "model": "gemini-3-pro",
    },
]
GEMINI_HEADER: Json = {"sessionId": "9f56", "projectHash": "c21e", "startTime": MOMENT}
CLAUDE_AI: list[Json] = [
    {
        "uuid": "c1",
        "name": "Parser",
        "created_at": MOMENT,
        "chat_messages": [
            {"uuid": "m1", "sender": "human", "text": "Fix the parser.", "content": []},
            {"uuid": "m2", "sender": "assistant", "text": "Fixed.", "content": []},
        ],
    }
]
CHATGPT_MESSAGE: Json = {
    "id": "n1",
    "author": {"role": "user"},
    "content": {"content_type": "text", "parts": ["Fix the parser."]},
}
CHATGPT: list[Json] = [
    {
        "title": "Parser",
        "create_time": 1763164800.0,
        "mapping": {"n1": {"id": "n1", "message": CHATGPT_MESSAGE, "parent": None}},
    }
]
OPENCODE_MESSAGES: list[Json] = [
    {
        "info": {"id": "msg_1", "sessionID": "ses_1", "role": "user"},
        "parts": [{"id": "prt_1", "type": "text", "text": "Fix the parser."}],
    }
]
OPENCODE: Json = {"info": {"id": "ses_1", "title": "Parser"}, "messages": OPENCODE_MESSAGES}
OWN_HEADER: Json = {
    "session": {"name": "tax-2026"},
    "sections": {},
    "view": {},
    "pins": [],
    "digests": [],
    "receipts": [],
}

FILES = (
    File("a Claude Code transcript", CLAUDE_CODE, as_lines=True),
    File("a Claude Code transcript", CLAUDE_CODE[1:], as_lines=True),
    File("a Claude Code transcript", SUMMARY_FIRST, as_lines=True),
    File("a Claude Code transcript", SNAPSHOT_FIRST, as_lines=True),
    File("a Codex rollout", CODEX, as_lines=True),
    File("a Codex rollout", CODEX[1:2], as_lines=True),
    File("a Gemini chat file", [GEMINI_HEADER, *GEMINI_MESSAGES], as_lines=True),
    File("a Gemini chat file", GEMINI_MESSAGES, as_lines=True),
    File("an older Gemini chat file", {**GEMINI_HEADER, "messages": GEMINI_MESSAGES}, False),
    File("an older Gemini chat file", {**GEMINI_HEADER, "messages": []}, as_lines=False),
    File("a claude.ai export", CLAUDE_AI, as_lines=False),
    File("a claude.ai export", CLAUDE_AI[0], as_lines=False),
    File("a ChatGPT export", CHATGPT, as_lines=False),
    File("a ChatGPT export", CHATGPT[0], as_lines=False),
    File("a ChatGPT export", [CHATGPT_MESSAGE], as_lines=False),
    File("an opencode export", OPENCODE, as_lines=False),
    File("an opencode export", OPENCODE_MESSAGES, as_lines=False),
    File(
        "an export of mcp-compaction",
        [OWN_HEADER, {"role": "user", "content": "Fix the parser."}],
        as_lines=True,
    ),
)
