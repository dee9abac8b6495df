"""A caller goes on with a view in which a digest has no line left to tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import open_store

pytestmark = pytest.mark.anyio

TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Go."},
    *(
        {"role": role, "content": f"{name}: {number} so it goes, and on and on it goes. " * 8}
        for number in range(30)
        for role, name in (("assistant", "Ada"), ("user", "Kim"))
    ),
]


async def test_a_caller_may_go_on_with_a_view_without_empty_digests_after_a_restart(
    tmp_path: Path,
) -> None:
    async with open_store(home=tmp_path, project="/p", window_tokens=20_000) as store:
        session = await store.session("work")
        await session.fit(TALK)
        await session.pin("The port is 8443.", kind="fact")
        await session.compress("on", target_percent=10, force=True)
        laid = json.loads(json.dumps((await session.fit(TALK)).messages))
    assert "The port is 8443." in laid[1]["content"]
    assert not any(message["content"].startswith("[digest d") for message in laid)

    more = [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on."}]
    async with open_store(home=tmp_path, project="/p", window_tokens=20_000) as store:
        session = await store.session("work")
        fitted = await session.fit([*laid, *more])
        assert fitted.messages == [*laid, *more]
        known = await store.session("work")
        assert known.info.messages == len(TALK) + len(more)
