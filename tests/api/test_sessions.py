"""A session through the public API: what is kept, sent, made smaller, refused."""

from __future__ import annotations

import json
import subprocess
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import anyio
import pytest
from anthropic.types import Message as AnswerOfSdk
from anthropic.types import TextBlock, Usage
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction import Compaction, Projection, errors, open_store
from mcp_compaction.model import Shape
from tests.checkers import problems
from tests.strategies import Scene, coding_session, scripts, write

pytestmark = pytest.mark.anyio

LISTS = {"anthropic": "messages", "openai": "messages", "responses": "input"}
shapes: st.SearchStrategy[Shape] = st.sampled_from(["anthropic", "openai", "responses"])


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True)


async def _request_after(home: Path, shape: Shape, *sent: Any) -> list[Any]:
    async with open_store(home=home, project="/p") as store:
        session = await store.session("work")
        for messages in sent:
            await session.record(messages)
        return (await session.request(shape))[LISTS[shape]]


@settings(max_examples=8)
@given(script=scripts(min_steps=1), shape=shapes)
async def test_a_list_in_any_shape_is_what_a_request_in_that_shape_shows(
    script: list[Scene], shape: Shape
) -> None:
    messages = write(script, shape)
    with TemporaryDirectory() as home:
        shown = await _request_after(Path(home), shape, messages)
    assert shown == messages
    assert problems(shown, shape) == []


@settings(max_examples=8)
@given(script=scripts(min_steps=2), shape=shapes, cut=st.integers(0, 40))
async def test_whole_bodies_sent_again_and_again_are_kept_once(
    script: list[Scene], shape: Shape, cut: int
) -> None:
    messages, key = write(script, shape), LISTS[shape]
    bodies = [{key: messages[:cut]}, {key: messages}, {key: messages}]
    with TemporaryDirectory() as home:
        assert await _request_after(Path(home), shape, *bodies) == messages


async def test_a_compaction_is_smaller_valid_and_undone_byte_for_byte(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, window_tokens=12_000) as store:
        session = await store.session("work", model="claude-opus-5")  # which keeps all its thinking
        recorded = await session.record(tuple(coding_session(40, 300)))
        assert recorded.refs == tuple(f"m{n}" for n in range(1, recorded.new + 1))
        before = await session.request()
        projected = await session.compress("look first", dry_run=True)
        done = await session.compress("all read")
        after = await session.request()
        assert isinstance(projected, Projection)
        assert isinstance(done, Compaction)
        assert done.receipt.after < done.receipt.before
        assert len(_dump(after)) < len(_dump(before))
        assert problems(after["messages"], "anthropic") == []
        (quote,) = await session.quote("d1")
        assert quote.of == "digest"
        await session.restore(done.receipt.ref, force=True)
        assert _dump(await session.request()) == _dump(before)


async def test_the_window_is_relieved_only_where_it_is_too_full(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, window_tokens=12_000) as store:
        session = await store.session("work")
        await session.record(list(coding_session(5, 300)))
        assert await session.relieve() is None
        await session.record(list(coding_session(60, 300))[-90:])
        assert isinstance(await session.relieve(), Compaction)
        assert (await session.stats()).fill.percent < 95


async def test_none_unsets_what_a_setting_may_be_without_and_is_the_default_elsewhere() -> None:
    async with open_store(preserve_recent_percent=None, release_percent=None) as store:
        assert store.settings.policy.preserve_recent_percent is None
        assert store.settings.policy.release_percent == 60


async def test_the_project_is_the_one_named_else_the_repository_one_works_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "repository" / "src"
    inside.mkdir(parents=True)
    await anyio.to_thread.run_sync(
        lambda: subprocess.run(["git", "init", "-q", inside.parent], check=True)
    )
    monkeypatch.chdir(inside)
    async with open_store(home=tmp_path / "home") as store:
        assert store.project == str(inside.parent.resolve())
    async with open_store(home=tmp_path / "home", project=inside) as store:
        assert store.project == str(inside.resolve())


async def test_a_project_that_is_not_to_be_recorded_is_not(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/secret", record=False) as store:
        session = await store.session("work")
        for call in (
            session.record({"role": "user", "content": "Hello."}),
            session.pin("A rule."),
            session.compress("now", digest="FACTS\n- one"),
        ):
            with pytest.raises(errors.InputError, match=r"nothing was kept. Set `record` to"):
                await call
        assert (await session.request())["messages"] == []


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ("Hello.", "send a message, a list of messages or a request body."),
        (7, "send a message, a list of messages or a request body."),
        ([], "send at least one."),
        ({"content": "Hello."}, "say user, assistant or system."),
        ([{"role": "user", "content": [object()]}], "send what its to_dict() gives."),
    ],
)
async def test_what_is_no_message_is_refused_with_the_next_step(
    messages: Any, said: str, tmp_path: Path
) -> None:
    async with open_store(home=tmp_path) as store:
        session = await store.session("work")
        with pytest.raises(errors.MalformedMessage) as caught:
            await session.record(messages)
        assert str(caught.value).endswith(said)
        assert session.info == (await store.session("work")).info


async def test_an_answer_of_the_sdk_is_kept_with_its_usage_and_sent_back_without(
    tmp_path: Path,
) -> None:
    answer = AnswerOfSdk(
        id="msg_1",
        type="message",
        role="assistant",
        model="claude-sonnet-4-5",
        content=[TextBlock(type="text", text="Hi.")],
        usage=Usage(input_tokens=3_000, output_tokens=3),
    )
    async with open_store(home=tmp_path) as store:
        session = await store.session("work")
        await session.record({"role": "user", "content": "Hello. " * 1_000})
        uncalibrated = (await session.stats()).fill.tokens
        await session.record(answer.to_dict())
        assert (await session.stats()).fill.tokens > uncalibrated + 500
        last = (await session.request())["messages"][-1]
        assert last == {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]}
        assert session.info.traits.model == "claude-sonnet-4-5"
        other = await store.session("other")
        await other.record({"role": "user", "content": "Hello. " * 1_000})
        await other.record_answer(answer)
        assert (await other.request())["messages"][-1] == last
        assert (await other.stats()).fill == (await session.stats()).fill


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("request", {"shape": "gemini"}, "use anthropic, openai or responses."),
        ("compress", {"reason": "now", "strategy": "drop"}, "use summarize or archive."),
        ("compress", {"reason": " "}, "say in a few words why now."),
        ("compress", {"reason": "now", "span": "m4"}, "write it as m12..m40."),
        ("compress", {"reason": "now", "target_percent": 100}, "above 0 and below 100."),
        ("pin", {"text": "x", "by": "User"}, "use user or agent."),
        ("pin", {"text": "x", "kind": "rule"}, "use constraint, open_task, fact or note."),
        ("pin", {"text": "x", "scope": "all"}, "use session, project or global."),
        ("pin", {"text": "x", "expires": datetime(2030, 1, 1)}, "add one, as tzinfo=UTC."),  # noqa: DTZ001
        ("unpin", {"ref": "p1", "by": ""}, "use user or agent."),
        ("unpin", {"ref": "p1"}, "there are: none."),
        ("recall", {"query": "x", "scope": "world"}, "use session, project or all."),
        ("recall", {"query": " "}, "pass words or an identifier."),
        ("restore", {"ref": "c1"}, "the newest are: none yet."),
        ("quote", {"refs": "m9"}, "search by words instead."),
        ("page_in", {"refs": "d1"}, "write m42 or m12..m40."),
    ],
)
async def test_a_call_that_cannot_be_carried_out_says_the_next_step(
    method: str, arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    async with open_store(home=tmp_path) as store:
        session = await store.session("work")
        with pytest.raises(errors.InputError) as caught:
            await getattr(session, method)(**arguments)
        assert str(caught.value).endswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "\n"}, "write one such as tax-2026."),
        ({"name": "work", "window_tokens": 0}, "pass its size in tokens, as 200000."),
        ({"name": "work", "complexity": "hard"}, "use simple, medium, complex or epic."),
        ({"name": "work", "agent_profile": "shy"}, "use plain, verbose or deliberative."),
    ],
)
async def test_a_session_that_cannot_be_is_refused_and_never_stored(
    arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    async with open_store(home=tmp_path) as store:
        known = await store.session("work")
        with pytest.raises(errors.InputError) as caught:
            await store.session(**arguments)
        assert str(caught.value).endswith(said)
        assert (await store.session("work")).info.traits == known.info.traits


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"windw_tokens": 1}, "windw_tokens= is no setting: did you mean window_tokens?"),
        ({"window_tokens": -1}, "window_tokens= is -1: it should be greater than 0; change or"),
        ({"preset": "labb"}, "preset= is 'labb', which is no preset: did you mean lab?"),
    ],
)
def test_a_setting_that_has_no_meaning_is_named_as_it_was_written(
    keywords: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        open_store(**keywords)
    assert str(caught.value).startswith(said)


async def test_a_closed_store_says_that_it_is_to_be_opened_again(tmp_path: Path) -> None:
    async with open_store(home=tmp_path) as store:
        session = await store.session("work")
    with pytest.raises(errors.StoreError, match="open it again"):
        await session.pins()


async def test_the_store_is_closed_when_its_block_fails(tmp_path: Path) -> None:
    opening = open_store(home=tmp_path)
    async with AsyncExitStack() as stack:
        stack.enter_context(pytest.raises(errors.UnknownRef))
        store = await stack.enter_async_context(opening)
        session = await store.session("work")
        await session.record({"role": "user", "content": "Hello."})
        await session.restore("c9")
    with pytest.raises(errors.StoreError, match="open it again"):
        await session.stats()
    async with opening as store:
        messages = (await (await store.session("work")).request())["messages"]
    assert messages == [{"role": "user", "content": "Hello."}]


async def test_what_one_handle_sets_is_not_undone_by_an_older_one(tmp_path: Path) -> None:
    async with open_store(home=tmp_path, project="/p") as store:
        old = await store.session("work")
        await store.session("work", window_tokens=9_000, complexity="complex")
        await old.record({"model": "some-model", "messages": [{"role": "user", "content": "Hi."}]})
        traits = (await store.session("work")).info.traits
        assert (traits.model, traits.window_tokens) == ("some-model", 9_000)
        assert traits.complexity == "complex"


async def test_arguments_of_a_wrong_kind_are_refused_with_the_next_step(tmp_path: Path) -> None:
    wrong = cast("Any", 5)
    async with open_store(home=tmp_path, project="/p") as store:
        session = await store.session("work")
        await session.record({"role": "user", "content": "Hi."})
        for call in (
            lambda: session.compress(wrong),
            lambda: session.compress("now", target_percent=cast("Any", "half")),
            lambda: session.compress("now", span=wrong),
            lambda: session.pin(wrong),
            lambda: session.recall(wrong),
            lambda: session.recall("hi", max_tokens=-1),
            lambda: session.recall("hi", skip=-1),
            lambda: session.quote(wrong),
            lambda: session.page_in(wrong),
            lambda: session.restore(wrong),
        ):
            with pytest.raises(errors.InputError, match=r"; (?:pass|write)"):
                await call()
