"""The rules of pinning: who said it, what needs the user, what the block has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.core.log.pinned import pinned_block, shown_text
from mcp_compaction.core.log.spoken_rules import LikelyRule, PinnedRules, Saying, likely_rules
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.text.injection import UNSEEN, defuse, has_label, is_forged
from mcp_compaction.core.text.secrets import redact
from mcp_compaction.core.text.words import fold, one_line
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.errors import InputError, NeedsUser, PinRefused
from mcp_compaction.lexicon.languages import STRENGTHS
from mcp_compaction.model import (
    Author,
    Candidate,
    Digest,
    Message,
    Offer,
    Pin,
    PinAuthor,
    PinScope,
    Value,
)

_REACH: tuple[PinScope, ...] = ("session", "project", "global")
_RANKS: tuple[PinAuthor, ...] = ("agent", "program", "user")


def check_text(text: str) -> str:
    """The text of a pin as it will be shown, or why it cannot be one."""
    if not text.strip():
        raise PinRefused("the text is blank; pass the rule word for word.")
    # The first line stands behind the pin's own label: a voice in it is plainly the pin's.
    if has_label(text) or any(map(is_forged, text.splitlines()[1:])):
        raise PinRefused(
            "a line of the text looks like another pin, a label or another speaker; pass it "
            "without that line."
        )
    if unseen := UNSEEN.search(text):
        raise PinRefused(
            f"the text holds a sign that nobody sees (U+{ord(unseen[0]):04X}); pass it without it."
        )
    check_secrets(redact(text).counts)
    return text


def check_secrets(counts: Mapping[str, int]) -> None:
    """Refuse a text that holds secrets of these kinds."""
    if counts:
        raise PinRefused(
            f"the text holds a secret ({', '.join(counts)}); pin the rule without it, and name "
            "where the secret is kept."
        )


# Whose words they are


def author_of(by: Author, saying: Saying | None) -> PinAuthor:
    """Who a pin is from: the user's own words are the user's, whoever pins them, and those that a
    program sent are the program's."""
    if by == "user":
        return "user"
    if saying is None or saying.how != "said":
        return "agent"
    return "program" if saying.is_programs else "user"


def context_of(text: str, author: PinAuthor, saying: Saying | None) -> str:
    """What governs words that were torn out of a message, with these left out; else blank."""
    if author == "user" or saying is None or saying.how != "part":
        return ""
    return one_line(one_line(saying.whole).replace(one_line(text), "…", 1))


def default_scope(author: PinAuthor) -> PinScope:
    """A user's rule holds in the project, an agent's or a program's in its session."""
    return "project" if author == "user" else "session"


# What needs the user


class UserQuestion(Value):
    """What only the user may decide: as it is put to the user, and as an agent is refused."""

    text: str
    refusal: str


class PinPlan(Value):
    """The effect of a wish for a pin: on the pins in force, and what is left to the user."""

    draft: Pin
    same: Pin | None = None  # a pin in force that does all of it
    replaces: Pin | None = None
    question: UserQuestion | None = None  # None: nobody has to be asked


class Grounds(NamedTuple):
    """Who asks for a pin, who said its words, and what was left open."""

    by: Author
    saying: Saying | None = None
    old: Pin | None = None  # the pin it is to supersede
    has_scope: bool = False


def plan_pin(draft: Pin, known: Sequence[Pin], grounds: Grounds) -> PinPlan:
    """What a draft does to the pins in force, and what of it an agent may not do alone."""
    same_words = [
        pin
        for pin in known
        if (one_line(pin.text), pin.kind) == (one_line(draft.text), draft.kind)
        and (grounds.old is None or pin.number != grounds.old.number)
    ]
    same = next((pin for pin in same_words if _covers(pin, draft, grounds)), None)
    changed = next(iter(same_words), None) if same is None else None
    question = None if grounds.by == "user" else _question(draft, changed, same, grounds)
    return PinPlan(draft=draft, same=same, replaces=grounds.old or changed, question=question)


def _covers(known: Pin, wanted: Pin, grounds: Grounds) -> bool:
    """Whether a pin in force already does all that a new one would."""
    is_others = known.author != "agent"
    is_left_alone = is_others and grounds.by == "agent"  # what an agent does not ask for, it leaves
    reaches = _REACH.index(known.scope) >= _REACH.index(wanted.scope)
    lasts = known.expires == wanted.expires or (is_left_alone and wanted.expires is None)
    return (
        _RANKS.index(known.author) >= _RANKS.index(wanted.author)
        and (reaches or (is_left_alone and not grounds.has_scope))
        and lasts
    )


_FOR = {"session": "for this session", "project": "for this project", "global": "everywhere"}


def _question(
    draft: Pin, changed: Pin | None, same: Pin | None, grounds: Grounds
) -> UserQuestion | None:
    where, words = _FOR[draft.scope], shown_text(draft.text)
    until = f" until {draft.expires:%Y-%m-%d %H:%M}" if draft.expires else ""
    if grounds.old is not None and _outranks(grounds.old, draft):
        old = grounds.old
        return UserQuestion(
            text=f'The agent wants to replace {_whose(old)} {old.ref}, "{shown_text(old.text)}", '
            f"{where}{until}, by: {words}",
            refusal=_release_refusal(old),
        )
    if changed is not None and _outranks(changed, draft):
        return UserQuestion(
            text=f'The agent wants {_whose(changed)} {changed.ref}, "{shown_text(changed.text)}", '
            f"which holds {_FOR[changed.scope]}, to hold {where}{until} instead.",
            refusal=f"{changed.ref} is the {changed.author}'s: only the user changes where or how "
            "long it holds. It stands as it is; ask them to run: mcp-compaction pin TEXT --scope "
            f"{draft.scope}{' --expires WHEN' if draft.expires else ''}",
        )
    if _ends_users_words(draft, grounds.saying) and same is None:
        return UserQuestion(
            text=f"The agent wants to pin what you said {where}{until}: {words}",
            refusal=f"{draft.source} says this, and only the user sets an end to it. Pin it "
            "without expires, or ask the user to run: mcp-compaction pin TEXT --expires WHEN",
        )
    may_bind = draft.scope == "session" or (draft.scope == "project" and draft.author == "user")
    if may_bind or same is not None:
        return None
    nearer = "project" if draft.author == "user" else "session"
    wants = f"to pin {where}{until}"
    kind = "" if draft.kind == "constraint" else f" --kind {draft.kind}"
    if (draft.kind, draft.scope, draft.expires) == ("fact", "project", None):
        wants = "to keep a fact for later sessions of this project, while they use it"
    return UserQuestion(
        text=f"The agent wants {wants}: {words}",
        refusal=f"a {draft.scope} pin needs the user: {_reason_of(grounds.saying)}. Pin it "
        f"for this {nearer}, or ask the user to run: "
        f"mcp-compaction pin{kind} --scope {draft.scope} TEXT",
    )


def _outranks(pin: Pin, draft: Pin) -> bool:
    """Whether a pin is not the agent's, so that no draft of its own rank or below changes it."""
    return pin.author != "agent" and _RANKS.index(pin.author) >= _RANKS.index(draft.author)


def _whose(pin: Pin) -> str:
    return "your pin" if pin.author == "user" else f"the {pin.author}'s pin"


def _ends_users_words(draft: Pin, saying: Saying | None) -> bool:
    return draft.expires is not None and saying is not None and saying.how == "said"


def _reason_of(saying: Saying | None) -> str:
    if saying is None:
        return "the text stands in no user message"
    match saying.how:
        case "told":
            return f"{saying.ref} holds these words only as the agent told it"
        case "passed on":
            return f"in {saying.ref} these words are quoted, pasted or put there by the host"
        case "part":
            return f"in {saying.ref} other words govern these; {what_counts(saying)}"
        case "said" if saying.is_programs:
            return (
                f"a program sent {saying.ref}, which is the user's word only where they have run: "
                "mcp-compaction trust headless"
            )
        case "said":
            return f"{saying.ref} says it in this project, not for all of them"


def what_counts(saying: Saying) -> str:
    """The next step where words are torn out: the text that would be the user's."""
    if saying.is_told:
        return "and that the user said them is only as the agent told it"
    if len(saying.whole) > LONGEST_SENTENCE:
        return f"the user's rule is the whole passage of {saying.ref}"
    whose, words = "program" if saying.is_programs else "user", defuse(saying.whole)
    return f'pinned whole they are the {whose}\'s, with these exact words: "{words}"'


def check_question(question: UserQuestion | None) -> None:
    """Refuse what only the user may decide."""
    if question is not None:
        raise NeedsUser(question.refusal)


def check_release(pin: Pin, by: Author) -> None:
    """Refuse to release a user's or a program's pin for anyone but the user."""
    if pin.author != "agent" and by != "user":
        raise NeedsUser(_release_refusal(pin))


def _release_refusal(pin: Pin) -> str:
    return (
        f"{pin.ref} is the {pin.author}'s: only the user releases it. Ask them to run: "
        f"mcp-compaction unpin {pin.ref}"
    )


def check_expiry(expires: datetime | None, now: datetime) -> None:
    """Refuse a pin that is over before it begins."""
    if expires is not None and expires <= now:
        raise InputError(f"{expires:%Y-%m-%d %H:%M} is past; pass a moment to come, or none.")


_AGENTS_PERCENT = 75  # of the block; the rest is kept for the user's pins


def make_room(known: Sequence[Pin], draft: Pin, policy: Policy, count: CountTokens) -> int:
    """The tokens of the pinned block with one more pin, or why there is no room for it; what an
    agent pins of the user's words takes of the agent's share."""
    shown = [pin for pin in known if pin.kind != "note"]
    if draft.kind == "note":
        return _Size.of(shown, count).tokens
    limit = _Size(policy.pinned_limit, policy.pinned_max_chars)
    if _is_by_agents_call(draft):
        agents = _Size.of([*filter(_is_by_agents_call, shown), draft], count)
        share = _Size(*(size * _AGENTS_PERCENT // 100 for size in limit))
        _check_size("the agent's pins", agents, share)
    size = _Size.of([*shown, draft], count)
    _check_size("the pinned block", size, limit)
    return size.tokens


def _is_by_agents_call(pin: Pin) -> bool:
    """Whether an agent made a pin, be it of the user's own words."""
    return pin.author == "agent" or pin.channel == "message"


class _Size(NamedTuple):
    """The size of a pinned block, or the most that it may have."""

    tokens: int
    chars: int

    @classmethod
    def of(cls, pins: Sequence[Pin], count: CountTokens) -> _Size:
        block = pinned_block(pins)
        return cls(count(block) if block else 0, len(block))


def _check_size(what: str, size: _Size, limit: _Size) -> None:
    if size.tokens > limit.tokens or size.chars > limit.chars:
        raise PinRefused(
            f"{what} would take {size.tokens} tokens and {size.chars} characters; the limit is "
            f"{limit.tokens} and {limit.chars}. Release a pin that is done, shorten this one, or "
            "keep it with kind=note: searchable, not shown."
        )


_OFFERS_UNTIL_DECLINED = 3


def suggest_pins(
    messages: Sequence[Message],
    digests: Iterable[Digest],
    pins: Sequence[Pin],
    most: int,
    earlier: Iterable[Offer] = (),
) -> Offer:
    """The rules to offer for pinning: the plainest first, of these the newest; what only an agent
    recorded is marked as told. Hints fill the places that rules leave free.

    A rule whose message has left the window stands in a digest, and is needed all the more. One
    that stood on several earlier receipts, was not pinned and not said again counts as declined.
    """
    pinned = PinnedRules(pins)
    quoted = (
        LikelyRule(
            Candidate(ref=item.refs[0], text=item.text, is_told=item.provenance == "extracted"),
            "firm",
        )
        for digest in digests
        for item in digest.items("CONSTRAINTS")
        if item.provenance != "summarized" and item.refs and not pinned.hold(item.text)
    )
    said = (*quoted, *likely_rules(messages, pins))
    newest: dict[str, LikelyRule] = {}
    for rule in reversed(said):
        newest.setdefault(fold(rule.candidate.text), rule)
    offered = Counter((fold(one.text), one.ref) for offer in earlier for one in offer.candidates)
    wanted = sorted(
        (
            rule
            for words, rule in newest.items()
            if offered[words, rule.candidate.ref] < _OFFERS_UNTIL_DECLINED
        ),
        key=lambda rule: STRENGTHS.index(rule.strength),
    )
    rules = sum(rule.strength != "hint" for rule in wanted)
    shown = tuple(rule.candidate for rule in wanted[:most])
    return Offer(candidates=shown, more=max(0, rules - most))
