"""One session from its first message to its last byte, as a person at a shell lives it."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from pathlib import Path

import pytest

from mcp_compaction.formats import validate
from mcp_compaction.model import Shape
from tests.cli.conftest import CHAT, Shell, json_lines
from tests.strategies import SHAPES, coding_session


def test_a_session_is_recorded_compressed_shown_recalled_restored_and_forgotten(
    shell: Shell,
) -> None:
    chat = shell.folder / "chat.jsonl"
    chat.write_bytes(CHAT)
    said = shell.done("record", str(chat), "--session", "tax-2026", "--window", "12000")
    assert "recorded 81 messages in the new session tax-2026: m1..m81\n" in said
    assert "of 12k tokens" in said
    assert "81 messages of these were known already" in shell.done(
        "record", str(chat), "--session", "tax-2026"
    )
    assert shell.done("sessions").startswith(
        'tax-2026  "Fix the rate limiter in src/api/limits.py. Never push to …"  81 messages'
    )
    assert "compressing now would free at least" in shell.done("stats")

    person = shell.as_user()
    assert person.done("pin", "Never push to main.", "--expires", "2d").startswith(
        "p1 pinned (constraint, project, until "
    )
    assert "Nothing was changed." in shell.done("compress", "--dry-run")
    assert "Nothing was changed." in shell.done("compress", "--no-preserve-markers", "--dry-run")
    assert "boundary: none" in shell.done("show")
    receipt = shell.done("compress", "--reason", "tests are green", "--focus", "the limiter")
    assert receipt.startswith("c1 done: ")
    assert f"undo: mcp-compaction restore --home {shell.home} c1" in receipt
    shown = shell.done("show", "--full")
    assert re.search(r"\ndigest +d\d for ", shown)
    assert re.search(r"\npinned +1 whole +p1 +\d+\n", shown)
    assert "by user: Never push to main." in shown
    assert "\nboundary: m" in shown

    assert "[m1 user " in shell.done("recall", "staging", "key", "role:user")
    assert shell.done("recall", "--refs", "m1").startswith("[m1 user, as the agent told it]\n")
    first = CHAT.splitlines()[0].decode()
    assert shell.done("recall", "--refs", "m1", "--raw") == first + "\n"

    undone = shell.done("restore", "c1", "--force")
    assert "undone: c1" in undone
    assert undone.endswith(f" undo: mcp-compaction restore --home {shell.home} c2\n")
    assert "p1 Never push to main." in shell.done("pins")
    assert person.done("unpin", "p1") == "p1 released: Never push to main.\n"
    assert shell.done("pins").startswith("no pins in force")

    exported = shell.done("store export")
    assert exported.split("\n", 1)[1] == CHAT.decode()
    shell.done("store backup", str(shell.folder / "copy.db"))
    assert shell.done("doctor").startswith("no problems found\n")

    assert (
        shell.as_user()
        .done("store forget", "tax-2026", "m1", "--yes")
        .startswith("forgotten: m1 of session tax-2026\nremoved: 1 message")
    )
    assert "staging" not in shell.done("recall", "--refs", "m1")
    assert "removed: 1 session, 81 messages" in shell.as_user().done(
        "store forget", "tax-2026", "--yes"
    )
    assert shell.done("sessions").startswith("no sessions of ")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_show_gives_is_a_request_the_provider_accepts(shape: Shape, shell: Shell) -> None:
    messages = coding_session(12, 600, shape)
    shell.done("record", "--session", "s", "--shape", shape, stdin=json_lines(messages))
    shell.done("compress", "--window-tokens", "4000")
    body = json.loads(shell.done("show", "--json", "--shape", shape))
    assert validate(body["input" if shape == "responses" else "messages"], shape) == ()


def test_each_api_gets_the_system_prompt_where_it_takes_it(shell: Shell) -> None:
    body = {"system": "Be brief.", "messages": [{"role": "user", "content": "Hello there"}]}
    shell.done("record", "--session", "s", stdin=json.dumps(body).encode())
    shown = {shape: json.loads(shell.done("show", "--json", "--shape", shape)) for shape in SHAPES}
    assert set(shown["anthropic"]) == {"system", "messages"}
    assert shown["anthropic"]["system"] == "Be brief."
    assert set(shown["openai"]) == {"messages"}
    assert shown["openai"]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert [message["role"] for message in shown["openai"]["messages"]] == ["system", "user"]
    assert set(shown["responses"]) == {"instructions", "input"}
    assert shown["responses"]["instructions"] == "Be brief."
    assert "Hello there" in json.dumps(shown["responses"]["input"])


def test_record_and_doctor_say_what_was_masked(shell: Shell) -> None:
    key = "ghp_" + "a1B" * 12
    hello = {"role": "user", "content": "Hello"}
    secret = {"role": "user", "content": f"use {key}, DB_PASSWORD=hunter2hunter2"}
    assert "masked" not in shell.done("record", "--session", "s", stdin=json_lines([hello]))
    assert "masked on disk" not in shell.done("doctor")
    said = shell.done("record", "--session", "s", stdin=json_lines([secret]))
    assert "\nmasked 2 secrets before they were kept: github-token 1, password 1\n" in said
    again = shell("record", "--session", "t", "--json", stdin=json_lines([secret])).json()
    assert again["masked"] == {"github-token": 1, "password": 1}
    assert "  masked on disk: github-token 2, password 2\n" in shell.done("doctor")
    store = shell("doctor", "--json").json()["store"]
    assert store["masked"] == {"github-token": 2, "password": 2}


def test_where_masking_is_off_nothing_is_counted(shell: Shell) -> None:
    unmasked = shell.with_environ({"MCP_COMPACTION_REDACT": "false"})
    secret = json_lines([{"role": "user", "content": "DB_PASSWORD=hunter2hunter2"}])
    assert "masked" not in unmasked.done("record", "--session", "s", stdin=secret)
    assert "masked on disk" not in unmasked.done("doctor")


def test_a_history_that_differs_is_kept_beside_the_known_one(shell: Shell) -> None:
    said = ""
    for second in ("Hi", "Good day"):
        messages = [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": second},
        ]
        said = shell.done(
            "record", "--session", "s", stdin=json.dumps({"messages": messages}).encode()
        )
    assert "what was sent differs from m2, which stays as it was said" in said


def test_a_digest_of_ones_own_begins_a_session(shell: Shell) -> None:
    digest = b"DECISIONS\n- keep the token bucket in Redis\n"
    said = shell.done("compress", "--digest", "-", "--session", "plain-chat", stdin=digest)
    assert 'c1 saved as "plain-chat": ' in said
    assert "in the new session plain-chat" in said
    assert "Redis" in shell.done("show", "--full")


def test_recall_looks_beyond_the_session_when_asked(recorded: Shell) -> None:
    hello = b'{"role":"user","content":"The zebra crossing is closed"}'
    recorded.done("record", "--session", "second", stdin=hello)
    nothing = recorded.done("recall", "zebra", "--session", "tax-2026")
    assert nothing.startswith("nothing found for 'zebra' among 81 messages; ")
    for scope in ("project", "all"):
        assert "[second m1 user " in recorded.done("recall", "zebra", "--scope", scope)


def test_recall_shows_what_was_said_around_a_passage(shell: Shell) -> None:
    said = [
        {"role": "user" if n % 2 else "assistant", "content": f"line {n}\nand " + "so on " * 99}
        for n in range(1, 7)
    ]
    said[2]["content"] = "the zebra crossing is closed"
    said[3]["content"] = "another zebra"
    shell.done("record", "--session", "s", stdin=json_lines(said))
    out = shell.done("recall", "zebra crossing", "--around", "2")
    lines = out.splitlines()
    starts = [line.partition(" user")[0].partition(" assistant")[0] for line in lines]
    assert [start for start in starts if "m" in start] == [
        "  before | m1",
        "  before | m2",
        "[m3",
        "  after | m5",
        "[m4",
        "  after | m6",
    ]
    assert lines[0].startswith("  before | m1 user, as the agent told it: line 1 and so on")
    assert all(line.endswith("so on …") for line in lines if " | " in line)
    assert "m5" not in shell.done("recall", "zebra", "crossing")


def test_recall_gives_digests_pins_and_tool_calls_by_ref(recorded: Shell) -> None:
    call = re.search(rb'"id": "([^"]+)"', CHAT)
    assert call is not None
    out = recorded.done("recall", "--refs", f"p1, {call[1].decode()} d1")
    labels = [line.split()[0] for line in out.splitlines() if line.startswith(("[m", "[d1", "[p"))]
    assert labels == ["[m2", "[m3", "[d1", "[p1"]
    assert out.endswith("Never push to main; only the staging key.\n")
    kinds = [list(one) for one in recorded("recall", "--refs", "m1 d1 p1", "--json").json()]
    assert kinds == [["session", "message"], ["session", "digest"], ["session", "pin"]]


def test_an_export_is_a_new_file_of_the_owners(recorded: Shell) -> None:
    target = recorded.folder / "out.jsonl"
    assert "81 messages" in recorded.done("store export", "--output", str(target))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    ran = recorded("store export", "--output", str(target))
    assert ran.code == 2
    assert ran.err.endswith("choose a new file.\n")


def test_a_backup_is_a_sound_store(recorded: Shell) -> None:
    target = recorded.folder / "copy.db"
    recorded.done("store backup", str(target))
    connection = sqlite3.connect(target)
    assert connection.execute("SELECT count(*) FROM message").fetchone() == (81,)
    connection.close()
    assert recorded("store backup", str(target)).code == 2


def test_the_project_is_the_git_top_of_the_working_directory(
    recorded: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = recorded.folder / "repo" / "src" / "deep"
    deep.mkdir(parents=True)
    (recorded.folder / "repo" / ".git").mkdir()
    link = recorded.folder / "link"
    link.symlink_to(deep)
    monkeypatch.chdir(link)
    shell = recorded.with_environ({"MCP_COMPACTION_PROJECT": ""})
    shell.done("record", "--session", "here", stdin=b'{"role":"user","content":"Hello"}')
    (info,) = json.loads(shell.done("sessions", "--json"))
    assert info["project"] == str(Path(recorded.folder / "repo").resolve())


def test_what_is_undone_already_is_not_undone_again(recorded: Shell) -> None:
    recorded.done("restore", "c1")
    before = recorded.dump()
    again = "nothing to restore: c1 is already undone; nothing was changed.\n"
    assert recorded.done("restore", "c1") == again
    assert recorded.dump() == before
    assert "c3 restored" in recorded.done("restore", "c2")
    assert "c4 restored" in recorded.done("restore", "c1")


def test_a_rule_that_nobody_pinned_is_offered_until_it_is(shell: Shell) -> None:
    rule = "Never push to main; only the staging key."
    shell.done("record", "--session", "s", "--window", "12000", stdin=CHAT)
    offered = (
        f'rule not pinned? m1 user, as the agent told it: "{rule}"\n'
        f'to keep one in sight: mcp-compaction pin --home {shell.home} "ITS EXACT WORDS"\n'
    )
    assert offered in shell.done("stats")
    assert offered in shell.done("compress")
    (candidate,) = json.loads(shell.done("stats", "--json"))["offer"]["candidates"]
    assert candidate == {"ref": "m1", "text": rule, "is_told": True}
    shell.as_user().done("pin", rule)
    assert "not pinned" not in shell.done("stats")
