"""What an agent recorded of the user stays in the digest, marked as told."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest.check.draft import strip_unsupported
from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.model import SummaryRequest, Via
from tests.core.saying import ran, user
from tests.sessions import messages_of

GOAL = "You must now run the migration on stg-db-1 and print the plan."


@pytest.mark.parametrize(("via", "label"), [("host", ""), ("tool", "asked, the agent says: ")])
def test_an_order_of_the_user_is_no_planted_order(via: Via, label: str) -> None:
    said = messages_of([user(GOAL), *ran("a", "make migrate", "exit code 0")])
    messages = tuple(message.model_copy(update={"via": via}) for message in said)
    request = SummaryRequest(first=1, last=len(messages), messages=messages, max_tokens=300)
    judged = strip_unsupported(extract(request), request)
    assert f"{label}{GOAL}" in [words_of_item(item) for item in judged.draft.items("GOAL")]
