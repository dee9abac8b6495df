"""Reads what a user wants of an agent: the goal, and what was refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from mcp_compaction.core.digest.outcomes import failure_item
from mcp_compaction.core.digest.reading import MOST_LINES, Reading, Speech, is_asking, short
from mcp_compaction.core.limits import LONGEST_LINE
from mcp_compaction.core.log.commands import command_line_of
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.log.ledger import CallEntry
from mcp_compaction.core.log.used_names import is_of_library
from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.all_languages import part_in_all
from mcp_compaction.core.text.patterns import without_examples
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, is_speech, split_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import fold, telling_words
from mcp_compaction.model import AccountValue, Item, Message

_REFUSED = ("refused", "interrupted")
_MOST_OF_NO_TALK = 3  # requests that no call follows; where there are more, answers tell more


def goal_items(reading: Reading) -> Iterator[Item]:
    """The newest request of the span in the user's words, then those before it; one after the span
    is shown by the window itself."""
    if not _is_work(reading):
        return
    last = reading.request.last
    later = any(one.message.seq > last for one in reading.requests)
    open_ones = (one for one in reading.requests if not _is_settled(one, reading))
    in_span = (one for one in open_ones if reading.request.first <= one.message.seq <= last)
    for place, one in enumerate(_newest_first(in_span)[:MOST_LINES]):
        if place or later:
            yield _request_item(one, "before")
        elif one.message.via == "host":
            newest = _request_item(one, "newest")
            yield newest.model_copy(update={"provenance": "verbatim"})
        else:
            yield _request_item(one, "told")


def _newest_first(asked: Iterable[Speech]) -> list[Speech]:
    """Requests, the newest first; a rule alone is one where nothing else is."""
    found = [*asked][::-1]
    return [one for one in found if not one.is_only_a_rule] or found


def _is_work(reading: Reading) -> bool:
    """Whether requests lead to work; in plain talk excerpts say more than what was asked."""
    requests = sum(message.is_request for message in reading.messages)
    return requests <= _MOST_OF_NO_TALK or any(message.calls for message in reading.messages)


def _is_settled(one: Speech, reading: Reading) -> bool:
    """Whether a question was answered, and in words: the answer says more than what was asked."""
    is_answered = one.message.seq in reading.answered_in_words
    return is_answered and _main_sentence(one).endswith(remarks.QUESTION_MARKS)


def _request_item(one: Speech, status: str) -> Item:
    is_before = status == "before"
    words = short(_main_sentence(one)) if is_before else short(one.text, LONGEST_LINE)
    value = AccountValue(kind="request", status=status)
    return Item(text=words, refs=(one.message.ref,), value=value)


def _main_sentence(one: Speech) -> str:
    """The first sentence of a request that asks for something, or else that says something; a rule
    has a line of its own."""
    rules = find_rules(one.text)
    asking = (s.text for s in one.sentences if is_asking(s) and _tells(s.text))
    spoken = (said for said in split_sentences(one.text) if is_speech(said) and _tells(said))
    found = (said for said in (*asking, *spoken) if said not in rules)
    return next(found, one.text)


def _tells(said: str) -> bool:
    return len(telling_words(said)) > 1 and not remarks.is_pleasantry(said)


def rejected_items(reading: Reading) -> list[Item]:
    """What the user refused or took back, the newest first: calls, and what was said of them."""
    found = [*_refused_calls(reading), *_rejections(reading)]
    found.sort(key=lambda item: int(item.refs[0][1:]), reverse=True)
    return found[:MOST_LINES]


def _refused_calls(reading: Reading) -> Iterator[Item]:
    """The calls that were refused and not done since, each with what the user said then."""
    refused: dict[str, list[CallEntry]] = {}
    for entry in reading.ledger.entries:
        if entry.ending == "done":
            refused.pop(_line_of(entry), None)
        elif entry.ending in _REFUSED and reading.is_in_span(entry.ref):
            refused.setdefault(_line_of(entry), []).append(entry)
    users = {m.seq: m.text for m in reading.window if m.is_request}
    for line, entries in refused.items():
        last = entries[-1]
        after = int(last.result_ref[1:]) + 1
        words = short(users.get(after, ""))
        refs = dict.fromkeys((last.ref, last.result_ref, *((f"m{after}",) if words else ())))
        value = AccountValue(kind="refusal", status=last.ending, more=words, times=len(entries))
        yield Item(text=line, refs=tuple(refs), value=value)


def _line_of(entry: CallEntry) -> str:
    return f"{entry.call.name} {command_line_of(entry.action.target)}".strip()


def _rejections(reading: Reading) -> Iterator[Item]:
    for one in reading.said:
        if one.message.role == "user":
            rules = {fold(rule) for rule in find_rules(one.text)}
            for sentence in one.sentences:
                if fold(sentence.text) not in rules and _is_rejection(sentence):
                    value = AccountValue(kind="request", status="rejected")
                    yield Item(text=short(sentence.text), refs=(one.message.ref,), value=value)


def _is_rejection(sentence: Sentence) -> bool:
    """Whether a user turns down or takes back something here."""
    return find_sign("reversal", sentence) is not None and len(telling_words(sentence.text)) > 1


def next_items(reading: Reading) -> Iterator[Item]:
    """What the agent said it will do next; and what is left of the newest request of the window
    that closing words have not ended: the files that it names and no call touched since, and what
    failed last."""
    yield from islice(_announced(reading), 1)
    asked = next(iter(_newest_first(reading.requests)), None)
    after = [m for m in reading.window if asked is not None and m.seq > asked.message.seq]
    is_over = any(m.role == "assistant" and m.text and not m.calls for m in after)
    if asked is None or is_over or not any(m.calls for m in after):
        return
    if left := [*_untouched_files(asked, after)]:
        value = AccountValue(kind="label", status="untouched")
        yield Item(text=", ".join(left[:MOST_LINES]), refs=(asked.message.ref,), value=value)
    refs = {message.ref for message in after}
    yield from (
        failure_item(f, reading) for f in reading.ledger.failures[:1] if f.entry.ref in refs
    )


def _announced(reading: Reading) -> Iterator[Item]:
    """The next steps that the agent named, the newest first; a call since has begun the work."""
    called = max((m.seq for m in reading.window if m.calls), default=0)
    for one in reversed(reading.said):
        if one.message.seq <= called:
            return
        for sentence in reversed(one.sentences) if one.message.role == "assistant" else ():
            if part_in_all("announces").match(sentence.bare):
                yield Item(text=short(sentence.text), refs=(one.message.ref,))


def _untouched_files(asked: Speech, after: Iterable[Message]) -> Iterator[str]:
    """The files that a request names, but for its examples, and no call since."""
    found = find_identifiers(without_examples(asked.text))
    files = dict.fromkeys(f.text.removeprefix("@") for f in found if f.kind == "file")
    touched = "\n".join(words_of(part) for message in after for part in message.parts)
    for name in files:
        if not is_of_library(name) and name.rpartition("/")[2] not in touched:
            yield name
