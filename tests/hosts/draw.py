"""Draws docs/claude-code.svg: a real Claude Code after /compact, with a scripted model.

    pip install pyte
    MCP_COMPACTION_HOSTS=DIR python -m tests.hosts.draw

What is drawn is what stood on the screen: the pin on, without the digest below it, a toast that lay
over both, and the host's spinner.
"""

from __future__ import annotations

import re
import sys
import tempfile
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.hosts.live_mod import ModdedClaude, type_in
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model
from tests.hosts.terminal import Terminal

PICTURE = Path(__file__).parents[2] / "docs/claude-code.svg"
TITLE = (
    "Claude Code after /compact: the rule stands word for word, and the line above the prompt says "
    "what was done"
)
RULE = 'Never run migrations against "prod-db-2", only against staging (stg-db-1).'
TYPED = (
    (RULE, "All six runs went to staging."),
    ("Did one of the first two fail?", "No run failed."),
    ("/compact", "c1 compacted"),
    ("Where do migrations go?", "off limits"),
    ("/window", "looks for words"),
)
COLUMNS, ROWS = 140, 50  # of tests/hosts/terminal.py
WIDTH, LINE = 956, 19

_PASSING = re.compile(r"[✻✶✢✽·*] |  ⎿  Tip|  ⏵⏵")
_STYLE = (
    'text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;'
    "white-space:pre}.text{fill:#e6e6e6}.user{fill:#9fc5ff}.dim{fill:#9a9a9a}.pin{fill:#ffd479}"
    ".line{fill:#8fd18f}.rule{fill:#555}"
)


def log(number: int) -> Step:
    """Read a log of about 10,000 tokens."""
    line = f"seq -f 'migration {number}.%g on stg-db-1: applied in 12 ms' 600"
    return Step(f"Run {number}.", tool="shell", arguments={"command": line})


def play() -> list[str]:
    """The lines on the screen at the end of a chat with one /compact."""
    pin = Step(tool="pin_constraint", arguments={"text": RULE})
    runs = [log(number) for number in range(6)]
    ended, read = Step("All six runs went to staging."), Step("No run failed.")
    answer = Step("Staging only: prod-db-2 is off limits, as you said.")
    script = ScriptedModel(pin, *runs, ended, *runs[:2], read, answer)
    with tempfile.TemporaryDirectory() as folder, serve_model(script) as model:
        terminal = ModdedClaude(Path(folder), model).open()
        try:
            terminal.wait_for("/effort")
            for typed, seen in TYPED:
                type_in(terminal, typed)
                terminal.wait_for(seen)
            return shown_on(terminal)
        finally:
            terminal.close()


def shown_on(terminal: Terminal) -> list[str]:
    """The screen's lines."""
    pyte: Any = import_module("pyte")
    screen: Any = pyte.HistoryScreen(COLUMNS, ROWS, history=1000)
    pyte.ByteStream(screen).feed(terminal.written)
    above = ["".join(line[x].data for x in range(COLUMNS)) for line in screen.history.top]
    return [line.rstrip() for line in [*above, *screen.display]]


def trim(lines: list[str]) -> list[str]:
    """The lines from the pin on, without what comes and goes: a toast, a spinner, the digest."""
    start = next(number for number, line in enumerate(lines) if "by user: " in line)
    pinned = f"  p1 constraint, by user: {RULE}"
    assert lines[start].startswith(pinned[:90]), lines[start]  # the toast lies over the rest
    kept: list[str] = [pinned, "  …"]
    ended = next(n for n, line in enumerate(lines) if n > start and line.startswith("● All six"))
    for line in lines[ended - 1 :]:
        if _PASSING.match(line) is None and (line or kept[-1]):
            kept.append(line[:108])
    return kept


def class_of(line: str) -> str:
    """How a line is drawn."""
    words = line.strip()
    if "pinned:" in words or words.startswith("p1 "):
        return "pin"
    if words.startswith("window ") or "compacted:" in words:
        return "line"
    if words.startswith("❯"):
        return "user"
    return "rule" if words.startswith("─") else "text"


def draw(lines: list[str]) -> str:
    """The picture."""
    height = 44 + LINE * len(lines)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="t">',
        f'<title id="t">{TITLE}</title>',
        f"<style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#1b1d23"/>',
    ]
    for x, color in ((18, "#ff5f57"), (36, "#febc2e"), (54, "#28c840")):
        head.append(f'<circle cx="{x}" cy="17" r="5" fill="{color}"/>')
    texts = [
        f'<text xml:space="preserve" class="{class_of(line)}" x="16" y="{44 + LINE * number}">'
        f"{escape(line, quote=False)}</text>"
        for number, line in enumerate(lines)
        if line
    ]
    return "\n".join([*head, *texts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(trim(play())), encoding="utf-8")
    sys.stdout.write(f"{PICTURE}\n")
