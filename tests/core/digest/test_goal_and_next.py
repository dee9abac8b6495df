"""A digest tells what is wanted and what comes next, as the user's words and the calls show it."""

from __future__ import annotations

import re

import pytest

from mcp_compaction.model import Item
from tests.core.digest.drafting import REFUSED, Json, drafted, texts
from tests.core.saying import assistant, call, calls, planned, ran, results, used, user

# The goal, what was rejected, what was asked


def test_the_goal_is_the_newest_request_in_the_users_words() -> None:
    span = [user("Fix the login tests."), *ran("1", "ls", "a"), user("Now mend the logout page.")]
    draft = drafted([*span, *ran("2", "ls", "b"), user("Yes, go on."), user("Thanks!")])
    assert draft.items("GOAL") == (
        Item(text="Now mend the logout page.", refs=("m4",), provenance="verbatim"),
        Item(text="before: Fix the login tests.", refs=("m1",)),
    )


def test_a_request_that_stays_in_the_window_is_in_force_instead() -> None:
    draft = drafted([user("Fix the login tests.")], [user("Now mend the logout page.")])
    assert texts(draft, "GOAL") == [
        "in force: Now mend the logout page.",
        "before: Fix the login tests.",
    ]


@pytest.mark.parametrize(
    "talk",
    [
        "I am the champion of detours! Half a day went into the setup.",
        "Ich bin der König der Umwege! Wir haben den halben Tag verloren.",
        "Je suis le roi des détours ! Nous avons perdu la journée.",
    ],
)
def test_talk_that_asks_for_nothing_and_led_to_no_call_is_not_the_goal(talk: str) -> None:
    work = [user("Rename the flag of the importer."), *ran("1", "sed -i x", "ok")]
    chat = [user(talk), assistant("It was worth the time.")]
    assert texts(drafted([*work, assistant("Renamed."), *chat]), "GOAL") == [
        "Rename the flag of the importer."
    ]
    told = texts(drafted([*work, assistant("Renamed.")], chat), "GOAL")
    assert told == ["Rename the flag of the importer."]


def test_words_that_led_to_calls_or_wait_for_an_answer_are_a_request() -> None:
    report = user("The importer still drops the last row.")
    for after in ([], ran("1", "cat importer.py", "x")):
        draft = drafted([user("Rename the flag."), *ran("0", "sed -i x", "ok"), report, *after])
        assert texts(draft, "GOAL")[0] == "The importer still drops the last row."


def test_a_yes_to_what_was_offered_goes_on_with_the_request_before_it() -> None:
    report = "The importer still drops the last row of each file."
    asked = [user(report), assistant("Shall I mend it?"), user("yes")]
    work = ran("1", "cat importer.py", "x")
    assert texts(drafted([*asked, *work]), "GOAL") == [report]
    assert texts(drafted(asked, work), "GOAL") == [report]


@pytest.mark.parametrize(
    "asked",
    [
        "Napisz list do sąsiadów o hałasie w nocy.",
        "Schrijf een brief aan de buren over het lawaai.",
        "Komşulara gürültü hakkında bir mektup yaz.",
        "A short letter to the neighbors about the noise.",
    ],
)
def test_where_nothing_is_seen_to_ask_all_that_says_something_is_the_goal(asked: str) -> None:
    answer = assistant("Here it is, all of it.")
    assert texts(drafted([user(asked), answer]), "GOAL") == [asked]
    both = drafted([user(asked), answer, user(f"2. {asked}")])
    assert texts(both, "GOAL") == [f"2. {asked}", f"before: {asked}"]


@pytest.mark.parametrize("order", ["Draft", "Proofread", "Outline", "Brainstorm"])
def test_an_order_of_a_writer_is_seen_to_ask(order: str) -> None:
    asked = f"{order} a letter to the neighbors."
    later = [user("Is the second part of it too long?"), assistant("No.")]
    draft = drafted([user(asked), assistant("Here it is."), *later])
    assert f"before: {asked}" in texts(draft, "GOAL")


@pytest.mark.parametrize(
    "thanks",
    [
        "Perfect, thanks, this is exactly what I need for the quarterly report of sales.",
        "Great, I want to thank you for the quick help with the report of sales.",
        "Great. This is how the report of all sales should look each month.",
    ],
)
def test_thanks_are_not_the_goal_whatever_they_name(thanks: str) -> None:
    span = [user("Count the sales of each month."), *ran("1", "ls", "a"), assistant("Done.")]
    for after in ([], [assistant("Fine.")], ran("2", "ls", "b")):
        draft = drafted([*span, user(thanks), *after])
        assert texts(draft, "GOAL") == ["Count the sales of each month."]


def test_a_request_that_begins_with_a_yes_is_one_all_the_same() -> None:
    asked = user("Yes, exactly that. Thanks. I want full coverage of the importer's errors.")
    span = [user("Show me the report of last week."), *ran("1", "ls", "a"), asked]
    assert texts(drafted([*span, *ran("2", "ls", "b")]), "GOAL")[0] == asked["content"]
    for yes in ("Yes, please go on with it.", "Great, do that!"):
        draft = drafted([*span, *ran("2", "ls", "b"), user(yes), *ran("3", "ls", "c")])
        assert texts(draft, "GOAL")[0] == asked["content"]
    for new in ("Perfect, now rename the flag of the importer.", "Yes. Which rows come too late?"):
        assert texts(drafted([*span, user(new), *ran("2", "ls", "b")]), "GOAL")[0] == new


def test_a_request_before_is_told_by_the_sentence_that_asks() -> None:
    asked = user("Well, that was quite a jump. I want one test for each error of the importer.")
    draft = drafted([asked, *ran("1", "ls", "a"), user("Now mend the logout page.")])
    assert texts(draft, "GOAL")[1] == "before: I want one test for each error of the importer."
    asked = user(
        "Each late row should be kept in the table. Can you mend the import of rows that come late?"
    )
    draft = drafted([asked, *ran("1", "ls", "a"), user("Now mend the logout page.")])
    assert texts(draft, "GOAL")[1] == "before: Can you mend the import of rows that come late?"
    asked = user("Never delete any row of the old table. Repair the import of the late rows there.")
    draft = drafted([asked, *ran("1", "ls", "a"), user("Now mend the logout page.")])
    assert texts(draft, "GOAL")[1] == "before: Repair the import of the late rows there."


def test_a_long_request_is_cut_at_a_word() -> None:
    (goal,) = texts(drafted([user("please " + "mend the login page " * 60)]), "GOAL")
    assert goal.startswith("please mend the login")
    assert goal.endswith(" …")
    assert len(goal) < 330


def test_what_the_user_refused_is_told_with_the_users_words_and_never_as_done() -> None:
    draft = drafted(
        [
            *used("1", "Write", REFUSED, file_path="src/new.py"),
            user("Why did you add a file? Extend cli.py"),
        ]
    )
    assert texts(draft, "REJECTED") == [
        '"Why did you add a file?"',
        'refused: Write src/new.py: "Why did you add a file? Extend cli.py"',
    ]
    assert not [text for text in texts(draft, "DONE") if "new.py" in text]


def test_a_refused_edit_is_rejected_though_the_file_was_edited_before() -> None:
    edits = [
        *used("1", "Edit", "ok", file_path="a.py"),
        *used("2", "Edit", REFUSED, file_path="a.py"),
    ]
    draft = drafted([user("Mend the login page."), *edits, user("Not like that, use the cache.")])
    assert any(text.startswith("refused: Edit a.py") for text in texts(draft, "REJECTED"))


def test_a_refused_call_that_was_done_later_is_no_longer_rejected() -> None:
    path = "src/new.py"
    draft = drafted(
        [*used("1", "Write", REFUSED, file_path=path), *used("2", "Write", "ok", file_path=path)]
    )
    assert draft.items("REJECTED") == ()
    assert texts(draft, "DONE") == ["src/new.py written"]


def test_a_no_in_one_word_is_told_with_the_sentence_after_it() -> None:
    span = [user("Rename it."), *ran("1", "mv a b", "ok")]
    no = drafted([*span, user("NO! Only the flag gets a new name. See the docs.")])
    assert texts(no, "REJECTED") == ['"NO! Only the flag gets a new name."']
    nah = drafted([*span, user("nah, this got longer than before. revert")])
    assert texts(nah, "REJECTED") == ['"nah, this got longer than before."']


def test_questions_are_asked_until_somebody_answers() -> None:
    asked = assistant("The page is up. Should I delete the old table?")
    span = [user("go on with the page"), *ran("1", "make", "ok"), asked]
    assert texts(drafted(span), "ASKED") == ["Should I delete the old table?"]
    assert texts(drafted([*span, user("Yes.")]), "ASKED") == []
    assert texts(drafted(span, [user("Yes.")]), "ASKED") == []


def test_a_pasted_shell_is_no_request() -> None:
    paste = "kim@host-3 /srv % ls -la\ntotal 0\ndrwx------ 2 kim staff 64 Nov 14 2020 ."
    draft = drafted([user("Find out who owns the folder."), user(paste), assistant("It is Kim.")])
    assert texts(draft, "GOAL") == ["Find out who owns the folder."]


# What comes next


def test_the_request_in_work_is_next_until_closing_words() -> None:
    span = [user("Write the report into report.csv please."), *ran("1", "ls", "a")]
    assert texts(drafted(span), "NEXT") == [
        "finish: Write the report into report.csv please.",
        "named there and not touched so far: report.csv",
    ]
    assert "finish" not in str(drafted([*span, assistant("It is all done.")]).items("NEXT"))


def test_a_question_is_to_be_answered_until_work_on_it_has_begun() -> None:
    asked = [*ran("1", "ls", "lists.py"), user("Shall both lists become one list?")]
    assert texts(drafted(asked), "NEXT") == ["answer: Shall both lists become one list?"]
    begun = drafted([*asked, *ran("2", "cat lists.py", "x")])
    assert texts(begun, "NEXT") == ["finish: Shall both lists become one list?"]


def test_after_closing_words_the_user_speaks_next_unless_a_task_is_open() -> None:
    span = [user("Mend the login page."), *ran("1", "make", "ok")]
    over = ["the turn is over: the user speaks next"]
    assert texts(drafted([*span, assistant("It is mended.")]), "NEXT") == over
    assert texts(drafted(span, [assistant("It is mended.")]), "NEXT") == over
    assert "the turn is over" not in str(drafted(span).items("NEXT"))
    left = (("OPEN", (Item(text="rotate the key", refs=("m1",)),)),)
    assert texts(drafted([*span, assistant("It is mended.")], must_keep=left), "NEXT") == []


@pytest.mark.parametrize(
    "handed_in",
    [
        ran("9", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "saved"),
        ran("9", "echo 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT' && git diff", "diff --git a/a b/a"),
        ran("9", "submit 'flag{x}'", "ok"),
        ran("9", 'submit "flag{x}"', "flag{x}"),
        ran("9", "submit", ""),
        ran(
            "9",
            "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat a.patch",
            "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\ndiff --git a/a b/a",
        ),
        used("9", "submit", "Your answer was submitted.", value="4"),
        used("9", "finish", "", message="It is mended."),
    ],
)
def test_nothing_is_left_to_finish_once_the_work_was_handed_in(handed_in: list[Json]) -> None:
    span = [user("Mend the login page."), *ran("1", "make", "exit code 1")]
    assert texts(drafted([*span, *handed_in]), "NEXT") == ["the turn is over: the user speaks next"]
    again = texts(drafted([*span, *handed_in, user("Mend the logout page, too.")]), "NEXT")
    assert again[0] == "finish: Mend the logout page, too."
    more = texts(drafted([*span, *handed_in, *ran("10", "ls", "a")]), "NEXT")
    assert more[0] == "finish: Mend the login page."


FEEDBACK = "<feedback>Also write report.md with a chart.</feedback>"


@pytest.mark.parametrize(
    "step",
    [
        ran("9", "submit train.job", "ok"),
        ran("9", "submit --help", "ok"),
        ran("9", "submit; ls", "ok"),
        ran("9", "submit 'a' && ls", "ok"),
        ran("9", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT > a.txt", ""),
        used("9", "mcp__forms__submit", "ok", form="login"),
        used("9", "forms.submit", "ok", form="login"),
        used("9", "attempt_completion", FEEDBACK, result="It is mended."),
        used("9", "submit", "Your submission was incorrect. Please proceed.", value="4"),
        ran("9", "submit 'flag{x}'", "flag{x}\nThat is wrong, try again."),
        used("9", "submit", "Wrong.", value="4"),
        [call("9", "attempt_completion"), results(("9", "ok"), text="Also write report.md.")],
    ],
)
def test_other_work_or_an_answer_to_it_is_no_hand_in(step: list[Json]) -> None:
    span = [user("Mend the login page."), *ran("1", "make", "ok")]
    assert texts(drafted([*span, *step]), "NEXT")[:1] == ["finish: Mend the login page."]


def test_work_is_not_handed_in_while_something_is_left() -> None:
    span = [user("Mend the login page."), *ran("1", "make", "ok"), *used("9", "finish", "")]
    left = (("OPEN", (Item(text="rotate the key", refs=("m1",)),)),)
    assert texts(drafted(span, must_keep=left), "NEXT") == ["finish: Mend the login page."]
    job = "Command running in background with ID: b1"
    run = used("2", "Bash", job, command="make all", run_in_background=True)
    left_running = [*span[:3], *run, *span[3:]]
    assert texts(drafted(left_running), "NEXT") == ["finish: Mend the login page."]


def test_work_that_was_not_taken_is_not_handed_in() -> None:
    refused = [*ran("1", "ls", "a"), *ran("2", "submit", REFUSED)]
    draft = drafted([user("Mend the login page."), *refused])
    assert texts(draft, "NEXT")[0] == "finish: Mend the login page."


@pytest.mark.parametrize(
    "said",
    [
        "Let me run the migration of the orders table.",
        "The build runs in the background; I will report what it says.",
        "Ich starte jetzt die Migration der Tabelle.",
        "Je vais lancer la migration de la table.",
        "Ahora ejecuto la migración de la tabla.",
        "Сейчас я запущу миграцию таблицы заказов.",
    ],
)
def test_the_turn_is_not_over_where_the_last_words_say_what_follows(said: str) -> None:
    span = [user("Mend the login page."), *ran("1", "make", "ok")]
    assert "the turn is over" not in str(drafted([*span, assistant(said)]).items("NEXT"))
    assert "the turn is over" not in str(drafted(span, [assistant(said)]).items("NEXT"))


def test_words_that_wait_for_the_user_end_the_turn() -> None:
    for said in ("Let me know what you think.", "I'll delete the table once you have read it."):
        draft = drafted([user("Mend it."), *ran("1", "make", "ok"), assistant(f"Mended. {said}")])
        assert texts(draft, "NEXT") == ["the turn is over: the user speaks next"]


def test_the_turn_is_not_over_while_a_job_runs() -> None:
    serve = used("1", "Bash", "Running with ID: bash_7", command="make all &")
    assert texts(drafted([user("Build it."), *serve, assistant("It is started.")]), "NEXT") == []


def test_what_the_last_words_do_now_is_next_until_a_call_follows() -> None:
    step = "Now I'll run the migration of the orders table."
    span = [user("Mend the orders."), *ran("1", "make", "ok"), assistant(f"The code is in. {step}")]
    assert texts(drafted(span), "NEXT") == [step]
    assert step not in texts(drafted([*span, *ran("2", "migrate orders", "ok")]), "NEXT")
    assert step not in texts(drafted([*span, assistant("It ran.")]), "NEXT")


def test_a_request_is_not_left_to_finish_once_the_plan_for_it_is_closed() -> None:
    asked = [user("Mend the login page."), *planned("1", ("write a test", "pending"))]
    work = ran("2", "make", "ok")
    assert texts(drafted([*asked, *work]), "NEXT") == ["finish: write a test"]
    closed = planned("3", ("write a test", "completed"))
    (wind_up,) = texts(drafted([*asked, *work, *closed]), "NEXT")
    assert wind_up.startswith("wind up, all its tasks are closed: ")
    assert texts(drafted([*asked, *work], closed), "NEXT") == [wind_up]
    anew = user("Mend the logout page, too.")
    assert texts(drafted([*asked, *work, *closed, anew]), "NEXT") == [
        "finish: Mend the logout page, too."
    ]


def test_tasks_that_are_kept_one_by_one_close_their_request() -> None:
    made = used("1", "TaskCreate", "Task #1 created", subject="write a test")
    span = [user("Mend the login page."), *made, *ran("2", "make", "ok")]
    assert texts(drafted(span), "NEXT") == ["finish: write a test"]
    done = used("3", "TaskUpdate", "ok", taskId="1", status="completed")
    assert texts(drafted([*span, *done]), "NEXT") == [
        "wind up, all its tasks are closed: Mend the login page."
    ]


def test_the_task_in_work_is_next_rather_than_the_first_one_that_is_open() -> None:
    plan = planned("1", ("write a test", "pending"), ("mend the form", "in_progress"))
    span = [user("Mend the login page."), *plan, *ran("2", "make", "ok")]
    assert texts(drafted(span), "NEXT") == ["finish: mend the form"]


def test_a_plan_that_is_only_closed_when_a_request_comes_is_not_the_plan_for_it() -> None:
    closed = planned("1", ("write a test", "completed"))
    span = [user("Mend the login page."), *closed, *ran("2", "make", "ok")]
    assert texts(drafted(span), "NEXT") == ["finish: Mend the login page."]


def test_a_closed_plan_hides_no_file_that_the_request_names_and_nobody_touched() -> None:
    span = [user("Port the shop and mend docs/guide.md."), *ran("1", "ls", "a")]
    closed = planned("2", ("port the code", "completed"))
    assert texts(drafted([*span, *closed, *ran("3", "make", "ok")]), "NEXT")[1:] == [
        "named in the request and not touched so far: docs/guide.md"
    ]


def test_a_file_is_not_taken_for_one_of_the_same_name_in_another_folder() -> None:
    span = [user("Mend README.md, pkg/README.md and README.md."), *ran("1", "ls", "a")]
    assert texts(drafted(span), "NEXT")[1:] == [
        "named there and not touched so far: README.md, pkg/README.md"
    ]


def test_files_are_not_called_untouched_before_the_first_call_or_after_an_earlier_one() -> None:
    asked = user("Now rename the flag in parser.py and in docs/flags.md, see @parser.py.")
    assert texts(drafted([asked]), "NEXT")[1:] == []
    listed = ran("2", "ls", "a")
    assert texts(drafted([asked, *listed]), "NEXT")[1:] == [
        "named there and not touched so far: parser.py, docs/flags.md"
    ]
    looked = used("1", "Read", "x = 1", file_path="/srv/app/parser.py")
    assert texts(drafted([*looked, asked, *listed]), "NEXT")[1:] == [
        "named there and not touched so far: docs/flags.md"
    ]


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("Fix the crash in src/app.py:42 and in src/db.py.", "src/app.py, src/db.py"),
        ("Rename the flag in parser.py and parser.py:10.", "parser.py"),
        ("Rename the flag (parser.py:10) in parser.py.", "parser.py"),
        ("Fix the crash in db.py.\n    at run (app.js:4:2)\n    at lib/go.js:7", "db.py"),
    ],
)
def test_a_file_named_with_a_line_is_meant_unless_it_stands_aside(asked: str, left: str) -> None:
    draft = drafted([user(asked), *ran("1", "ls", "a")])
    assert texts(draft, "NEXT")[1:] == [f"named there and not touched so far: {left}"]


def test_a_request_is_read_as_often_for_many_names_as_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []
    search = re.search

    def note(pattern: str, text: str, flags: int = 0) -> re.Match[str] | None:
        looks.append(pattern)
        return search(pattern, text, flags)

    monkeypatch.setattr(re, "search", note)
    asked = user("Look at " + ", ".join(f"src/row_{n}.py:{n}" for n in range(300)))
    assert "row_0.py" in texts(drafted([asked, *ran("1", "ls", "a")]), "NEXT")[1]
    assert not [pattern for pattern in looks if "row_" in pattern]


def test_a_path_of_a_library_in_a_request_is_nothing_to_do() -> None:
    trace = 'File "/usr/lib/python3/site-packages/httpx/_client.py", line 7, in send'
    span = [user(f"Find out why this fails.\n{trace}"), *ran("1", "ls", "a")]
    assert texts(drafted(span), "NEXT") == ["finish: Find out why this fails."]


def test_placeholders_and_places_in_a_trace_are_nothing_to_do() -> None:
    asked = user("Mend the certificate error (_tls.c:1000). Try `cc <name.c>` first, then run.sh.")
    assert texts(drafted([asked, *ran("1", "ls", "a")]), "NEXT")[1:] == [
        "named there and not touched so far: run.sh"
    ]


def test_a_sentence_that_only_announces_what_follows_is_not_the_request() -> None:
    asked = user("Consider the following bug:\n\nRows are lost.\n\nFix the import of late rows.")
    draft = drafted([asked, *ran("1", "ls", "a")])
    assert texts(draft, "NEXT") == ["finish: Fix the import of late rows."]


def test_a_step_that_its_own_message_or_a_later_call_takes_is_not_next() -> None:
    said = "First I read it. Then I'll update src/b.py as well. Next, I run the tests now."
    step = calls(("1", "Bash", {"command": "cat src/a.py"}), text=said)
    span = [step, results(("1", "ok"))]
    assert texts(drafted(span), "NEXT") == ["Then I'll update src/b.py as well."]
    for path in ("src/b.py", "/srv/src/b.py"):
        taken = used("2", "Edit", "ok", file_path=path)
        assert texts(drafted([*span, *taken]), "NEXT") == []


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("tests/test_rows.py", "cat tests/test_rows.pyc"),
        ("v1.2", "pip install rows==v1.21"),
        ("v1.2", "git tag v1.2.1"),
        ("api/user", "cat api/user_groups.py"),
        ("src/b.py", "cat src/b.py.new"),
        ("b_1.py", "cat lib-b_1.py"),
    ],
)
def test_a_call_that_names_something_longer_takes_no_step(name: str, command: str) -> None:
    step = f"Then I'll look at {name} as well."
    span = [calls(("1", "Bash", {"command": "ls"}), text=f"{step} I list it."), results(("1", "x"))]
    assert texts(drafted([*span, *ran("2", command, "ok")]), "NEXT") == [step]
    taken = ran("2", f"cat '/srv/{name}'", "ok")
    assert texts(drafted([*span, *taken]), "NEXT") == []
