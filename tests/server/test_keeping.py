"""recall_archived with keep: messages go back into a window that is the caller's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.server.talking import ERAS, Era, talk, text_of
from tests.strategies import coding_session

pytestmark = pytest.mark.anyio

ROWS = [f"row {n} of the listing" for n in range(80)]
FIRST, *REST = coding_session(30, 300)
LONG = [FIRST, {"role": "assistant", "content": "\n".join(ROWS)}, *REST]


def has_all_rows(text: str) -> bool:
    return all(row in text for row in ROWS)


MORE = [
    {"role": role, "content": f"{n} of the shelf is {'full of parts ' * 30}"}
    for n in range(25)
    for role in ("user", "assistant")
]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_kept_is_in_the_next_context_and_outlives_the_next_compaction(
    tmp_path: Path, era: Era
) -> None:
    async with talk(tmp_path, era) as chat:
        await chat.say("record_messages", messages=LONG, session="loop")
        await chat.say("compress_context", session="loop", reason="done", target_percent=20)
        assert not has_all_rows(await chat.read("loop/context"))
        kept = await chat.call("recall_archived", session="loop", refs="m2", keep=True)
        said = text_of(kept)
        assert said.startswith("c2 paged in: "), said
        assert not has_all_rows(said), "it would be in the window twice"
        assert kept.meta is not None
        assert kept.meta["compaction"] == "c2"
        assert has_all_rows(json.dumps(kept.meta["replace"]))
        assert has_all_rows(await chat.read("loop/context"))
        await chat.say("record_messages", messages=MORE, session="loop", after=f"m{len(LONG)}")
        again = await chat.say("compress_context", session="loop", reason="x", target_percent=30)
        assert again.startswith("c3 done: ")
        assert has_all_rows(await chat.read("loop/context"))
        shown = await chat.say("recall_archived", session="loop", refs="m2", keep=True)
        assert shown.startswith("nothing to do: the window shows all of that whole.")
        assert ROWS[0] in shown


async def test_a_window_of_the_host_is_not_filled_and_the_words_still_come(tmp_path: Path) -> None:
    closed = {"CODEX_THREAD_ID": "t"}
    async with talk(tmp_path, environ=closed) as chat:
        await chat.say("compress_context", session="chat", reason="done", digest="FACTS\n- a fact")
        said = await chat.say("recall_archived", session="chat", refs="d1", keep=True)
        assert said.startswith("not kept in the window, which is the host's to fill; here it is")
        assert "a fact" in said
