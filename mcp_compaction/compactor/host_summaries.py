"""Checks a host's own summary like any draft: what it lost is told, so that it can be put back."""

from __future__ import annotations

from typing import NamedTuple

from mcp_compaction.compactor.results import HOST_SUMMARY_CHECKED, HostSummary
from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core.compaction.verify import (
    Check,
    Findings,
    compare,
    find_lost,
    find_missing_lines,
    lines_of_findings,
    search_request_for,
)
from mcp_compaction.core.digest.extract import open_tasks, stated_rules
from mcp_compaction.core.log.conversation import host_summary_in
from mcp_compaction.core.log.identifiers import identifiers_by_message
from mcp_compaction.core.log.pinned import shown_text
from mcp_compaction.core.recall.query import terms_of
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.wording import plural
from mcp_compaction.model import Item, SearchQuery, Session, SessionInfo, ShownRecord


class _Comparison(NamedTuple):
    """A host's window beside what was said before."""

    found: Findings
    check: Check
    rules: int
    missing: tuple[Item, ...]  # rules, tasks and pins that do not stand there word for word


async def check_host_summary(
    work: Workspace, info: SessionInfo, summary: str, beside: str
) -> HostSummary:
    """What was said before a host compacted, held against its summary and what stands beside it."""
    session = await work.load(info)
    said = tuple(message for message in session.messages if not host_summary_in(message))
    session = session.model_copy(update={"messages": said})
    seen = await work.threads.run(_compare, session, summary, beside)
    request = search_request_for(seen.check.unseen)
    queries = [SearchQuery(terms=terms_of(text)) for text in request.queries]
    hits = await work.store.search_many(scope_of(info), queries, request.limit) if queries else ()
    lost = find_lost(seen.check.unseen, hits, seen.found)
    lines = lines_of_findings(lost, session.messages, seen.found)
    items = (*seen.missing, *(item for several in lines.values() for _, item in several))
    detail = f"{plural(seen.rules, 'rule')} to keep, {plural(len(items), 'line')} lost"
    await work.note(info, HOST_SUMMARY_CHECKED, detail)
    return HostSummary(rules=seen.rules, lost=items)


def _compare(session: Session, summary: str, beside: str) -> _Comparison:
    shown = (ShownRecord(text=summary), ShownRecord(text=beside))
    found = identifiers_by_message(session.messages)
    shown_pins = [pin for pin in session.pins if pin.kind != "note"]
    pins = [Item(text=shown_text(pin.text), refs=(pin.ref,)) for pin in shown_pins]
    said = [*pins, *stated_rules(session.messages), *open_tasks(session.messages)]
    to_keep = list({fold(item.text): item for item in said}.values())
    return _Comparison(
        found=found,
        check=compare(session.messages, shown, found),
        rules=len(to_keep),
        missing=find_missing_lines(to_keep, shown),
    )
