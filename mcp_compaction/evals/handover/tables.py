"""Shows how good handovers are: a table for each source and budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.evals.handover.plain_ways import PLAIN_WAYS
from mcp_compaction.evals.results import (
    PRODUCT,
    HandoverCost,
    HandoverScore,
    Report,
    format_share,
    is_enough,
)

Row = tuple[str, ...]

_FIRST = "names in later calls"
_COUNTED = ("files told of falsely",)  # of which there should be none


def make_handover_tables(report: Report) -> Iterator[tuple[str, list[Row]]]:
    """The tables of what the rest of real sessions needed, and what was kept of it."""
    for cost in report.handover_costs:
        place = (cost.source, cost.budget)
        scores = [one for one in report.handover if (one.source, one.budget) == place]
        ways = list(dict.fromkeys(one.way for one in scores))
        by_key = {(one.measure, one.way): one for one in scores}
        rows: list[Row] = [("", "n", *ways)]
        for measure in dict.fromkeys(one.measure for one in scores if one.asked):
            ours = by_key[measure, PRODUCT]
            cells = (_cell_of(by_key.get((measure, way))) for way in ways)
            rows.append((measure, str(ours.asked), *cells))
        within = f"{cost.sessions - cost.over_budget} of {cost.sessions}"
        rows.append(("views within the budget", "", within, *[""] * (len(ways) - 1)))
        kept = f"{100 * cost.tokens / cost.of_tokens:.0f} % of {kilo(cost.of_tokens)} tokens"
        sessions = plural(cost.sessions, "session")
        yield f"handover, {sessions} of {cost.source}, to {cost.budget}: {kept} kept", rows


class Headline(NamedTuple):
    """A figure to look at first: what it is of, and the best plain way beside it."""

    figure: str
    words: str
    beside: str


def headlines_of(report: Report) -> Iterator[Headline]:
    """The first figures, one for each source and budget."""
    for one in report.handover:
        if (one.way, one.measure) == (PRODUCT, _FIRST):
            words = f"{_FIRST} that are in view, {one.source} to {one.budget}"
            yield Headline(_figure_of(one), words, _best_plain_way(report, one))


def _best_plain_way(report: Report, ours: HandoverScore) -> str:
    place = (ours.source, ours.budget, ours.measure)
    others = [
        one
        for one in report.handover
        if (one.source, one.budget, one.measure) == place and one.way in PLAIN_WAYS
    ]
    if not is_enough(ours.asked) or not others:
        return ""
    best = max(others, key=lambda one: one.mean_share)
    return f"{best.way}: {100 * best.mean_share:.0f} %"


def _figure_of(score: HandoverScore) -> str:
    if not is_enough(score.asked):
        return f"too few ({score.asked})"
    return f"{100 * score.mean_share:.0f} %"


def _cell_of(score: HandoverScore | None) -> str:
    if score is None:
        return ""
    if score.measure in _COUNTED:
        return str(score.kept)
    if not is_enough(score.asked):
        return f"{score.kept} of {score.asked}"
    return format_share(score.mean_share)


def notes_on_handover(costs: Sequence[HandoverCost]) -> tuple[str, ...]:
    """What the figures mean, where there are any."""
    if not costs:
        return ()
    return (
        "handover: each session was cut at 60 %, and each counts the same; shares are of what the "
        "agent's next 40 messages",
        "use and the first part had. Of fewer than 20 items the count is shown instead of a share.",
    )
