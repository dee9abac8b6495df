"""Puts an audit into words: one screen for all, one compaction in full, and one page with both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_compaction.audit.counting import Audit, Audited, Count, total_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.core.wording import escape, plural
from mcp_compaction.evals.pages import (
    Bar,
    BarLine,
    Table,
    draw_bars,
    fold_in,
    write_key,
    write_lines,
    write_page,
    write_table,
)
from mcp_compaction.home import mask

HOW = (
    "before: said since the compaction before it, or left by that one",
    "stood: in the host's summary or what it kept; rules and tasks word for word, names as typed",
    "needed again: passed by a call of the next 40 answers, or said again by the user",
    "again: a call with the same arguments as one before; tests that are run again count, too",
    "said nowhere: a name of the summary that the transcript lacks; system prompts are not in it",
    "may have broken: a later call does what a rule forbids that was gone; read both",
)
_KEY = {"mark": "stood after the host's compactions", "ours": "stands in ours, of the same size"}
_MOST_SHOWN = 3
_LONGEST = 110


def make_page(audit: Audit) -> str:
    """The page of an audit."""
    counts = total_of(hosts_own(audit))
    rows = {one.kind: _bars_of(one) for one in counts}
    parts = (
        f"<h1>{escape(headline_of(audit))}</h1>",
        write_key(_KEY) + draw_bars(rows, "What stood of what there was") if rows else "",
        write_table(table_of(counts)),
        write_lines(mask(line) for line in lines_of(audit) if line),
        "<h2>Each compaction</h2>",
        *(
            fold_in(
                name_of(one),
                write_table(table_of(one.counts)),
                f"<ul>{write_lines(map(mask, full_lines(one)), 'li')}</ul>",
            )
            for one in audit.findings
        ),
        f"<h2>How it is counted</h2>{write_lines(HOW)}",
    )
    return write_page("What past compactions lost", parts)


def _bars_of(count: Count) -> list[BarLine]:
    """How much of a kind stood after the hosts' compactions, and in ours."""
    lines: list[BarLine] = []
    for stood, style in ((count.stood, "mark"), (count.ours, "ours")):
        if stood is not None:
            share = stood / count.before
            lines.append(BarLine([Bar(share, style, f"{count.kind}: {share:.0%}")], f"{share:.0%}"))
    return lines


def headline_of(audit: Audit) -> str:
    """The one sentence that tells most."""
    hosts = hosts_own(audit)
    rules = next((one for one in total_of(hosts) if one.kind == "rules"), None)
    gone = f"; {rules.before - rules.stood} of {plural(rules.before, 'rule')} gone" if rules else ""
    ours = len(audit.findings) - len(hosts)
    beside = f" (and {ours} by mcp-compaction or another plugin)" if ours else ""
    many = f"{plural(len(hosts), 'compaction')} by hosts{beside} in {plural(audit.chats, 'chat')}"
    return f"{many}{gone}"


def hosts_own(audit: Audit) -> tuple[Audited, ...]:
    """The compactions that hosts made themselves."""
    return tuple(one for one in audit.findings if not one.is_ours)


def table_of(counts: Sequence[Count]) -> Table:
    """What stood, of what there was and of what was needed, beside our view of the same size."""
    has_ours = any(one.ours is not None for one in counts)
    head = ["", "before", "stood", "needed again", "of these stood"]
    head += ["ours: stood", "of the needed"] if has_ours else []
    rows = [head]
    for one in counts:
        row = [one.kind, str(one.before), str(one.stood), str(one.needed), str(one.needed_stood)]
        row += ["" if n is None else str(n) for n in (one.ours, one.ours_needed)] * has_ours
        rows.append(row)
    return rows


def lines_of(audit: Audit) -> Iterator[str]:
    """What stands below the table."""
    hosts = hosts_own(audit)
    yield from _again(hosts)
    yield from _price(hosts)
    invented = sum(len(one.invented) for one in hosts)
    if invented:
        yield f"said nowhere before, but in a summary: {plural(invented, 'name')}"
    ours = [one.ours for one in hosts if one.ours is not None]
    if ours:
        most = max(one.seconds for one in ours)
        yield f"ours: the same input in the same tokens, {most:.1f} s at most, no model"
    yield from worst_case(hosts)
    yield from (f"not read: {one}" for one in audit.skipped[:_MOST_SHOWN])
    if len(audit.skipped) > _MOST_SHOWN:
        yield f"not read: {len(audit.skipped) - _MOST_SHOWN} more; --json has all"
    if audit.left:
        yield f"{plural(audit.left, 'older compaction')} left out; --limit takes more"


def _again(findings: Sequence[Audited]) -> Iterator[str]:
    parts: list[str] = []
    for kind in ("read", "run", "said"):
        found = [one for finding in findings for one in finding.again if one.kind == kind]
        times, tokens = sum(one.times for one in found), sum(one.tokens for one in found)
        if times:
            parts.append(f"{kind} again {plural(times, 'time')} ({tokens:,} tokens)")
    if parts:
        yield f"after them: {', '.join(parts)}"


def _price(findings: Sequence[Audited]) -> Iterator[str]:
    waits = [one.cost.seconds for one in findings if one.cost.seconds is not None]
    read = [one.cost.read_anew for one in findings if one.cost.read_anew is not None]
    money = [one.cost.dollars for one in findings if one.cost.dollars is not None]
    parts = [f"{sum(waits):,.0f} s of waiting"] * bool(waits)
    parts += [f"{sum(read):,} tokens read anew"] * bool(read)
    parts += [f"about ${sum(money):,.2f} by list prices, cache included"] * bool(money)
    if parts:
        known = f" (told for {len(waits)} of {len(findings)})" if len(waits) < len(findings) else ""
        yield f"they took: {', '.join(parts)}{known}"


def worst_case(findings: Sequence[Audited]) -> Iterator[str]:
    """A rule that was gone and the call that may have broken it, side by side."""
    hurt = next((one for one in findings if one.broken), None)
    if hurt is None:
        return
    broken = hurt.broken[0]
    yield ""
    yield f"may have broken a rule that was gone ({hurt.host}, {hurt.chat}):"
    yield f"  the rule   {_short(broken.rule)}   [{broken.said_in or 'earlier'}]"
    yield f"  the call   {_short(broken.call)}   [{broken.called_in}]"


def worst_chat(findings: Sequence[Audited]) -> Audited | None:
    """The compaction that lost most: rules that may have been broken, rules, what was needed."""

    def harm(one: Audited) -> tuple[int, int, int]:
        needed = sum(count.needed - count.needed_stood for count in one.counts)
        return len(one.broken), len(one.lost_rules), needed

    return max(findings, key=harm, default=None)


def name_of(finding: Audited) -> str:
    """One compaction by its chat, its number, who made it and when."""
    by = "mcp-compaction" if finding.is_ours else finding.host
    when = f", {finding.at[:16]}" if finding.at else ""
    return f"{finding.chat}, compaction {finding.number} by {by}{when}"


def full_lines(finding: Audited) -> Iterator[str]:
    """One compaction in full, but for its table."""
    sizes = [f"{n:,}" if n else "not told" for n in (finding.tokens_before, finding.tokens_after)]
    yield f"{sizes[0]} tokens before, {sizes[1]} after; {finding.trigger}"
    yield from _again([finding])
    yield from _price([finding])
    for rule in finding.lost_rules:
        yield f"gone: {rule}"
    for name in finding.invented:
        yield f"said nowhere before: {name}"
    for broken in finding.broken:
        yield f"may be broken: {_short(broken.rule)} [{broken.said_in or 'earlier'}]"
        yield f"           by: {_short(broken.call)} [{broken.called_in}]"
    if finding.ours is not None:
        size = f"{finding.ours.tokens:,} of {finding.ours.of_tokens:,} tokens"
        yield f"ours: {size}, {finding.ours.seconds:.1f} s"


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
