"""Reads what a user wants of an agent: the goal, what was refused, what waits for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mcp_compaction.core.digest.reading import Reading, Speech, is_asking, short
from mcp_compaction.core.log.commands import command_line_of
from mcp_compaction.core.log.ledger import CallEntry
from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, is_speech, split_sentences
from mcp_compaction.core.text.signs import find_sign
from mcp_compaction.core.text.words import fold, telling_words
from mcp_compaction.model import AccountValue, Item

_FEWEST_TELLING = 2  # words that say something, in what counts as a request
_MOST_REQUESTS = 12
_MOST_CHARS = 320  # of the request in force
_MOST_BEFORE, _CHARS_BEFORE = 6, 140
_MOST_REJECTED = 8
_MOST_ASKED = 4
_REFUSED = ("refused", "interrupted")


def goal_items(reading: Reading) -> Iterator[Item]:
    """The newest request of the span in the user's words, then those before it; one after the span
    is shown by the window itself."""
    if not _is_work(reading):
        return
    last = reading.request.last
    later = any(one.message.seq > last for one in reading.requests)
    open_ones = (one for one in reading.requests if not _is_settled(one, reading))
    in_span = (one for one in open_ones if reading.request.first <= one.message.seq <= last)
    for place, one in enumerate(_newest_first(in_span)[: _MOST_BEFORE + 1]):
        if place or later:
            yield _request_item(one, "before")
        elif one.message.via == "host":
            text, refs = short(one.text, _MOST_CHARS), (one.message.ref,)
            value = AccountValue(kind="request", status="newest")
            yield Item(text=text, refs=refs, provenance="verbatim", value=value)
        else:
            yield _request_item(one, "told", _MOST_CHARS)


def _newest_first(asked: Iterable[Speech]) -> list[Speech]:
    """Requests, the newest first; a rule alone is one where nothing else is."""
    found = [*asked][::-1]
    return [one for one in found if not one.is_only_a_rule] or found


def _is_work(reading: Reading) -> bool:
    """Whether requests lead to work; in plain talk excerpts say more than what was asked."""
    requests = sum(message.is_request for message in reading.messages)
    return requests <= _MOST_REQUESTS or any(message.calls for message in reading.messages)


def _is_settled(one: Speech, reading: Reading) -> bool:
    """Whether a question was answered, and in words: the answer says more than what was asked."""
    is_answered = one.message.seq in reading.answered_in_words
    return is_answered and main_sentence(one).endswith(remarks.QUESTION_MARKS)


def _request_item(one: Speech, status: str, most: int = _CHARS_BEFORE) -> Item:
    words = one.text if status == "told" else main_sentence(one)
    value = AccountValue(kind="request", status=status)
    return Item(text=short(words, most), refs=(one.message.ref,), value=value)


def request_in_force(reading: Reading) -> Speech | None:
    """The newest request of the window that is more than a rule."""
    found = next(iter(_newest_first(reading.requests)), None)
    return None if found is None or found.is_only_a_rule else found


def main_sentence(one: Speech) -> str:
    """The first sentence of a request that asks for something, or else that says something; a rule
    has a line of its own."""
    rules = find_rules(one.text)
    asking = (s.text for s in one.sentences if is_asking(s) and _tells(s.text))
    spoken = (said for said in split_sentences(one.text) if is_speech(said) and _tells(said))
    found = (said for said in (*asking, *spoken) if said not in rules)
    return next(found, one.text)


def _tells(said: str) -> bool:
    return len(telling_words(said)) >= _FEWEST_TELLING and not remarks.is_pleasantry(said)


def rejected_items(reading: Reading) -> list[Item]:
    """What the user refused or took back, the newest first: calls, and what was said of them."""
    found = [*_refused_calls(reading), *_rejections(reading)]
    found.sort(key=lambda item: int(item.refs[0][1:]), reverse=True)
    return found[:_MOST_REJECTED]


def _refused_calls(reading: Reading) -> Iterator[Item]:
    """The calls that were refused and not done since, each with what the user said then."""
    ended = [e for e in reading.ledger.entries if e.ending == "done"]
    done = {_line_of(entry): int(entry.ref[1:]) for entry in ended}
    times: dict[str, list[CallEntry]] = {}
    for entry in reading.entries:
        line = _line_of(entry)
        if entry.ending in _REFUSED and int(entry.ref[1:]) > done.get(line, 0):
            times.setdefault(line, []).append(entry)
    users = {m.seq: m.text for m in (*reading.messages, *reading.later) if m.is_request}
    for line, entries in times.items():
        last = entries[-1]
        after = int(last.result_ref[1:]) + 1
        words = short(users.get(after, ""), 160)
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


def asked_items(reading: Reading) -> Iterable[Item]:
    """The questions of an assistant that nobody has answered: nothing was said after them."""
    if reading.said_later or not reading.said or any(m.calls for m in reading.later):
        return ()
    last = reading.said[-1]
    is_last = last.message is reading.messages[-1] and not last.message.calls
    if last.message.role != "assistant" or not is_last:
        return ()
    asked = [s for s in last.sentences if s.text.endswith(remarks.QUESTION_MARKS)]
    return [Item(text=short(s.text), refs=(last.message.ref,)) for s in asked[-_MOST_ASKED:]]
