"""A value that was masked once in a session is masked everywhere that it is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.errors import PinRefused
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask
from tests.compactor.small_session import assistant, open_session, user

pytestmark = pytest.mark.anyio

_KEY = "D4w8z9wKN1aVeT3BpQj6" + "kIuN7wH8X0M9KfV5OqzF"
_MASK = "[masked:aws-secret-key]"
_NAMED = user(f"AWS_SECRET_ACCESS_KEY={_KEY}")
_CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"grep -r {_KEY} ."}}
    ],
}
_RESULT: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t1", "content": f"a.py:\nkey = {_KEY}"}],
}


def _bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "batch", [[_NAMED, _CALL, _RESULT], [_CALL, _RESULT, assistant("Found."), _NAMED]]
)
async def test_a_value_is_masked_in_all_that_is_recorded_with_it(
    tmp_path: Path, batch: list[dict[str, Any]]
):
    async with open_session(tmp_path) as (work, info):
        done = await compactor.record(work, info, read_incoming(batch))
        assert done.masked == {"aws-secret-key": 3}
        found = await compactor.originals(work, info, f"m1..m{len(batch)}")
        kept = [json.loads(original.message.raw) for original in found]
        assert kept == json.loads(json.dumps(batch).replace(_KEY, _MASK))
    assert _KEY.encode() not in _bytes_of(tmp_path)


async def test_a_value_that_comes_later_or_in_another_process_is_masked(tmp_path: Path):
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming([_NAMED]))
        await compactor.record(work, info, read_incoming([_CALL]))
    async with open_session(tmp_path) as (work, info):
        done = await compactor.record(work, info, read_incoming([_RESULT]))
        assert done.masked == {"aws-secret-key": 1}
        await compactor.record_answer(work, info, assistant(f"It is {_KEY}."))
        ask = Ask(reason="test", digest=f"## State\n- the key is {_KEY}", force=True)
        await compactor.compress(work, info, ask)
        assert "secret" not in str((await compactor.read_stats(work, info)).events).lower()
    assert _KEY.encode() not in _bytes_of(tmp_path)


async def test_a_value_that_another_process_named_meanwhile_is_masked(tmp_path: Path):
    async with open_session(tmp_path) as (server, info):
        await compactor.record(server, info, read_incoming([user("hello there")]))
        async with open_session(tmp_path) as (hook, same):
            assert same.id == info.id
            await compactor.record(hook, same, read_incoming([_NAMED]))
        done = await compactor.record(server, info, read_incoming([_CALL]))
        assert done.masked == {"aws-secret-key": 1}
        await compactor.record_answer(server, info, assistant(f"It is {_KEY}."))
        ask = Ask(reason="test", digest=f"## State\n- the key is {_KEY}", force=True)
        await compactor.compress(server, info, ask)
        with pytest.raises(PinRefused, match="aws-secret-key"):
            await compactor.pin(server, info, PinWish(f"Always use {_KEY} here.", by="user"))
    assert _KEY.encode() not in _bytes_of(tmp_path)


async def test_a_pin_with_a_masked_value_is_refused(tmp_path: Path):
    async with open_session(tmp_path) as (work, info):
        await compactor.record(work, info, read_incoming([_NAMED]))
        with pytest.raises(PinRefused, match="aws-secret-key"):
            await compactor.pin(work, info, PinWish(f"Always use {_KEY} here.", by="user"))


async def test_a_message_stays_the_same_one_when_its_value_is_named_later(tmp_path: Path):
    history = [user("find it"), _CALL, _RESULT]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, {"messages": history})
        history += [assistant("Found."), _NAMED]
        await compactor.fit(work, info, {"messages": history})
    async with open_session(tmp_path) as (work, info):
        fitted = await compactor.fit(work, info, {"messages": [*history, assistant("Masked.")]})
        assert fitted.recorded.diverged is None
        assert fitted.recorded.new == 1
