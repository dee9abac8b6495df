"""Words for a person: refs, moments and sizes, and the core's advice as command lines."""

from __future__ import annotations

import re
from datetime import datetime

# The core speaks to a model, which calls tools; a person types commands.
ADVICE = (
    ("undo: restore_context ", "undo: mcp-compaction restore "),
    ("from your next step", "from the next step"),
    ("Pass force=true", "Pass --force"),
    ("pass force=true", "pass --force"),
    ("force=true compresses", "--force compresses"),
    ("pass room_tokens;", "pass --room-tokens;"),
    ("pass target_percent below ", "pass --target-percent below "),
    (
        "Go on, or name a lower target.",
        "Go on, pass a lower --target-percent, or set the window: mcp-compaction set --window N",
    ),
    ("a target_percent below that, or a span,", "a --target-percent below that, or a --span,"),
    ("pass a percentage above 0 and below 100", "pass --target-percent above 0 and below 100"),
    ("pin_constraint with its exact words", 'mcp-compaction pin "ITS EXACT WORDS"'),
    (
        "to ask the user whether to keep one: pin_constraint kind=fact scope=project",
        "to keep or drop one: mcp-compaction facts",
    ),
    ("keep it with kind=note", "keep it with --kind note"),
    ("pass your own digest", "pass --digest FILE"),
    (' Tell the user: "For a fresh', ' "For a fresh'),
    ("Write a better one with compress_context", "Write a better one: compress --digest FILE"),
    ("Call again.", "Run it again."),
    ("; record messages first.", "; first run: mcp-compaction record FILE"),
    ("or record messages first.", "or first run: mcp-compaction record FILE"),
    ("pass either max_chars or max_tokens", "pass either --max-chars or --max-tokens"),
    ("; name one of: ", "; pass --session with one of: "),
)
# And to a person one message is no "1 messages".
_ONE = re.compile(r"(?<![\d,.])1 (message|passage|token|character|line)s\b")


def for_person(text: str) -> str:
    """A text of the core, with its tools' names as commands and options."""
    for said, typed in ADVICE:
        text = text.replace(said, typed)
    return _ONE.sub(r"1 \1", text)


def describe_moment(at: datetime | None) -> str:
    """A moment in the reader's own time zone."""
    return "at an unknown time" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M}"
