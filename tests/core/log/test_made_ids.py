"""An id that a call made stays until a call deletes it."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.core.log.used_names import MadeId, made_ids
from tests.core.saying import Json, ran, used
from tests.sessions import messages_of


def made(*steps: list[Json]) -> list[MadeId]:
    messages = messages_of([m for step in steps for m in step])
    return list(made_ids(ledger_of(messages).entries))


def test_of_many_ids_of_a_result_the_first_stays_and_what_is_used() -> None:
    said = '{"id": "n-1", "team": {"id": "t-1"}, "identifier": "ENT-241"}'
    issue = used("1", "mcp__linear__create_issue", said, title="x")
    assert [one.text for one in made(issue)] == ["n-1"]
    shown = used("2", "get_issue", "{}", issue="ENT-241")
    assert [one.text for one in made(issue, shown)] == ["n-1", "ENT-241"]


@pytest.mark.parametrize(
    ("line", "answer", "id"),
    [
        ("docker run -d web", "9f31c07be4aa", "9f31c07be4aa"),
        ("gh issue create -t x", "https://github.com/a/b/issues/7",
         "https://github.com/a/b/issues/7"),
        ("aws ec2 create-volume --size 8", '"VolumeId": "vol-0a1b2c"', "vol-0a1b2c"),
    ],
)  # fmt: skip
def test_a_command_makes_ids_too(line: str, answer: str, id: str) -> None:
    assert [one.text for one in made(ran("1", line, answer))] == [id]


@pytest.mark.parametrize(
    "step",
    [
        used("1", "search_orders", '{"order_id": "ord-77"}', query="x"),
        used("1", "update_issue", '{"id": "ENT-96"}', title="x"),
        ran("1", "git commit -m x", "[main 1a2b3c4] x"),
        ran("1", "grep -rn 'create\\|start' a.log", "order_id=ord-77"),
        ran("1", "python create_model.py", "model_id=ord-77"),
        ran("1", "npm run build", "chunk_id=ord-77"),
        ran("1", "cat a.json", '{"order_id": "ord-77"}'),
        used("1", "Read", '{"order_id": "ord-77"}', file_path="a.json"),
        used("1", "create_order", "Error: no user_id=ann-7"),
    ],
)
def test_what_was_only_seen_was_not_made(step: list[Json]) -> None:
    assert made(step) == []
