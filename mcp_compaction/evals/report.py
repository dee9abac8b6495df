"""Shows what an evaluation found: a table for a person, a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_compaction.evals.drift import REST
from mcp_compaction.evals.handover.tables import make_handover_tables
from mcp_compaction.evals.results import (
    PRODUCT,
    Report,
    Round,
    Score,
    StrategyCost,
    format_share,
    is_ours,
    name_with_model,
)
from mcp_compaction.model import JsonObject, JsonValue

KINDS = (
    "answer", "evidence", "argument",
    "rule, pinned", "rule, detected", "rule, undetected", "task, detected", "task, undetected",
    "decision", "reversal", "path", "command", "id", "number", "error", "url", "doubt",
)  # fmt: skip
_FEWEST_TO_TELL = 3  # faults that are spelled out

Row = tuple[str, ...]


def make_tables(report: Report) -> Iterator[tuple[str, list[Row]]]:
    """Every table of the report: its heading, and its rows with the names of the columns first."""
    for corpus, _ in report.sessions:
        for percent in percents_of(report, corpus):
            yield _make_budget_table(report, corpus, percent)
    if any(is_ours(name) and name != PRODUCT for name in strategies_of(report)):
        yield _make_difference_table(report)
    yield from make_handover_tables(report)
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
    return sorted(names, key=lambda name: (not is_ours(name), name != PRODUCT))


def kinds_of(scores: Sequence[Score]) -> list[str]:
    """The kinds that were looked for, in the order they are shown."""
    found = {score.kind for score in scores}
    return [kind for kind in KINDS if kind in found]


def _make_budget_table(report: Report, corpus: str, percent: int) -> tuple[str, list[Row]]:
    scores = [s for s in report.scores if (s.corpus, s.percent) == (corpus, percent)]
    costs = {
        c.strategy: c for c in report.costs if (c.corpus, c.percent) == (corpus, percent)
    }  # fmt: skip
    names = [name for name in strategies_of(report) if name in costs]
    by_key = {(score.kind, score.strategy): score for score in scores}
    has_refs = any(score.recoverable is not None for score in scores)
    rows: list[Row] = [("", "n", *names, *(("or by ref",) if has_refs else ()))]
    for kind in kinds_of(scores):
        row = [kind, str(by_key[kind, names[0]].asked)]
        row += [_pair_of(by_key[kind, name]) for name in names]
        rows.append((*row, *((_recovered_share(by_key[kind, PRODUCT]),) if has_refs else ())))
    for title, show in (
        ("tokens kept", _kept_share),
        ("over budget", _over_share),
        ("ms", _time_of),
    ):
        row = [title, "", *(show(costs[name]) for name in names)]
        rows.append((*row, "") if has_refs else tuple(row))
    any_cost = costs[names[0]]
    heading = (
        f"{corpus}, to {percent} % of {any_cost.of_tokens:,} tokens in {any_cost.sessions} "
        "sessions: closed-book, with one recall"
    )
    return heading, rows


def _make_difference_table(report: Report) -> tuple[str, list[Row]]:
    """The table of what a model adds to the rules, over all kinds together."""
    name = next(one for one in strategies_of(report) if is_ours(one) and one != PRODUCT)
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
    return Score(
        corpus=corpus,
        strategy=strategy,
        percent=percent,
        kind="",
        asked=sum(score.asked for score in scores),
        closed_book=sum(score.closed_book for score in scores),
        with_recall=sum(score.with_recall for score in scores),
    )


def _make_drift_table(drift: Sequence[Round]) -> tuple[str, list[Row]]:
    rounds = sorted({one.number for one in drift})
    by_key = {(one.strategy, one.group, one.number): one for one in drift}
    rows: list[Row] = [("", "", *(f"round {n}" for n in rounds))]
    for strategy, group in dict.fromkeys((one.strategy, one.group) for one in drift):
        if group == REST and not is_ours(strategy):
            continue
        name = f"{group}, or recoverable" if group == REST else group
        shares = (format_share(by_key[strategy, group, n].share) for n in rounds)
        rows.append((strategy, name, *shares))
    rows.sort(key=lambda row: row[0] != "" and not is_ours(row[0]))
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


def _recovered_share(score: Score) -> str:
    return "" if score.recoverable is None else format_share(score.recoverable / score.asked)


def _kept_share(cost: StrategyCost) -> str:
    return f"{100 * cost.tokens / cost.of_tokens:.1f} %"


def _over_share(cost: StrategyCost) -> str:
    return f"{cost.over_budget} of {cost.sessions}" if cost.over_budget else "-"


def _time_of(cost: StrategyCost) -> str:
    return f"{1000 * cost.seconds / cost.sessions:.0f}"
