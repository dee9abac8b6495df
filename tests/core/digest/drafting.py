"""A draft of what was said and done, and its lines by section."""

from __future__ import annotations

from typing import Any

from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.model import Draft, SectionName, SummaryRequest
from tests.sessions import messages_of

Json = dict[str, Any]


def drafted(span: list[Json], later: list[Json] | None = None, **more: Any) -> Draft:
    """What is extracted from a span, with what stays in the window after it."""
    messages = messages_of(span)
    after = messages_of(later or [], len(messages) + 1)
    request = SummaryRequest(
        first=1, last=len(messages), messages=messages, later=after, max_tokens=600, **more
    )
    return extract(request)


def texts(draft: Draft, name: SectionName) -> list[str]:
    """The lines of a section."""
    return [words_of_item(item) for item in draft.items(name)]
