"""The MCP App of `context_stats`: a page that a host may show beside the tool's text.

It follows the extension io.modelcontextprotocol/ui of 2026-01-26. What it shows comes with the
tool's own result, under `_meta`, which no model reads.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from mcp_compaction.compactor.statistics import Stats
from mcp_compaction.core.wording import kilo

URI: Final = "ui://mcp-compaction/window"
MIME_TYPE: Final = "text/html;profile=mcp-app"
KEY: Final = "mcp-compaction/window"


def read_app() -> str:
    """The page, which is whole in itself and loads nothing."""
    return files("mcp_compaction.server").joinpath("window_app.html").read_text(encoding="utf-8")


def facts_of(stats: Stats) -> dict[str, Any]:
    """What the page shows of a session."""
    last = stats.last
    sizes = "" if last is None else f"{last.ref} {kilo(last.before)} -> {kilo(last.after)} tokens"
    pins = [
        {"ref": pin.ref, "kind": pin.kind, "by": pin.author, "text": pin.text} for pin in stats.pins
    ]
    fill = {"percent": round(stats.fill.percent, 1), "window": stats.fill.window}
    return {KEY: {**fill, "pins": pins, "last": sizes}}
