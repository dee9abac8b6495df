"""Writes the page that `--html` names, for the commands that have one."""

from __future__ import annotations

from pathlib import Path

from mcp_compaction.errors import InputError


def write_html(path: Path, text: str) -> None:
    """Write a page; a path that cannot be written is named, with the way out."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; pass another --html.") from None
