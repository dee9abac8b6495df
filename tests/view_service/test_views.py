"""The views that a plugin of opencode is given, and that they fail open."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.histories import layout_between
from mcp_compaction.compactor.results import PinWish, make_ask
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import StoreError
from mcp_compaction.formats.identity import fingerprints_of
from mcp_compaction.hosts.chat import HostChats
from mcp_compaction.hosts.opencode import Window, read_window, tell_plugin
from mcp_compaction.hosts.transcripts.opencode import PUT_BACK, messages_in
from mcp_compaction.model import JsonObject
from mcp_compaction.view_service.views import ServedViews
from tests.checkers import problems
from tests.hosts.given_hosts import workspace_in

pytestmark = pytest.mark.anyio

SHOP, CHAT, WINDOW = "/home/ann/shop", "ses_1", 40_000
RULE = "Never deploy on a Friday."
LINES = "\n".join(f"row {n} of the table, with its price and its name" for n in range(400))


def typed(number: int, text: str, written: str | None = None) -> dict[str, Any]:
    """A user's message as opencode has it."""
    parts = [{"type": "text", "text": text}]
    if written is not None:
        parts.append({"type": "text", "text": written, "synthetic": True})  # pyright: ignore[reportArgumentType]
    return {"info": {"id": f"msg_{number}", "role": "user"}, "parts": parts}


def answered(number: int, text: str, output: str | None = None) -> dict[str, Any]:
    """An answer as opencode has it, with the result of its call."""
    parts: list[dict[str, Any]] = [{"type": "step-start"}, {"type": "text", "text": text}]
    if output is not None:
        state = {"status": "completed", "input": {"path": f"{number}.txt"}, "output": output}
        parts.append({"type": "tool", "tool": "read", "callID": f"c{number}", "state": state})
    return {"info": {"id": f"msg_{number}", "role": "assistant"}, "parts": parts}


def history(steps: int) -> list[dict[str, Any]]:
    """A chat of one request and so many files that were read."""
    reads = [answered(n, f"I read {n}.", LINES) for n in range(2, steps + 2)]
    return [typed(1, f"{RULE} Read the tables."), *reads]


def chats_in(environ: Mapping[str, str] | None = None) -> HostChats:
    """The chats of a project, in a home where hosts keep no transcripts unless one is named."""
    return HostChats(SHOP, environ or {"HOME": "/nowhere"})


async def views_on(work: Workspace, environ: Mapping[str, str] | None = None) -> ServedViews:
    """Views of a compactor, without a limit."""

    async def opened() -> Workspace:
        return work

    return ServedViews(opened, chats_in(environ), limit=60.0)


async def test_a_chat_that_was_not_compacted_is_sent_as_it_is(tmp_path: Path) -> None:
    async with workspace_in(tmp_path) as work:
        views = await views_on(work)
        given = history(1)
        told = await views.view_for("opencode", CHAT, given)
        assert told is not None
        assert told["show"] == [{"id": "msg_1"}, {"id": "msg_2"}]
        assert told["outputs"] == told["inputs"] == {}


async def test_after_a_compaction_the_plugin_is_told_of_records_and_of_what_stays(
    tmp_path: Path,
) -> None:
    async with workspace_in(tmp_path) as work:
        views = await views_on(work)
        given = history(3)
        await views.view_for("opencode", CHAT, given, WINDOW)
        info = await work.store.find_host_session(SHOP, CHAT)
        assert info is not None
        await compactor.pin(work, info, PinWish(RULE, by="agent"))
        await compactor.compress(work, info, make_ask(reason="read", force=True, target_percent=30))
        given += [answered(5, "I read all.")]
        told: Any = await views.view_for("opencode", CHAT, given, WINDOW)
        texts = [entry["text"] for entry in told["show"] if "text" in entry]
        ids = [entry["id"] for entry in told["show"] if "id" in entry]
        assert any(RULE in text for text in texts)
        assert ids[0] == "msg_1"
        assert ids[-1] == "msg_5"
        assert told["session"] == info.name
        reads = {"msg_2", "msg_3", "msg_4"}.intersection(ids)
        shown = [told["outputs"].get(f"c{own_id[4:]}", LINES) for own_id in reads]
        assert sum(map(len, [*texts, *shown])) < 3 * len(LINES)


async def test_where_it_is_asked_for_a_large_result_is_a_preview_from_the_start(
    tmp_path: Path,
) -> None:
    async with workspace_in(tmp_path) as work:
        views = await views_on(work)
        views.offload_over = 1000
        told: Any = await views.view_for("opencode", CHAT, history(1))
        assert told["show"] == [{"id": "msg_1"}, {"id": "msg_2"}]
        assert "the whole: recall_archived refs m3" in told["outputs"]["c2"]
        assert len(told["outputs"]["c2"]) < len(LINES) / 3
        again: Any = await views.view_for("opencode", CHAT, history(2))
        assert again["outputs"]["c2"] == told["outputs"]["c2"]


async def test_a_view_that_takes_too_long_is_none_and_is_there_the_next_time(
    tmp_path: Path,
) -> None:
    async with workspace_in(tmp_path) as work:
        may_go_on = asyncio.Event()

        async def open_later() -> Workspace:
            await may_go_on.wait()
            return work

        views = ServedViews(open_later, chats_in(), limit=0.01, first_limit=0)
        assert await views.view_for("opencode", CHAT, history(1)) is None
        may_go_on.set()
        views.limit = 60.0
        assert await views.view_for("opencode", CHAT, history(1)) is not None
        await views.chats.close()


async def test_a_fault_of_any_kind_is_no_view() -> None:
    async def fail() -> Workspace:
        raise StoreError("the disk is full; free some of it.")

    views = ServedViews(fail, chats_in(), limit=60.0)
    assert await views.view_for("opencode", CHAT, history(1)) is None
    assert await views.view_for("opencode", CHAT, [{"parts": "?"}]) is None
    assert not views.has_shown(CHAT)


async def test_nothing_is_recorded_of_a_project_that_the_user_has_left_out(tmp_path: Path) -> None:
    async with workspace_in(tmp_path) as work:

        async def opened() -> Workspace:
            return work

        views = ServedViews(opened, chats_in(), limit=60.0)
        views.chats.may_record = lambda _: False
        assert await views.view_for("opencode", CHAT, history(1)) is None
        assert await compactor.list_sessions(work, None) == ()


def test_each_piece_of_opencodes_messages_is_a_message_of_a_provider() -> None:
    window = read_window([typed(1, "Read it.", "what opencode wrote"), answered(2, "Yes.", "rows")])
    assert [m["role"] for m in window.messages] == ["user", "user", "assistant", "user"]
    assert [m.pop("id") for m in window.messages] == [
        "msg_1",
        "msg_1:written",
        "msg_2",
        "msg_2:results",
    ]
    assert not problems(window.messages, "anthropic")


def _tell(window: Window, shown: list[JsonObject]) -> JsonObject:
    prints = fingerprints_of(window.messages)
    return tell_plugin(window, layout_between(prints, window.messages, shown))


def test_of_a_message_of_which_half_is_sent_the_plugin_is_told_which() -> None:
    window = read_window([typed(1, "Read it.", "what opencode wrote"), answered(2, "Yes.", "rows")])
    said, beside, *_ = window.messages
    assert _tell(window, [said])["show"] == [{"id": "msg_1", "only": "typed"}]
    assert _tell(window, [beside])["show"] == [{"id": "msg_1", "only": "written"}]
    assert _tell(window, [said, beside])["show"] == [{"id": "msg_1"}]


def test_shorter_results_and_calls_are_told_by_the_ids_of_their_calls() -> None:
    window = read_window([typed(1, "Read it."), answered(2, "Yes.", "rows")])
    asked, _, _ = window.messages
    call: JsonObject = {"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "…"}}
    result: JsonObject = {"type": "tool_result", "tool_use_id": "c2", "content": "r…"}
    told = _tell(
        window,
        [asked, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}],
    )
    assert told["show"] == [{"id": "msg_1"}, {"id": "msg_2"}]
    assert told["outputs"] == {"c2": "r…"}
    assert told["inputs"] == {"c2": {"path": "…"}}


def test_a_message_that_says_nothing_stays_before_the_one_it_stood_before() -> None:
    silent = {"info": {"id": "msg_0", "role": "user"}, "parts": [{"type": "compaction"}]}
    window = read_window([silent, answered(1, "A summary."), {**silent, "info": {"id": "msg_9"}}])
    assert _tell(window, window.messages)["show"] == [
        {"id": "msg_0"},
        {"id": "msg_1"},
        {"id": "msg_9"},
    ]


async def test_a_host_is_given_our_prompt_and_the_record_where_that_is_wished(
    tmp_path: Path,
) -> None:
    async with workspace_in(tmp_path) as work:
        views = await views_on(work)
        assert await views.view_for("opencode", CHAT, history(1)) is not None
        assert await views.handover_for("opencode", CHAT) is None
        views.prompt = "Write the handover."
        told = await views.handover_for("opencode", CHAT)
        assert told is not None
        prompt, behind = str(told["prompt"]), str(told["behind"])
        assert prompt.startswith("Write the handover.\n\nThe record of what was said")
        assert behind.startswith(f"\n\n{PUT_BACK}\n")
        for text in (prompt, behind):
            assert "| I read 2." in text


def test_of_a_summary_only_what_the_model_wrote_is_its_word() -> None:
    text = f"GOAL\n- Tables.\n\n{PUT_BACK}\nm1 user\n| {RULE}"
    summary = answered(5, text)
    summary["info"] |= {"summary": True, "time": {"created": 1}}
    (message,) = messages_in(summary["info"], summary["parts"])
    assert "Tables." in message.raw
    assert RULE not in message.raw
