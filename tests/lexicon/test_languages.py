"""Every sign of every language takes its yes sentences and leaves its no sentences alone."""

from __future__ import annotations

import re
from pathlib import Path

from mcp_compaction.core.text.dates import TELLING_GROUPS
from mcp_compaction.lexicon.languages import Head, Sign, read_heads
from tests.cli.conftest import Shell

ROOT = Path(__file__).parents[2]

AS_IT_SHOULD_BE = re.compile(r"\w+: \d+ signs, all as their sentences say")


def test_every_language_is_as_its_sentences_say_and_takes_no_sentence_of_another(
    tmp_path: Path,
) -> None:
    ran = Shell(tmp_path).bare("lexicon", "check")

    lines = ran.out.splitlines()
    assert [line for line in lines if not AS_IT_SHOULD_BE.fullmatch(line)] == []
    assert [line.partition(":")[0] for line in lines] == [head.name for head in read_heads()]
    assert (ran.code, ran.err) == (0, "")


def test_the_docs_name_every_key_and_every_name_that_the_engine_reads() -> None:
    docs = (ROOT / "docs" / "lexicon.md").read_text(encoding="utf-8")
    code = [file.read_text(encoding="utf-8") for file in (ROOT / "mcp_compaction").rglob("*.py")]
    calls = (
        r"(?:part_of|part_in_all|fill_in_all|words_in_all|\.words|\.part|lists\.get|tables\.get"
        r"|said\.number|said\.meaning)\([\"']([a-z_]+)[\"']"
    )
    read = {name for text in code for name in re.findall(calls, text)}
    assert len(read) > 20
    wanted = {*read, *Head.model_fields, *Sign.model_fields, *TELLING_GROUPS}
    assert not [name for name in sorted(wanted) if f"`{name}`" not in docs]
