"""A deed that a line claims is shown by a call, or the line is marked as unshown."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.check.record import Record
from mcp_compaction.model import Item, SectionName
from tests.core.saying import Json, assistant, ran, user
from tests.sessions import messages_of

GREEN = ran("1", "pytest -q tests/test_limits.py", "12 passed in 3.1s")
RED = ran("2", "pytest -q tests/test_limits.py", "1 failed, 11 passed in 3.2s")
LINT = ran("3", "ruff check src", "All checks passed!")
WARNED = ran("4", "pnpm lint", "1 problem (0 errors, 1 warning)")
COMMIT = ran("5", "git commit -am limits", "[fix 3fa9c21] limits")
PUSH = ran("6", "git push -u origin fix", "* [new branch] fix -> fix")
DEPLOY = ran("7", "helm upgrade shop charts/shop", "STATUS: deployed")


def shows(said: list[Json], line: str, section: SectionName = "DONE", *refs: str) -> bool:
    item = Item(text=line, refs=refs, provenance="summarized")
    return Record(messages_of(said), Evidence(())).shows(section, item)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (GREEN, "All tests pass."),
        ([*RED, *GREEN], "The limits tests are green."),
        (GREEN, "Alle Tests laufen durch."),
        (GREEN, "所有测试都通过了。"),
        (LINT, "The lint is clean."),
        (LINT, "ruff reports no issues"),
        (COMMIT, "The fix was committed as 3fa9c21."),
        ([*COMMIT, *PUSH], "The fix was committed and pushed"),
        (DEPLOY, "The shop is deployed"),
    ],
)
def test_what_a_call_shows_is_not_doubted_in_other_words(said: list[Json], line: str) -> None:
    assert shows([user("Mend the limits."), *said], line)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ([*GREEN, *RED], "All tests pass."),
        (RED, "Tous les tests passent."),
        ([], "All tests pass."),
        ([user("Make the tests pass."), assistant("All tests pass now.")], "All tests pass."),
        (GREEN, "make lint was run and is clean"),
        (WARNED, "The lint is clean, with no warnings"),
        (COMMIT, "The fix was committed and pushed"),
        (COMMIT, "Die Änderung wurde gepusht"),
        ([user("Not to prod-2."), *DEPLOY], "The shop was rolled out to prod-2"),
        ([user("Then look at db-4."), *GREEN], "db-4 has enough space"),
        (DEPLOY, "The user agreed to lift the freeze"),
        ([*GREEN, assistant("Two reviewers shall see it.")], "Two reviewers approved it"),
    ],
)
def test_what_no_call_shows_is_doubted(said: list[Json], line: str) -> None:
    assert not shows([user("Mend the limits."), *said], line)


def test_a_line_may_tell_of_a_run_that_it_names_though_a_later_one_failed() -> None:
    assert shows([*GREEN, *RED], "All tests passed after the fix.", "DONE", "m2")
    assert not shows([*GREEN, *RED], "All tests passed after the fix.", "DONE", "m9")
