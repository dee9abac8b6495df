"""Judges a draft before it may stand for a span: refused, or stripped of what nobody said."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.check.opposites import Rules, lifts_rules
from mcp_compaction.core.digest.check.statements import Statements
from mcp_compaction.core.digest.text import as_sections, render_item
from mcp_compaction.core.log.content import compact_json, words_of
from mcp_compaction.core.log.quotes import Requests
from mcp_compaction.core.log.spoken_rules import unpinned_rules
from mcp_compaction.core.text.injection import UNSEEN, is_forged
from mcp_compaction.core.text.patterns import may_say
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import (
    Draft,
    Item,
    Message,
    SectionName,
    Session,
    SummaryRequest,
    ToolResult,
)

_Fault = Literal[
    "unreadable", "unsaid", "forged", "order", "negated", "unquoted", "invented", "undecided"
]

_FAULTS: dict[_Fault, str] = {  # in the order of their weight on a receipt
    "negated": "said the opposite of a rule: left out",
    "invented": "named numbers or names that stand nowhere in the span: left out",
    "undecided": "named a decision that no message states: left out",
    "order": "gave an order no user gave: left out",
    "forged": "posed as another part of the window: left out",
    "unsaid": "quoted what nobody said: left out",
    "unquoted": "named a rule or task that no message states: put under UNCERTAIN",
    "unreadable": "held signs that cannot be shown: taken out",
}
_MOST_NOTES = 4
_MOST_NAMES = 3
_BARE_NAME = re.compile(r"(?!\w*://)[\w.#%/+-]{1,32}(?:[= ]\d[\d.]{0,15}[%a-zA-Z]{0,3})?", re.ASCII)
_TIMES_TOO_LONG = 4
_FEWEST_LETTERS = 12
_LEAST_QUOTE = 4
_SPAN_WORTH_WORDS = 200


class Judged(NamedTuple):
    """A draft that may be used, or none; with what the receipt has to say about it."""

    draft: Draft | None
    notes: tuple[str, ...]


class Beside(NamedTuple):
    """What the author of a draft may know beside the span."""

    texts: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()  # those that state a rule or a decision
    messages: tuple[Message, ...] = ()


_NOTHING = Beside()


def check_draft(
    draft: Draft,
    request: SummaryRequest,
    count: CountTokens,
    rules: Sequence[str] = (),
    beside: Beside = _NOTHING,
) -> Judged:
    """The draft without what cannot be believed, or none where it is no digest of this span."""
    if draft.author == "archive":  # it has no prose on purpose
        return Judged(draft, ())
    source = _Source(request, rules, beside)
    reason = _refusal(draft, request, source, count)
    notes: tuple[str, ...] = ()
    if reason is None:
        judged = _cleaned(draft, source)
        if judged.draft is not None and _texts(judged.draft):
            return judged
        reason, notes = "nothing in it could be believed", judged.notes
    if draft.author == "extractive":  # a short span is its own best digest: no fault of anyone's
        return Judged(None, ())
    refused = f"the draft of {_name(draft)} was refused: {reason}; extracted instead"
    return Judged(None, (refused, *notes))


def rules_in_force(session: Session) -> tuple[str, ...]:
    """Every rule the session knows of: pinned, in a digest, or said where it is still in sight."""
    pinned = [pin.text for pin in session.pins if pin.kind == "constraint"]
    kept = [item.text for d in session.digests for item in d.items("CONSTRAINTS")]
    said = [c.text for c in unpinned_rules(session.messages, ())]
    return tuple(dict.fromkeys((*pinned, *kept, *said)))


def known_beside(session: Session, messages: tuple[Message, ...], author: str) -> Beside:
    """What an author may know beside a span: a model the pins, the agent all it has in sight."""
    pinned = tuple(pin.text for pin in session.pins)
    if author != "agent":
        return Beside(pinned, pinned)
    sections, digests, promoted = session.sections, session.digests, session.view.promoted
    fixed = (sections.task, sections.memory, compact_json(sections.system))
    told = (
        *(text for text in fixed if text),
        *(item.text for digest in digests for _, items in digest.sections for item in items),
        *(item.text for digest in digests for item in digest.index),
        *(piece for one in promoted for piece in one.pieces),
    )
    settled = (
        *(item.text for digest in digests for item in digest.items("DECISIONS")),
        *(piece for one in promoted if one.by in ("user", "decision") for piece in one.pieces),
    )
    return Beside((*pinned, *told), (*pinned, *settled), messages)


def is_planted(text: str) -> bool:
    """Whether a line poses as another part of the window or orders its reader about."""
    return is_forged(text) or _is_order(unicodedata.normalize("NFKC", UNSEEN.sub("", text)))


def is_excuse(text: str) -> bool:
    """Whether a text begins as a model's refusal does."""
    return bool(_EXCUSE.match(text))


def strip_unsupported(draft: Draft, request: SummaryRequest, rules: Sequence[str] = ()) -> Judged:
    """The same strips without a refusal, for our own draft: tools may have planted what it took."""
    return _cleaned(draft, _Source(request, rules))


# What a draft is held against


@dataclass(frozen=True)
class _Source:
    """The span as it is quoted from; whitespace is folded, all else byte for byte."""

    request: SummaryRequest
    in_force: Sequence[str]  # rules stated elsewhere: pinned, or said outside of the span
    beside: Beside = _NOTHING

    @cached_property
    def everything(self) -> str:
        memory = [self.request.memory or ""]
        return _folded([*(_words(m) for m in self.request.messages), *memory, *self._kept()])

    @cached_property
    def spoken(self) -> str:
        """All but what tools answered: open tasks are named by the user or the assistant."""
        said = [_words(m, with_results=False) for m in self.request.messages]
        return _folded([*said, *self._kept()])

    @cached_property
    def user(self) -> str:
        said = [m.text for m in self.request.messages if m.role in ("user", "system")]
        return _folded([*said, *self.in_force])

    @cached_property
    def rules(self) -> Rules:
        return Rules((*self.in_force, *self._kept("CONSTRAINTS")))

    @cached_property
    def evidence(self) -> Evidence:
        said = [(_words(message), message.at) for message in self._messages]
        return Evidence([*said, *((text, None) for text in (*self._known, *self.beside.texts))])

    @cached_property
    def statements(self) -> Statements:
        return Statements(self._messages, [*self._known, *self.beside.settled])

    @property
    def _messages(self) -> tuple[Message, ...]:
        both = {m.seq: m for m in (*self.beside.messages, *self.request.messages)}
        return tuple(both[seq] for seq in sorted(both))

    @property
    def _known(self) -> list[str]:
        memory = (self.request.memory or "").splitlines()
        return [*memory, *self._kept(), *self.in_force]

    def _kept(self, section: SectionName | None = None) -> list[str]:
        kept = self.request.must_keep
        return [i.text for name, items in kept for i in items if section in (None, name)]

    def is_users(self, text: str) -> bool:
        """Whether a user said these words as whole sentences, be it only as the agent told it."""
        saying = self._requests.saying_of(_PREFIX.sub("", text))
        return saying is not None and saying.how != "passed on"

    @cached_property
    def _requests(self) -> Requests:
        return Requests(self.request.messages)


def _words(message: Message, with_results: bool = True) -> str:
    parts = (p for p in message.parts if with_results or not isinstance(p, ToolResult))
    return "\n".join(words_of(part) for part in parts)


def _folded(texts: Iterable[str]) -> str:
    return "\x00".join(_fold(text) for text in texts)


def _fold(text: str) -> str:
    return " ".join(text.split())


def _texts(draft: Draft) -> list[str]:
    return [item.text for _, items in draft.sections for item in items if item.text.strip()]


# Refusing


def _refusal(
    draft: Draft, request: SummaryRequest, source: _Source, count: CountTokens
) -> str | None:
    texts = _texts(draft)
    letters = sum(sign.isalnum() for text in texts for sign in text)
    span = sum(message.tokens for message in request.messages)
    if not letters:
        return "it is empty"
    if draft.author != "agent" and letters < _FEWEST_LETTERS and span > _SPAN_WORTH_WORDS:
        return "it says next to nothing"
    if _is_error(texts, source):
        return "it is an error message or a refusal, not a digest"
    tokens = count("\n".join(render_item(item) for _, items in draft.sections for item in items))
    # The agent's digest tells of the whole session, of which this span may be a small part.
    if (tokens > span and draft.author != "agent") or (
        tokens > _TIMES_TOO_LONG * request.max_tokens
    ):
        return f"at {tokens} tokens it is too long for a span of {span}"
    if _is_echo(texts, source.everything):
        return "it repeats the span"
    if _is_in_another_script(" ".join(texts), source.everything):
        return "it is not in a language of the span"
    return None


_EXCUSE = re.compile(
    r"\W*(?:(?:I'?m|I am) (?:very |so )?(?:sorry|afraid|unable)\b|I (?:apologi[sz]e|can ?no?t|can't"
    r"|won't|must decline)\b|sorry,? (?:but )?I\b|as an? (?:AI|artificial"
    r"|(?:large )?language model)\b"
    r"|I do(?:n't| not) have (?:access|the ability)|unfortunately,? I (?:can|am)|my apologies\b"
    r"|es tut mir leid|je suis désolé|lo siento|mi dispiace|desculpe|抱歉|对不起|申し訳|извините)",
    re.I,
)
_ERROR_FORM = re.compile(
    r"\bquota\b|rate[ _-]?limit|overloaded|too many requests|insufficient[ _]|credit balance"
    r"|billing"
    r"|(?:invalid|incorrect|missing) (?:api|x-api)[ -]?key|unauthori[sz]ed"
    r"|HTTP(?:/[\d.]+)? ?[45]\d\d"
    r"|\b(?:error|status)(?: code)?:? ?[45]\d\d\b|\b[45]\d\d (?:bad|forbidden|internal|service"
    r"|gateway"
    r"|unauthorized|too|not found)|\"?(?:type|error)\"?\s*:\s*[{\"]|internal server error|service"
    r" unavailable|bad gateway|gateway time-?out|(?:request|read|connection) timed? ?out"
    r"|connection "
    r"(?:reset|refused|error|aborted)|context[ _]length|maximum context|try again later"
    r"|<!doctype|<html",
    re.I,
)


def _is_error(texts: Sequence[str], source: _Source) -> bool:
    """Whether a draft is what a service says when it has no answer; a span may tell of errors."""
    if _EXCUSE.match(texts[0]) and _fold(texts[0]) not in source.everything:
        return True
    wrong = [t for t in texts if _ERROR_FORM.search(t) and _fold(t) not in source.everything]
    return len(texts) <= 6 and 2 * len(wrong) >= len(texts)


_SPEAKER = re.compile(r"^(?:\[?m?\d+\]?:? )?(?:user|assistant|tool|system|human|ai)\s*:\s*", re.I)
_MOSTLY = 0.8
_MUCH_OF_THE_SPAN = 0.6
_NEIGHBORS = 24  # characters a list sign, a role or a call's name takes between two lines
_FEWEST_IN_A_ROW = 6


def _is_echo(texts: Sequence[str], span: str) -> bool:
    """Whether nearly every line stands in the span, and they cover it or follow on one another."""
    found: list[tuple[int, int]] = []
    reached = 0
    for text in texts:
        line = _SPEAKER.sub("", _fold(text))
        start = span.find(line, reached) if line else -1
        if start >= 0:
            reached = start + len(line)
            found.append((start, reached))
    if not found or len(found) < _MOSTLY * len(texts):
        return False
    covered = sum(end - start for start, end in found)
    if covered >= _MUCH_OF_THE_SPAN * len(span):
        return True
    in_a_row = sum(start - end <= _NEIGHBORS for (_, end), (start, _) in pairwise(found))
    return len(found) >= _FEWEST_IN_A_ROW and in_a_row >= _MOSTLY * (len(found) - 1)


_SCRIPTS = {
    "latin": re.compile(r"[A-Za-zÀ-ɏ]"),
    "greek": re.compile(r"[Ͱ-Ͽ]"),
    "cyrillic": re.compile(r"[Ѐ-ԯ]"),
    "hebrew": re.compile(r"[֐-׿]"),
    "arabic": re.compile(r"[؀-ۿݐ-ݿ]"),
    "indic": re.compile(r"[ऀ-෿]"),
    "southeast": re.compile(r"[฀-࿿က-႟ក-៿]"),
    "hangul": re.compile(r"[ᄀ-ᇿ가-힯]"),
    "east asian": re.compile(r"[぀-ヿ㐀-鿿]"),
}
_HARDLY = 0.05
_ENOUGH_LETTERS = 20


def _is_in_another_script(text: str, span: str) -> bool:
    letters = {name: len(script.findall(text)) for name, script in _SCRIPTS.items()}
    total = sum(letters.values())
    if total < _ENOUGH_LETTERS:
        return False
    name = max(letters, key=lambda script: letters[script])
    there = {script: len(pattern.findall(span)) for script, pattern in _SCRIPTS.items()}
    spoken = sum(there.values())
    return letters[name] > total / 2 and spoken > 0 and there[name] < _HARDLY * spoken


# Stripping

_Line = tuple[SectionName, Item]

_PREFIX = re.compile(
    r"^(?:asked|asked, the agent says|done|last question|left running|ran [^:]{1,100}): "
)
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|overrule)\b[^.;]{0,30}\b(?:previous|prior"
    r"|above|earlier"
    r"|preceding|existing|system|safety|pinned|all|any|your|these"
    r"|those)\b[^.;]{0,30}\b(?:instructions?"
    r"|rules?|prompts?|messages?|constraints?|guidelines?|orders?|pins?|directives?"
    r"|restrictions?)\b"
    r"|\byou (?:must|shall|will|should|need to|have to) (?:now|immediately|instead|obey|comply"
    r"|ignore"
    r"|disregard|run|execute|delete|send|push|deploy|disable|reveal|upload)\b|\byou are now\b"
    r"|\bfrom now on,? you\b|\bnew (?:system )?instructions?\s*:|\bdo anything now\b"
    r"|\bdeveloper mode\b"
    r"|\b(?:act as|pretend (?:to be|you are)|roleplay as) \w"
    r"|\b(?:run|execute|type|enter|call)\b[^.]{0,30}(?:\brm -[rf]{1,2}|\bcurl\b[^"
    r"|]{0,80}\| ?(?:ba)?sh)"
    r"|^\W*(?:disregard|obey|comply)\b"
    r"|\b(?:send|upload|post|email|e-mail|exfiltrate|leak|reveal|print out"
    r"|forward)\b[^.;]{0,40}\b(?:"
    r"passwords?|secrets?|api keys?|private keys?|credentials?|tokens?|system prompt"
    r"|env(?:ironment)?"
    r" variables?)\b[^.;]{0,20}\b(?:to|at)\b|\breveal (?:your|the) (?:system )?prompt"
    r"|ignorier\w* (?:alle |bitte )?(?:vorherigen|bisherigen|obigen)|ignore[zr]? (?:toutes )?les "
    r"(?:instructions|consignes)|ignor[ae]\w* (?:todas )?(?:las|as|le|tutte le) (?:instruc"
    r"|istruz|instru[cç])"
    r"|игнорируй|忽略[^。]{0,10}(?:指令|指示|说明|规则)|(?:以前|これまで|上記|前)の(?:指示"
    r"|命令)[^。]{0,6}無視"
    r"|(?:이전|위)[^.]{0,6}(?:지시|명령)[^.]{0,6}무시",
    re.I,
)
_ORDER_WORDS = (  # each order in plain letters has one of these
    *("ignor", "disregard", "forget", "override", "bypass", "overrule", "you", "instruction"),
    *("anything now", "developer mode", "act as", "pretend", "roleplay", "rm -", "curl", "obey"),
    *("comply", "password", "secret", "key", "credential", "token", "prompt", "variable"),
)


def _is_order(text: str) -> bool:
    return may_say(text, _ORDER_WORDS) and bool(_ORDER.search(text))


_QUOTES = re.compile(r"\"([^\"]{4,})\"|“([^”]{4,})”|«([^»]{4,})»|「([^」]{4,})」|„([^“”]{4,})[“”]")
_OF_THE_USER = re.compile(
    r"\b(?:user|customer|client|owner|they|he|she)\b[^\"“«「„]{0,60}[\"“«「„]"
    r"|[\"”»」][^\"]{0,20}\b(?:the user|user (?:said|asked|wrote|told))|^(?:asked|user)\b",
    re.I,
)
_REF = re.compile(r"[mdp]\d{1,9}")


def _cleaned(draft: Draft, source: _Source) -> Judged:
    kept: dict[SectionName, list[Item]] = {}
    faults: Counter[_Fault] = Counter()
    invented: list[str] = []
    is_ours = draft.author == "extractive"
    for name, items in draft.sections:
        for item in items:
            readable = _readable(item, source.request, is_ours)
            faults["unreadable"] += bool(UNSEEN.search(item.text))
            if not readable.text:
                continue
            fault = _fault(name, readable, source, is_ours)
            if fault is not None:
                faults[fault] += 1
            if fault == "invented":
                invented += source.evidence.missing(readable.text)
            if fault == "unquoted":
                kept.setdefault("UNCERTAIN", []).append(readable)
            elif fault is None:
                kept.setdefault(name, []).append(readable)
    clean = draft.model_copy(update={"author": _name(draft), "sections": as_sections(kept)})
    return Judged(clean, _notes(faults, invented))


def _readable(item: Item, request: SummaryRequest, is_ours: bool) -> Item:
    """The item on one line, without what cannot be shown, with refs that lead somewhere."""
    refs = tuple(ref for ref in item.refs if _REF.fullmatch(ref) and _leads(ref, request))
    changed = {"text": _fold(UNSEEN.sub("", item.text)), "refs": refs}
    # What no size leaves out is for us to say.
    return item.model_copy(update=changed if is_ours else {**changed, "must_stay": False})


def _leads(ref: str, request: SummaryRequest) -> bool:
    return ref[0] != "m" or int(ref[1:]) <= request.last


def _fault(section: SectionName, item: Item, source: _Source, is_ours: bool) -> _Fault | None:
    bare = unicodedata.normalize("NFKC", item.text)
    if is_forged(item.text):
        return "forged"
    if _is_order(bare) and not source.is_users(item.text):
        return "order"
    if _negates(section, item.text, source) and not source.is_users(item.text):
        return "negated"
    if _is_unsaid(item, source):
        return "unsaid"
    # Our own lines are quoted from the span.
    unfounded = None if is_ours else _unfounded(section, item, source)
    if unfounded is not None:
        return unfounded
    return "unquoted" if _is_unquoted(section, item, source) else None


def _negates(section: SectionName, text: str, source: _Source) -> bool:
    return lifts_rules(text) or source.rules.are_opposed_by(section, _PREFIX.sub("", text))


def _unfounded(section: SectionName, item: Item, source: _Source) -> _Fault | None:
    missing = source.evidence.missing(item.text)
    if missing:
        return "unsaid" if missing[0].startswith('"') else "invented"
    if section == "DECISIONS" and not source.statements.holds_decision(item):
        return "undecided"
    return None


def _is_unsaid(item: Item, source: _Source) -> bool:
    # The span is searched last: that costs as much as it is long.
    if item.provenance != "verbatim" and all(q in source.user for q in _quotes_of_user(item.text)):
        return False
    whole = item.text.removesuffix(" …")
    return whole not in source.everything and whole not in source.user


def _quotes_of_user(text: str) -> list[str]:
    if not _OF_THE_USER.search(text):
        return []
    return [_unmarked(next(filter(None, match.groups()))) for match in _QUOTES.finditer(text)]


def _is_unquoted(section: SectionName, item: Item, source: _Source) -> bool:
    if section not in ("CONSTRAINTS", "OPEN"):
        return False
    words = _unmarked(item.text)
    # A tool's words bind nobody.
    return len(words) < _LEAST_QUOTE or words not in (
        source.user if section == "CONSTRAINTS" else source.spoken
    )


def _unmarked(text: str) -> str:
    return text.strip(" .!。！\"'“”…")


def _notes(faults: Counter[_Fault], invented: Sequence[str]) -> tuple[str, ...]:
    found = [
        f"{number} line{'s' if number > 1 else ''} of the draft {what}"
        + (_shown(invented) if fault == "invented" else "")
        for fault, what in _FAULTS.items()
        if (number := faults[fault])
    ]
    return tuple(found[:_MOST_NOTES])


def _shown(invented: Sequence[str]) -> str:
    """A few of the invented names; a reader could take more than a bare word for an order."""
    bare = [name for name in dict.fromkeys(invented) if _BARE_NAME.fullmatch(name)]
    return f" ({', '.join(bare[:_MOST_NAMES])})" if bare else ""


def _name(draft: Draft) -> str:
    return _fold(UNSEEN.sub("", draft.author))[:60] or "a summarizer"
