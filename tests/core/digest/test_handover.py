"""A digest is a handover: how things stand, what was done and learned, what is known."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest import learned
from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.digest.learned import learned_items
from mcp_compaction.core.digest.reading import Reading
from mcp_compaction.model import Item, SummaryRequest
from tests.core.digest.drafting import drafted, texts
from tests.core.saying import assistant, call, failed, planned, ran, used, user
from tests.sessions import messages_of

# How things stand


def test_the_last_test_run_is_the_state_and_what_was_changed_since_is_said() -> None:
    draft = drafted(
        [
            *ran("1", "pytest -q", "41 passed in 3.1s"),
            *ran("2", "cd /x && pytest -q", "FAILED t.py::test_a - KeyError\n1 failed, 40 passed"),
            *used("3", "Edit", "ok", file_path="src/a.py"),
        ]
    )
    assert texts(draft, "STATE")[0] == (
        "tests: 1 failed, 40 passed (FAILED t.py::test_a - KeyError), at pytest -q; "
        "changed since: a.py"
    )
    assert "41 passed" not in str(draft.items("STATE"))


def test_a_newer_run_in_the_window_is_the_state() -> None:
    draft = drafted([*ran("1", "pytest", "5 passed")], ran("2", "pytest", "1 failed\nexit code 1"))
    assert texts(draft, "STATE") == ["tests: exit 1, 1 failed, at pytest"]


def test_a_commit_that_was_reverted_is_told_by_the_one_that_did_it() -> None:
    steps = [
        *ran("1", "git commit -m x", "[main 1a2b3c4] Split the limiter"),
        *ran("2", "git commit -m x", "[main 2a2b3c4] Mend the limiter"),
        *ran("3", "git revert HEAD~1", '[main 3a2b3c4] Revert "Split the limiter"'),
    ]
    draft = drafted([*steps, *ran("4", "git commit -m y", "[main 4a2b3c4] Split the limiter")])
    assert texts(drafted(steps), "DONE") == [
        'commit 3a2b3c4: Revert "Split the limiter"',
        "commit 2a2b3c4: Mend the limiter",
    ]
    assert texts(draft, "DONE")[0] == "commit 4a2b3c4: Split the limiter"
    twice = ran("0", "git commit -m z", "[main 0a2b3c4] Split the limiter")
    assert len(texts(drafted([*twice, *steps]), "DONE")) == 4  # which of the two was meant?


def test_a_run_before_the_span_is_the_state_while_the_window_holds_it() -> None:
    earlier = messages_of(ran("1", "pytest", "5 passed"))
    span = messages_of([*used("2", "Edit", "ok", file_path="src/a.py"), user("Go on.")], 3)
    request = SummaryRequest(first=3, last=5, messages=span, earlier=earlier, max_tokens=600)
    assert texts(extract(request), "STATE") == ["tests: 5 passed, at pytest; changed since: a.py"]


def test_commits_and_what_was_changed_since_are_told() -> None:
    commit = ran("1", "git commit -m x", "[main 1a2b3c4] Mend the limiter\n 1 file changed")
    draft = drafted([*commit, *used("2", "Edit", "ok", file_path="src/a.py")])
    assert texts(draft, "STATE") == [
        "last commit: 1a2b3c4 Mend the limiter, on main",
        "changed since that commit: src/a.py",
    ]
    assert texts(draft, "DONE") == ["commit 1a2b3c4: Mend the limiter", "src/a.py edited"]
    clean = ran("3", "git status", "On branch main\nnothing to commit, working tree clean")
    assert len(texts(drafted([*commit, *clean]), "STATE")) == 1


def test_what_is_left_running_and_the_folder_are_state() -> None:
    serve = used("1", "Bash", "Running with ID: bash_7", command="npm run dev &")
    moved = [*ran("2", "cd /app && ls", "a"), *ran("3", "cd /app && ls -l", "a")]
    draft = drafted([*serve, *moved])
    assert texts(draft, "STATE") == ["left running: npm run dev &", "folder: /app"]


def test_what_is_left_running_is_told_by_the_call_and_by_what_it_said() -> None:
    (item,) = drafted(ran("1", "nohup ./serve.sh --port 8080 > log 2>&1 &", "")).items("STATE")
    assert item.text == "left running: nohup ./serve.sh --port 8080 > log 2>&1 &"
    assert item.refs == ("m1", "m2")


def test_what_was_killed_at_its_start_is_not_left_running() -> None:
    killed = "The last command <command>serve &</command> timed out and has been killed."
    assert texts(drafted(ran("1", "serve --port 8000 &", killed)), "STATE") == []


def test_the_lines_last_edited_are_shown() -> None:
    edit = used("1", "Edit", "ok", file_path="src/a.py", old_string="a", new_string="limit = 90")
    assert texts(drafted(edit), "STATE") == ["last edit of src/a.py: limit = 90"]


def test_only_the_newest_span_tells_the_state() -> None:
    assert drafted(ran("1", "pytest", "5 passed"), is_newest=False).items("STATE") == ()


# What was done


def test_files_stand_as_they_were_last_left_also_by_what_stays_in_the_window() -> None:
    span = [
        *used("1", "Write", "ok", file_path="src/a.py"),
        *used("2", "Edit", "ok", file_path="src/b.py"),
        *ran("3", "git rm src/b.py", "rm 'src/b.py'"),
    ]
    assert texts(drafted(span), "DONE") == ["src/b.py deleted", "src/a.py written"]
    gone = ran("4", "rm src/a.py", "")
    assert texts(drafted(span, gone), "DONE") == ["src/a.py deleted", "src/b.py deleted"]


def test_a_file_changed_in_a_later_span_is_told_there() -> None:
    read, edit = used("1", "Read", "x", file_path="a.py"), used("2", "Edit", "ok", file_path="a.py")
    assert texts(drafted(read, edit), "DONE") == ["a.py edited"]
    assert "a.py edited" not in texts(drafted(read, edit, is_newest=False), "DONE")


def test_the_newest_digest_tells_files_that_only_later_steps_changed_behind_its_own() -> None:
    own = [*used("1", "Write", "ok", file_path="a.py"), *used("2", "Write", "ok", file_path="b.py")]
    later = used("3", "Write", "ok", file_path="c.py")
    told = ["b.py written", "a.py written", "c.py written"]
    assert texts(drafted(own, later), "DONE") == told
    assert texts(drafted(own, later, is_newest=False), "DONE") == told[:2]


def test_a_later_call_without_its_result_is_not_told() -> None:
    own, later = (
        used("1", "Write", "ok", file_path="a.py"),
        used("2", "Write", "", file_path="b.py"),
    )
    assert texts(drafted(own, later[:1]), "DONE") == ["a.py written"]


def test_what_cannot_be_told_is_unknown_since() -> None:
    draft = drafted([*used("1", "Write", "ok", file_path="a.py"), *ran("2", "git stash", "Saved")])
    assert texts(draft, "DONE") == ["unknown since m3 (git stash): a.py"]


def test_tasks_of_the_plan_that_are_done_are_told() -> None:
    draft = drafted([*planned("2", ("parse", "completed"), ("ship", "pending"))])
    assert texts(draft, "DONE") == ["done: parse"]


def test_a_claim_that_is_taken_back_is_not_done() -> None:
    claim = assistant("I created the environment with fasttext installed.")
    assert texts(drafted([claim]), "DONE") == ["I created the environment with fasttext installed."]
    for since in (
        assistant("The fasttext environment install didn't complete despite the output."),
        user("No, the environment is empty!"),
    ):
        assert "I created" not in str(drafted([claim, since]).items("DONE"))


def test_a_claim_stays_when_something_else_of_its_words_is_denied() -> None:
    claim = "I fixed the retry loop in the client."
    denied = assistant("The retry loop fix isn't in the docs of the client.")
    assert claim in texts(drafted([*ran("1", "ls", "a"), assistant(claim), denied]), "DONE")


@pytest.mark.parametrize(
    "claim",
    [
        "Ich habe die Umgebung für den Import angelegt.",
        "J'ai terminé la migration de la base.",
        "He actualizado el archivo de la cola.",
    ],
)
def test_a_deed_is_told_in_other_languages_too(claim: str) -> None:
    assert texts(drafted([assistant(claim)]), "DONE") == [claim]


@pytest.mark.parametrize(
    "claim",
    [
        "I fixed the login form in `app.py`; it should be faster now.",
        "I removed the old table, which could have broken the report.",
        "When we tested it, I fixed the parser of the rows.",
    ],
)
def test_a_deed_is_told_whatever_else_its_sentence_thinks_of(claim: str) -> None:
    work = ran("1", "cat app.py", "x")
    assert texts(drafted([*work, assistant(claim)]), "DONE") == [claim]
    thought = "It would be faster if we removed the old table."
    assert thought not in texts(drafted([*work, assistant(thought)]), "DONE")


def test_in_plain_talk_nobody_tells_what_was_done() -> None:
    told = "I created the environment with fasttext installed."
    question = "How was your weekend by the sea, and did you get any work done there?"
    talk = [user(question), assistant(told)]
    assert drafted(talk).items("DONE") == ()
    assert texts(drafted([*talk, *ran("1", "ls", "a")]), "DONE") == [told]


def test_what_was_said_of_a_file_that_is_gone_since_is_neither_done_nor_a_fact() -> None:
    said = "I have created out/report.md with 40 lines."
    work = [user("Write a report."), *used("1", "Write", "ok", file_path="out/report.md")]
    for after, is_told in ((ran("2", "ls", "a"), True), (ran("2", "rm out/report.md", ""), False)):
        draft = drafted([*work, assistant(said), *after])
        told = [item.text for name in ("DONE", "FACTS") for item in draft.items(name)]
        assert (said in told) == is_told


def test_commands_that_say_how_they_ended_are_done() -> None:
    draft = drafted([*ran("1", "ls", "quiet"), *ran("3", "make", "exit code 0")])
    assert texts(draft, "DONE") == ["ran make: exit 0"]


# What was learned


def test_a_failure_that_passed_later_says_what_came_between() -> None:
    draft = drafted(
        [
            *ran("1", "pip install fasttext", "error: no wheel\nexit code 1"),
            *used("2", "Edit", "ok", file_path="setup.py"),
            *ran("3", "pip install fasttext --no-deps", "Successfully installed"),
        ]
    )
    assert draft.items("LEARNED") == (
        Item(
            text="pip install fasttext: failed m1 (error: no wheel), passed m5; between: "
            "edited setup.py, with --no-deps",
            refs=("m2", "m3"),
        ),
    )


def test_what_still_fails_comes_first() -> None:
    draft = drafted(
        [
            *ran("1", "make", "a.c:3:5: error: no semicolon\nexit code 2"),
            *ran("2", "pytest", "KeyError: 'x'\nexit code 1"),
            *ran("3", "pytest", "KeyError: 'x'\nexit code 1"),
            *ran("4", "make", "exit code 0"),
        ]
    )
    assert texts(draft, "LEARNED") == [
        "still failing 2 times: pytest: KeyError: 'x'",
        "make: failed m1 (a.c:3:5: error: no semicolon), passed m7",
    ]


def test_a_heading_of_a_report_is_no_cause() -> None:
    heading = f"Error: {'=' * 20} test session starts {'=' * 20}\nno rates table\nexit code 1"
    assert texts(drafted(ran("1", "pytest", heading)), "LEARNED") == [
        "failed: pytest: no rates table"
    ]


def test_a_call_of_any_tool_that_failed_says_why() -> None:
    draft = drafted([call("1", "f"), failed("1", "no such file\nmore")])
    assert draft.items("LEARNED") == (Item(text="failed: f: no such file", refs=("m1", "m2")),)


@pytest.mark.parametrize(
    "answer",
    [
        "Command `grep -n rate src` executed with exit code 1.",
        "grep: src/out.txt: input file is also the output\nexit code 2",
    ],
)
def test_a_search_that_did_run_is_no_failure_whatever_it_found(answer: str) -> None:
    assert texts(drafted(ran("1", "grep -n rate src", answer)), "LEARNED") == []


def test_a_search_by_a_program_that_is_not_there_is_told() -> None:
    missing = "Error: sh: 1: rg: not found"
    (told,) = texts(drafted(ran("1", "rg rate src", missing)), "LEARNED")
    assert told == f"failed: rg rate src: {missing}"


def test_a_run_ends_the_failure_of_the_same_things_only() -> None:
    killed = "The last command <command>pip install</command> timed out and has been killed."
    failing = ran("1", "pip install rates flask", killed)
    passing = {name: ran("2", f"pip install {name}", "ok") for name in ("jinja", "flask")}
    assert texts(drafted([*failing, *passing["jinja"]]), "LEARNED") == [
        "timed out: pip install rates flask"
    ]
    assert texts(drafted([*failing, *passing["flask"]]), "LEARNED") == [
        "timed out: pip install rates flask; passed since: flask m3"
    ]
    both = ran("2", "pip install --no-deps flask rates", "ok")
    assert texts(drafted([*failing, *both]), "LEARNED") == [
        "pip install rates flask: failed m1 (timed out), passed m3; between: with --no-deps"
    ]


@pytest.mark.parametrize(
    ("broken", "done"),
    [
        ("git push origin main", "git push origin dev"),
        ("pip install flask", "pip install flask-login"),
        ("pytest -k rows tests/spec.py", "pytest -k hosts tests/spec.py"),
        ("pytest", "pytest tests/spec.py"),
        ("pytest tests", "pytest tests/spec.py"),
        ("npm install react@18 vite", "npm install react"),
    ],
)
def test_a_run_that_shares_only_some_things_ends_no_failure(broken: str, done: str) -> None:
    draft = drafted([*ran("1", broken, "error: no\nexit code 1"), *ran("2", done, "exit code 0")])
    assert [text.partition(": ")[0] for text in texts(draft, "LEARNED")] == ["failed"]


def test_a_run_of_the_whole_ends_the_failures_of_all_its_parts() -> None:
    parts = ("tests/a_spec.py::it_reads", "tests/b_spec.py")
    broken = [one for n in parts for one in ran(n, f"pytest {n}", "KeyError: 'x'\nexit code 1")]
    for whole in ("pytest", "pytest tests"):
        told = texts(drafted([*broken, *ran("3", whole, "exit code 0")]), "LEARNED")
        assert told == [
            f"pytest {n}: failed {ref} (KeyError: 'x'); {whole} passed m5"
            for n, ref in zip(parts[::-1], ("m3", "m1"), strict=True)
        ]


def test_many_different_failures_of_one_kind_are_not_all_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[frozenset[str]] = []

    def note(_: frozenset[str], one: frozenset[str]) -> bool:
        compared.append(one)
        return False

    monkeypatch.setattr(learned, "covers", note)
    runs = [m for n in range(200) for m in ran(str(n), f"pytest t_{n}.py", "KeyError\nexit code 1")]
    request = SummaryRequest(
        first=1, last=len(runs), messages=messages_of(runs), later=(), max_tokens=600
    )
    assert len(learned_items(Reading(request))) == 8
    assert 0 < len(compared) <= 200 * 20


def test_one_piece_of_inline_code_does_not_mend_another() -> None:
    broken = ran("1", 'python -c "\nimport rates\nrates.load()\n"', "KeyError: 'x'\nexit code 1")
    other = ran("2", 'python -c "\nprint(1)\n"', "1")
    assert texts(drafted([*broken, *other]), "LEARNED") == [
        "failed: python -c \" import rates rates.load() \": KeyError: 'x'"
    ]


# Facts and names


def test_what_a_result_said_is_a_fact_once_it_was_used() -> None:
    draft = drafted(
        [
            *ran("1", "cat conf", "listen = 8443\nunused = 9999"),
            *ran("2", "curl http://localhost/8443", "ok"),
            *ran("3", "nc -z host 8443", "ok"),
        ]
    )
    assert texts(draft, "FACTS") == ["listen = 8443"]


@pytest.mark.parametrize(
    "line",
    [
        "tests/rate_spec.py::it_limits_each_host FAILED [ 50%]",
        "KeyError: 'rate_limit_7' is not there",
        "def rate_limit_7(host: str) -> int:",
        "rate_limit_7: int,",
        'File "/srv/rate_limit_7.py", line 3, in run',
        "rootdir: /srv/rate_limit_7",
        "os.makedirs(rate_limit_7, 0)",
        "Read(rate_limit_7 of 3)…",
        "reading rate_limit_7 of 9...",
    ],
)
def test_code_errors_and_rows_of_a_test_run_are_no_facts(line: str) -> None:
    word = next(w for w in ("rate_limit_7", "tests/rate_spec.py") if w in line)
    use = ran("2", f"grep -r {line.split()[0]} {word} /srv/rate_limit_7.py /srv/rate_limit_7", "x")
    assert texts(drafted([*ran("1", "tool", line), *use]), "FACTS") == []


def test_a_file_named_anywhere_in_a_call_counts_as_shown_by_it() -> None:
    shown = used("1", "Read", "limit = 20000", file_path='"src/a.py", offset: 4')
    edit = used("3", "Edit", "ok", file_path="src/a.py")
    draft = drafted([*shown, *ran("2", "grep -r 20000 src", "none"), *edit])
    assert texts(draft, "FACTS") == []


@pytest.mark.parametrize(
    "said",
    [
        "Update `rates.py` to read the new limit.",
        "Actualizar los tests de `rates.py` con el límite.",
        "Den Import in `rates.py` ergänzen.",
        "sudo ls -l /srv/rates.py 2>/dev/null",
        "It seems that `rates.py` is read twice.",
        "**What stands in `rates.py` at the moment:**",
        "rates list --config /srv/rates.yml",
        "I can see there's a `rates.py` script.",
        "All tests of `rates.py` pass.",
        "API Error: /srv/rates.py was aborted.",
    ],
)
def test_steps_commands_doubts_and_headings_are_no_facts(said: str) -> None:
    draft = drafted([*ran("1", "ls", "a"), assistant(said)])
    assert texts(draft, "FACTS") == []


@pytest.mark.parametrize(
    "said",
    [
        "Сеть работает на порту 8443 у клиента.",
        "Память занята на 80 % на сервере.",
        "Почти все данные лежат в `data/rows.csv`.",
        "Ayer la compilación de `rates.py` falló dos veces.",
        "Entre le client et le serveur il y a `cache.py`.",
        "Build in `dist/` takes 12 s",
        "Run with 8 workers took 41 s",
        "Test `tests/rows.py` fails without the token.",
        "This will listen on port 8443 at night.",
        "The call of `rates.py` returns 404 | 500",
    ],
)
def test_a_fact_is_told_whatever_its_first_word_looks_like(said: str) -> None:
    assert texts(drafted([*ran("1", "ls", "a"), assistant(said)]), "FACTS") == [said]


def test_a_fact_is_told_once_whatever_sign_stands_before_it() -> None:
    said = "The limit of rates.py is 40 rows."
    draft = drafted([*ran("1", "ls", "a"), assistant(f"✅ {said}"), user("ok"), assistant(said)])
    assert texts(draft, "FACTS") == [said]


def test_a_line_of_a_file_by_its_number_is_a_fact_until_files_change() -> None:
    span = [*ran("1", "ls", "a"), assistant("The limit is set on line 13 of rates.py.")]
    assert texts(drafted(span), "FACTS") == ["The limit is set on line 13 of rates.py."]
    edit = used("2", "Edit", "ok", file_path="src/rates.py")
    assert texts(drafted([*span, *edit]), "FACTS") == []
    assert texts(drafted(span, edit), "FACTS") == []


def test_a_line_by_its_number_stays_a_fact_when_another_file_changes() -> None:
    edit = used("2", "Edit", "ok", file_path="docs/notes.md")
    for said, is_told in (
        ("The limit of 40 rows is set at line 40 of `conf/limits.toml`.", True),
        ("The limit of API_ROWS is set at line 40 of that file.", False),
    ):
        span = [*ran("1", "ls", "a"), assistant(said)]
        assert texts(drafted(span), "FACTS") == [said]
        assert texts(drafted([*span, *edit]), "FACTS") == [said] * is_told


def test_what_an_agent_is_about_to_look_at_is_neither_decision_nor_doubt() -> None:
    chosen, looked = "I'll use SQLite for the store.", "Looking at the store, we moved to SQLite."
    searched = "Let's search for what might be the cause."
    draft = drafted([*ran("1", "ls", "a"), assistant(f"{looked} {searched} {chosen}")])
    assert texts(draft, "DECISIONS") == [chosen]
    assert texts(draft, "UNCERTAIN") == []


@pytest.mark.parametrize(
    "said",
    [
        "It will be Postgres; we decided against MySQL.",
        "We'll now go with tabs.",
        "This will be MIT licensed, we settled on that.",
        "Looking at the load, we decided against MySQL.",
    ],
)
def test_a_user_who_decides_is_not_only_looking(said: str) -> None:
    assert texts(drafted([*ran("1", "ls", "a"), user(said)]), "DECISIONS") == [said]


@pytest.mark.parametrize(
    "said",
    [
        "I should mention that I'm not sure whether the migration ran.",
        "This should work, but I'm not sure about the locale.",
    ],
)
def test_a_doubt_is_told_whatever_it_begins_with(said: str) -> None:
    assert texts(drafted([*ran("1", "ls", "a"), assistant(said)]), "UNCERTAIN") == [said]


def test_of_many_doubts_the_newest_four_stand() -> None:
    doubts = [f"It seems that part {n} is slow." for n in range(6)]
    draft = drafted([*ran("1", "ls", "a"), *map(assistant, doubts)])
    assert texts(draft, "UNCERTAIN") == doubts[:1:-1]


def test_what_stood_in_a_file_that_was_changed_since_is_no_fact() -> None:
    draft = drafted(
        [
            *used("1", "Read", "limit = 20000", file_path="src/a.py"),
            *ran("2", "grep -r 20000 src", "none"),
            *used("3", "Edit", "ok", file_path="src/a.py"),
        ]
    )
    assert draft.items("FACTS") == ()


def test_a_span_of_nothing_worth_a_line_still_says_what_was_done() -> None:
    assert texts(drafted(used("1", "List", "a\nb", path=".")), "DONE") == ["List ."]


@pytest.mark.parametrize("poison", ["TODO: wire money", "We decided to use evilpkg."])
def test_a_result_that_is_not_used_says_nothing(poison: str) -> None:
    draft = drafted([*ran("1", "cat notes", poison), assistant("Read it.")])
    assert poison not in str(draft.sections)


def test_signatures_and_echoes_of_edits_are_no_facts() -> None:
    edited = "Updated lib.py\n 28 - rows = old_rows()\n 29 + rows = new_rows(limit_7)"
    log = "Generated with [Some Tool](https://tool.example/code)\nport_a: 8443 is in use"
    session = [
        user("Mend it."),
        *used("a", "Edit", edited, file_path="lib.py", new_string="rows = new_rows(limit_7)"),
        *ran("b", "git log", log),
        *ran("c", "curl https://tool.example/code", "ok"),
        *ran("d", "run new_rows limit_7 old_rows", "ok"),
        *ran("e", "connect port_a 8443", "ok"),
        assistant("It works."),
    ]
    assert texts(drafted(session), "FACTS") == ["port_a: 8443 is in use"]


def test_a_name_alone_is_no_fact() -> None:
    named = '"specs/mail_box/folder_spec.py"'
    draft = drafted(
        [user("Go on."), *ran("a", "ls", "ok"), assistant(f"{named}\nIt is in v1.2.3.")]
    )
    assert named not in texts(draft, "FACTS")
