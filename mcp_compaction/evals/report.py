"""Shows what an evaluation found: tables and a page with charts for a person, a document for
programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.wording import escape, kilo, plural
from mcp_compaction.evals.handover import PLAIN_WAYS
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
from mcp_compaction.evals.results import (
    PRODUCT,
    HandoverScore,
    Report,
    Round,
    Score,
    StrategyCost,
    add_up,
    format_share,
    is_enough,
    is_product,
    name_with_model,
)
from mcp_compaction.evals.runner import REST
from mcp_compaction.evals.scenarios import CORPUS
from mcp_compaction.model import JsonObject, JsonValue

KINDS = (
    "answer", "evidence", "argument",
    "rule, pinned", "rule, detected", "rule, undetected", "task, detected", "task, undetected",
    "decision", "reversal", "path", "command", "id", "number", "error", "url", "doubt",
)  # fmt: skip
_FEWEST_TO_TELL = 3  # faults that are spelled out
_FIRST = "names in later calls"
_COUNTED = ("files told of falsely",)  # of which there should be none

Row = tuple[str, ...]


def make_tables(report: Report) -> Iterator[tuple[str, list[Row]]]:
    """Every table of the report: its heading, and its rows with the names of the columns first."""
    for corpus, _ in report.sessions:
        for percent in percents_of(report, corpus):
            yield _make_budget_table(report, corpus, percent)
    if any(is_product(name) and name != PRODUCT for name in strategies_of(report)):
        yield _make_difference_table(report)
    yield from _make_handover_tables(report)
    if report.drift:
        yield _make_drift_table(report.drift)
    if report.detection:
        yield _make_detection_table(report)
    if report.referee:
        yield _make_referee_table(report)


def make_document(report: Report) -> JsonObject:
    """The report for programs, with the shares worked out."""
    scores: list[JsonValue] = [
        {
            **score.model_dump(mode="json"),
            "closed_share": round(score.closed_share, 4),
            "recall_share": round(score.recall_share, 4),
        }
        for score in report.scores
    ]
    return {**report.model_dump(mode="json"), "scores": scores}


def find_faults(report: Report) -> Iterator[str]:
    """The faults of the product's views, a few words each."""
    faulty = [(cost, f"{cost.corpus} at {cost.percent} %") for cost in report.costs]
    real = [(cost, f"{cost.source} to {cost.budget}") for cost in report.handover_costs]
    for cost, where in (*faulty, *real):
        if cost.faults:
            told = "; ".join(cost.faults[:_FEWEST_TO_TELL])
            more = len(cost.faults) - _FEWEST_TO_TELL
            rest = f"; and {more} more" if more > 0 else ""
            yield f"{where}: {told}{rest}"


def percents_of(report: Report, corpus: str) -> list[int]:
    """The budgets a corpus was measured at, the largest first."""
    return sorted({cost.percent for cost in report.costs if cost.corpus == corpus}, reverse=True)


def strategies_of(report: Report) -> list[str]:
    """The product first, then with a model, then the baselines in their order."""
    names = list(dict.fromkeys(cost.strategy for cost in report.costs))
    return sorted(names, key=lambda name: (not is_product(name), name != PRODUCT))


def kinds_of(scores: Sequence[Score]) -> list[str]:
    """The kinds that were looked for, in the order they are shown."""
    found = {score.kind for score in scores}
    return [kind for kind in KINDS if kind in found]


def _make_budget_table(report: Report, corpus: str, percent: int) -> tuple[str, list[Row]]:
    scores = [s for s in report.scores if (s.corpus, s.percent) == (corpus, percent)]
    of_budget = [c for c in report.costs if (c.corpus, c.percent) == (corpus, percent)]
    by_name = {cost.strategy: cost for cost in of_budget}
    names = [name for name in strategies_of(report) if name in by_name]
    costs = [by_name[name] for name in names]
    by_key = {(score.kind, score.strategy): score for score in scores}
    has_refs = any(score.recoverable is not None for score in scores)
    rows: list[list[str]] = [["", "n", *names, *["or by ref"] * has_refs]]
    for kind in kinds_of(scores):
        ours = by_key[kind, PRODUCT]
        row = [kind, str(ours.asked), *(_pair_of(by_key[kind, name]) for name in names)]
        known = "" if ours.recoverable is None else format_share(ours.recoverable / ours.asked)
        rows.append([*row, *[known] * has_refs])
    over = [f"{c.over_budget} of {c.sessions}" if c.over_budget else "-" for c in costs]
    times = [f"{1000 * cost.seconds / cost.sessions:.0f}" for cost in costs]
    kept = map(_kept_share, costs)
    for title, cells in (("tokens kept", kept), ("over budget", over), ("ms", times)):
        rows.append([title, "", *cells, *[""] * has_refs])
    heading = (
        f"{corpus}, to {percent} % of {costs[0].of_tokens:,} tokens in {costs[0].sessions} "
        "sessions: closed-book, with one recall"
    )
    return heading, [tuple(row) for row in rows]


def _make_difference_table(report: Report) -> tuple[str, list[Row]]:
    """The table of what a model adds to the rules, over all kinds together."""
    name = next(one for one in strategies_of(report) if is_product(one) and one != PRODUCT)
    model = name.removeprefix(name_with_model(""))
    rows: list[Row] = [("", "n", "extracted", f"with {model}", "difference", "tokens kept")]
    for corpus, _ in report.sessions:
        for percent in percents_of(report, corpus):
            alone, both = (_total_of(report, corpus, percent, way) for way in (PRODUCT, name))
            sizes = [
                _kept_share(cost)
                for way in (PRODUCT, name)
                for cost in report.costs
                if (cost.corpus, cost.percent, cost.strategy) == (corpus, percent, way)
            ]
            row = (f"{corpus} at {percent} %", str(alone.asked), _pair_of(alone), _pair_of(both))
            change = f"{both.closed_book - alone.closed_book:+d}"
            change += f", {both.with_recall - alone.with_recall:+d}"
            rows.append((*row, change, " -> ".join(sizes)))
    return f"the difference that {model} makes", rows


def _total_of(report: Report, corpus: str, percent: int, strategy: str) -> Score:
    wanted = (corpus, percent, strategy)
    scores = [s for s in report.scores if (s.corpus, s.percent, s.strategy) == wanted]
    alike = (score.model_copy(update={"kind": ""}) for score in scores)
    return add_up(alike, "corpus", "percent", "strategy", "kind")[0]


def _make_drift_table(drift: Sequence[Round]) -> tuple[str, list[Row]]:
    rounds = sorted({one.number for one in drift})
    by_key = {(one.strategy, one.group, one.number): one for one in drift}
    rows: list[Row] = [("", "", *(f"round {n}" for n in rounds))]
    for strategy, group in dict.fromkeys((one.strategy, one.group) for one in drift):
        if group == REST and not is_product(strategy):
            continue
        name = f"{group}, or recoverable" if group == REST else group
        shares = (format_share(by_key[strategy, group, n].share) for n in rounds)
        rows.append((strategy, name, *shares))
    rows.sort(key=lambda row: row[0] != "" and not is_product(row[0]))
    heading = f"drift: {len(rounds)} rounds, each adds a span and goes down to as much as one"
    return heading, rows


def _make_detection_table(report: Report) -> tuple[str, list[Row]]:
    names = {
        "common": "rules in common wordings, offered for pinning",
        "apart": "rules in wordings kept apart, offered for pinning",
        "none": "user messages without a rule, flagged all the same",
    }
    rows: list[Row] = [("", "", "share")]
    for one in report.detection:
        share = format_share(one.noticed / one.stated) if one.stated else "-"
        rows.append((names[one.wording], f"{one.noticed} of {one.stated}", share))
    return "detection", rows


def _make_referee_table(report: Report) -> tuple[str, list[Row]]:
    rows: list[Row] = [("", "to", "survived", "updates resolved", "told apart", "within budget")]
    for one in report.referee:
        shares = map(format_share, (one.survived, one.resolved, one.told_apart))
        is_within = "yes" if one.is_within_budget else "no"
        rows.append((one.strategy, f"{one.percent} %", *shares, is_within))
    return "compaction-conformance-kit, an outside referee, on its own small sessions", rows


def _pair_of(score: Score) -> str:
    return f"{format_share(score.closed_share):>4} {format_share(score.recall_share):>4}"


def _kept_share(cost: StrategyCost) -> str:
    return f"{100 * cost.tokens / cost.of_tokens:.1f} %"


# Handovers of real sessions


def _make_handover_tables(report: Report) -> Iterator[tuple[str, list[Row]]]:
    """The tables of what the rest of real sessions needed, and what was kept of it."""
    for cost in report.handover_costs:
        place = (cost.source, cost.budget)
        scores = [one for one in report.handover if (one.source, one.budget) == place]
        ways = list(dict.fromkeys(one.way for one in scores))
        by_key = {(one.measure, one.way): one for one in scores}
        rows: list[Row] = [("", "n", *ways)]
        for measure in dict.fromkeys(one.measure for one in scores if one.asked):
            cells = (_cell_of(by_key.get((measure, way))) for way in ways)
            rows.append((measure, str(by_key[measure, PRODUCT].asked), *cells))
        within = f"{cost.sessions - cost.over_budget} of {cost.sessions}"
        rows.append(("views within the budget", "", within, *[""] * (len(ways) - 1)))
        kept = f"{100 * cost.tokens / cost.of_tokens:.0f} % of {kilo(cost.of_tokens)} tokens"
        sessions = plural(cost.sessions, "session")
        yield f"handover, {sessions} of {cost.source}, to {cost.budget}: {kept} kept", rows


class Headline(NamedTuple):
    """A figure to look at first: what it is of, and the best plain way beside it."""

    figure: str
    words: str
    beside: str  # in brackets, with a space before; empty where there is none


def headlines_of(report: Report) -> Iterator[Headline]:
    """The first figures, one for each source and budget."""
    for one in report.handover:
        if (one.way, one.measure) != (PRODUCT, _FIRST):
            continue
        words = f"{_FIRST} that are in view, {one.source} to {one.budget}"
        if not is_enough(one.asked):
            yield Headline(f"too few ({one.asked})", words, "")
            continue
        place = (one.source, one.budget, one.measure)
        same = [s for s in report.handover if (s.source, s.budget, s.measure) == place]
        plain = [score for score in same if score.way in PLAIN_WAYS]
        best = max(plain, key=lambda score: score.mean_share, default=None)
        beside = "" if best is None else f" ({best.way}: {100 * best.mean_share:.0f} %)"
        yield Headline(f"{100 * one.mean_share:.0f} %", words, beside)


def _cell_of(score: HandoverScore | None) -> str:
    if score is None:
        return ""
    if score.measure in _COUNTED:
        return str(score.kept)
    if not is_enough(score.asked):
        return f"{score.kept} of {score.asked}"
    return format_share(score.mean_share)


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
    others = [score for name, score in same.items() if not is_product(name)]
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
