"""A caller's own history on a real store: what of it is sent, and what is kept of it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FitOptions, PinWish
from mcp_compaction.errors import MalformedMessage
from mcp_compaction.model import Compaction, Shape
from mcp_compaction.ports import Scope
from tests.checkers import changed_thinking, problems
from tests.compactor.small_session import (
    WINDOW_FULL,
    assistant,
    called,
    count_log,
    fit,
    long_history,
    open_session,
    ours,
    pin_from_terminal,
    user,
)
from tests.strategies import SHAPES

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
SECRET = "sk-ant-api03-" + "Zx9" * 30


# Own objects


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_stays_as_it_was_said_is_the_same_object(tmp_path: Path, shape: Shape) -> None:
    history = long_history(shape)
    async with open_session(tmp_path) as (work, info):
        fitted = await compactor.fit(work, info, history)
        assert [id(obj) for obj in fitted.messages] == [id(obj) for obj in history]
        assert isinstance(await compactor.compress(work, info, WINDOW_FULL), Compaction)
        sent = await fit(work, info, history)
        own = {id(obj) for obj in history}
        assert sent[0] is history[0]
        assert sent[-1] is history[-1]
        assert sum(id(obj) in own for obj in sent) > 2
        assert len(sent) < len(history)
        assert problems(sent, shape) == []
        assert changed_thinking(history, sent) == []


async def test_marks_foreign_keys_and_signatures_are_sent_as_they_came(tmp_path: Path) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}
    text = {"type": "text", "text": "Go.", "cache_control": {"type": "ephemeral"}}
    history: list[Json] = [
        {"role": "user", "content": [text], "x_of_the_host": 1},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "Going."}]},
        user("And then?"),
    ]
    before = json.dumps(history)
    async with open_session(tmp_path) as (work, info):
        await pin_from_terminal(work, info, "Never push.")
        sent = await fit(work, info, history)
    assert [sent[0], *sent[2:]] == history
    assert json.dumps(history) == before


async def test_a_moved_cache_mark_makes_no_new_message(tmp_path: Path) -> None:
    marked = {"type": "text", "text": "Go.", "cache_control": {"type": "ephemeral"}}
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, [{"role": "user", "content": [marked]}])
        fitted = await compactor.fit(work, info, [user("Go."), assistant("Gone."), user("Thanks.")])
        assert fitted.recorded.seqs == (1, 2, 3)
        assert fitted.recorded.new == 2


async def test_a_secret_is_masked_on_disk_and_whole_in_what_is_sent(tmp_path: Path) -> None:
    history = [user(f"The key is {SECRET}."), *called("t1", f"ANTHROPIC_API_KEY={SECRET}")]
    async with open_session(tmp_path) as (work, info):
        first = await compactor.fit(work, info, history)
        await compactor.record_answer(work, info, assistant(f"I have {SECRET} now."))
        history += [assistant(f"I have {SECRET} now."), user("Good.")]
        second = await compactor.fit(work, info, history)
        assert sum(first.recorded.masked.values()) == 2
        assert (second.messages, second.recorded.new) == (history, 1)
    for file in tmp_path.iterdir():
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


async def test_a_large_head_is_cut_in_a_copy_of_the_callers_object(tmp_path: Path) -> None:
    asked = {"role": "user", "content": "Sort these parcels. " + "parcel 12 " * 2_000, "mine": 1}
    history = [asked, *long_history()[1:]]
    async with open_session(tmp_path) as (work, info):
        first: list[Any] = await fit(work, info, history)
        assert first[0]["mine"] == 1
        assert len(first[0]["content"]) < len(str(asked["content"]))
    for style in (history, first):  # both are known again when nothing is remembered
        async with open_session(tmp_path) as (work, info):
            fitted = await compactor.fit(work, info, style, FitOptions(relieve=False))
            assert fitted.recorded.new == 0
            assert json.dumps(fitted.messages) == json.dumps(first)


# Pins


async def test_pins_of_the_project_stand_behind_the_first_request_and_stay_there(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path, name="other") as (work, info):
        await compactor.pin(work, info, PinWish("Never push.", by="user", scope="project"))
    async with open_session(tmp_path) as (work, info):
        history = [user("Begin."), assistant("Begun."), user("Go on.")]
        first = await fit(work, info, history)
        assert ours(first) == [first[1]["content"]]
        assert "Never push." in first[1]["content"]
        later = await fit(work, info, [*history, assistant("On."), user("More.")])
        assert json.dumps(later[: len(first)]) == json.dumps(first)


@pytest.mark.parametrize("is_told", [False, True])
async def test_a_released_pin_leaves_at_once(tmp_path: Path, is_told: bool) -> None:
    history = [user("Begin.")]
    async with open_session(tmp_path) as (work, info):
        if is_told:
            await compactor.fit(work, info, history)
            history += [assistant("Begun."), user("Go on.")]
        ref = await pin_from_terminal(work, info, "Never push.")
        assert len(ours(await fit(work, info, history))) == 1
        await compactor.unpin(work, info, ref, by="user")
        assert await fit(work, info, history) == history


# One way of each shape is enough after every change; the other three are for the thorough run.
@pytest.mark.parametrize(
    ("shape", "replaces"),
    [
        ("anthropic", False),
        ("openai", True),
        ("responses", False),
        pytest.param("anthropic", True, marks=pytest.mark.thorough),
        pytest.param("openai", False, marks=pytest.mark.thorough),
        pytest.param("responses", True, marks=pytest.mark.thorough),
    ],
)
async def test_what_was_sent_stays_the_same_between_compactions(
    tmp_path: Path, shape: Shape, replaces: bool
) -> None:
    said = long_history(shape, 30)
    history: list[Json] = []
    sent: list[Json] = []
    compactions = 0
    async with (
        open_session(tmp_path) as (work, info),
        open_session(tmp_path) as (second, same),
    ):
        await pin_from_terminal(work, info, "Never push.")
        for start in range(0, len(said), 6):
            history = [*history, *said[start : start + 6]]
            writer, name = (second, same) if start % 4 else (work, info)
            fitted = await compactor.fit(writer, name, history)
            if isinstance(fitted.outcome, Compaction):
                compactions += 1
            else:
                assert json.dumps(fitted.messages[: len(sent)]) == json.dumps(sent)
            sent = fitted.messages
            assert json.dumps(sent).count("Never push.") == 1
            history = sent if replaces else history
            async with open_session(tmp_path) as (anew, info_anew):
                again = await compactor.fit(anew, info_anew, history)
                assert json.dumps(again.messages) == json.dumps(sent)
                assert again.recorded.new == 0
        assert compactions > 0
        assert await count_log(work, info) == len(said)


# Answers that are recorded first

ANSWERS: dict[Shape, tuple[Json, list[Json]]] = {
    "anthropic": (
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "Done.", "citations": None}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 90, "output_tokens": 10},
        },
        [{"role": "assistant", "content": [{"type": "text", "text": "Done."}]}],
    ),
    "openai": (
        {
            "choices": [
                {
                    "message": {
                        "role": "assistant",
                        "content": "Done.",
                        "refusal": None,
                        "annotations": [],
                    }
                }
            ],
            "usage": {"prompt_tokens": 90, "completion_tokens": 10},
        },
        [{"role": "assistant", "content": "Done."}],
    ),
    "responses": (
        {
            "output": [
                {
                    "id": "msg_1",
                    "type": "message",
                    "status": "completed",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
                }
            ],
            "usage": {"input_tokens": 90, "output_tokens": 10},
        },
        [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Done."}],
            }
        ],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("restarts", [False, True])
async def test_an_answer_that_comes_back_with_other_keys_is_the_same_message(
    tmp_path: Path, shape: Shape, restarts: bool
) -> None:
    answer, appended = ANSWERS[shape]
    history = [user("Do it.")]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        assert (await compactor.record_answer(work, info, answer)).seqs == (2,)
        assert (await work.read_window(info)).fill.tokens in (99, 100)
        history += [*appended, user("Thanks.")]
        if not restarts:
            fitted = await compactor.fit(work, info, history)
            assert (fitted.recorded.seqs, fitted.recorded.new) == ((1, 2, 3), 1)
    async with open_session(tmp_path) as (work, info):
        fitted = await compactor.fit(work, info, history)
        assert fitted.recorded.seqs == (1, 2, 3)
        assert [id(obj) for obj in fitted.messages] == [id(obj) for obj in history]


# Offloading


async def test_a_large_result_is_a_preview_from_its_arrival_on(tmp_path: Path) -> None:
    text = "\n".join(f"row {n} of parcels" for n in range(900))
    history = [user("Which row has parcel 417?"), *called("t1", text)]
    async with open_session(tmp_path) as (work, info):
        fitted = await compactor.fit(work, info, history, FitOptions(offload_over_tokens=500))
        shown = json.dumps(fitted.messages[-1])
        assert len(shown) < 1_200
        assert "recall_archived refs m3" in shown
        assert fitted.fill.tokens < 1_000
        assert history[-1]["content"][0]["content"] == text
        for style in (history, fitted.messages):
            longer = [*style, assistant("Row 417."), user("Good.")]
            sent = await fit(work, info, longer, FitOptions(offload_over_tokens=500))
            assert json.dumps(sent[:3]) == json.dumps(fitted.messages)
        quotes = await compactor.quote(work, info, "m3")
        assert quotes[0].text == text


async def test_an_offloaded_result_is_whole_again_when_it_is_paged_in(tmp_path: Path) -> None:
    text = "row of parcels\n" * 500
    history = [user("Count."), *called("t1", text)]
    async with open_session(tmp_path) as (work, info):
        cut = await compactor.fit(work, info, history, FitOptions(offload_over_tokens=500))
        await compactor.page_in(work, info, "m3")
        for style in (history, cut.messages):
            sent = await fit(work, info, style, FitOptions(offload_over_tokens=500))
            assert sent[-1]["content"][0]["content"] == text


async def test_nothing_is_left_of_an_offloaded_message_that_is_forgotten(tmp_path: Path) -> None:
    history = [user("Count."), *called("t1", "row of zebras\n" * 500)]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history, FitOptions(offload_over_tokens=500))
        await compactor.forget(work, Scope(project=info.project, session=info.id), "m3")
        assert "zebras" not in json.dumps(await compactor.context(work, info))
    with sqlite3.connect(tmp_path / "store.db") as connection:
        assert "zebras" not in "\n".join(connection.iterdump())
    connection.close()


async def test_a_text_as_the_input_of_a_request_is_a_message(tmp_path: Path) -> None:
    async with open_session(tmp_path) as (work, info):
        fitted = await compactor.fit(work, info, {"model": "m", "input": "Hello."})
        assert fitted.request == {"model": "m", "input": [user("Hello.")]}


@pytest.mark.parametrize("sent", [[], {}, "text", [1], {"messages": {}}])
async def test_what_is_no_history_is_refused_with_the_next_step(
    tmp_path: Path, sent: object
) -> None:
    async with open_session(tmp_path) as (work, info):
        with pytest.raises(MalformedMessage, match="send the list of messages"):
            await compactor.fit(work, info, sent)
