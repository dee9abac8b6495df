"""An audit as one HTML page: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_compaction.audit.report import (
    HOW,
    Table,
    full_lines,
    headline_of,
    hosts_own,
    lines_of,
    table_of,
)
from mcp_compaction.audit.results import Audit, Audited, Count, total_of
from mcp_compaction.core.wording import escape
from mcp_compaction.home import mask

_STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf7; --card: #fff; --ink: #1d2430; --soft: #5d6675;
  --line: #e2ded4; --ours: #1f6f78; --host: #c8553d; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181e; --card: #1b2129; --ink: #e8e6e1;
  --soft: #9aa3b0; --line: #2d3541; --ours: #5cc2c0; --host: #f08a6c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: anywhere; }
main { max-width: 880px; margin: 0 auto; padding: 32px 16px 64px; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 32px 0 4px; }
p, li { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.bars { display: grid; grid-template-columns: 7em 1fr; gap: 4px 12px; align-items: center;
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 16px; }
.bar { height: 10px; border-radius: 5px; background: var(--line); overflow: hidden; margin: 2px 0; }
.bar i { display: block; height: 100%; background: var(--host); }
.bar .us { background: var(--ours); }
.host { color: var(--host); } .ours { color: var(--ours); }
details { margin: 10px 0; border-top: 1px solid var(--line); padding-top: 8px; }
summary { cursor: pointer; }
"""


def make_page(audit: Audit) -> str:
    """The whole page."""
    hosts = hosts_own(audit)
    counts = total_of(hosts)
    body = "\n".join(
        (
            f"<h1>{escape(headline_of(audit))}</h1>",
            *_bars(counts),
            *_table(table_of(counts)),
            *(f"<p>{escape(mask(line))}</p>" for line in lines_of(audit) if line),
            "<h2>Each compaction</h2>",
            *(part for one in audit.findings for part in _one(one)),
            "<h2>How it is counted</h2>",
            *(f"<p>{escape(line)}</p>" for line in HOW),
        )
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What past compactions lost</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _bars(counts: Sequence[Count]) -> Iterator[str]:
    """How much of each kind stood after the hosts' compactions, and in ours."""
    if not counts:
        return
    yield '<div class="bars">'
    for one in counts:
        host = round(100 * one.stood / one.before)
        label = f"{one.kind}: {host} % stood"
        bars = f'<div class="bar"><i style="width:{host}%"></i></div>'
        if one.ours is not None:
            us = round(100 * one.ours / one.before)
            label += f", {us} % in ours"
            bars += f'<div class="bar"><i class="us" style="width:{us}%"></i></div>'
        drawn = f'<div role="img" aria-label="{escape(label)}">{bars}</div>'
        yield f"<span>{escape(one.kind)}</span>{drawn}"
    yield "</div>"
    if any(one.ours is not None for one in counts):
        host, us = '<b class="host">', '<b class="ours">'
        yield f"<p>What stood after {host}the host's</b> compactions, and in {us}ours</b>.</p>"


def _table(rows: Table) -> Iterator[str]:
    if len(rows) == 1:
        return
    yield '<div class="scroll"><table>'
    for number, row in enumerate(rows):
        cell = "td" if number else "th"
        yield f"<tr>{''.join(f'<{cell}>{escape(one)}</{cell}>' for one in row)}</tr>"
    yield "</table></div>"


def _one(finding: Audited) -> Iterator[str]:
    by = "by mcp-compaction" if finding.is_ours else f"by {finding.host}"
    when = f", {finding.at[:16]}" if finding.at else ""
    name = f"{finding.chat}, compaction {finding.number}, {by}{when}"
    yield f"<details><summary>{escape(name)}</summary>"
    yield from _table(table_of(finding.counts))
    yield "<ul>"
    yield from (f"<li>{escape(mask(line))}</li>" for line in full_lines(finding))
    yield "</ul></details>"
