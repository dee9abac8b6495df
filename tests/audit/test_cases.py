"""Where compactions are in a transcript, and what the window held before each."""

from __future__ import annotations

from pathlib import Path

from mcp_compaction.audit.auditing import AuditCase, cases_of
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.evals.handover_sessions import turns_of
from mcp_compaction.formats import IncomingMessage
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.hosts.folders import known_hosts
from tests.audit.chats import RULE, SUMMARY, ClaudeChat, write_rollout
from tests.hosts.given_hosts import make_home


def cases_at(path: Path) -> list[AuditCase]:
    (transcript,) = transcripts_at(path, {"HOME": "/nowhere"})
    return list(cases_of(transcript))


def texts_of(messages: list[IncomingMessage]) -> list[str]:
    return [turn.text for turn in turns_of(messages)]


def test_two_compactions_of_a_chat_are_cut_apart(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask("one")
    chat.compact("first summary", durationMs=1500)
    chat.ask("two")
    chat.compact("second summary", trigger="auto")
    chat.ask("three")
    first, second = cases_at(chat.path)
    assert (texts_of(first.fresh), texts_of(first.later)) == (["one"], ["two"])
    assert (texts_of(second.fresh), texts_of(second.later)) == (["two"], ["three"])
    assert (first.told.trigger, first.told.seconds) == ("manual", 1.5)
    assert second.window_before.strip() == "first summary"
    assert (first.summary, second.summary) == ("first summary", "second summary")


def test_a_chat_has_the_title_of_its_host_or_the_first_words_of_its_user(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask("<command-name>/model</command-name>")
    chat.ask("Why does the importer lose rows?")
    chat.compact("a summary")
    (case,) = cases_at(chat.path)
    assert case.title == "Why does the importer lose rows?"
    chat.name("Lost rows")
    chat.compact("another summary")
    assert [case.title for case in cases_at(chat.path)] == [case.title, "Lost rows"]


def test_what_the_host_kept_stands_whether_it_is_named_or_written_again(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    first, second = chat.ask("the first words"), chat.say("the second words")
    chat.compact("a summary", kept=(first,))
    chat.write_again(second)
    chat.ask("on")
    (case,) = cases_at(chat.path)
    assert texts_of(case.kept) == ["the first words", "the second words"]
    assert texts_of(case.later) == ["on"]


def test_a_compaction_of_ours_is_told_apart(tmp_path: Path) -> None:
    chat = ClaudeChat(tmp_path)
    chat.ask("one")
    chat.compact_by_us(f"{PINNED_LABEL}\np1 constraint, by user: {RULE}")
    chat.ask("two")
    (case,) = cases_at(chat.path)
    assert case.is_ours


def test_codex_tells_the_summary_and_what_stays(tmp_path: Path) -> None:
    def said(role: str, text: str) -> dict[str, object]:
        kind = "input_text" if role == "user" else "output_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    path = tmp_path / "rollout-2026-11-02.jsonl"
    history = [said("user", "first words"), said("user", SUMMARY)]
    write_rollout(
        path,
        [
            ("response_item", said("user", RULE)),
            ("compacted", {"message": SUMMARY, "replacement_history": history}),
            ("response_item", said("assistant", "on")),
            ("compacted", {"message": "again"}),
        ],
    )
    first, second = cases_at(path)
    assert (first.summary, first.told.kept_text) == (SUMMARY, "first words")
    assert texts_of(first.fresh) == [RULE]
    assert (second.summary, second.told.kept_text) == ("again", "")


def test_in_the_files_of_real_hosts_each_compaction_is_found_once(tmp_path: Path) -> None:
    make_home(tmp_path)
    environ = {"HOME": str(tmp_path)}
    paths = [path for host in known_hosts() for path in host.find_transcripts(environ)]
    transcripts = [one for path in paths for one in transcripts_at(path, environ)]
    cases = [case for transcript in transcripts for case in cases_of(transcript)]
    found = {case.host: (case.number, case.told.trigger, len(case.fresh)) for case in cases}
    assert found == {
        "claude-code": (1, "manual", 10),
        "codex": (1, "", 11),
        "opencode": (1, "auto", 8),
    }
    assert len(cases) == 3
    assert all(case.summary and case.later for case in cases)
