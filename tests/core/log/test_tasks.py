"""The books of a session: plans, tasks left in words, and what is still running."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.core.log.tasks.closing import unfinished_tasks
from mcp_compaction.core.log.tasks.jobs import running_jobs
from mcp_compaction.core.log.tasks.plans import read_tasks
from mcp_compaction.core.log.tasks.spoken import leaves_open, spoken_tasks
from mcp_compaction.core.log.tool_calls import answered_calls
from mcp_compaction.core.text.sentences import spoken_sentences
from mcp_compaction.model import AccountValue, Item
from tests.core.saying import assistant, call, failed, planned, ran, results, used, user
from tests.sessions import messages_of

Json = dict[str, Any]


def states(session: list[Json]) -> dict[str, str]:
    return {e.task.text: e.task.state for e in read_tasks(messages_of(session)).entries}


def test_a_plan_written_whole_replaces_the_one_before_but_no_single_task() -> None:
    session = [
        *used("1", "TaskCreate", "no number", subject="loose"),
        *planned("2", ("old", "pending")),
        *planned("3", ("new", "in_progress")),
    ]
    assert states(session) == {"loose": "open", "new": "active"}
    assert read_tasks(messages_of(session)).plan == "m5"


def test_tasks_are_changed_one_by_one() -> None:
    session = [
        results(("ghost", "Task #9 created")),
        *used("1", "TaskCreate", '{"id": "t-1"}', subject="parse"),
        *used("1", "TaskCreate", "made", subject="ship"),
        *used("1", "TaskUpdate", "ok", taskId="t-1", status="completed", subject="parse all"),
        *used("1", "TaskUpdate", "ok", taskId="unknown", status="completed"),
    ]
    assert states(session) == {"parse all": "done", "ship": "open"}
    unanswered = [call("1", "TaskCreate", subject="ship")]
    assert states(unanswered) == {"ship": "open"}


def test_a_task_without_a_number_never_takes_the_place_of_a_numbered_one() -> None:
    session = [
        *used("1", "TaskCreate", "Task #2 created", subject="parse"),
        *used("2", "TaskCreate", "made", subject="ship"),
        *used("3", "TaskCreate", "made", subject="tell"),
        *used("4", "TaskUpdate", "ok", taskId="3", subject="late", status="completed"),
    ]
    assert states(session) == {"parse": "open", "ship": "open", "tell": "open", "late": "done"}


@pytest.mark.parametrize(
    ("text", "since", "is_open"),
    [
        ("#1 Migrate the orders", [("1", "completed")], False),
        ("#1 Migrate the orders [active]", [("1", "completed")], False),
        ("#1 Migrate the orders", [("1", "deleted")], False),
        ("#1 Migrate the orders", [("1", "in_progress")], True),
        ("#1 Migrate the orders", [("1", "completed"), ("1", "in_progress")], True),
        ("#1 Migrate the orders", [("11", "completed")], True),
        ("#11 Migrate the orders", [("1", "completed")], True),
        ("Migrate the orders", [("1", "completed")], True),
    ],
)
def test_a_numbered_task_of_a_digest_is_closed_by_its_number(
    text: str, since: list[tuple[str, str]], is_open: bool
) -> None:
    number = text[1:].partition(" ")[0] if text.startswith("#") else ""
    value = AccountValue(kind="task", status="open", key=number) if number else None
    later = [call("1", "TaskUpdate", taskId=number, status=state) for number, state in since]
    later += [call("2", "TaskUpdate", taskId="1", subject="no word of its state")]
    item = Item(text=text.removeprefix(f"#{number} "), refs=("m2",), value=value)
    assert unfinished_tasks([item], messages_of(later)) == ((item,) if is_open else ())


def test_a_number_in_the_words_of_a_user_is_no_number_of_a_task() -> None:
    item = Item(text="#1 todo: migrate the orders", refs=("m2",), provenance="verbatim")
    later = messages_of([call("1", "TaskUpdate", taskId="1", status="completed")])
    assert unfinished_tasks([item], later) == (item,)


def test_a_numbered_task_of_a_digest_is_closed_by_words_too() -> None:
    item = Item(text="#12 Migrate the orders [active]", refs=("m2",))
    assert unfinished_tasks([item], messages_of([assistant("I migrated the orders.")])) == ()


def test_a_result_belongs_to_the_newest_call_of_its_id() -> None:
    messages = messages_of([*ran("1", "a", "x"), *ran("1", "b", "y"), results(("2", "z"))])
    found = [(c.arguments["command"], r.text) for _, c, r in answered_calls(messages)]
    assert found == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(
    "sentence",
    [
        "TODO: rotate build-id 7f3a91c2 before Friday.",
        "Remember to update the changelog.",
        "Later we need to migrate the old rows.",
        "And don’t forget to tell the support team.",
        "Still to do: the French translation.",
        "Once the migration is done, drop the old table.",
        "Remind me to renew the certificate.",
        "Before the end, also run the full suite.",
        "The docs page for exports is still open.",
        "The security review is still pending.",
        "We still need to add the index.",
        "Let's come back to the flaky test later.",
        "When the tests pass, tag v1.2.",
        "At the end, write a summary of the changes.",
        "Leave the stylesheet for later.",
        "The invoice export hasn't been tested yet.",
    ],
)
def test_a_sentence_that_leaves_something_to_do_is_a_task(sentence: str) -> None:
    assert [leaves_open(found) for found in spoken_sentences(sentence)] == [True]


@pytest.mark.parametrize(
    "sentence",
    [
        "I still have to see that movie.",
        "She told me not to forget the milk.",
        "You remind me of my brother.",
        "The store is still open.",
        "After dinner we watched a film.",
        "When I was done, I went home.",
        "Later we went to the beach.",
        "Do we still need to add the index?",
        "My paperwork is still pending.",
        "Fix the tests.",
        "We still have to wait and see.",
    ],
)
def test_a_story_or_a_plain_request_leaves_nothing_open(sentence: str) -> None:
    assert [leaves_open(found) for found in spoken_sentences(sentence)] == [False]


@pytest.mark.parametrize(
    ("since", "is_open"),
    [
        ([assistant("I rotated the staging key.")], False),
        ([assistant("Rotating the staging key: done.")], False),
        ([user("I have rotated the staging key myself.")], False),
        (planned("1", ("Rotate the staging key", "completed")), False),
        ([assistant("I rotated the production key.")], True),
        ([assistant("I have not rotated the staging key.")], True),
        ([assistant("Next I will have the staging key rotated.")], True),
        ([call("1", "f"), results(("1", "rotated the staging key"))], True),
        (planned("1", ("Rotate the staging key", "pending")), True),
    ],
)
def test_a_task_in_words_is_open_until_it_is_said_to_be_done(
    since: list[Json], is_open: bool
) -> None:
    before = assistant("I rotated the staging key yesterday.")
    messages = messages_of([before, user("Remember to rotate the staging key."), *since])
    task = Item(text="Remember to rotate the staging key.", refs=("m2",), provenance="verbatim")
    assert spoken_tasks(messages) == ((task,) if is_open else ())
    assert unfinished_tasks([task], messages[2:]) == ((task,) if is_open else ())


@pytest.mark.parametrize(
    ("task", "since"),
    [
        ("Don't forget to deploy to production.", "I checked the production deploy logs."),
        ("Don't forget to deploy to production.", "I deployed the production logs."),
        ("Remember to test on Windows.", "I tested the window size handling."),
        ("Don't forget to call the customer.", "The customer called and changed the deadline."),
        ("Don't forget to call the customer.", "The customer finished the call."),
        (
            "Remember to delete the temp bucket.",
            "Created the temp bucket so that a delete marker is kept.",
        ),
        (
            "We still need to update the changelog.",
            "I checked the changelog and its last update.",
        ),
        ("We still need to update the changelog.", "I finished reading the changelog update."),
        ("We still need to update the changelog.", "Update the changelog: that part I fixed."),
        ("TODO: tests", "I ran the linter and put the tests in a folder."),
        ("TODO: tests", "The tests are done."),
        ("Remember to test the release build.", "I released the test build."),
        ("Remember to test the release build.", "I tested the API and released the build."),
        ("Remember to run the full suite.", "Run the full suite."),
        ("Remember to run the full suite.", "The docs say `I ran the full suite`."),
        (
            "Remember to rotate the staging database deploy key.",
            "I rotated the production database deploy key.",
        ),
        ("The security review is still pending.", "I wrote the security review guide."),
        ("Remember to delete the temp bucket.", "Bob asked whether I deleted the temp bucket."),
        ("Remember to review the PR.", "I reviewed the PR description."),
        ("Remember to tell the customer.", "I was told the customer left."),
        ("Remember to rotate the staging key.", "The rotated staging key: nobody likes it."),
    ],
)
def test_words_about_a_task_leave_it_open(task: str, since: str) -> None:
    item = Item(text=task, refs=("m1",), provenance="verbatim")
    for say in (assistant, user):
        assert unfinished_tasks([item], messages_of([say(since)])) == (item,)
    assert spoken_tasks(messages_of([user(task), assistant(since)])) == (item,)


@pytest.mark.parametrize(
    ("task", "since"),
    [
        ("Don't forget to rotate the deploy key.", "The deploy key is rotated, that is done."),
        ("Don't forget to rotate the deploy key.", "The deploy key has now been rotated."),
        ("Don't forget to rotate the deploy key.", "Rotated the deploy key in `vault.yml`."),
        ("Don't forget to rotate the deploy key.", "Done: deploy key rotation."),
        ("Don't forget to rotate the deploy key.", "✅ Rotated the deploy key."),
        ("Don't forget to rotate the deploy key.", "Deploy key rotated ✓"),
        ("Don't forget to rotate the deploy key.", "I'm done with rotating the deploy key."),
        ("Don't forget to rotate the deploy key.", "The deploy key rotation is complete."),
        ("Don't forget to deploy to production.", "Deployed to production."),
        ("Don't forget to send the invoice to Maria.", "The invoice was sent to Maria."),
        ("Don't forget to tell the support team.", "I told the support team about it."),
        ("Remember to update `setup.cfg` today.", "I've also updated `setup.cfg`."),
        ("We still need to add the index.", "I wrote the migration and added the index."),
        ("Remember to run the full suite.", "We ran the full suite, all green."),
        ("Don't forget to call the customer.", "I called the customer yesterday."),
        ("Once it is merged, drop the old table.", "Dropped the old table, merged it as well."),
        ("The security review is still pending.", "The security review is done."),
        ("The invoice export hasn't been tested yet.", "I tested the invoice export manually."),
        ("Remember to fix the login bug.", "The login bug is fixed."),
        (
            "Remember to rotate the key and update the changelog.",
            "I rotated the key and updated the changelog.",
        ),
        ("Remember to copy the report.", "Update: copied the report\u00a0 to the share."),
    ],
)
def test_words_that_say_a_task_was_done_close_it(task: str, since: str) -> None:
    item = Item(text=task, refs=("m1",), provenance="verbatim")
    assert unfinished_tasks([item], messages_of([assistant(since)])) == ()


@pytest.mark.parametrize(
    ("task", "since", "is_open"),
    [
        ("Die Doku muss noch aktualisiert werden.", "Die Doku ist aktualisiert.", False),
        (
            "Wir müssen noch die Migration abschließen.",
            "Ich habe die Migration abgeschlossen.",
            False,
        ),
        ("Später noch die alten Logs löschen.", "Die alten Logs habe ich gelöscht.", False),
        ("Vergiss nicht, die Doku anzupassen.", "Die Doku wurde angepasst.", False),
        ("Denk daran, den Branch zu mergen.", "hab den branch gemergt", False),
        ("Die Doku muss noch aktualisiert werden.", "Die Doku ist noch nicht aktualisiert.", True),
        ("Vergiss nicht, das Zertifikat zu erneuern.", "Ich habe das Passwort erneuert.", True),
        ("Denk dran, die API-Doku zu aktualisieren.", "Die Doku ist aktualisiert.", True),
        ("Pense à mettre à jour la doc.", "J'ai mis à jour la doc.", False),
        ("Il reste à supprimer les vieux fichiers.", "Les vieux fichiers sont supprimés.", False),
        ("Pense à mettre à jour la doc.", "La doc sera mise à jour demain.", True),
        ("Il faut encore corriger le bug des accents.", "J'ai corrigé le bug de la page.", True),
        ("Todavía falta migrar los datos.", "Hemos migrado los datos.", False),
        ("Luego hay que borrar los logs viejos.", "Ya borré los logs viejos.", False),
        ("No olvides renovar el certificado.", "El certificado no está renovado.", True),
        ("Todavía falta migrar los datos.", "Hemos migrado los usuarios.", True),
    ],
)
def test_a_task_of_another_language_is_open_until_that_language_says_it_is_done(
    task: str, since: str, is_open: bool
) -> None:
    item = Item(text=task, refs=("m1",), provenance="verbatim")
    assert [leaves_open(found) for found in spoken_sentences(task)] == [True]
    assert unfinished_tasks([item], messages_of([assistant(since)])) == ((item,) if is_open else ())


@pytest.mark.parametrize(
    ("entry", "is_open"),
    [
        ("Deploy to production", False),
        ("Deploy v2 to production", False),
        ("Production deploy", False),
        ("Check the production deploy", True),
        ("Deploy the production logs", True),
    ],
)
def test_an_entry_of_a_plan_closes_the_task_it_names(entry: str, is_open: bool) -> None:
    item = Item(text="Don't forget to deploy to production.", provenance="verbatim")
    later = messages_of(planned("1", (entry, "completed")))
    assert unfinished_tasks([item], later) == ((item,) if is_open else ())


def test_a_standing_rule_is_no_task() -> None:
    rule = "Never merge before the security review is done."
    assert spoken_tasks(messages_of([user(rule)])) == ()


def background(id: str, command: str, answer: str) -> list[Json]:
    return used(id, "Bash", answer, command=command, run_in_background=True)


TRACE = 'Traceback (most recent call last):\n  File "serve", line 2, in <module>\n    load()\n'
LOGGED = ran("1", "nohup ./serve > out.log 2>&1 &", "")
PLACED = ran("1", "cd /srv/a && ./serve > out.log &", "")
SERVER = background("1", "npm run dev", "Command running in background with ID: bash_7")


@pytest.mark.parametrize(
    ("session", "running"),
    [
        (SERVER, ["npm run dev"]),
        ([*SERVER, *used("2", "BashOutput", "status: running", bash_id="bash_7")], ["npm run dev"]),
        ([*SERVER, *used("2", "BashOutput", "status: completed", bash_id="bash_7")], []),
        ([*SERVER, *used("2", "KillShell", "ok", shell_id="bash_7")], []),
        ([*SERVER, user("<note>bash_7 has completed</note>")], []),
        ([*SERVER, *ran("2", "ls", "bash_8 completed")], ["npm run dev"]),
        (ran("1", "nohup ./serve &", ""), ["nohup ./serve &"]),
        ([*ran("1", "./serve &", ""), *ran("2", "pkill -f ./serve", "")], []),
        ([*ran("1", "./serve &", ""), *ran("2", "pkill -f other", "")], ["./serve &"]),
        (
            [*ran("1", "./serve &", ""), *ran("2", "pkill -f ./serve", "sh: 1: pkill: not found")],
            ["./serve &"],
        ),
        ([*ran("1", "./serve &", ""), *ran("2", "pkill ./serve; ps", "sh: ps: not found")], []),
        ([*LOGGED, *ran("2", "tail ./out.log", f"{TRACE}KeyError: 'x'")], []),
        ([*LOGGED, *ran("2", "cat out.log", "ready")], ["nohup ./serve > out.log 2>&1 &"]),
        ([*LOGGED, *ran("2", "cat b.log", f"{TRACE}KeyError")], ["nohup ./serve > out.log 2>&1 &"]),
        ([*LOGGED, *ran("2", "sleep 5; cat out.log", f"{TRACE}KeyError: 'x'\nexit code 0")], []),
        ([*LOGGED, *used("2", "Read", f"{TRACE}KeyError: 'x'", file_path="out.log")], []),
        (
            [*PLACED, *ran("2", "tail -n 20 /srv/a/out.log", f"{TRACE}KeyError: 'x'")],
            [],
        ),
        *(
            (
                [*LOGGED, call("2", "Bash", command=command), failed("2", "Exit code 1")],
                ["nohup ./serve > out.log 2>&1 &"],
            )
            for command in (
                "grep ERROR out.log",
                "test -s out.log",
                "cp out.log /root",
                "cat out.log",
            )
        ),
        (
            [*LOGGED, *ran("2", "grep -A9 Trace out.log", f"{TRACE}KeyError: 'x'")],
            ["nohup ./serve > out.log 2>&1 &"],
        ),
        (
            [*LOGGED, *ran("2", "cat out.log", f"{TRACE}KeyError: 'x'\nGET / 500\nGET /a 200\n")],
            ["nohup ./serve > out.log 2>&1 &"],
        ),
        (
            [*PLACED, *ran("2", "cat /home/b/out.log", f"{TRACE}KeyError: 'x'")],
            ["cd /srv/a && ./serve > out.log &"],
        ),
        ([call("1", "Bash", command="./serve &"), failed("1", "no")], []),
        (ran("1", "./serve &", "exit code 1"), []),
        (
            used("1", "Task", "Agent launched. agent id: a1b2", description="look around"),
            ["look around"],
        ),
        (used("1", "Task", "The report: all fine.", description="look around"), []),
        (used("1", "Task", "started", background=True), ["Task"]),
        ([results(("ghost", "running in background"))], []),
    ],
)
def test_what_was_started_and_never_ended_is_left_running(
    session: list[Json], running: list[str]
) -> None:
    found = running_jobs(messages_of(session))
    assert [item.text for item in found] == running


def test_a_long_command_is_cut_at_a_word() -> None:
    (item,) = running_jobs(messages_of(background("1", "word " * 60, "ok")))
    assert item.text.endswith("word …")
    assert len(item.text) < 120


def test_a_plan_that_only_its_result_shows_is_read_from_there() -> None:
    shown = "☒ parse the file\n   ☐ ship it\n   ☐ tell the users"
    messages = messages_of(used("1", "TodoWrite", shown, input=""))
    tasks = read_tasks(messages)
    assert tasks.plan == "m2"
    assert [(entry.task.text, entry.task.state) for entry in tasks.entries] == [
        ("parse the file", "done"),
        ("ship it", "open"),
        ("tell the users", "open"),
    ]
    assert read_tasks(messages_of(ran("1", "cat notes", shown))).entries == ()
