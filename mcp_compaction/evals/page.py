"""The report of an evaluation as one HTML page with charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_compaction.core.wording import escape
from mcp_compaction.evals.drift import REST
from mcp_compaction.evals.pages import (
    Bar,
    BarLine,
    Curve,
    draw_bars,
    draw_curves,
    fold_in,
    write_key,
    write_lines,
    write_page,
    write_table,
)
from mcp_compaction.evals.report import (
    find_faults,
    headlines_of,
    kinds_of,
    make_tables,
    percents_of,
    strategies_of,
)
from mcp_compaction.evals.results import PRODUCT, Report, Score, format_share, is_enough, is_ours
from mcp_compaction.evals.scenarios import CORPUS

_KEY = {
    "ours": "in the view",
    "pale": "with one recall",
    "mark": "the best simpler way, in its view",
}


def make_page(report: Report) -> str:
    """The whole page."""
    title = "What survives a compaction"
    real = {cost.source: cost.sessions for cost in report.handover_costs}
    counted = (*report.sessions, *real.items())
    measured = ", ".join(f"{number} {corpus}" for corpus, number in counted)
    tiles = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(words)}</span></div>'
        for value, words in _figures_of(report)
    )
    how = (
        f"{measured} sessions, each compressed in a store of its own and read back whole; tokens "
        f"counted by {report.counter}, seed {report.seed}, {report.seconds:.0f} s in all."
    )
    parts = (
        f'<h1>{title}</h1>{write_lines([how])}<div class="tiles">{tiles}</div>',
        *_kinds_section(report),
        *_ways_section(report),
        *_drift_section(report),
        "<h2>All figures</h2><p>Two figures in a cell: closed-book, then with one recall.</p>",
        *(fold_in(heading, write_table(rows)) for heading, rows in make_tables(report)),
        write_lines((*find_faults(report), *report.notes)),
    )
    return write_page(title, parts)


def _figures_of(report: Report) -> Iterator[tuple[str, str]]:
    """The few numbers to look at first, at the smallest budget of each corpus."""
    for corpus, _ in report.sessions:
        least = percents_of(report, corpus)[-1]
        way = (corpus, PRODUCT, least)
        ours = [s for s in report.scores if (s.corpus, s.strategy, s.percent) == way]
        if corpus == CORPUS:
            held = [s for s in ours if s.kind.endswith((", pinned", ", detected"))]
            found = [s for s in ours if s.recoverable is not None]
            if held:
                words = f"of known rules and tasks in view, at {least} %"
                yield _share_in_words(held, "closed_book"), words
            if found:
                words = f"of all that was planted within reach, {least} %"
                yield _share_in_words(found, "recoverable"), words
        for score in ours:
            if score.kind in ("answer", "argument"):
                words = f"of {corpus} {score.kind}s in view, at {least} %"
                words += _over_note(report, corpus, least)
                yield _share_in_words([score], "closed_book"), words
    for headline in headlines_of(report):
        yield headline.figure, f"{headline.words}{headline.beside}"
    costs = [*(c for c in report.costs if c.strategy == PRODUCT), *report.handover_costs]
    is_faulty = any(cost.faults for cost in costs)
    told = "views checked, see below" if is_faulty else "views checked, none at fault"
    yield str(sum(cost.sessions for cost in costs)), told


def _share_in_words(scores: Sequence[Score], what: str) -> str:
    asked = sum(score.asked for score in scores)
    if not is_enough(asked):
        return f"too few ({asked})"
    return f"{sum(getattr(score, what) for score in scores) / asked:.0%}"


def _kinds_section(report: Report) -> Iterator[str]:
    for corpus, _ in report.sessions:
        yield f"<h2>By kind: {escape(corpus)}</h2>"
        yield "<p>What is still there after a compaction to each budget.</p>"
        yield write_key(_KEY)
        for percent in percents_of(report, corpus):
            scores = [s for s in report.scores if (s.corpus, s.percent) == (corpus, percent)]
            rows = dict(_row_of(kind, scores) for kind in kinds_of(scores))
            note = _over_note(report, corpus, percent)
            yield draw_bars(rows, f"{corpus}, to {percent} % of its tokens{note}")


def _over_note(report: Report, corpus: str, percent: int) -> str:
    """The note on views that came out larger than the budget."""
    for cost in report.costs:
        way = (cost.corpus, cost.strategy, cost.percent)
        if way == (corpus, PRODUCT, percent) and cost.over_budget:
            kept = f"{100 * cost.tokens / cost.of_tokens:.0f} %"
            many = f"{cost.over_budget} of {cost.sessions}"
            return f"; larger than that in {many} sessions, {kept} in all"
    return ""


def _row_of(kind: str, scores: Sequence[Score]) -> tuple[str, list[BarLine]]:
    same = {score.strategy: score for score in scores if score.kind == kind}
    ours = same[PRODUCT]
    others = [score for name, score in same.items() if not is_ours(name)]
    best = max(others, key=lambda score: score.closed_share, default=ours)
    told = f"{best.strategy} {best.closed_share:.0%}"
    bars = (
        Bar(ours.recall_share, "pale", f"with one recall {ours.recall_share:.0%}"),
        Bar(ours.closed_share, "ours", f"in the view {ours.closed_share:.0%}"),
        Bar(best.closed_share, "mark", f"best other way: {told}", is_mark=True),
    )
    return f"{kind} ({ours.asked})", [BarLine(bars, f"{ours.closed_share:.0%}")]


def _ways_section(report: Report) -> Iterator[str]:
    if not report.sessions:
        return
    yield "<h2>Beside the simpler ways</h2>"
    yield "<p>The same sessions, the same tokens, the same counter; without a recall.</p>"
    for corpus, _ in report.sessions:
        of_corpus = [score for score in report.scores if score.corpus == corpus]
        notes = {p: _over_note(report, corpus, p) for p in percents_of(report, corpus)}
        over = [f"{percent} %{note}" for percent, note in notes.items() if note]
        # The generated sessions are judged by everything together.
        for kind in [""] if corpus == CORPUS else kinds_of(of_corpus):
            scores = [score for score in of_corpus if kind in ("", score.kind)]
            caption = f"{corpus}: {kind or 'all kinds together'}"
            caption += f" ({PRODUCT} at {'; at '.join(over)})" if over else ""
            ways = {name: list(_lines_of_way(scores, name)) for name in strategies_of(report)}
            yield draw_bars(ways, caption)


def _lines_of_way(scores: Sequence[Score], strategy: str) -> Iterator[BarLine]:
    """A line for each budget."""
    own = [score for score in scores if score.strategy == strategy]
    for percent in sorted({score.percent for score in scores}, reverse=True):
        same = [score for score in own if score.percent == percent]
        asked = sum(score.asked for score in same)
        share = sum(score.closed_book for score in same) / max(1, asked)
        style = "ours" if strategy == PRODUCT else "other"
        bar = Bar(share, style, f"{strategy} at {percent} %: {share:.1%}")
        yield BarLine([bar], f"{share:.0%} at {percent} %")


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
    drift = sorted(report.drift, key=lambda one: one.number)
    for group in dict.fromkeys(one.group for one in report.drift):
        names = [PRODUCT] if group == REST else strategies_of(report)
        of_group = [one for one in drift if one.group == group]
        same = {name: [one.share for one in of_group if one.strategy == name] for name in names}
        lines = [Curve(name, shares, name == PRODUCT) for name, shares in same.items()]
        shares = [format_share(share) for share in lines[0].shares]
        yield draw_curves(lines, f"{group}: {shares[0]} in round 1, {shares[-1]} in the last")
    yield "</div>"
