"""What is shown of a long request: what it asks for, before its examples and its pastes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.core.window.preview import note_of_size
from mcp_compaction.core.window.request import preview_request, read_request

LOG = "".join(f"2026-03-0{n % 9 + 1} 12:{n % 60:02} INFO worker {n} is up\n" for n in range(200))
CODE = "```sh\n" + "grep -rn pattern folder | head\n" * 12 + "```\n"
TASKS = (
    "The feed reader is in /srv/feed and needs three things.\n\n"
    "Your tasks:\n\n"
    "1. Create a folder named /srv/feed/cache\n"
    "2. Limit each answer to 100 KB\n"
    "3. Write the names of broken feeds to broken.txt\n\n"
)
PROSE = (
    "Our shop sells tea in four towns. Orders come by mail and by phone. Each night a job copies "
    "them to the archive. Kim looks after the printers there. The office moved last spring to a "
    "larger house. Some customers pay by invoice. A second server stands in the cellar. It grew."
)
LINES = st.lists(
    st.sampled_from(
        (
            "Please add the index.",
            "The fields are:",
            "- one: a name",
            "  - two",
            "```",
            "## Examples",
            "<example>",
            "</example>",
            "x = 1;",
            "",
            "Was tun? Geh.",
            "窗口快满。",
            "word " * 150,
            "Never do it.",
        )
    ),
    min_size=1,
    max_size=60,
)


def shown_of(text: str, chars: int, *lines: str) -> str:
    """The preview of a request in so many characters."""
    return preview_request(read_request(text, lines), "m1", chars)


@pytest.mark.parametrize(
    "boilerplate",
    [
        f"## Useful command examples\n\n### Search\n\n{CODE}\n### Anything else\n\n{CODE}",
        f"<example_answer>\nI look at the folder first.\n\n{CODE}</example_answer>\n",
        f"**Usage**\n\nThe tool is called by its name.\n{CODE}",
        CODE,
        LOG,
    ],
    ids=["section", "element", "bold heading", "fence", "log"],
)
def test_what_is_asked_stays_where_examples_code_and_logs_follow(boilerplate: str) -> None:
    shown = shown_of(TASKS + boilerplate * 2, len(TASKS) + 20)
    assert shown.startswith(TASKS.rstrip())
    assert shown.endswith("recall_archived refs m1 ...]")


def test_a_heading_that_asks_for_examples_is_no_aside() -> None:
    text = f"The docs are thin.\n{LOG}\n## Add examples\n\nShow how `feed sync` is used.\n\n{CODE}"
    assert "## Add examples\n\nShow how `feed sync` is used." in shown_of(text, 300)


def test_what_the_end_asks_stays_behind_a_long_paste() -> None:
    paste = "".join(f"- step {n}: open the page of chapter {n}\n" for n in range(90))
    text = f"This is our manual.\n\n{paste}\nNow translate the third chapter into French."
    shown = shown_of(text, 400)
    assert shown.startswith("This is our manual.\n\n- step 0: open")
    assert shown.endswith("...]\nNow translate the third chapter into French.")


@pytest.mark.parametrize(
    ("start", "between"),
    [
        (PROSE, f"**Example:**\n\nreport --all prints every order.\n\n{PROSE}"),
        (f"Here is our README.\n\n# Shop\n\n{PROSE}", f"## Usage\n\nRun it.\n\n{PROSE}"),
        ("It prints this:", f"```\n{PROSE}\n{PROSE}"),
        ("It prints this:", f"```\n{PROSE}\n```"),
        (PROSE.replace(".", ","), PROSE),
    ],
    ids=["bold heading", "heading", "open fence", "fence", "long first sentence"],
)
@pytest.mark.parametrize("chars", [300, 450, 600])
def test_what_is_asked_last_is_shown_whatever_stands_before_it(
    start: str, between: str, chars: int
) -> None:
    asked = "Add a JSON export to the report command, with tests in tests/test_report.py."
    shown = shown_of(f"{start}\n\n{between}\n\n{asked}\n", chars)
    assert shown.startswith(start[:60])
    assert shown.endswith(asked)


def test_a_task_in_an_aside_is_shown_where_there_is_room() -> None:
    asked = "Add a JSON export to the report command."
    text = f"Here is our README.\n\n## Usage\n\n{PROSE}\n\n{asked}\n\n{PROSE}\n\nCan you do that?\n"
    assert asked in shown_of(text, 300)


def test_room_that_is_left_is_used_behind_a_line_that_stays() -> None:
    rule = "Never push to main."
    text = f"{PROSE}\n\n**Example:**\n\n{rule}\n\n{PROSE}\n\n{LOG}"
    assert f"{rule}\n\n{PROSE[:30]}" in shown_of(text, 450, rule)


def test_a_line_that_ends_in_a_colon_brings_its_list_or_stays_away() -> None:
    filler = "The reader was written years ago by somebody else. " * 8
    text = f"{filler}\n\nThe answer must have these fields:\n- feed\n- age\n- size\n\n{filler}"
    assert "must have these fields:\n- feed\n- age\n- size" in shown_of(text, 160)
    assert "fields" not in shown_of(text, 95)


def test_a_heading_is_shown_over_what_is_shown_of_its_section() -> None:
    told = "It was said to be slow and old and hard to read by all.\n"
    text = (
        f"{told * 4}\n## /status\n\n{told * 4}\nPlease return the age in seconds.\n\n## /blocks\n\n"
    )
    shown = shown_of(text + told * 4, 120)
    assert "## /status\n" in shown
    assert "Please return the age in seconds." in shown
    assert "## /blocks" not in shown


def test_a_short_block_of_code_is_shown_as_a_whole_or_not_at_all() -> None:
    block = "```\nmatch it\n  keep b\nend\n```\n"
    text = (
        f"Mend the function that should be refused:\n{block}\n{'Nobody knows why it is so. ' * 30}"
    )
    assert block in shown_of(text, 120)
    assert "```" not in shown_of(text, 60)


def test_a_label_with_a_verb_is_no_request() -> None:
    fields = "- name: of the feed\n" * 9 + "- limit: the most rows of an answer\n"
    text = (
        f"We met on a rainy day.\n\n{fields}\n{'It went on. ' * 40}\nPlease sort the rows by age.\n"
    )
    shown = shown_of(f"{text}{CODE}", 80)
    assert "sort the rows" in shown
    assert "limit:" not in shown


def test_lines_that_stay_are_shown_in_their_place_or_below() -> None:
    near, far = "Never touch the vendor folder.", "Never push to main."
    text = f"Build the feed. {near}\n{LOG}\n{far}\n{LOG}"
    shown = shown_of(text, 100, far, near)
    assert shown.startswith(f"Build the feed. {near}\n")
    assert shown.endswith(f"\n{far}")


def test_a_long_stretch_beside_a_line_that_stays_gives_way() -> None:
    rule, data = "Never push to main.", "QUJD" * 5_000
    shown = shown_of(f"Build the feed.\n{data} {rule} {data}\n", 200, rule)
    assert rule in shown
    assert len(shown) < 600


def test_a_first_sentence_without_room_is_cut_at_a_word() -> None:
    text = f"{'Build it so that every reader finds what she looks for ' * 6}.\n{LOG}"
    first, note, *_ = shown_of(text, 160).split("\n")
    assert text.startswith(f"{first} ")
    assert note == note_of_size(text, "m1")


@settings(max_examples=80, deadline=None)
@given(LINES, st.integers(160, 900))
def test_what_is_shown_is_the_requests_own_in_its_order(lines: list[str], chars: int) -> None:
    text = "\n".join(("Build it.", *lines))
    note = note_of_size(text, "m1")
    shown = shown_of(text, chars)
    place = 0
    for run in shown.replace(note, "[...]").split("[...]"):
        found = text.find(run.strip("\n"), place)
        assert found >= 0
        place = found + len(run.strip("\n"))
    if len(text) > 2 * chars + 200:
        assert note in shown
        assert len(shown) <= chars * 3 // 2 + len(note) + 30


def test_a_hostile_text_is_read_and_shown_in_linear_work() -> None:
    # Each of these takes minutes where a line is held against all the others.
    for line in ("\n", "a:\n", "<example>\n", "```\n", "- x\n", "# Usage\n"):
        text = "Build it.\n" + line * 10_000
        assert note_of_size(text, "m1") in shown_of(text, 4_000)
