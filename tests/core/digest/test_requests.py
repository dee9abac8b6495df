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


def test_a_file_within_a_command_of_a_request_shows_how_to_type_and_is_nothing_to_do() -> None:
    asked = "Compile it, for example with `gcc filename.c -o out`, and write `notes.md`."
    assert texts(drafted([user(asked), *ran("1", "ls", "a")]), "NEXT") == [
        "named in the request, not touched since: notes.md",
    ]
