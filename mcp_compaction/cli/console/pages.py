"""Writes the page that `--html` names, for the commands that have one."""

from __future__ import annotations

import os
from pathlib import Path

from mcp_compaction.errors import InputError
from mcp_compaction.home import write_whole


def write_html(path: Path, text: str) -> None:
    """Write a page that only its owner may read; a path that cannot be written is named, with the
    way out. A link to a page stays one, and what is no file, as /dev/stdout, gets the text."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            write_whole(Path(os.path.realpath(path)), text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; pass another --html.") from None
