"""The command `audit`: one screen, one chat, a page, a document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.audit.chats import RULE, SUMMARY, ClaudeChat
from tests.cli.conftest import Shell


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """A folder with a chat that was compacted, and files that are none."""
    folder = tmp_path / "chats"
    folder.mkdir()
    chat = ClaudeChat(folder)
    chat.ask(RULE)
    chat.call("Read", "def load(): ...\n" * 40, file_path="src/load.py")
    chat.compact(SUMMARY, durationMs=20_000)
    chat.call("Bash", "ok", command="psql -h prod-db-2 -f migrate.sql")
    (folder / "empty.jsonl").write_text("", encoding="utf-8")
    (folder / "foreign.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    return folder


def test_one_screen_tells_what_was_lost_and_quotes_the_worst(shell: Shell, chats: Path) -> None:
    ran = shell.bare("eval", "audit", str(chats))
    assert (ran.code, ran.err) == (0, "")
    assert "1 compaction by hosts in 1 chat; 1 of 1 rule not word for word" in ran.out
    assert f"the rule   {RULE}   [u1]" in ran.out
    assert "the call   psql -h prod-db-2 -f migrate.sql   [u" in ran.out
    assert "said nowhere before, but in a summary: 1 name" in ran.out
    assert "they took: 20 s of waiting, " in ran.out
    assert "not read: " in ran.out
    assert len(ran.out.splitlines()) <= 40
    assert not list(shell.folder.rglob("store.db"))


def test_one_chat_is_shown_in_full_by_the_start_of_its_id(shell: Shell, chats: Path) -> None:
    out = shell.bare("eval", "audit", str(chats), "--show", "3f2a").out
    assert "90,000 tokens before, 4,000 after; manual" in out
    assert f"gone: {RULE}" in out
    assert "said nowhere before: src/ghost_file.py" in out


def test_the_page_loads_nothing_and_runs_nothing(shell: Shell, chats: Path, tmp_path: Path) -> None:
    evil = ClaudeChat(chats, session="evil")
    evil.ask("Never show <script>alert(1)</script> to anybody.")
    evil.compact("<img src=x onerror=alert(1)>")
    page = tmp_path / "audit.html"
    assert shell.bare("eval", "audit", str(chats), "--html", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "<img" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert RULE in text


def test_the_bars_of_the_page_have_names_and_numbers_and_its_chats_have_titles(
    shell: Shell, chats: Path, tmp_path: Path
) -> None:
    page = tmp_path / "audit.html"
    shell.bare("eval", "audit", str(chats), "--html", str(page))
    text = page.read_text(encoding="utf-8")
    assert re.search(r">rules</text>.*>0 of 1</text>.*>1 of 1</text>", text)
    assert f"<summary>&quot;{RULE}&quot;, 3f2a91c0-chat, compaction 1 by claude-code" in text


def test_waits_are_said_to_be_told_for_some_and_what_is_known_for_all_is_not(
    shell: Shell, chats: Path
) -> None:
    other = ClaudeChat(chats, session="other")
    other.ask("one")
    other.compact("a summary")
    out = shell.bare("eval", "audit", str(chats)).out
    assert "they took: 20 s of waiting (told for 1 of 2)" in out


def test_programs_read_one_document(shell: Shell, chats: Path) -> None:
    told = shell.bare("eval", "audit", str(chats), "--json").json()
    (finding,) = told["findings"]
    assert (finding["chat"], finding["trigger"]) == ("3f2a91c0-chat", "manual")
    assert told["chats"] == 1
    assert len(told["skipped"]) == 2


def test_without_a_compaction_it_says_what_to_do_instead(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    ClaudeChat(folder).ask("one")
    out = shell.bare("eval", "audit", str(folder)).out
    assert "Nothing was compacted here." in out
    assert "eval claude-code" in out


def test_where_no_chat_is_found_it_says_so_and_sends_nobody_on(shell: Shell) -> None:
    ran = shell.bare("eval", "audit")
    assert ran.code == 0
    assert "No chat was found" in ran.out
    assert "eval claude-code" not in ran.out
