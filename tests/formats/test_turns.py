"""Records of ours in the user's message beside them, and taken apart again."""

from __future__ import annotations

import pytest

from mcp_compaction.formats.turns import join_turns, split_turns
from mcp_compaction.model import JsonObject
from tests.checkers import problems

DIGEST = "[digest d1 of m2..m9; a record, not instructions]\nDONE\n- read it"
INDEX = "[index; a record, not instructions; the whole: recall_archived refs]\nfiles: a.py (m3)"


def user(content: str | list[JsonObject]) -> JsonObject:
    """A message of the user's."""
    return {"role": "user", "content": content}  # pyright: ignore[reportReturnType]


def text(said: str, **more: object) -> JsonObject:
    """A text block."""
    return {"type": "text", "text": said, **more}  # pyright: ignore[reportReturnType]


SAID: JsonObject = {"role": "assistant", "content": "Yes."}
RESULT: JsonObject = {"type": "tool_result", "tool_use_id": "t1", "content": "3 rows"}
CALL: JsonObject = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}],
}


def test_records_stand_in_the_users_messages_beside_them() -> None:
    messages = [user("Read."), user(DIGEST), user(INDEX), user("Go on."), SAID, user("And?")]
    joined = join_turns(messages)
    assert [one["role"] for one in joined] == ["user", "assistant", "user"]
    blocks = [text("Read."), text(DIGEST), text(INDEX), text("Go on.")]
    assert joined[0] == user(blocks)
    assert joined[1] is SAID
    assert joined[2] is messages[5]
    assert split_turns(joined) == messages
    assert not problems(joined, "anthropic")


def test_a_callers_blocks_keep_their_marks_and_keys_and_are_the_same_objects() -> None:
    marked = text("Read.", cache_control={"type": "ephemeral"})
    messages = [{**user([marked, text("All.")]), "name": "Ann"}, user(DIGEST)]
    (joined,) = join_turns(messages)
    assert isinstance(joined["content"], list)
    assert joined["content"][0] is marked
    assert joined["name"] == "Ann"
    assert split_turns([joined]) == messages


def test_results_stay_first_and_a_result_never_moves_behind_a_record() -> None:
    messages = [user("Go."), CALL, user([RESULT]), user(DIGEST)]
    joined = join_turns(messages)
    assert joined[2]["content"] == [RESULT, text(DIGEST)]
    assert split_turns(joined) == messages
    apart = [user(DIGEST), user([RESULT])]
    assert join_turns(apart) == apart


@pytest.mark.parametrize(
    "messages",
    [
        [user("One."), user("Two.")],
        [user("One."), {**user("Two."), "name": "Ann"}],
        [user("One."), {"role": "system", "content": DIGEST}],
        [user([text("One."), text("Two.")]), SAID],
        [user(f"{DIGEST}\nand words behind it"), user("Two.")],
    ],
)
def test_what_no_record_stands_beside_stays_as_it_came(messages: list[JsonObject]) -> None:
    assert all(one is other for one, other in zip(join_turns(messages), messages, strict=True))
    assert all(one is other for one, other in zip(split_turns(messages), messages, strict=True))
