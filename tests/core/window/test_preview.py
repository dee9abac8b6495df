"""What is shown of a text that somebody waits for: its start, its end, and what was asked for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_compaction.core.limits import SHORTEST_PREVIEW
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.preview import (
    matching_lines,
    note_of_size,
    preview,
    preview_request,
    preview_within,
)

_WORDS = st.sampled_from(
    ("limit", "limits", "bucket", "tenant", "retry", "Größe", "窗口快满", "\t", "{", "4711", "ok")
)
LINES = st.lists(st.lists(_WORDS, max_size=12).map(" ".join), min_size=1, max_size=200)
LOG = [
    f"12:{n % 60:02} worker {n} handled request {n * 7919 % 1000} in {n % 97} ms"
    for n in range(900)
]


def shown_for(request: str, text: str, tokens: int, ref: str = "m1") -> str:
    return preview_within(text, ref, tokens, estimate, matching_lines(text, request))


@settings(max_examples=60, deadline=None)
@given(LINES, st.sampled_from(("\n", " ")), st.integers(40, 3_000), st.text(max_size=60))
def test_what_is_shown_takes_no_more_than_its_tokens_and_is_the_texts_own(
    lines: list[str], joint: str, tokens: int, request: str
) -> None:
    text = joint.join(lines) * 8
    if estimate(text) <= tokens:
        return
    shown = shown_for(request, text, tokens)
    assert note_of_size(text, "m1") in shown
    assert len(shown) < 300 or estimate(shown) <= tokens
    start, _, rest = shown.partition(f"\n{note_of_size(text, 'm1')}\n")
    assert text.startswith(start)
    assert all(line.strip() in text for line in rest.split("\n") if line != "[...]")


@settings(max_examples=40, deadline=None)
@given(st.integers(150, 700), st.integers(400, 4_000))
def test_a_line_that_matches_is_shown_before_any_other_between(place: int, tokens: int) -> None:
    wanted = "ERROR the quarantine of invoice 88-1203 failed"
    text = "\n".join([*LOG[:place], wanted, *LOG[place:]])
    request = "Why do quarantined invoices fail?"
    assert wanted in shown_for(request, text, tokens)
    assert wanted not in shown_for("Tell me a joke.", text, 400)


def test_of_lines_that_match_those_with_rare_words_come_first() -> None:
    common = [f"retry {n} of the payment job" if n % 9 == 0 else line for n, line in enumerate(LOG)]
    text = "\n".join([*common[:450], "payment job: tenant kiwi-7 is locked", *common[450:]])
    shown = shown_for("retry the payment of kiwi", text, 700)
    assert "tenant kiwi-7 is locked" in shown
    assert 3 < shown.count("retry") < 100


def test_a_text_without_a_blank_is_shown_by_its_two_ends() -> None:
    text = "".join(f"{n:05}" for n in range(2_000))
    shown = preview(text, "m1", 900)
    assert shown == f"{text[:600]}\n{note_of_size(text, 'm1')}\n{text[-300:]}"


def test_a_word_of_most_lines_chooses_none() -> None:
    text = "\n".join(LOG)
    asked = shown_for("handled requests", text, 900)
    assert asked == shown_for("", text, 900)
    assert asked.count("[...") == 1


def test_one_long_line_is_shown_in_pieces_with_the_one_that_matches() -> None:
    fields = [f'"field_{n}": {n * 31 % 977}' for n in range(2_000)]
    fields[900] = '"deadline": "2026-12-24"'
    shown = shown_for("which deadline?", f"{{{', '.join(fields)}}}", 800, "m7")
    assert '"deadline": "2026-12-24"' in shown
    assert shown.startswith('{"field_0"')
    assert shown.endswith("}")
    assert "recall_archived refs m7" in shown


def test_scripts_without_spaces_match_too() -> None:
    lines = [f"第{n}行：没有什么" for n in range(900)]
    lines[500] = "数据库的密钥在周五更换"
    shown = shown_for("密钥什么时候更换？", "\n".join(lines), 1_000)
    assert lines[500] in shown


def test_without_room_the_shortest_preview_is_shown() -> None:
    shown = shown_for("worker 400", "\n".join(LOG), 1)
    assert len(shown) < SHORTEST_PREVIEW + 80
    assert note_of_size("\n".join(LOG), "m1") in shown


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
