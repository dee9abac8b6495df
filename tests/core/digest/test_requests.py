"""A digest tells what is wanted and what was refused, in the user's words."""

from __future__ import annotations

import pytest

from tests.core.digest.drafting import REFUSED, drafted, texts
from tests.core.saying import assistant, ran, read, used, user


def test_a_request_that_stays_in_the_window_is_told_there_alone() -> None:
    draft = drafted([user("Fix the login tests.")], [user("Now mend the logout page.")])
    assert texts(draft, "GOAL") == ["before: Fix the login tests."]


def test_a_request_before_is_told_by_a_sentence_that_is_no_rule() -> None:
    asked = user("Never push to main. Please rename the flag.")
    draft = drafted([asked, *ran("1", "ls", "a")], [user("Now mend the logout page.")])
    assert texts(draft, "GOAL") == ["before: Please rename the flag."]


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
    assert texts(draft, "GOAL") == [asked]


def test_a_request_that_begins_with_a_yes_is_one_all_the_same() -> None:
    asked = user("Yes, exactly that. Thanks. I want full coverage of the importer's errors.")
    span = [user("Show me the report of last week."), *ran("1", "ls", "a"), asked]
    assert texts(drafted([*span, *ran("2", "ls", "b")]), "GOAL")[0] == asked["content"]
    for yes in ("Yes, please go on with it.", "Great, do that!"):
        draft = drafted([*span, *ran("2", "ls", "b"), user(yes), *ran("3", "ls", "c")])
        assert texts(draft, "GOAL")[0] == asked["content"]
    for new in ("Perfect, now rename the flag of the importer.", "Yes. Which rows come too late?"):
        assert texts(drafted([*span, user(new), *ran("2", "ls", "b")]), "GOAL")[0] == new


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


def test_a_pasted_shell_is_no_request() -> None:
    paste = "kim@host-3 /srv % ls -la\ntotal 0\ndrwx------ 2 kim staff 64 Nov 14 2020 ."
    draft = drafted([user("Find out who owns the folder."), user(paste), assistant("It is Kim.")])
    assert texts(draft, "GOAL") == ["Find out who owns the folder."]


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


def test_the_goal_is_the_newest_request_in_the_users_words() -> None:
    draft = drafted([user("Mend the login page."), assistant("Done."), user("Now the logout one.")])
    assert [(i.text, i.provenance) for i in draft.items("GOAL")] == [
        ("Now the logout one.", "verbatim"),
        ("Mend the login page.", "extracted"),
    ]
    assert texts(draft, "GOAL")[1] == "before: Mend the login page."


def test_a_question_that_was_answered_in_words_is_no_goal() -> None:
    asked = user("When does Maria Lopez come in?")
    assert texts(drafted([asked, assistant("On 12 March.")]), "GOAL") == []
    assert texts(drafted([asked]), "GOAL") == ["When does Maria Lopez come in?"]


# What comes next


def test_what_a_request_names_and_nobody_touched_is_next_until_closing_words() -> None:
    asked = [user("Mend the login page in src/a.py and src/b.py."), *read("1", "src/a.py", "x")]
    assert texts(drafted(asked), "NEXT") == [
        "named in the request, not touched since: src/b.py",
    ]
    assert texts(drafted([*asked, assistant("It is mended.")]), "NEXT") == []


def test_what_failed_last_since_the_request_is_next() -> None:
    failing = ran("1", "make", "error: no wheel\nexit code 1")
    told = ["failed, not rerun as is: make: error: no wheel"]
    assert texts(drafted([user("Mend the login page."), *failing]), "NEXT") == told
    again = [*failing, *ran("2", "make", "ok")]
    assert texts(drafted([user("Mend the login page."), *again]), "NEXT") == []
    before = [*failing, user("Now mend the logout page."), *ran("2", "ls", "a")]
    assert texts(drafted(before), "NEXT") == []


def test_a_path_of_a_library_in_a_request_is_nothing_to_do() -> None:
    trace = 'File "/usr/lib/python3/site-packages/httpx/_client.py", line 7, in send'
    span = [user(f"Find out why this fails.\n{trace}"), *ran("1", "ls", "a")]
    assert texts(drafted(span), "NEXT") == []


def test_where_much_is_asked_and_nothing_called_the_answers_take_the_room_of_what_was_asked() -> (
    None
):
    asked = ["who applied", "how it went", "what she earns", "when she comes"]
    talk = [m for q in asked for m in (user(f"Tell me {q}."), assistant("Aiko Tanaka, 18 March."))]
    later = [user("Show me her references."), assistant("Two, from Brightline.")]
    assert texts(drafted(talk, later), "GOAL") == []
    assert len(texts(drafted([*talk, *ran("1", "ls cvs", "aiko.pdf")], later), "GOAL")) == 4


@pytest.mark.parametrize(
    "said", ["Next I will write 0042_copy.sql.", "Als nächstes werde ich 0042_copy.sql schreiben."]
)
def test_what_the_agent_said_it_will_do_next_is_next_until_other_work_is_begun(said: str) -> None:
    work = [user("Make the importer faster."), *ran("1", "ls", "a"), assistant(f"Read. {said}")]
    assert texts(drafted([*work, user("Good.")]), "NEXT") == [said]
    other = [user("Rename the flag first."), *ran("2", "sed -i x", "ok")]
    assert texts(drafted([*work, *other]), "NEXT") == []


def test_what_the_agent_left_to_do_is_open_until_it_says_that_it_is_done() -> None:
    work = [user("Make the importer faster."), *ran("1", "ls", "a")]
    work += [assistant("TODO: add the index on orders.")]
    assert texts(drafted(work), "OPEN") == ["TODO: add the index on orders."]
    assert texts(drafted([*work, assistant("Added the index on orders.")]), "OPEN") == []
    assert texts(drafted(work, [assistant("Added the index on orders.")]), "OPEN") == []


def test_a_file_within_a_command_of_a_request_shows_how_to_type_and_is_nothing_to_do() -> None:
    asked = "Compile it, for example with `gcc filename.c -o out`, and write `notes.md`."
    assert texts(drafted([user(asked), *ran("1", "ls", "a")]), "NEXT") == [
        "named in the request, not touched since: notes.md",
    ]
