"""Judges a draft before it may stand for a span: refused, or stripped of what nobody said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mcp_compaction.core.digest.check.source import NO_KNOWLEDGE, AuthorKnowledge, Source
from mcp_compaction.core.digest.check.wills import quotes_of_user_in
from mcp_compaction.core.digest.fit import as_sections
from mcp_compaction.core.digest.render import render_item, words_of_item
from mcp_compaction.core.text.injection import UNSEEN, is_forged, is_order
from mcp_compaction.core.text.words import one_line
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Draft, Item, SectionName, SummaryRequest, Writer

Fault = Literal[
    "unreadable",
    "unsaid",
    "forged",
    "order",
    "unquoted",
    "invented",
    "willed",
    "contradicted",
    "unshown",
    "touching",
]
_MARKED: tuple[Fault, ...] = ("contradicted", "unshown", "touching", "unquoted")
"""The faults of lines that stay and are marked: who reads them decides."""
_BINDING: tuple[SectionName, ...] = ("CONSTRAINTS", "OPEN")
_AHEAD: tuple[SectionName, ...] = (*_BINDING, "DECISIONS", "FACTS", "NEXT")
_TIMES_TOO_LONG = 4
_FEWEST_QUOTED = 4  # signs; less may be a name that is only set apart


RefusedFor = Literal["empty", "too_long", "nothing_believed"]


class Stripped(NamedTuple):
    """A draft without its lines at fault: how many they were, and the names that they invented."""

    draft: Draft
    faults: tuple[tuple[Fault, int], ...] = ()
    invented: tuple[str, ...] = ()


class Refused(NamedTuple):
    """A draft that is no digest of its span: whose it was, and why."""

    author: str
    reason: RefusedFor
    stripped: Stripped | None = None  # where no line was left


def check_draft(
    draft: Draft,
    request: SummaryRequest,
    count: CountTokens,
    rules: Sequence[str] = (),
    beside: AuthorKnowledge = NO_KNOWLEDGE,
) -> Stripped | Refused:
    """The draft without what cannot be believed, or why it is no digest of this span."""
    if draft.author == "archive":  # it has no prose on purpose
        return Stripped(draft)
    reason = _reason_to_refuse(draft, request, count)
    if reason is not None:
        return Refused(_author_of(draft), reason)
    stripped = _strip_faults(draft, Source(request, rules, beside))
    if any(item.text.strip() for _, items in stripped.draft.sections for item in items):
        return stripped
    return Refused(_author_of(draft), "nothing_believed", stripped)


def strip_unsupported(draft: Draft, request: SummaryRequest, rules: Sequence[str] = ()) -> Stripped:
    """Our own draft without the lines at fault, never refused: it may quote what a tool planted."""
    return _strip_faults(draft, Source(request, rules))


def _reason_to_refuse(
    draft: Draft, request: SummaryRequest, count: CountTokens
) -> RefusedFor | None:
    items = [item for _, items in draft.sections for item in items]
    if not any(sign.isalnum() for item in items for sign in item.text):
        return "empty"
    span = sum(message.tokens for message in request.messages)
    tokens = count("\n".join(map(render_item, items)))
    # The agent's digest tells of the whole session, of which this span may be a small part.
    is_longer = tokens > span and draft.author != "agent"
    if is_longer or tokens > _TIMES_TOO_LONG * request.max_tokens:
        return "too_long"
    return None


def _strip_faults(draft: Draft, source: Source) -> Stripped:
    """The draft without the lines at fault, each of the others with who wrote it; what nothing
    shows and what speaks of a rule is marked, rules and tasks nobody stated become
    uncertain."""
    kept: dict[SectionName, list[Item]] = {}
    faults: Counter[Fault] = Counter()
    invented: list[str] = []
    is_ours = draft.author == "extractive"
    for name, items in draft.sections:
        for item in items:
            readable = _make_readable(item, source, draft.author)
            faults["unreadable"] += bool(UNSEEN.search(item.text))
            if not readable.text:
                continue
            fault, doubt = _fault_of(name, readable, source, is_ours)
            if fault is not None:
                faults[fault] += 1
            if fault == "invented":
                invented += source.evidence.missing(readable.text)
            if fault is None or fault in _MARKED:
                binds = fault == "unquoted" or (fault is not None and name in _BINDING)
                marked = readable.model_copy(update={"doubt": doubt}) if doubt else readable
                kept.setdefault("UNCERTAIN" if binds else name, []).append(marked)
    clean = draft.model_copy(update={"author": _author_of(draft), "sections": as_sections(kept)})
    return Stripped(clean, tuple((+faults).items()), tuple(dict.fromkeys(invented)))


def _make_readable(item: Item, source: Source, author: str) -> Item:
    """The item on one line, without what cannot be shown, with refs that lead to what it says and
    with who wrote it."""
    is_ours, request = author == "extractive", source.request
    named = (r for r in item.refs if r[:1] in ("m", "d", "p") and r[1:].isdecimal() and len(r) < 11)
    # How things stand may be told by a message that stays in the window.
    last = request.later[-1].seq if is_ours and request.later else request.last
    refs = tuple(ref for ref in named if ref[0] != "m" or int(ref[1:]) <= last)
    refs = refs if is_ours else tuple(ref for ref in refs if source.carries(ref, item.text))
    changed = {"text": _show(item.text), "refs": refs}
    if is_ours:
        more = item.value and item.value.model_copy(update={"more": _show(item.value.more)})
        return item.model_copy(update={**changed, "value": more})
    # What no size leaves out is for us to say.
    written: Writer = "agent" if author == "agent" else "model"
    plain = {"must_stay": False, "value": None, "by": written, "doubt": ""}
    return item.model_copy(update={**changed, **plain})


def _show(text: str) -> str:
    return one_line(UNSEEN.sub("", text))


def _author_of(draft: Draft) -> str:
    return _show(draft.author) or "a summarizer"


_Judged = tuple[Fault | None, str]  # and the doubt that a line is marked with
_NO_FAULT: _Judged = (None, "")


def _fault_of(section: SectionName, item: Item, source: Source, is_ours: bool) -> _Judged:
    said = words_of_item(item)
    if is_forged(said):
        return "forged", ""
    # Our own lines on what a user refused name the command that it was.
    tells_refusal = is_ours and section == "REJECTED"
    if is_order(said) and not (tells_refusal or source.is_users(item.text)):
        return "order", ""
    if _is_unsaid(item, source):
        return "unsaid", ""
    if not is_ours and not source.wills.bear(item):
        return "willed", ""
    # Our own lines are quoted from the span.
    judged = _NO_FAULT if is_ours else _judge_by_evidence(section, item, source)
    if judged is _NO_FAULT and _is_unquoted(section, item, source):
        return "unquoted", ""
    return judged


def _judge_by_evidence(section: SectionName, item: Item, source: Source) -> _Judged:
    missing = source.evidence.missing(item.text)
    if missing:
        return ("unsaid" if missing[0].startswith('"') else "invented"), ""
    shown = source.record.against(section, item)
    if shown:
        return "contradicted", shown
    if not source.deeds.show(section, item):
        return "unshown", "unshown"
    rule = source.rule_spoken_of(item.text) if section in _AHEAD else ""
    if rule and not source.is_users(item.text):
        return "touching", f"see {rule}"
    if section == "DECISIONS" and not source.holds_decision(item):
        return "unshown", "unshown"
    return _NO_FAULT


def _is_unsaid(item: Item, source: Source) -> bool:
    quotes = [item.text] if item.provenance == "verbatim" else quotes_of_user_in(item.text)
    # The span is searched last: that costs as much as it is long.
    if all(source.wills.quotes_user(q) for q in quotes if len(q) >= _FEWEST_QUOTED):
        return False
    whole = item.text.removesuffix(" …")
    return whole not in source.everything and whole not in source.user


def _is_unquoted(section: SectionName, item: Item, source: Source) -> bool:
    if section not in _BINDING or item.value is not None:  # a value is of what calls show
        return False
    words = item.text.strip(" .!。！\"'“”…")
    # A tool's words bind nobody.
    said = source.user if section == "CONSTRAINTS" else source.spoken
    return not words or words not in said
