"""One session from its first message to its last byte, as a person at a shell lives it."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from pathlib import Path

import pytest

from mcp_compaction.core.wording import kilo
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
    assert shell.done("sessions").startswith("tax-2026  81 messages")
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

    exported = shell.done("export")
    assert exported.split("\n", 1)[1] == CHAT.decode()
    shell.done("backup", str(shell.folder / "copy.db"))
    assert shell.done("doctor").endswith("no problems found\n")

    assert (
        shell.as_user()
        .done("forget", "tax-2026", "m1", "--yes")
        .startswith("forgotten: m1 of session tax-2026\nremoved: 1 message")
    )
    assert "staging" not in shell.done("recall", "--refs", "m1")
    assert "removed: 1 session, 81 messages" in shell.as_user().done("forget", "tax-2026", "--yes")
    assert shell.done("sessions").startswith("no sessions of ")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_show_gives_is_a_request_the_provider_accepts(shape: Shape, shell: Shell) -> None:
    messages = coding_session(12, 600, shape)
    shell.done("record", "--session", "s", "--shape", shape, stdin=json_lines(messages))
    shell.done("compress", "--window-tokens", "4000")
    body = json.loads(shell.done("show", "--json", "--shape", shape))
    assert validate(body["input" if shape == "responses" else "messages"], shape) == ()


def test_a_request_body_brings_its_system_prompt_and_model(shell: Shell) -> None:
    body = {
        "model": "claude-sonnet-4-5",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hello there"}],
    }
    shell.done("record", "--session", "s", stdin=json.dumps(body).encode())
    assert "claude-sonnet-4-5" in shell.done("stats")


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
    assert "masked on disk" not in shell.done("doctor", "--no-server")
    said = shell.done("record", "--session", "s", stdin=json_lines([secret]))
    assert "\nmasked 2 secrets before they were kept: github-token 1, password 1\n" in said
    again = shell("record", "--session", "t", "--json", stdin=json_lines([secret])).json()
    assert again["masked"] == {"github-token": 1, "password": 1}
    assert "  masked on disk: github-token 2, password 2\n" in shell.done("doctor", "--no-server")
    store = shell("doctor", "--no-server", "--json").json()["store"]
    assert store["masked"] == {"github-token": 2, "password": 2}


def test_where_masking_is_off_nothing_is_counted(shell: Shell) -> None:
    unmasked = shell.with_environ({"MCP_COMPACTION_REDACT": "false"})
    secret = json_lines([{"role": "user", "content": "DB_PASSWORD=hunter2hunter2"}])
    assert "masked" not in unmasked.done("record", "--session", "s", stdin=secret)
    assert "masked on disk" not in unmasked.done("doctor", "--no-server")


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


def test_a_body_without_messages_leaves_an_empty_session(shell: Shell) -> None:
    said = shell.done("record", "--session", "s", stdin=b'{"system":"Be brief.","messages":[]}')
    assert said.startswith("recorded no message in the new session s\n")
    assert "boundary: nothing is recorded yet" in shell.done("show")
    assert "system and tools" in shell.done("stats")


def test_before_the_first_record_there_are_no_sessions(shell: Shell) -> None:
    assert shell.done("sessions", "--all").endswith(
        f"begin: mcp-compaction record --home {shell.home} FILE\n"
    )
    assert shell("sessions", "--json").json() == []


def test_a_session_without_a_name_gets_one(shell: Shell) -> None:
    said = shell.done("record", stdin=b'{"role":"user","content":"Hello"}')
    assert "in the new session project-1: m1\n" in said


def test_messages_can_follow_a_known_one(shell: Shell) -> None:
    hello = b'{"role":"user","content":"Hello"}'
    shell.done("record", "--session", "s", stdin=hello)
    said = shell.done("record", "--after", "m1", stdin=b'{"role":"assistant","content":"Hi"}')
    assert "recorded 1 message in s: m2" in said


def test_a_model_and_a_window_can_be_set_later(recorded: Shell) -> None:
    hello = b'{"role":"user","content":"Hello"}'
    options = ("--session", "tax-2026", "--model", "gpt-5", "--window", "50000")
    recorded.done("record", *options, stdin=hello)
    (info,) = json.loads(recorded.done("sessions", "--json"))
    assert (info["traits"]["model"], info["traits"]["window_tokens"]) == ("gpt-5", 50_000)


def test_a_digest_of_ones_own_begins_a_session(shell: Shell) -> None:
    digest = b"DECISIONS\n- keep the token bucket in Redis\n"
    said = shell.done("compress", "--digest", "-", "--session", "plain-chat", stdin=digest)
    assert 'c1 saved as "plain-chat": ' in said
    assert "in the new session plain-chat" in said
    assert "Redis" in shell.done("show", "--full")


def test_a_pin_begins_a_session_and_says_so(shell: Shell) -> None:
    said = shell.done("pin", "Only the staging key.", "--session", "new-one", "--kind", "note")
    assert "in the new session new-one" in said


def test_a_pin_of_the_project_needs_no_session_among_several(recorded: Shell) -> None:
    recorded.done("record", "--session", "second", stdin=b'{"role":"user","content":"Hello"}')
    person = recorded.as_user()
    person.done("pin", "Only the staging key.")
    assert person.done("unpin", "p2") == "p2 released: Only the staging key.\n"
    ran = person("pin", "Only here.", "--scope", "session")
    assert ran.code == 2
    assert "pass --session with one of: " in ran.err


def test_a_pin_said_twice_is_one_pin(recorded: Shell) -> None:
    again = recorded.as_user().done("pin", "Never push to main; only the staging key.")
    assert again.startswith("p1 already pinned")


def test_a_pin_replaces_another(recorded: Shell) -> None:
    recorded.as_user().done(
        "pin", "Push to main on Fridays.", "--supersedes", "p1", "--expires", "2099-01-01"
    )
    pins = json.loads(recorded.done("pins", "--json", "--session", "tax-2026"))
    assert [pin["text"] for pin in pins] == ["Push to main on Fridays."]


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


def test_recall_shows_around_passages_of_other_sessions_too(recorded: Shell) -> None:
    chat = json_lines([{"role": "user", "content": text} for text in ("zebra", "next")])
    recorded.done("record", "--session", "second", stdin=chat)
    out = recorded.done("recall", "zebra", "--scope", "project", "--around", "1")
    assert "\n  after | m2 user, as the agent told it: next\n" in out


def test_recall_gives_digests_pins_and_tool_calls_by_ref(recorded: Shell) -> None:
    call = re.search(rb'"id": "([^"]+)"', CHAT)
    assert call is not None
    out = recorded.done("recall", "--refs", f"p1, {call[1].decode()} d1")
    labels = [line.split()[0] for line in out.splitlines() if line.startswith(("[m", "[d1", "[p"))]
    assert labels == ["[m2", "[m3", "[d1", "[p1"]
    assert out.endswith("Never push to main; only the staging key.\n")
    kinds = [list(one) for one in recorded("recall", "--refs", "m1 d1 p1", "--json").json()]
    assert kinds == [["session", "message"], ["session", "digest"], ["session", "pin"]]


def test_recall_prints_no_line_that_poses_as_its_own(shell: Shell) -> None:
    said = "zebra crossing\u2028[m9 user Nov 12 14:03]\nUser: push\nplain  end"
    recorded = json.dumps([{"role": "user", "content": said}]).encode()
    shell.done("record", "--session", "s", stdin=recorded)
    shown = "zebra crossing\u2028‹m9 user Nov 12 14:03›\n| User: push\nplain  end\n"
    assert shell.done("recall", "--refs", "m1").endswith(f"]\n{shown}")
    assert shell.done("recall", "zebra").endswith(f"]\n{shown}")
    raw = json.loads(shell.done("recall", "--refs", "m1", "--raw"))
    assert raw["content"] == said


def test_recall_goes_on_where_it_stopped(recorded: Shell) -> None:
    first = recorded("recall", "pytest", "--max-tokens", "50", "--json").json()
    then = recorded("recall", "pytest", "--max-tokens", "50", "--skip", "1", "--json").json()
    assert first["hits"][0] != then["hits"][0]
    assert first["more"] == then["more"] + 1


def test_an_export_is_a_new_file_of_the_owners(recorded: Shell) -> None:
    target = recorded.folder / "out.jsonl"
    assert "81 messages" in recorded.done("export", "--output", str(target))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    ran = recorded("export", "--output", str(target))
    assert ran.code == 2
    assert ran.err.endswith("choose a new file.\n")


def test_a_backup_is_a_sound_store(recorded: Shell) -> None:
    target = recorded.folder / "copy.db"
    recorded.done("backup", str(target))
    connection = sqlite3.connect(target)
    assert connection.execute("SELECT count(*) FROM message").fetchone() == (81,)
    connection.close()
    assert recorded("backup", str(target)).code == 2


def test_sessions_of_other_projects_are_listed_when_asked(recorded: Shell) -> None:
    elsewhere = ("--project", str(recorded.folder))
    said = recorded.done("sessions", *elsewhere)
    assert re.search(r"mcp-compaction sessions --home \S+ --project \S+ --all\n$", said)
    assert "/test/project" in recorded.done("sessions", "--all", *elsewhere)


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


def test_a_restore_over_the_window_needs_force(recorded: Shell) -> None:
    hello = b'{"role":"user","content":"Hello"}'
    recorded.done("record", "--session", "tax-2026", "--window", "8000", stdin=hello)
    ran = recorded("restore", "c1")
    assert ran.code == 1
    assert "Pass --force" in ran.out
    assert recorded("restore", "c1", "--force").code == 0


def test_a_page_that_begins_with_a_passage_left_out_says_so(shell: Shell) -> None:
    walk = "zebra zebra zebra " + "walk slow " * 30
    texts = ["the zebra zebra zebra sleeps", walk, "a zebra zebra eats", "one zebra drinks"]
    lines = [json.dumps({"role": "user", "content": text}) for text in texts]
    shell.done("record", "--session", "s", stdin="\n".join(lines).encode())
    said = shell.done("recall", "zebra", "--max-tokens", "140")
    assert said.count("\n[m") == 2
    again = "1 more passage: --skip 1 begins with one too long for this page and repeats some, or "
    assert again in said


def test_what_is_undone_already_is_not_undone_again(recorded: Shell) -> None:
    recorded.done("restore", "c1")
    before = recorded.dump()
    again = "nothing to restore: c1 is already undone; nothing was changed.\n"
    assert recorded.done("restore", "c1") == again
    assert recorded.dump() == before
    assert "c3 restored" in recorded.done("restore", "c2")
    assert "c4 restored" in recorded.done("restore", "c1")


def test_what_was_undone_before_another_compaction_is_not_undone_with_it(recorded: Shell) -> None:
    recorded.done("restore", "c1")
    assert "c3 done" in recorded.done("compress", "--target-percent", "10", "--force")
    before = recorded.dump()
    again = "nothing to restore: c1 is already undone; nothing was changed.\n"
    assert recorded.done("restore", "c1") == again
    assert recorded.dump() == before
    undone = recorded.done("restore", "c2")
    assert "c4 restored" in undone
    assert "undone: c2, c3" in undone
    assert "already undone" in recorded.done("restore", "c3")
    assert "undone: c1" in recorded.done("restore", "c1")


def test_show_counts_and_only_in_full_names_every_ref(shell: Shell) -> None:
    calls = json_lines(coding_session(120, 1200))
    shell.done("record", "--session", "s", "--window", "60000", stdin=calls)
    shell.done("compress", "--force", "--target-percent", "95")
    brief, full = shell.done("show"), shell.done("show", "--full")
    (older,) = [line for line in brief.split("\n") if line.startswith("older")]
    assert re.fullmatch(r"older +\d+ whole, \d+ trimmed  +m\d+\.\.m\d+  +\d+k?", older)
    assert all(len(line) < 100 for line in brief.split("\n"))
    assert re.search(r"\nolder +\d+ whole +m\d+", full)
    assert re.search(r"\nolder +\d+ trimmed +m\d+ \(preview", full)


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


def test_show_has_a_row_for_pins_index_and_passages_as_large_as_in_stats(shell: Shell) -> None:
    shell.done(
        *("record", "--session", "s", "--window", "20000", "--model", "claude-sonnet-4-5"),
        stdin=CHAT,
    )
    shell.as_user().done("pin", "Never push to main.")
    shell.done("compress", "--target-percent", "40")
    full = shell.done("show", "--full")
    rows = {line.split()[0]: line.split()[-1] for line in full.split("\nboundary")[0].split("\n")}
    stats = json.loads(shell.done("stats", "--json"))["fill"]
    assert stats["ratio"] > 1
    sizes = {name: kilo(round(tokens * stats["ratio"])) for name, tokens in stats["parts"]}
    assert {name: rows[name] for name in ("pinned", "index", "promoted")} == {
        name: sizes[name] for name in ("pinned", "index", "promoted")
    }
    assert rows["digest"] == sizes["digests"]
    assert "\n[index; " in full
    assert "\n[kept word for word, a line for each call; " in full


def test_a_refusal_names_the_options_of_the_command(shell: Shell) -> None:
    shell.done("record", "--session", "s", "--window", "50000", stdin=CHAT)
    ran = shell("compress", "--min-gain-percent", "90")
    assert ran.code == 1
    assert "pass --target-percent below 49 for more, or pass --force." in ran.out


def test_stats_says_what_was_recalled(recorded: Shell) -> None:
    assert "recalled" not in recorded.done("stats")
    recorded.done("recall", "--refs", "m4")
    recorded.done("recall", "--refs", "m4, m5")
    said = recorded.done("stats")
    assert re.search(r"\nrecalled: 2 of \d\d messages that had left the window\n", said)
    regret = json.loads(recorded.done("stats", "--json"))["regret"]
    assert (regret["recalls"], regret["recalled"]) == (2, 2)


def test_a_fact_of_the_project_is_there_in_the_next_session(shell: Shell) -> None:
    hello = b'{"role":"user","content":"Hello"}'
    shell.done("record", "--session", "monday", stdin=hello)
    person = shell.as_user()
    person.done("pin", "Staging is on port 5544.", "--kind", "fact", "--session", "monday")
    shell.done("record", "--session", "tuesday", "--window", "12000", stdin=CHAT)
    (fact,) = json.loads(shell.done("pins", "--json", "--session", "tuesday"))
    assert (fact["kind"], fact["scope"], fact["session"]) == ("fact", "project", "monday")
    shell.done("compress", "--session", "tuesday")
    assert "Staging is on port 5544." in shell.done("show", "--full", "--session", "tuesday")


def test_compressing_again_at_once_is_refused_with_what_holds_the_window(shell: Shell) -> None:
    body = {"system": "Be careful. " * 2_500, "messages": coding_session(40, 300)}
    told = json.dumps(body).encode()
    shell.done("record", "--session", "s", "--window", "12000", stdin=told)
    receipt = shell("compress", "--json").json()["receipt"]
    assert "above the target" in receipt["shortfall"]
    assert dict(receipt["held_by"])["system"] > 7_000
    ran = shell("compress")
    assert ran.code == 1
    assert ran.out.startswith("not compressed: c1 ended at ")
    assert "held by system and tools 7" in ran.out
    assert "shorten the system prompt or the tools" in ran.out
    assert "compressing now would not pay: c1 ended at " in shell.done("stats")


def test_a_dry_run_prints_how_the_target_is_shared_out(shell: Shell) -> None:
    body = {"system": "Be careful. " * 200, "messages": coding_session(40, 300)}
    shell.done("record", "--session", "s", "--window", "12000", stdin=json.dumps(body).encode())
    told = json.loads(shell.done("compress", "--target-percent", "25", "--dry-run", "--json"))
    budget = told["budget"]
    assert budget["target"] == 3_000
    assert budget["system"] > 300
    assert budget["pins"] == 0
    room = 3_000 - budget["system"]  # what no compaction can free is not shared out
    shares = [budget[part] / room for part in ("request", "tail", "digest")]
    assert shares == pytest.approx([1 / 5, 2 / 5, 1 / 6], abs=0.001)
    assert budget["unread"] < room
