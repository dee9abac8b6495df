"""Project facts: what a session taught that outlasts it, and whether a later one used it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mcp_compaction.core.limits import LONGEST_LINE
from mcp_compaction.core.log.commands import program_of
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.endings import is_run_of_tests
from mcp_compaction.core.log.ledger import CallEntry, ledger_of
from mcp_compaction.core.log.spoken_rules import is_known
from mcp_compaction.core.pins import check_text
from mcp_compaction.core.text.injection import is_planted
from mcp_compaction.core.text.signs import find_rules
from mcp_compaction.core.text.words import exact_words, fold, telling_words
from mcp_compaction.errors import PinRefused
from mcp_compaction.model import Digest, Draft, FactOffer, Message, Pin, SectionName, Text, ToolCall

_MASK = "[masked:"
_LASTING: tuple[SectionName, ...] = ("DECISIONS", "FACTS")
_PASSING = ("/tmp/", "$TMP", "mktemp")  # in commands whose files are gone the next day


def offer_facts(
    messages: Sequence[Message],
    pins: Sequence[Pin],
    declined: Iterable[str] = (),
    told: Sequence[FactOffer] = (),
) -> tuple[FactOffer, ...]:
    """What is worth keeping for later sessions: what calls proved, then what models tell of the
    session; the newest first. Rules are not among it, nor what holds a secret or poses as another
    voice."""
    known = [fold(pin.text) for pin in pins]
    refused = set(declined)
    once = {fold(offer.text): offer for offer in _commands(messages)}
    for offer in told:
        if not is_known(offer.text, once):
            once[fold(offer.text)] = offer
    return tuple(
        sorted(
            (
                offer
                for words, offer in once.items()
                if offer.id not in refused and not is_known(words, known) and _may_stand(offer.text)
            ),
            key=lambda o: (bool(o.by), -int(o.ref[1:])),
        )
    )


def facts_told(drafts: Iterable[Draft | Digest]) -> tuple[FactOffer, ...]:
    """The decisions and findings that models wrote into checked drafts or digests, without those
    that nothing shows or that were overtaken."""
    return tuple(
        FactOffer(
            kind="decision" if section == "DECISIONS" else "finding",
            ref=item.refs[-1],
            text=item.text,
            by="model",
            others=item.refs[:-1],
        )
        for draft in drafts
        for section in _LASTING
        for item in draft.items(section)
        if item.by == "model" and not item.doubt and not item.superseded
        if item.refs and item.refs[-1].startswith("m")
    )


def _may_stand(text: str) -> bool:
    """Whether a text may stand in a later session: no rule, no secret, nobody else's voice."""
    if len(text) > LONGEST_LINE or _MASK in text or is_planted(text) or find_rules(text):
        return False
    try:
        check_text(text)
    except PinRefused:
        return False
    return True


def _commands(said: Sequence[Message]) -> Iterator[FactOffer]:
    """The commands that work here: run more than once, done the last time, and either a run of
    tests or one that had failed before."""
    runs: dict[str, list[CallEntry]] = {}
    for entry in ledger_of(said).entries:
        if entry.action.kind == "run":
            runs.setdefault(program_of(entry.action.target), []).append(entry)
    for entries in runs.values():
        last = entries[-1]
        command = last.action.target.strip()
        done = sum(e.action.target.strip() == command and e.ending == "done" for e in entries)
        if last.ending != "done" or last.result is None or done < 2:
            continue
        is_proved = is_run_of_tests(last.result) or any(e.ending == "failed" for e in entries)
        if is_proved and "\n" not in command and not any(sign in command for sign in _PASSING):
            yield FactOffer(kind="command", ref=last.ref, text=f"Works here: {command}")


def is_used(fact: str, messages: Sequence[Message]) -> bool:
    """Whether a session used a fact: somebody typed a name of it, or said most of its words."""
    names = exact_words(fact)
    words = set(telling_words(fact))
    for message in conversation_of(messages):
        said = " ".join(words_of(p) for p in message.parts if isinstance(p, Text | ToolCall))
        if names and not names.isdisjoint(exact_words(said)):
            return True
        shared = words & set(telling_words(said)) if not names else ()
        if words and 2 * len(shared) > len(words):
            return True
    return False
