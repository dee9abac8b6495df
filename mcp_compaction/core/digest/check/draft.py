"""Judges a draft before it may stand for a span: refused, or stripped of what nobody said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.check.record import TELLS_OF_THE_PAST, Record
from mcp_compaction.core.digest.check.wills import Wills, quotes_of_user_in
from mcp_compaction.core.digest.fit import as_sections
from mcp_compaction.core.digest.render import render_item, words_of_item
from mcp_compaction.core.log.content import compact_json, words_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.spoken_rules import Requests, unpinned_rules
from mcp_compaction.core.text.injection import UNSEEN, is_forged, is_order
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.core.text.words import one_line, telling_words
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    Draft,
    Item,
    Message,
    SectionName,
    Session,
    SummaryRequest,
    ToolResult,
    Writer,
)


class AuthorKnowledge(NamedTuple):
    """What is known in a session beside the messages of a span."""

    texts: tuple[str, ...] = ()
    told: tuple[str, ...] = ()  # those of pins and digests: what these say was checked
    done: tuple[str, ...] = ()  # those that rules extracted and that tell of the past


NO_KNOWLEDGE = AuthorKnowledge()


def rules_in_force(session: Session) -> tuple[str, ...]:
    """Every rule the session knows of: pinned, in a digest, or said where it is still in sight."""
    pinned = [pin.text for pin in session.pins if pin.kind == "constraint"]
    kept = [i.text for d in session.digests for i in d.items("CONSTRAINTS") if i.by != "model"]
    said = [c.text for c in unpinned_rules(session.messages, ())]
    return tuple(dict.fromkeys((*pinned, *kept, *said)))


def knowledge_of_author(session: Session) -> AuthorKnowledge:
    """What the author of a draft may know beside a span: all that the window shows."""
    sections, lines = session.sections, [one for d in session.digests for one in d.sections]
    fixed = (sections.task or "", sections.memory or "", compact_json(sections.system))
    told = (
        *(pin.text for pin in session.pins),
        *(words_of_item(item) for _, items in lines for item in items),
    )
    shown = (
        *(item.text for digest in session.digests for item in digest.index),
        *(piece for one in session.view.promoted for piece in one.pieces),
    )
    past = ((name, item) for name, items in lines for item in items if not item.by)
    done = tuple(words_of_item(item) for name, item in past if name in TELLS_OF_THE_PAST)
    return AuthorKnowledge((*fixed, *told, *shown), told, done)


@dataclass(frozen=True)
class Source:
    """The span as it is quoted from; whitespace is folded, all else byte for byte."""

    request: SummaryRequest
    in_force: Sequence[str]  # rules stated elsewhere: pinned, or said outside of the span
    beside: AuthorKnowledge = NO_KNOWLEDGE

    @cached_property
    def everything(self) -> str:
        memory = [self.request.memory or ""]
        return _join_folded(
            [*(_words_of(m) for m in self.request.messages), *memory, *self._kept()]
        )

    @cached_property
    def spoken(self) -> str:
        """The span without tool results: open tasks are named by the user or the assistant."""
        said = [_words_of(m, with_results=False) for m in self.request.messages]
        return _join_folded([*said, *self._kept()])

    @cached_property
    def user(self) -> str:
        said = [m.text for m in conversation_of(self.request.messages) if m.role == "user"]
        return _join_folded([*said, *self.in_force])

    def rule_spoken_of(self, text: str) -> str:
        """The rule, with its ref, of which a line has half the words and more than one; blank
        where there is none. Whether it keeps to the rule is for readers to see."""
        said = _stems_of(text)
        for rule, quoted in self._rules:
            shared = len(rule & said)
            if shared > 1 and 2 * shared >= len(rule):
                return quoted
        return ""

    @cached_property
    def _rules(self) -> tuple[tuple[frozenset[str], str], ...]:
        """The words of each sentence that is a rule, and it as a line is marked with it."""
        kept = dict(self.request.must_keep).get("CONSTRAINTS", ())
        said = {item.text: f"{item.refs[0]}: " for item in kept if item.refs}
        rules = dict.fromkeys((*(item.text for item in kept), *self.in_force))
        return tuple(
            (_stems_of(part), f'{said.get(rule, "")}"{part}"')
            for rule in rules
            for part in find_rules(rule) or (rule,)
        )

    def holds_decision(self, item: Item) -> bool:
        """Whether somebody said half the words of a decision in one sentence that asks nothing."""
        wanted = _stems_of(item.text)
        return any(2 * len(wanted & said) >= len(wanted) for said in self._stated)

    def carries(self, ref: str, text: str) -> bool:
        """Whether a message, with the call or the result beside it, has one of the rarer telling
        words of a line; one that left the window before is not at hand to be held against it."""
        said, every = _stems_of(text), self._stems_by_ref
        times = {stem: sum(stem in one for one in every.values()) for stem in said}
        found = sorted(filter(None, times.values())) or [0]
        usual = found[(len(found) - 1) // 2]
        return ref not in every or any(times[stem] <= usual for stem in said & every[ref])

    @cached_property
    def _stems_by_ref(self) -> dict[str, frozenset[str]]:
        stems = {m.ref: _stems_of(_words_of(m)) for m in self._window}
        pairs = [(m.ref, n.ref) for m, n in pairwise(self._window) if m.calls and n.results]
        both = {ref: stems[m] | stems[n] for m, n in pairs for ref in (m, n)}
        return stems | both

    @cached_property
    def evidence(self) -> Evidence:
        said = [(_words_of(message), message.at) for message in self._window]
        return Evidence([*said, *((text, None) for text in self._known)])

    @cached_property
    def _stated(self) -> tuple[frozenset[str], ...]:
        """The stems of each sentence that may have settled something, and of each answer with the
        message before it."""
        spoken = [m for m in conversation_of(self._window) if m.role in ("user", "assistant")]
        said = (one for m in spoken for one in split_sentences(m.text) if one[-1] not in "?？")
        answers = (f"{m.text} {n.text}" for m, n in pairwise(spoken) if n.is_request)
        return tuple(map(_stems_of, (*self._known, *said, *answers)))

    @cached_property
    def wills(self) -> Wills:
        return Wills(conversation_of(self._window), (*self.in_force, *self.beside.told))

    @cached_property
    def record(self) -> Record:
        memory = (self.request.memory or "").splitlines()
        known = [*memory, *self.beside.done]
        return Record(conversation_of(self._window), self.evidence, known)

    @property
    def _window(self) -> tuple[Message, ...]:
        """The span, and the messages that stay in the window around it: what stands there may be
        told of, and nobody has made it up."""
        return (*self.request.earlier, *self.request.messages, *self.request.later)

    @property
    def _known(self) -> list[str]:
        memory = (self.request.memory or "").splitlines()
        return [*memory, *self._kept(), *self.in_force, *self.beside.texts]

    def _kept(self) -> list[str]:
        return [item.text for _, items in self.request.must_keep for item in items]

    def is_users(self, text: str) -> bool:
        """Whether a user said these words as whole sentences, be it only as the agent told it."""
        saying = self._requests.saying_of(text)
        return saying is not None and saying.is_spoken

    def rule_of_user(self, item: Item) -> Item | None:
        """A rule as the user's own, with the message of the window that says just these words; None
        where none does."""
        words = item.text.strip(' "“”')
        saying = self._requests_of_window.saying_of(words)
        if saying is None or saying.how != "said" or saying.is_programs:
            return None
        return Item(text=words, refs=(saying.ref,))

    @cached_property
    def _requests(self) -> Requests:
        return Requests(self.request.messages)

    @cached_property
    def _requests_of_window(self) -> Requests:
        return Requests(self._window)


def _words_of(message: Message, with_results: bool = True) -> str:
    parts = (p for p in message.parts if with_results or not isinstance(p, ToolResult))
    return "\n".join(words_of(part) for part in parts)


def _stems_of(text: str) -> frozenset[str]:
    return frozenset(telling_words(text))


def _join_folded(texts: Iterable[str]) -> str:
    return "\x00".join(one_line(text) for text in texts)


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
    if draft.up_to is not None:  # of the whole session, and as long as it was asked for
        return None
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
            if name == "CONSTRAINTS" and draft.up_to is not None:
                if rule := source.rule_of_user(readable):
                    kept.setdefault(name, []).append(rule)
                faults["unsaid"] += rule is None
                continue
            fault, doubt = _fault_of(name, readable, source, is_ours)
            if fault == "unquoted" and name == "OPEN" and draft.up_to is not None:
                # What a session's own model calls open may be so: it stands among the steps.
                kept.setdefault("NEXT", []).append(readable)
                continue
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
    if not source.record.shows(section, item):
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
