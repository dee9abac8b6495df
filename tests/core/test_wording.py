"""Signs that no reader sees are written out on screens and pages, in Python and in JavaScript."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files

import pytest

from mcp_compaction.core.wording import escape, show_unseen

STEERING = (
    "\x1b\x9b\x00\r\x7f\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
OTHERS = "\u200b\u2060\ufeff\ufff9\U000e0041"
NEEDED = "a\tb\nc é ש م 👩\u200d🚀 می\u200cخواهم e\u0301 ﷽"


@pytest.mark.parametrize("sign", STEERING + OTHERS, ids=ascii)
def test_an_unseen_sign_is_written_out(sign: str) -> None:
    shown = show_unseen(f"never {sign}push")
    assert sign not in shown
    assert shown.isprintable()
    assert len(shown) > len("never push")


def test_what_writing_needs_stays() -> None:
    assert show_unseen(NEEDED) == NEEDED


def test_a_page_gets_neither_markup_nor_unseen_signs() -> None:
    assert escape("<b>\u202e&") == r"&lt;b&gt;\u{202e}&amp;"


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the pages' own function")
@pytest.mark.parametrize("page", ["viewer/page/app.js", "server/window_app.html"])
def test_a_page_in_javascript_writes_out_the_same(page: str) -> None:
    source = files("mcp_compaction").joinpath(page).read_text(encoding="utf-8")
    (function,) = re.findall(r"^const seen = .*;$", source, re.M)
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0xFFFF), *range(0xE0000, 0xE0100)]))
    program = f"{function} process.stdin.setEncoding('utf8').on('data', (t) => (all += t))"
    program += ".on('end', () => process.stdout.write(JSON.stringify(seen(JSON.parse(all)))))"
    ran = subprocess.run(
        ["node", "-e", f"let all = ''; {program}"],
        input=json.dumps(every),
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    assert json.loads(ran.stdout) == show_unseen(every)
