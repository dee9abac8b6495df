"""What was said and called, as lines: who said it, and how much of it a form shows."""

from __future__ import annotations

import pytest

from mcp_compaction.core.account.lines import AccountLines
from mcp_compaction.core.text.injection import BAR
from mcp_compaction.model import Excerpt
from tests.core.account.telling import left, read, told
from tests.core.saying import Json, assistant, call, calls, failed, ran, results, used, user
from tests.core.saying import read as seen
from tests.sessions import messages_of


def kinds(session: list[Json]) -> list[str]:
    return [line.kind for line in read(session)]


# Words


def test_what_is_said_at_the_end_of_a_turn_is_closing_and_what_stands_before_a_call_is_not() -> (
    None
):
    before = (
        "The handlers are chosen by name here, so that a registry would be enough for all of them."
    )
    session = [
        user("Port the hooks."),
        calls(("1", "Bash", {"command": "ls"}), text=before),
        results(("1", "a.py")),
        assistant("Done."),
        user("Fine."),
        calls(("2", "Bash", {"command": "ls"}), text="Let me look."),
        results(("2", "b.py")),
    ]
    assert kinds(session) == ["user", "said", "steps", "asked", "user", "aside", "steps"]
    session[4] = user(
        "Now that this is done, look at the other hosts, at what each of them "
        "calls, and when it does so: I want them all alike."
    )
    assert kinds(session)[3] == "closing"


def test_another_agents_order_and_words_that_an_agent_reported_are_not_the_users() -> None:
    given, asked, typed = messages_of(
        [user("Mind the cache."), user("Say it in French."), user("Go")]
    )
    lead = given.model_copy(update={"speaker": "agent"})
    reported = asked.model_copy(update={"via": "tool"})
    lines = left([lead, reported, typed])
    assert told(lines) == [
        "m1 another agent: Mind the cache.",
        "m2 user (reported): Say it in French.",
        "m3 user: Go",
    ]


def test_a_doubt_stands_whole_and_where_no_markers_count_it_is_said_like_all_else() -> None:
    doubt = "Wait, perhaps the lock is free after all. Let me verify the order of the keys."
    messages = messages_of([user("Go."), assistant(doubt)])
    by_markers = {
        markers: [line.kind for line in left(messages, markers=markers)] for markers in (3, 9, None)
    }
    assert by_markers == {3: ["user", "doubt"], 9: ["user", "closing"], None: ["user", "closing"]}


# Calls


def test_words_that_a_kept_answer_follows_are_closing_words_and_shortened_to_their_end() -> None:
    plan = "\n".join([f"Row {n} of the plan names crane{n}." for n in range(60)])
    messages = messages_of([user("Go"), assistant(f"{plan}\nShall I do that?"), user("yes")])
    (line,) = AccountLines(messages, None).of(frozenset({2}), (), "")
    assert line.kind == "asked"
    (shortest,) = told([line], 0)
    assert shortest.endswith("Row 59 of the plan names crane59.\n| Shall I do that?")


def test_words_are_cut_by_sentences_without_code_headings_and_lead_ins() -> None:
    said = f"# Findings\nThe lock is never freed.\nSo:\n```go\nreturn err // {'x' * 400}\n```\n" * 4
    (line,) = read([assistant(f"{said}\nIt is freed in state.go now.")])
    for level in (0, 1):
        (shown,) = told([line], level)
        assert "It is freed in state.go now." in shown
        assert "The lock is never freed." in shown
        assert not any(part in shown for part in ("```", "return err", "# Findings", "So:"))


def test_an_edit_is_told_by_the_first_line_that_it_brings() -> None:
    given = {"old_string": "a = 1\nb = 2", "new_string": "a = 1\nb = 3\nc = 4"}
    session = used("1", "Edit", "ok", file_path="/w/state.go", **given)
    assert told(line for line in read(session) if line.kind == "steps") == [
        "m1 Edit /w/state.go -> b = 3"
    ]


def test_a_run_of_calls_says_which_of_them_failed() -> None:
    session = [
        *seen("1", "src/a.py", "x"),
        call("2", "Bash", command="make"),
        failed("2", "exit code 2"),
    ]
    lines = [line for line in read(session) if line.kind == "steps"]
    assert told(lines, 0) == ["m1..m3 Read a.py; Bash make -> exit 2"]


def test_a_call_grows_from_form_to_form_and_is_never_reworded() -> None:
    answer = "\n".join(f"crane{n} carries harbor{n} at 10.0.0.{n}" for n in range(80))
    (line,) = read(used("1", "Look", answer, about="the cranes"))
    shown = told([line], 1), told([line], 2), told([line], 3), told([line], 4)
    sizes = [len(one[0]) for one in shown]
    assert sizes == sorted(set(sizes))
    for (text,) in shown:
        said = text.partition(" -> ")[2].split(" … ")
        assert all(part in answer for several in said for part in several.split(" / "))


# Files


def test_a_file_stands_as_the_agent_last_saw_or_wrote_it() -> None:
    session = [
        *seen("1", "src/a.py", "1→limit = 4\n2→rate = 7"),
        *seen("2", "src/b.py", "1→x = 1"),
        *used("3", "Edit", "ok", file_path="src/a.py", old_string="4", new_string="limit = 9"),
        *used("4", "Write", "ok", file_path="c.md", content="# Notes\nRead me."),
    ]
    files = told(line for line in read(session) if line.kind == "file")
    assert files == [
        f"m3 src/b.py as read:\n{BAR}x = 1",
        f"m5 src/a.py as edited:\n{BAR}limit = 9",
        f"m7 c.md as written:\n{BAR}# Notes\n{BAR}Read me.",
    ]


def test_what_was_read_before_a_file_was_edited_is_not_shown() -> None:
    session = [
        *used("1", "Read", "limit = 4", file_path="a.py", offset=10, limit=1),
        *used("2", "Read", "rate = 7", file_path="a.py", offset=90, limit=1),
        *used("3", "Edit", "ok", file_path="a.py", old_string="4", new_string="limit = 9"),
    ]
    files = told(line for line in read(session) if line.kind == "file")
    assert files == [f"m5 a.py as edited:\n{BAR}limit = 9"]


@pytest.mark.parametrize("line", ["rm a.py", "mv a.py b.py", "git checkout a.py"])
def test_what_was_read_before_a_command_changed_a_file_is_not_shown(line: str) -> None:
    session = [*used("1", "Read", "limit = 4", file_path="a.py"), *ran("2", line, "")]
    assert not told(one for one in read(session) if one.kind == "file")


def test_words_that_lead_to_a_call_are_an_aside_and_words_of_their_own_are_not() -> None:
    lead = "Now the scheduler, whose clock, queue and retries nobody has looked at:"
    said = "The scheduler is wrong: its clock, queue and retries share one lock."
    for text, kind in ((lead, "aside"), (said, "said")):
        calling = calls(("1", "Bash", {"command": "ls"}), text=text)
        assert kinds([user("Go."), calling, results(("1", "a.py"))]) == ["user", kind, "steps"]


def test_one_call_alone_tells_its_answer_in_its_shortest_form() -> None:
    (line,) = read(ran("1", "nproc", "64 cores"))
    assert told([line], 0) == ["m1 Bash nproc -> 64 cores"]


# What was told of earlier messages


def test_what_an_earlier_version_kept_of_users_and_agents_keeps_its_speaker() -> None:
    old = (
        Excerpt(seq=1, by="talk", role="user", pieces=("Anna moved", "to Lisbon")),
        Excerpt(seq=2, by="decision", pieces=("We use SQLite.",)),
        Excerpt(seq=3, by="field", pieces=("order: W7",)),
    )
    assert told(left((), *old)) == [
        "m1 user: Anna moved … to Lisbon",
        "m2 agent: We use SQLite.",
    ]


def test_a_line_that_was_told_before_shrinks_and_is_not_reworded() -> None:
    (line,) = read(ran("1", "make all", "\n".join(f"built part{n}" for n in range(40))))
    once = line.form(3)
    (again,) = left((), *once)
    assert again.whole == once
    before = once[0].pieces
    for level in range(4):
        (shown,) = again.form(level)
        for now, then in zip(shown.pieces, before, strict=False):
            units = now.replace(" / ", " … ").split(" … ")
            assert all(unit.removesuffix("…").strip() in then for unit in units)


def test_what_a_here_document_writes_is_shown_without_its_end() -> None:
    line = "cat > /srv/index.html <<'EOF'\n<h1>Welcome</h1>\n<p>to all</p>\nEOF\nnginx -s reload"
    files = told(one for one in read(ran("1", line, "")) if one.kind == "file")
    assert files == [f"m1 /srv/index.html as written:\n{BAR}<h1>Welcome</h1>\n{BAR}<p>to all</p>"]
