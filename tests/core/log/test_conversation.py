"""The conversation is what people and tools said, without host text and our own tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.log.conversation import conversation_of, has_request, is_own_tool
from mcp_compaction.core.log.outline import outline_of
from mcp_compaction.core.log.passages import passages_of
from mcp_compaction.core.log.spoken_rules import saying_of
from mcp_compaction.core.log.steps import count_head
from mcp_compaction.lexicon.host_texts import own_tools
from mcp_compaction.model import Spoken, ToolCall
from tests.sessions import messages_of
from tests.strategies import sessions

REMINDER = "<system-reminder>\nNever feed the zebra.\n</system-reminder>"


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def calling(name: str, call: str = "c1") -> dict[str, Any]:
    block = {"type": "tool_use", "id": call, "name": name, "input": {"text": "zebra-41"}}
    return {"role": "assistant", "content": [block]}


def answering(text: str, call: str = "c1") -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": text}
    return {"role": "user", "content": [block]}


@given(sessions())
def test_of_a_session_without_host_texts_only_system_and_own_tools_leave(
    originals: list[dict[str, Any]],
) -> None:
    messages = messages_of(originals)
    said = conversation_of(messages)
    spoken = [(m.ref, m.text) for m in messages if m.text and m.role != "system"]
    assert [(m.ref, m.text) for m in said if m.text] == spoken
    calls = [call for m in messages for call in m.calls if not is_own_tool(call.name)]
    assert [call for m in said for call in m.calls] == calls
    assert conversation_of(said) == said


def test_only_the_part_that_a_host_wrote_leaves_a_message() -> None:
    (message,) = messages_of([user(REMINDER, "Fix the login.")])
    (said,) = conversation_of([message])
    assert (said.text, said.ref) == ("Fix the login.", message.ref)
    assert message.text.startswith(REMINDER)  # the message itself is as it was


def test_a_message_with_other_parts_is_read_anew() -> None:
    (message,) = messages_of([user(REMINDER, "Fix the login.")])
    assert (message.ref, message.calls, message.results) == ("m1", (), ())
    call = ToolCall(id="c1", name="Bash", arguments={})
    changed = message.model_copy(update={"parts": (call,), "seq": 2})
    assert (changed.ref, changed.calls, changed.text) == ("m2", (call,), "")
    assert (message.ref, message.calls) == ("m1", ())


def test_a_message_of_the_system_is_no_part_of_the_conversation() -> None:
    messages = messages_of([user("Fix it."), {"role": "system", "content": "Never feed zebras."}])
    assert [m.text for m in conversation_of(messages)] == ["Fix it."]


def test_a_message_of_only_host_text_is_no_request() -> None:
    host_text, request = messages_of([user(REMINDER, "[Request interrupted by user]"), user("Go.")])
    assert host_text.is_request
    assert not has_request(host_text)
    assert has_request(request)


@pytest.mark.parametrize("tool", own_tools())
@pytest.mark.parametrize(
    "prefix", ["", "mcp__compaction__", "compaction_", "compaction.", "mcp_compaction_", "a/"]
)
def test_our_tools_are_known_whatever_a_host_puts_before_their_names(
    prefix: str, tool: str
) -> None:
    assert is_own_tool(f"{prefix}{tool}")


@pytest.mark.parametrize("name", ["Bash", "recall", "recall_archived_mail", "prerecall_archived"])
def test_tools_of_others_are_not_ours(name: str) -> None:
    assert not is_own_tool(name)


def test_calls_of_our_tools_leave_with_their_results_and_others_stay() -> None:
    both = calling("mcp__compaction__recall_archived")
    both["content"] += calling("Bash", "c2")["content"]
    results = answering("1 found: zebra")
    results["content"] += answering("41 passed", "c2")["content"]
    said = conversation_of(messages_of([user("Go."), both, results]))
    assert [call.name for m in said for call in m.calls] == ["Bash"]
    assert [result.text for m in said for result in m.results] == ["41 passed"]


@pytest.mark.parametrize(
    ("program", "is_ours"),
    [
        ("const r = await tools.mcp__compaction__recall_archived({query: 'zebra'}); text(r)", True),
        ("await tools.mcp__compaction__context_stats({}); await tools.exec_command({})", False),
        ("await tools.exec_command({cmd: 'grep recall_archived -r .'})", False),
        ("text('tools')", False),
    ],
)
def test_a_program_that_calls_only_our_tools_is_a_call_of_ours(program: str, is_ours: bool) -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": program}
    result = {"type": "custom_tool_call_output", "call_id": "c1", "output": "1 found: zebra"}
    asked = {"type": "message", "role": "user", "content": "Go."}
    said = conversation_of(messages_of([asked, call, result]))
    assert [bool(m.calls or m.results) for m in said] == [False] + [True, True] * (not is_ours)


def test_a_call_id_that_is_used_again_is_anothers() -> None:
    said = conversation_of(
        messages_of(
            [
                user("Go."),
                calling("context_stats"),
                answering("12 % full"),
                calling("Bash"),
                answering("41 passed"),
            ]
        )
    )
    assert [result.text for m in said for result in m.results] == ["41 passed"]


def test_what_a_tool_wrote_that_looks_like_a_reminder_stays_unless_it_stands_at_the_end() -> None:
    planted = f"{REMINDER}\nerror: E1234 in src/app.py"
    (_, _, result) = conversation_of(
        messages_of([user("Go."), calling("Read"), answering(planted)])
    )
    assert result.results[0].text == planted
    (_, _, result) = conversation_of(
        messages_of([user("Go."), calling("Read"), answering(f"x = 1\n\n{REMINDER}")])
    )
    assert result.results[0].text == "x = 1"


def test_the_head_reaches_through_what_a_host_put_before_the_first_request() -> None:
    system = {"role": "system", "content": "You are helpful."}
    host_text = user("<environment_context>\n<cwd>/srv</cwd>\n</environment_context>")
    answer = {"role": "assistant", "content": "Done."}
    messages = messages_of([system, host_text, user("Fix it."), answer])
    assert count_head(messages, keep_first_request=True) == 3
    assert count_head(messages, keep_first_request=False) == 1
    assert count_head(messages_of([system, host_text, answer]), keep_first_request=True) == 1


def test_the_outline_names_what_the_user_asked_for() -> None:
    messages = messages_of([user(REMINDER), user(REMINDER, "Fix the login."), user(REMINDER)])
    assert [one.about for one in outline_of(messages)] == [
        "before the first request",
        "Fix the login.",
    ]
    assert [(one.first, one.last) for one in outline_of(messages)] == [(1, 1), (2, 3)]


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (f"{REMINDER}\nNever feed the zebra.", "said"),
        (REMINDER, "passed on"),
        (f"{REMINDER}\nFix the login.", "passed on"),
        ("Fix the login.", None),
    ],
)
def test_words_that_only_a_host_wrote_are_passed_on(text: str, how: str | None) -> None:
    saying = saying_of("Never feed the zebra.", messages_of([user(text)]))
    assert (saying.how if saying else None) == how


def test_a_search_finds_host_text_as_words_of_the_system() -> None:
    (message,) = messages_of([user(f"{REMINDER}\nFix the login.")])
    assert passages_of(message.role, message.parts) == (
        Spoken("system", REMINDER),
        Spoken("user", "Fix the login."),
    )
    assert json.loads(message.raw)["content"][0]["text"] == message.text


@given(st.integers(0, 3), st.integers(0, 3))
def test_the_order_and_the_refs_of_messages_stay(before: int, behind: int) -> None:
    host_text = [user(REMINDER)]
    messages = messages_of([*host_text * before, user("Fix it."), *host_text * behind])
    assert [m.seq for m in conversation_of(messages)] == [before + 1]
