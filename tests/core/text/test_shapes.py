"""What a line of a text is, told by its shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.text.shapes import shaped_lines


def shapes_of(text: str) -> list[str]:
    """The shape of each line of a text."""
    return [line.shape for line in shaped_lines(text)]


def test_each_line_has_the_shape_that_it_looks_like() -> None:
    text = "# Feeds\n**Limits**\nRead them.\n- one\n2) two\n<rules>\nx = (1);\n```\nls\n```\n"
    found = ["heading", "heading", "words", "item", "item", "code", "code", *["fenced"] * 3]
    assert shapes_of(text) == found


def test_a_fence_that_opens_behind_words_ends_where_it_is_closed() -> None:
    text = "### Search:```sh\n# all files\ngrep -rn x\n```\n## Limits\n"
    assert shapes_of(text) == ["heading", "fenced", "fenced", "fenced", "heading"]


@pytest.mark.parametrize(
    "title",
    [
        "Examples",
        "Useful command examples",
        "Example of a good answer",
        "Usage",
        "Formatting your response",
        "How to call the tools",
        "Recommended workflow",
        "Beispiele",
        "Exemples d'appels",
    ],
)
def test_what_stands_under_such_a_heading_is_an_aside(title: str) -> None:
    text = f"## {title}\n\nCall it.\n### More\n- one\n## Limits\nTen at most.\n"
    assert shapes_of(text) == [*["aside"] * 5, "heading", "words"]


@pytest.mark.parametrize(
    "title",
    ["Add examples", "Fix the usage page", "Output format", "Tools to port", "Response times"],
)
def test_a_heading_of_what_is_wanted_begins_no_aside(title: str) -> None:
    assert shapes_of(f"## {title}\nTen at most.\n") == ["heading", "words"]


def test_an_aside_under_bold_letters_ends_where_something_is_asked_behind_its_paragraph() -> None:
    text = "**Usage**\n\nCall it.\n\nIt is fast.\n\nPlease add the flag to the tool.\nNow.\n"
    assert shapes_of(text) == [*["aside"] * 6, "words", "words"]
    text = "**Usage**\nCall it.\n\nPlease add the flag to the tool.\n"
    assert shapes_of(text) == [*["aside"] * 3, "words"]


def test_a_fence_that_is_never_closed_is_none() -> None:
    text = "~~~\nIt is slow.\n```\nls\n```\n```py\nIt is old.\n"
    assert shapes_of(text) == ["words", "words", *["fenced"] * 3, "words", "words"]


def test_an_element_of_examples_is_an_aside_up_to_its_end() -> None:
    text = "<example_answer>\nCall it.\n\n## Limits\n</example_answer>\nTen at most.\n"
    assert shapes_of(text) == [*["aside"] * 4, "code", "words"]
    assert shapes_of("<example>\nIt is never closed.\n") == ["code", "words"]
    assert shapes_of("<issue>\nIt is slow.\n</issue>\n") == ["code", "words", "code"]


def test_rows_of_one_template_are_rows_but_for_the_first_and_the_last() -> None:
    log = "".join(f"worker {n} is up\n" for n in range(20))
    assert shapes_of(f"Look.\n{log}") == ["words", "words", *["row"] * 17, "words", "words"]


@given(st.text("ab \n\r\v`~<>/#*-:1.\u2028", max_size=120))
def test_the_lines_together_are_the_text(text: str) -> None:
    lines = list(shaped_lines(text))
    assert "".join(line.text for line in lines) == text
    assert all(text.startswith(line.text, line.start) for line in lines)
