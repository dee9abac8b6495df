"""Shows what past compactions left beside ours and plain ways: tables, a document for programs, and
a page with the worst cases, both texts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from mcp_compaction.audit.beside import DEFAULT, HOST, HOW, SAME, WAYS, Beside, BesideReport
from mcp_compaction.core.wording import escape, kilo, plural
from mcp_compaction.evals.pages import Table, fold_in, write_lines, write_page, write_table
from mcp_compaction.evals.results import PRODUCT, format_share
from mcp_compaction.home import mask
from mcp_compaction.model import JsonObject, JsonValue
from mcp_compaction.summarizers.session_model import MOST_WRITTEN

_COLUMNS = (
    ("next 10", "names used in the next 10 answers"),
    ("next 40", "names used in the next 40 answers"),
    ("together", "names used together"),
    ("said", "names said"),
    ("user's words", "the user's words"),
    ("causes", "causes"),
    ("read again", "read again"),
)
_MOST_WORST = 5
_AGAIN = (
    ("the host's summary", SAME, HOST),
    ("ours of its size", SAME, PRODUCT),
    ("ours by default", DEFAULT, PRODUCT),
)
_SIZES = (0, 50_000, 100_000, 200_000, 10**9)  # tokens of a window


def headline_of(report: BesideReport) -> str:
    """The one sentence that says what was looked at."""
    many = f"{plural(len(report.found), 'compaction')} by hosts in {plural(report.chats, 'chat')}"
    short = f"; {report.short} more with too little after them" if report.short else ""
    return f"{many}, each beside ours{short}"


def tables_of(report: BesideReport) -> Iterator[tuple[str, Table]]:
    """A table for each size: a row for each way, what it has in the mean of what was wanted."""
    scores = {(one.budget, one.way, one.measure): one for one in report.scores}
    for at in (SAME, DEFAULT):
        rows: list[tuple[str, ...]] = [("", "tokens", *(short for short, _ in _COLUMNS), "unsaid")]
        for way in (PRODUCT, HOST, *WAYS):
            found = [scores.get((at, way, measure)) for _, measure in _COLUMNS]
            cells = (format_share(s.mean_share) if s and s.asked else "" for s in found)
            size, unsaid = kilo(round(report.tokens_of(at, way))), report.unsaid_in(at, way)
            rows.append((way, size, *cells, str(unsaid)))
        yield f"at {at}", rows


def worst_of(report: BesideReport) -> list[Beside]:
    """The compactions where the host's summary had more than ours of the same size, the worst
    first."""
    behind = sorted((one for one in report.found if one.behind > 0), key=lambda one: -one.behind)
    return behind[:_MOST_WORST]


def name_of(one: Beside) -> str:
    """A compaction by its chat."""
    title = f'"{one.title}", ' if one.title else ""
    return f"{title}{one.host} {one.chat}, compaction {one.number}"


def lines_of(report: BesideReport) -> Iterator[str]:
    """What else there is to say."""
    for one in worst_of(report):
        yield f"the host's summary had {one.behind:.0%} more of what was used next: {name_of(one)}"
    yield from _costs_in(report)
    yield from report.skipped


def _costs_in(report: BesideReport) -> Iterator[str]:
    """What the hosts' own compactions took and what ours did, by the size of the window."""
    for least, most in pairwise(_SIZES):
        found = [one for one in report.found if least <= one.seen < most]
        if not found:
            continue
        size = f"of {kilo(least)} to {kilo(most)}" if most < _SIZES[-1] else f"above {kilo(least)}"
        told = [one.hosts_seconds for one in found if one.hosts_seconds]
        waited = [one.hosts_most_seconds for one in found if one.hosts_most_seconds]
        host = f"{median(told):.0f} s ({len(told)} tell it)" if told else "not told"
        if waited and not told:
            host = f"at most {median(waited):.0f} s ({len(waited)} tell when it began)"
        read = [one.hosts_read for one in found if one.hosts_read]
        tokens = f", {kilo(round(median(read)))} tokens read" if read else ""
        wrote = kilo(round(median(one.hosts_wrote for one in found)))
        ours = f"{median(one.seconds for one in found):.1f} s, no model asked"
        paid = _dollars([one.hosts_dollars for one in found])
        prose = _dollars([one.prose_dollars for one in found])
        many = plural(len(found), "window")
        yield (
            f"{many} {size} tokens: the host's {host}{tokens}, {wrote} written{paid}; ours {ours}; "
            f"with prose{tokens}, at most {kilo(MOST_WRITTEN)} written{prose}"
        )
        if again := sum(one.again_tokens for one in found):
            lacking = (
                f"{name} {kilo(_lacking_in(found, at, way) // len(found))}"
                for name, at, way in _AGAIN
            )
            mean = kilo(again // len(found))
            yield f"read again after each, in the mean {mean} tokens; not in {', '.join(lacking)}"


def _dollars(costs: Sequence[float | None]) -> str:
    """The median of what is known, as listed, with the window read from a provider's cache."""
    known = [one for one in costs if one is not None]
    return f", ${median(known):.2f} from a cache" if known else ""


def _lacking_in(found: Sequence[Beside], at: str, way: str) -> int:
    return sum(n for one in found for a, w, n in one.lacking if (a, w) == (at, way))


def document_of(report: BesideReport) -> JsonObject:
    """All figures for programs, without what was said."""
    texts = {"hosts_text", "our_text"}
    found: list[JsonValue] = [one.model_dump(mode="json", exclude=texts) for one in report.found]
    sums: list[JsonValue] = [one.model_dump(mode="json") for one in report.scores]
    return {
        "compactions": found,
        "sums": sums,
        "chats": report.chats,
        "short": report.short,
        "skipped": list(report.skipped),
    }


def page_of(report: BesideReport) -> str:
    """One page with all of it; it has what was said, and stays on this machine."""
    parts = (
        f"<h1>{escape(headline_of(report))}</h1>",
        *(f"<h2>{escape(title)}</h2>{write_table(rows)}" for title, rows in tables_of(report)),
        write_lines(map(mask, lines_of(report))),
        "<h2>Where the host's summary had more of what was used next</h2>",
        "" if worst_of(report) else "<p>Nowhere.</p>",
        *(
            fold_in(
                mask(name_of(one)),
                write_table((("the host's summary", "ours of the same size"), _texts_of(one))),
            )
            for one in worst_of(report)
        ),
        f"<h2>How it is counted</h2>{write_lines(HOW)}",
    )
    return write_page("Past compactions beside ours", parts)


def _texts_of(one: Beside) -> tuple[str, str]:
    return mask(one.hosts_text), mask(one.our_text)
