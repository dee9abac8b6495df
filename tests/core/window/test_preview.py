"""What is shown of a text that is too large: its start, its end, and of a request its rules."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.preview import (
    note_of_size,
    preview_request,
    preview_within,
)

_WORDS = st.sampled_from(
    ("limit", "limits", "bucket", "tenant", "retry", "Größe", "窗口快满", "\t", "{", "4711", "ok")
)
LINES = st.lists(st.lists(_WORDS, max_size=12).map(" ".join), min_size=1, max_size=200)


@settings(max_examples=60, deadline=None)
@given(LINES, st.sampled_from(("\n", " ")), st.integers(40, 3_000))
def test_what_is_shown_takes_no_more_than_its_tokens_and_is_the_texts_own(
    lines: list[str], joint: str, tokens: int
) -> None:
    text = joint.join(lines) * 8
    if estimate(text) <= tokens:
        return
    shown = preview_within(text, "m1", tokens, estimate)
    assert note_of_size(text, "m1") in shown
    assert len(shown) < 300 or estimate(shown) <= tokens
    start, _, rest = shown.partition(f"\n{note_of_size(text, 'm1')}\n")
    assert text.startswith(start)
    assert all(line.strip() in text for line in rest.split("\n") if line != "[...]")


def test_of_a_request_blocks_of_code_are_not_shown_by_its_ends() -> None:
    task = "Write a tool that reads the file and prints one digit.\n" + "It has to be fast. " * 60
    request = f"{task}\n## Examples\n```bash\ncat newfile.py\n```\n### More\n```bash\nls\n```"

    shown = preview_request(request, "m1", 1_000, (), (), keeps_all=True)

    assert shown.startswith("Write a tool")
    assert "newfile" not in shown
    assert "```" not in shown


def test_of_a_request_that_ends_in_words_the_end_is_shown() -> None:
    request = "Look at this:\n" + "a line of a log\n" * 200 + "Tell me why the last one failed."

    shown = preview_request(request, "m1", 600, (), (), keeps_all=True)

    assert shown.endswith("Tell me why the last one failed.")
