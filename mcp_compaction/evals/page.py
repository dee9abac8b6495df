"""The report as one HTML page with charts: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_compaction.core.wording import escape
from mcp_compaction.evals.charts import Bar, Curve, draw_curves, draw_kinds, draw_strategies
from mcp_compaction.evals.drift import REST
from mcp_compaction.evals.handover.tables import headlines_of
from mcp_compaction.evals.report import (
    find_faults,
    kinds_of,
    make_tables,
    percents_of,
    strategies_of,
)
from mcp_compaction.evals.results import (
    PRODUCT,
    Report,
    Score,
    format_share,
    is_enough,
    is_ours,
)
from mcp_compaction.evals.scenarios import CORPUS

_STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf7; --card: #fff; --ink: #1d2430; --soft: #5d6675;
  --line: #e2ded4; --ours: #1f6f78; --pale: #a9d3d2; --other: #a8adb6; --mark: #c8553d; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181e; --card: #1b2129; --ink: #e8e6e1;
  --soft: #9aa3b0; --line: #2d3541; --ours: #5cc2c0; --pale: #2b5a60; --other: #5b6472;
  --mark: #f08a6c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 880px; margin: 0 auto; padding: 48px 24px 80px; }
h1 { font-size: 2rem; margin: 0 0 4px; letter-spacing: -0.02em; }
h2 { font-size: 1.25rem; margin: 48px 0 4px; }
h3 { font-size: 1rem; margin: 24px 0 4px; }
p { color: var(--soft); margin: 4px 0 12px; max-width: 68ch; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin: 28px 0 8px; }
.tile, figure { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.tile { padding: 16px; }
.tile b { display: block; font-size: 1.9rem; letter-spacing: -0.02em; }
.tile span { color: var(--soft); font-size: .85rem; }
figure { margin: 12px 0; padding: 16px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 12px; }
.pair figure { margin: 0; }
figcaption { color: var(--soft); font-size: .85rem; margin-bottom: 8px; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--ink); font-size: 13px; }
svg .small { fill: var(--soft); font-size: 10.5px; }
svg .value { font-weight: 600; }
.grid { stroke: var(--line); stroke-width: 1; fill: none; }
.ours { fill: var(--ours); } .pale { fill: var(--pale); } .other { fill: var(--other); }
.b1 { opacity: .75; } .b2 { opacity: .5; }
.rival { stroke: var(--mark); stroke-width: 3; fill: none; }
.curve { fill: none; stroke: var(--ours); stroke-width: 3; stroke-linejoin: round; }
.faint { stroke: var(--other); stroke-width: 1.3; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 5px 0 14px;
  vertical-align: -1px; }
.key i:first-child { margin-left: 0; }
details { margin: 10px 0; } summary { cursor: pointer; color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
td:nth-child(3), th:nth-child(3) { font-weight: 600; }
"""
_KEY = """<div class="key"><i style="background:var(--ours)"></i>in the view
<i style="background:var(--pale)"></i>with one recall
<i style="background:var(--mark);width:4px"></i>the best simpler way, in its view</div>"""


def make_page(report: Report) -> str:
    """The whole page."""
    body = "\n".join(
        (_head_of(report), *_kinds_section(report), *_ways_section(report), *_drift_section(report))
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What survives a compaction</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{body}
{_tables_section(report)}
</main>
</body>
</html>
"""


def _head_of(report: Report) -> str:
    real = {cost.source: cost.sessions for cost in report.handover_costs}
    counted = (*report.sessions, *real.items())
    measured = ", ".join(f"{number} {corpus}" for corpus, number in counted)
    tiles = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(words)}</span></div>'
        for value, words in _figures_of(report)
    )
    return (
        "<h1>What survives a compaction</h1>"
        f"<p>{escape(measured)} sessions, each compressed in a store of its own and read back "
        f"whole; tokens counted by {escape(report.counter)}, seed {report.seed}, "
        f'{report.seconds:.0f} s in all.</p><div class="tiles">{tiles}</div>'
    )


def _figures_of(report: Report) -> Iterator[tuple[str, str]]:
    """The few numbers to look at first, at the smallest budget of each corpus."""
    for corpus, _ in report.sessions:
        least = percents_of(report, corpus)[-1]
        ours = [s for s in report.scores if _is_ours(s, corpus, least)]
        if corpus == CORPUS:
            held = [s for s in ours if s.kind.endswith(("pinned", "detected"))]
            held = [s for s in held if not s.kind.endswith("undetected")]
            found = [s for s in ours if s.recoverable is not None]
            if held:
                yield (
                    _share_in_words(held, "closed"),
                    f"of known rules and tasks in view, at {least} %",
                )
            if found:
                yield (
                    _share_in_words(found, "recoverable"),
                    f"of all that was planted within reach, {least} %",
                )
        for score in ours:
            if score.kind in ("answer", "argument"):
                words = f"of {corpus} {score.kind}s in view, at {least} %"
                words += _over_note(report, corpus, least)
                yield _share_in_words([score], "closed"), words
    for headline in headlines_of(report):
        beside = f" ({headline.beside})" if headline.beside else ""
        yield headline.figure, f"{headline.words}{beside}"
    ours = [c for c in report.costs if c.strategy == PRODUCT]
    views = sum(c.sessions for c in (*ours, *report.handover_costs))
    faulty = sum(bool(c.faults) for c in (*ours, *report.handover_costs))
    yield str(views), "views checked, none at fault" if not faulty else "views checked, see below"


def _share_in_words(scores: Sequence[Score], what: str) -> str:
    asked = sum(score.asked for score in scores)
    if not is_enough(asked):
        return f"too few ({asked})"
    if what == "closed":
        return f"{sum(score.closed_book for score in scores) / asked:.0%}"
    return f"{sum(score.recoverable or 0 for score in scores) / asked:.0%}"


def _kinds_section(report: Report) -> Iterator[str]:
    for corpus, _ in report.sessions:
        yield f"<h2>By kind: {escape(corpus)}</h2>"
        yield f"<p>What is still there after a compaction to each budget.</p>{_KEY}"
        for percent in percents_of(report, corpus):
            scores = [s for s in report.scores if (s.corpus, s.percent) == (corpus, percent)]
            bars = [_bar_of(kind, scores) for kind in kinds_of(scores)]
            drawn = draw_kinds(bars, f"{corpus} at {percent} %")
            caption = f"to {percent} % of its tokens{_over_note(report, corpus, percent)}"
            yield f"<figure><figcaption>{escape(caption)}</figcaption>{drawn}</figure>"


def _over_note(report: Report, corpus: str, percent: int) -> str:
    """The note on views that came out larger than the budget."""
    for cost in report.costs:
        way = (cost.corpus, cost.strategy, cost.percent)
        if way == (corpus, PRODUCT, percent) and cost.over_budget:
            kept = f"{100 * cost.tokens / cost.of_tokens:.0f} %"
            many = f"{cost.over_budget} of {cost.sessions}"
            return f"; larger than that in {many} sessions, {kept} in all"
    return ""


def _bar_of(kind: str, scores: Sequence[Score]) -> Bar:
    same = {score.strategy: score for score in scores if score.kind == kind}
    ours = same[PRODUCT]
    others = [score for name, score in same.items() if not is_ours(name)]
    best = max(others, key=lambda score: score.closed_share, default=ours)
    label = f"{kind} ({ours.asked})"
    return Bar(label, ours.closed_share, ours.recall_share, best.closed_share, best.strategy)


def _ways_section(report: Report) -> Iterator[str]:
    if not report.sessions:
        return
    yield "<h2>Beside the simpler ways</h2>"
    yield "<p>The same sessions, the same tokens, the same counter; without a recall.</p>"
    for corpus, _ in report.sessions:
        budgets = percents_of(report, corpus)
        for kind in _main_kinds(report, corpus):
            shares = {
                name: [_share_of(report, (corpus, name, percent), kind) for percent in budgets]
                for name in strategies_of(report)
            }
            over = [
                f"{p} %{_over_note(report, corpus, p)}"
                for p in budgets
                if _over_note(report, corpus, p)
            ]
            title = f"{corpus}: {kind or 'all kinds together'}"
            title += f" ({PRODUCT} at {'; at '.join(over)})" if over else ""
            drawn = draw_strategies(shares, budgets, title)
            yield f"<figure><figcaption>{escape(title)}</figcaption>{drawn}</figure>"


def _main_kinds(report: Report, corpus: str) -> list[str]:
    """The kinds a corpus is judged by; the generated one by everything together."""
    found = kinds_of([score for score in report.scores if score.corpus == corpus])
    return [""] if corpus == CORPUS else found


def _share_of(report: Report, way: tuple[str, str, int], kind: str) -> float:
    scores = [
        score
        for score in report.scores
        if (score.corpus, score.strategy, score.percent) == way and kind in ("", score.kind)
    ]
    asked = sum(score.asked for score in scores)
    return sum(score.closed_book for score in scores) / asked if asked else 0.0


def _drift_section(report: Report) -> Iterator[str]:
    if not report.drift:
        return
    rounds = max(one.number for one in report.drift)
    yield f"<h2>{rounds} rounds of drift</h2>"
    yield (
        "<p>Each round adds a span of equal size and is compressed to as much as one holds. Rules, "
        "tasks and decisions count while they stand in the view; everything else may also be "
        "behind a ref or found by its own words. The gray lines are the simpler ways.</p>"
        '<div class="pair">'
    )
    for group in dict.fromkeys(one.group for one in report.drift):
        names = [PRODUCT] if group == REST else strategies_of(report)
        lines = [Curve(name, _course_of(report, name, group), name == PRODUCT) for name in names]
        shares = [format_share(share) for share in lines[0].shares]
        ends = f"{shares[0]} in round 1, {shares[-1]} in the last"
        drawn = draw_curves(lines, f"drift of {group}")
        yield f"<figure><figcaption>{escape(group)}: {ends}</figcaption>{drawn}</figure>"
    yield "</div>"


def _course_of(report: Report, strategy: str, group: str) -> list[float]:
    found = [r for r in report.drift if (r.strategy, r.group) == (strategy, group)]
    return [one.share for one in sorted(found, key=lambda one: one.number)]


def _tables_section(report: Report) -> str:
    parts = ["<h2>All figures</h2><p>Two figures in a cell: closed-book, then with one recall.</p>"]
    for heading, (first, *rows) in make_tables(report):
        head = "".join(f"<th>{escape(name)}</th>" for name in first)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows
        )
        parts.append(
            f'<details><summary>{escape(heading)}</summary><div class="scroll"><table>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
        )
    parts += [f"<p>{escape(line)}</p>" for line in (*find_faults(report), *report.notes)]
    return "\n".join(parts)


def _is_ours(score: Score, corpus: str, percent: int) -> bool:
    return (score.corpus, score.strategy, score.percent) == (corpus, PRODUCT, percent)
