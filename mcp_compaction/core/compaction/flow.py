"""One compaction as a generator: it yields what it needs from outside and returns the outcome."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mcp_compaction.core.compaction.apply import apply
from mcp_compaction.core.compaction.blocks import DigestBlock, MergeBlock, SpanBlock
from mcp_compaction.core.compaction.gate import gate
from mcp_compaction.core.compaction.outcomes import (
    Freed,
    freed_by_rung,
    nothing,
    projection,
    too_little,
)
from mcp_compaction.core.compaction.patch import Line, Lines, lines_of_findings, put_back
from mcp_compaction.core.compaction.plan import Plan, make_plan, shortfall
from mcp_compaction.core.compaction.verify import (
    Check,
    compare,
    kept_lines,
    lost,
    missing_lines,
    search_for,
    tallies,
)
from mcp_compaction.core.digest.check.draft import check_draft, strip_unsupported
from mcp_compaction.core.digest.check.source import knowledge_of_author, rules_in_force
from mcp_compaction.core.digest.extract import (
    extract,
    memory_lines,
    must_keep,
    open_tasks,
    ref_of_standing_plan,
    stated_rules,
)
from mcp_compaction.core.digest.text import (
    add_prose,
    as_sections,
    drop_settled_plans,
    fit,
    join,
    keep_open_tasks,
    label_of,
    measure_digest,
    merge,
    parse_digest,
)
from mcp_compaction.core.excerpts.choose import choose_excerpts, excerpts_of_digests
from mcp_compaction.core.excerpts.paging import wanted_excerpts
from mcp_compaction.core.log.identifiers import Finding, identifiers_by_message, index_of
from mcp_compaction.core.log.tasks.closing import unfinished_tasks
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.fill import Fill, in_counted_tokens, measure
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import (
    NO_DIGEST,
    OWN_AUTHORS,
    Ask,
    Compaction,
    Digest,
    Digested,
    Draft,
    Excerpt,
    Found,
    Item,
    Message,
    NothingToDo,
    Outcome,
    Precision,
    Projection,
    Receipt,
    Refusal,
    Replaced,
    SearchRequest,
    SectionName,
    Session,
    Shown,
    ShownMessage,
    ShownRecord,
    SummaryRequest,
    Tally,
)

Request = SummaryRequest | SearchRequest
Answer = Draft | Found
Flow = Generator[Request, Answer, Outcome]
Said = tuple[int, Item]  # a line, and the number of the message that holds it

_THOROUGH_SHARE = 4  # a forced compaction gives back at most a quarter of what it freed
_NO_MODEL = OWN_AUTHORS  # no second request would better them
_PROSE_SHARE = 2  # a model's prose may take half of a digest's limit over what is extracted
_NO_ROOM = "the model's prose said nothing new or had no room, and was left out"
_MOST_PASSES = 6  # each pass frees something; a digest larger than foreseen asks for one more


@dataclass(frozen=True, slots=True)
class _Terms:
    """What stays the same throughout one compaction."""

    policy: Policy  # its window in counted tokens
    own: Policy  # as it was given: what the view is shown and measured by
    ask: Ask
    now: datetime
    fill: Fill
    count: CountTokens
    messages: tuple[Message, ...]  # all that the window showed before
    found: dict[int, tuple[Finding, ...]]  # their identifiers
    plan: str  # the ref of the plan that stands


@dataclass(frozen=True, slots=True)
class _Work:
    """A compaction under way."""

    session: Session
    plan: Plan
    digests: tuple[Digest, ...] = ()
    freed: Freed = ()
    notes: tuple[str, ...] = ()
    requests: tuple[tuple[int, SummaryRequest], ...] = ()  # by the digest a model wrote for it
    dressed: tuple[Digest, ...] = ()  # the same digests with the model's prose


def flow(
    session: Session,
    policy: Policy,
    ask: Ask,
    now: datetime,
    count: CountTokens,
    precision: Precision = "exact",
) -> Flow:
    """Plan, ask for drafts, check, patch; the caller saves what is returned."""
    fill = measure(session, policy, count, precision)
    if ask.digest is not None and not session.messages:
        return _digest_alone(session, ask, now, fill, count)
    keeps_digest = ask.digest is not None and not session.info.traits.owns_window
    refused = gate(session, policy, ask, fill, count)
    if refused is not None:
        return _digest_alone(session, ask, now, fill, count) if keeps_digest else refused
    counted = in_counted_tokens(policy, fill)
    plan = make_plan(session, counted, ask, fill, count)
    frees_nothing = plan.is_empty or plan.sheet.tokens >= plan.before
    gain = plan.before - plan.sheet.tokens
    frees_little = not (ask.force or ask.span) and gain < counted.min_gain_tokens
    if keeps_digest and (frees_nothing or frees_little):
        return _digest_alone(session, ask, now, fill, count)
    if frees_nothing:
        return NothingToDo(text=nothing(plan, fill))
    if frees_little:
        return Refusal(text=too_little(plan, fill, counted))
    if ask.dry_run:
        return projection(plan, fill)
    found, standing = (
        identifiers_by_message(session.messages),
        ref_of_standing_plan(session.messages),
    )
    terms = _Terms(counted, policy, ask, now, fill, count, session.messages, found, standing)
    work = _with_prose((yield from _passes(_Work(session, plan), terms)), terms)
    return (yield from _settle(session, work, terms))


def _passes(work: _Work, terms: _Terms) -> Generator[Request, Answer, _Work]:
    """Carry out the plan, and climb on from there while the goal is not reached."""
    for _ in range(_MOST_PASSES):
        work = yield from _carry_out(work, terms)
        goal = work.plan.goal
        fill = measure(work.session, terms.own, terms.count)
        if goal is None or (fill.counted <= goal and not work.plan.goes_on):
            break
        following = make_plan(work.session, terms.policy, terms.ask, fill, terms.count)
        work = replace(work, plan=following)
        if following.is_empty or following.sheet.tokens >= fill.counted:
            break
    return work


def _carry_out(work: _Work, terms: _Terms) -> Generator[Request, Answer, _Work]:
    blocks = work.plan.sheet.blocks
    number = work.session.next_digest
    made: dict[int, Digest] = {}
    notes: list[str] = []
    requests: list[tuple[int, SummaryRequest]] = []
    dressed: list[Digest] = []
    memory_in = work.session.view.memory_in
    newest = max((n for n, b in enumerate(blocks) if isinstance(b, SpanBlock)), default=None)
    for position, block in enumerate(blocks):
        if isinstance(block, DigestBlock) and (fresh := _fresh(block.digest, terms)):
            made[position] = measure_digest(
                fresh.model_copy(update={"number": number + len(made)}), terms.count
            )
        elif isinstance(block, MergeBlock):
            fresh_ones = [_fresh(digest, terms) or digest for digest in block.digests]
            made[position] = merge(fresh_ones, number + len(made), block.limit, terms.count)
        elif isinstance(block, SpanBlock):
            given = _given(terms.ask, position == newest)
            fits = work.session.memory_tokens <= block.limit
            takes_memory = given is None and memory_in is None and fits
            memory = work.session.sections.memory if takes_memory else None
            request = _request(block, memory, terms)
            offered = given or (yield from _draft(request))
            believed = _believed(offered, request, work.session, terms)
            draft = believed.draft
            made[position] = _plainly(request, believed, number + len(made), terms.count)
            notes += [*believed.notes, *_added(request, draft)]
            memory_in = made[position].number if memory else memory_in
            notes += [draft.note] if draft.note else []
            if draft.author not in _NO_MODEL:
                requests.append((made[position].number, request))
                dressed.append(_dressed(request, believed, made[position], terms.count))
    return _Work(
        session=apply(work.session, work.plan.sheet, made, memory_in),
        plan=work.plan,
        digests=(*work.digests, *made.values()),
        freed=(*work.freed, *work.plan.sheet.freed),
        notes=(*work.notes, *notes),
        requests=(*work.requests, *requests),
        dressed=(*work.dressed, *dressed),
    )


def _with_prose(work: _Work, terms: _Terms) -> _Work:
    """The models' prose laid onto the digests, where there is room for it.

    Until here all went as if no model had been asked, so that no draft can change what a digest
    keeps. Only the passages quoted beside it make room: they are chosen afterwards.
    """
    for dressed in work.dressed:
        clad = _clad(work, dressed)
        goal = work.plan.goal
        fits = goal is None or measure(clad.session, terms.own, terms.count).counted <= goal
        is_shown = clad.session != work.session
        work = clad if fits and is_shown else replace(work, notes=(*work.notes, _NO_ROOM))
    shown = {digest.number for digest in work.digests if digest.author not in _NO_MODEL}
    return replace(work, requests=tuple(one for one in work.requests if one[0] in shown))


def _clad(work: _Work, dressed: Digest) -> _Work:
    shown = _with(work.session.digests, dressed)
    return replace(
        work,
        session=work.session.model_copy(update={"digests": shown}),
        digests=_with(work.digests, dressed),
    )


def _fresh(digest: Digest, terms: _Terms) -> Digest | None:
    """A digest without the open tasks that were settled since; None: as it is."""
    later = [message for message in terms.messages if message.seq > digest.last]
    return keep_open_tasks(
        digest, unfinished_tasks(drop_settled_plans(digest.items("OPEN"), terms.plan), later)
    )


@dataclass(frozen=True, slots=True)
class _Believed:
    """What of a draft is true to its source, and what is taken from the source without it."""

    draft: Draft
    floor: Draft
    notes: tuple[str, ...] = ()


def _believed(draft: Draft, request: SummaryRequest, session: Session, terms: _Terms) -> _Believed:
    """What of a draft is true to its source; a draft that cannot be believed is extracted anew."""
    rules = rules_in_force(session)
    # Our own lines are true to the span, but a tool's output may have planted what they quote.
    own = draft if draft.author == "extractive" else extract(request)
    cleaned = strip_unsupported(own, request, rules)
    floor = cleaned.draft or Draft(author="extractive")
    if draft.author == "extractive":
        return _Believed(floor, floor, cleaned.notes)
    beside = knowledge_of_author(session, terms.messages, draft.author)
    judged = check_draft(draft, request, terms.count, rules, beside)
    if judged.draft is not None:
        return _Believed(judged.draft, floor, judged.notes)
    refused = floor.model_copy(update={"note": draft.note})
    return _Believed(refused, floor, (*judged.notes, *cleaned.notes))


def _request(block: SpanBlock, memory: str | None, terms: _Terms) -> SummaryRequest:
    messages = block.messages
    return SummaryRequest(
        first=messages[0].seq,
        last=messages[-1].seq,
        messages=messages,
        must_keep=join(must_keep(messages, terms.plan), memory_lines(memory)),
        index=index_of(messages, terms.found),
        max_tokens=block.limit,
        focus=terms.ask.focus,
        memory=memory,
    )


def _given(ask: Ask, is_newest: bool) -> Draft | None:
    """The draft that needs no summarizer: none of prose, or the agent's own."""
    if ask.strategy == "archive":
        return Draft(author="archive")
    if ask.digest is not None and is_newest:
        return parse_digest(ask.digest, "agent")
    return None


def _draft(request: SummaryRequest) -> Generator[Request, Answer, Draft]:
    answer = yield request
    if not isinstance(answer, Draft):
        raise TypeError("a SummaryRequest is answered by a Draft")
    return answer


def _plainly(
    request: SummaryRequest, believed: _Believed, number: int, count: CountTokens
) -> Digest:
    """The digest without a model's prose; an agent's own is completed by what must be kept."""
    draft = believed.draft if believed.draft.author in _NO_MODEL else believed.floor
    return _framed(request, draft, number, count)


def _dressed(
    request: SummaryRequest, believed: _Believed, digest: Digest, count: CountTokens
) -> Digest:
    """The same digest with a model's prose laid onto it."""
    room = max(request.max_tokens - digest.tokens, request.max_tokens // _PROSE_SHARE)
    return add_prose(digest, believed.draft, room, count)


def _added(request: SummaryRequest, draft: Draft) -> tuple[str, ...]:
    """What the agent is told of what its own digest left out."""
    if draft.author != "agent":
        return ()
    told = {fold(item.text) for _, items in draft.sections for item in items}
    missed = {
        name: sum(fold(item.text) not in told for item in items)
        for name, items in request.must_keep
    }
    kinds = (("CONSTRAINTS", "rule"), ("OPEN", "open task"))
    found = [
        f"{number} {word}{'s' if number > 1 else ''}"
        for name, word in kinds
        if (number := missed.get(name, 0))
    ]
    return (f"your digest did not name {' and '.join(found)}: added",) if found else ()


def _framed(request: SummaryRequest, draft: Draft, number: int, count: CountTokens) -> Digest:
    """A draft made whole: what must be kept is put in word for word, and all of it fits."""
    times = [m.at for m in request.messages if m.at is not None]
    digest = Digest(
        number=number,
        first=request.first,
        last=request.last,
        messages=len(request.messages),
        sections=(),
        index=request.index,
        author=draft.author,
        began=times[0] if times else None,
        ended=times[-1] if times else None,
    )
    sections = join(request.must_keep, draft.sections)
    room = request.max_tokens - count(label_of(digest))
    return measure_digest(digest.model_copy(update={"sections": fit(sections, room, count)}), count)


def _settle(before: Session, work: _Work, terms: _Terms) -> Generator[Request, Answer, Outcome]:
    """Fill the room, check the view against its source, patch what is lost, write the receipt."""
    work = _filled(before, work, terms)
    shown, gone, check = _compared(before, work, terms)
    missing: tuple[Finding, ...] = ()
    if check.unseen:
        answer = yield search_for(check.unseen)
        if not isinstance(answer, Found):
            raise TypeError("a SearchRequest is answered by Found")
        missing = lost(check.unseen, answer.hits, terms.found)
    if missing:
        repaired = yield from _repaired(work, missing, terms)
        if repaired is not work:
            work = repaired
            shown, gone, check = _compared(before, work, terms)
            missing = _still(missing, check)
    if missing:
        work = _patched(work, lines_of_findings(missing, gone, terms.found), terms)
        shown, gone, check = _compared(before, work, terms)
        missing = _still(missing, check)
    stated = _stated(before, gone)
    if lines := _lines_missing(stated, shown):
        work = _patched(work, lines, terms)
        shown, gone, check = _compared(before, work, terms)
    after = measure(work.session, terms.own, terms.count).counted
    if after >= terms.fill.counted:
        return NothingToDo(
            text="nothing to do: the digest would be as large as what it stands for. Go on."
        )
    kept = _lines_kept(before, stated, shown)
    return _compaction(before, work, terms, after, (*kept, *tallies(check, missing)))


def _filled(before: Session, work: _Work, terms: _Terms) -> _Work:
    """The room left below the target, filled with the passages that say most."""
    work = _with_fitting_index(work, terms)
    session = work.session
    room = _room(work, terms)
    if work.plan.goal is None:  # only a span gives way: what was asked for again stays
        return _promoting(work, wanted_excerpts(before.view.promoted))
    if room <= 0:
        return work
    kept = {message.seq for message in session.messages}
    gone = [message for message in before.messages if message.seq not in kept]
    shown = "\n".join(
        piece.text if isinstance(piece, ShownRecord) else piece.message.text
        for piece in lay_out(session, terms.own.index_limit, terms.count)
    )
    earlier = (*excerpts_of_digests(before.digests), *before.view.promoted)
    markers = terms.own.marker_threshold if terms.ask.preserve_markers else None
    return _promoting(work, choose_excerpts(gone, earlier, shown, room, terms.count, markers))


def _promoting(work: _Work, promoted: tuple[Excerpt, ...]) -> _Work:
    view = work.session.view.model_copy(update={"promoted": promoted})
    return replace(work, session=work.session.model_copy(update={"view": view}))


def _with_fitting_index(work: _Work, terms: _Terms) -> _Work:
    """The index takes no more of an explicit target than the rest leaves."""
    session, goal = work.session, work.plan.goal
    fill = measure(session, terms.own, terms.count)
    if goal is None or terms.ask.target_percent is None or fill.counted <= goal:
        return work
    over = fill.counted - goal + terms.own.overhead_per_message
    most = max(0, dict(fill.parts)["index"] - over)
    view = session.view.model_copy(update={"index_most": most})
    return replace(work, session=session.model_copy(update={"view": view}))


def _room(work: _Work, terms: _Terms) -> int:
    """The tokens that passages may take."""
    session, goal, rules = work.session, work.plan.goal, terms.policy
    if goal is None or not session.digests or not rules.promoted_max_percent:
        return 0
    now = measure(session, terms.own, terms.count).counted
    room = goal - now - terms.own.overhead_per_message
    if work.plan.is_thorough:
        return min(room, (terms.fill.counted - now) // _THOROUGH_SHARE)
    return room if terms.ask.target_percent is not None else min(room, rules.promoted_limit)


def _compared(
    before: Session, work: _Work, terms: _Terms
) -> tuple[tuple[Shown, ...], list[Message], Check]:
    shown = lay_out(work.session, terms.own.index_limit, terms.count)
    whole = {p.message.seq for p in shown if isinstance(p, ShownMessage) and not p.cuts}
    gone = [message for message in before.messages if message.seq not in whole]
    return shown, gone, compare(gone, shown, terms.found, terms.policy.recall_max_tokens)


def _still(missing: Iterable[Finding], check: Check) -> tuple[Finding, ...]:
    unseen = set(check.unseen)
    return tuple(finding for finding in missing if finding in unseen)


def _repaired(
    work: _Work, missing: Sequence[Finding], terms: _Terms
) -> Generator[Request, Answer, _Work]:
    """The model's digest that lost something is asked for once more, with what is missing."""
    for number, request in work.requests:
        held = {finding for message in request.messages for finding in terms.found[message.seq]}
        left_out = tuple(finding.text for finding in missing if finding in held)
        if not left_out:
            continue
        asked = request.model_copy(update={"lost": left_out})
        draft = yield from _draft(asked)
        believed = _believed(draft, request, work.session, terms)
        if believed.draft.author in _NO_MODEL:
            return work  # it could not, and what is missing is patched in
        plain_one = _plainly(request, believed, number, terms.count)
        mended = _dressed(request, believed, plain_one, terms.count)
        return replace(_clad(work, mended), notes=(*work.notes, *believed.notes))
    return work


def _with(digests: Iterable[Digest], mended: Digest) -> tuple[Digest, ...]:
    return tuple(mended if digest.number == mended.number else digest for digest in digests)


def _patched(work: _Work, lines: Lines, terms: _Terms) -> _Work:
    """What is lost is shown again: as a line of a digest or of a preview, or as it was."""
    new = {digest.number for digest in work.digests}
    session = put_back(work.session, new, lines, terms.count)
    shown = {digest.number: digest for digest in session.digests}
    made = tuple(shown.get(digest.number, digest) for digest in work.digests)
    return replace(work, session=session, digests=made)


def _stated(before: Session, gone: Sequence[Message]) -> dict[SectionName, list[Said]]:
    """The rules and open tasks that must stand in the view, each with where it was said."""
    rules = [
        *((d.last, item) for d in before.digests for item in d.items("CONSTRAINTS")),
        *((message.seq, rule) for message in gone for rule in stated_rules([message])),
    ]
    tasks = [(int(task.refs[0][1:]), task) for task in open_tasks(before.messages)]
    return {"CONSTRAINTS": rules, "OPEN": tasks}


def _lines_missing(stated: Mapping[SectionName, Sequence[Said]], shown: Sequence[Shown]) -> Lines:
    lines: dict[int, list[Line]] = {}
    for section, said in stated.items():
        missing = set(missing_lines([item for _, item in said], shown))
        for seq, item in said:
            if item in missing:
                lines.setdefault(seq, []).append((section, item))
    return lines


def _lines_kept(
    before: Session, stated: Mapping[SectionName, Sequence[Said]], shown: Sequence[Shown]
) -> list[Tally]:
    pins = [Item(text=pin.text) for pin in before.pins]
    found = (
        kept_lines("rules", [*pins, *_once(stated["CONSTRAINTS"])], shown),
        kept_lines("open tasks", _once(stated["OPEN"]), shown),
    )
    return [tally for tally in found if tally.total]


def _once(said: Sequence[Said]) -> list[Item]:
    """Each line once, however often it was said."""
    return list({fold(item.text): item for _, item in said}.values())


def _compaction(
    before: Session, work: _Work, terms: _Terms, after: int, checked: tuple[Tally, ...]
) -> Compaction:
    number, fill = before.next_compaction, terms.fill
    view = work.session.view.model_copy(
        update={"version": before.view.version + 1, "compaction": number}
    )
    new = {digest.number: digest for digest in work.digests}
    replaced = tuple(
        Replaced(first=new[e.digest].first, last=new[e.digest].last, digest=e.digest)
        for e in view.body
        if isinstance(e, Digested) and e.digest in new
    )
    receipt = Receipt(
        compaction=number,
        reason=terms.ask.reason,
        at=terms.now,
        strategy=terms.ask.strategy,
        before=fill.tokens,
        after=fill.scaled(after),
        window=fill.window,
        precision=fill.precision,
        freed=freed_by_rung(work.freed, fill, fill.counted - after),
        replaced=replaced,
        pins=len(before.pins),
        tallies=checked,
        target=None if work.plan.goal is None else fill.scaled(work.plan.goal),
        shortfall=shortfall(work.plan, after, fill),
        author=", ".join(dict.fromkeys(d.author for d in work.digests)) or NO_DIGEST,
        notes=tuple(dict.fromkeys(work.notes)),
    )
    return Compaction(
        base_version=before.view.version, view=view, digests=work.digests, receipt=receipt
    )


def _digest_alone(
    session: Session, ask: Ask, now: datetime, fill: Fill, count: CountTokens
) -> Outcome:
    """An agent's own digest that stands for nothing recorded: kept, and marked as not checked."""
    draft = parse_digest(ask.digest or "", "agent")
    found: dict[SectionName, list[Item]] = {}
    for name, items in draft.sections:
        found[name] = [item for item in items if not is_planted(item.text)]
    number = session.next_digest
    digest = measure_digest(
        Digest(
            number=number,
            first=0,
            last=0,
            messages=0,
            sections=as_sections(found),
            author="agent",
            checked=False,
            began=now,
            ended=now,
        ),
        count,
    )
    after = fill.tokens + fill.scaled(digest.tokens)
    if ask.dry_run:
        return Projection(
            before=fill.tokens, after=after, window=fill.window, precision=fill.precision
        )
    view = session.view.model_copy(
        update={
            "version": session.view.version + 1,
            "compaction": session.next_compaction,
            "pinned": tuple(pin.number for pin in session.pins),
            "body": (*session.view.body, Digested(digest=number)),
        }
    )
    receipt = Receipt(
        compaction=session.next_compaction,
        kind="digest",
        reason=ask.reason,
        at=now,
        before=fill.tokens,
        after=after,
        window=fill.window,
        precision=fill.precision,
        replaced=(Replaced(first=0, last=0, digest=number),),
        pins=len(session.pins),
        author="agent",
        checked=False,
    )
    return Compaction(
        base_version=session.view.version, view=view, digests=(digest,), receipt=receipt
    )
