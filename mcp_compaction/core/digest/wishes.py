"""Reads what a user wants of an agent: the goal, what was rejected, what waits for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import filterfalse, islice

from mcp_compaction.core.digest.reading import Reading, Speech, short
from mcp_compaction.core.digest.text import BEFORE, IN_FORCE, TOLD
from mcp_compaction.core.log.decisions.statement import is_acceptance
from mcp_compaction.core.log.families import command_line_of
from mcp_compaction.core.log.ledger import CallEntry
from mcp_compaction.core.text import remarks
from mcp_compaction.core.text.language import ENGLISH
from mcp_compaction.core.text.rules import find_rules
from mcp_compaction.core.text.sentences import Sentence, is_speech, split_sentences
from mcp_compaction.core.text.signs import Shown, find_sign, sign_in
from mcp_compaction.core.text.words import fold, one_line, telling_words
from mcp_compaction.model import Item

_FEWEST_TELLING = 2  # words that say something, in what counts as a request
_FULL_REQUEST = 4  # such words, in a sentence that is understood without those around it
_MOST_CHARS = 320  # of the request in force
_MOST_BEFORE, _CHARS_BEFORE = 6, 140
_MOST_REJECTED = 8
_LONGEST_NO = 10  # characters
_MOST_ASKED = 4
_MOST_REQUESTS = 12
REFUSED = ("refused", "interrupted")


def goal_items(reading: Reading) -> Iterator[Item]:
    """The request in force in the user's words, then those before it, the newest first."""
    if not _is_work(reading):
        return
    requests = _last_requests(reading)
    is_in_force = not any(True for _ in _requests_among(reading.said_later, reading))
    in_force = request_in_force(reading) if requests and not is_in_force else None
    if in_force is not None and reading.request.is_newest:
        text = f"{IN_FORCE}{short(main_sentence(in_force), _CHARS_BEFORE)}"
        yield Item(text=text, refs=(in_force.message.ref,))
    for place, one in enumerate(requests):
        is_told = one.message.via != "host"
        if place or not is_in_force:
            text = f"{BEFORE}{short(main_sentence(one), _CHARS_BEFORE)}"
            yield Item(text=text, refs=(one.message.ref,))
        else:
            text = short(one.text, _MOST_CHARS)
            provenance = "extracted" if is_told else "verbatim"
            label = TOLD if is_told else ""
            yield Item(text=f"{label}{text}", refs=(one.message.ref,), provenance=provenance)


def request_in_force(reading: Reading) -> Speech | None:
    """The newest request of the window."""
    said = (*reading.said_earlier, *reading.said, *reading.said_later)
    return next(filterfalse(_is_only_a_rule, _requests_among(said, reading)), None)


def _last_requests(reading: Reading) -> list[Speech]:
    """The last requests of the span, the newest first; rules only where nothing else is."""
    asked = filterfalse(_is_only_a_rule, _requests_among(reading.said, reading))
    most = _MOST_BEFORE + 1
    return [*islice(asked, most)] or [*islice(_requests_among(reading.said, reading), most)]


def _is_work(reading: Reading) -> bool:
    """Whether requests lead to work; in plain talk excerpts say more than what was asked."""
    requests = sum(message.is_request for message in reading.messages)
    return requests <= _MOST_REQUESTS or any(message.calls for message in reading.messages)


def _requests_among(said: Sequence[Speech], reading: Reading) -> Iterator[Speech]:
    """The messages in which a user asks for something rather than talks, the newest first; all that
    say something, where nothing of the window is seen to ask, as in a language that has no
    lexicon."""
    telling = filter(_says_something, reversed(said))
    has_request = _has_request(reading)
    return (one for one in telling if not has_request or _is_request(one, reading))


def _has_request(reading: Reading) -> bool:
    """Whether a user asks for something in words, or what one said led to a call."""
    recent = (one for one in (*reading.said, *reading.said_later) if _says_something(one))
    return any(
        _is_request(one, reading) for one in recent if _asks(one) or one.message.seq < reading.end
    ) or any(_asks(one) for one in reading.said_earlier)


def _says_something(one: Speech) -> bool:
    """Whether a user says something here, rather than only agrees or thanks."""
    if not one.message.is_request or (is_acceptance(one.text) and not _asks_anew(one)):
        return False
    return len(telling_words(main_sentence(one))) >= _FEWEST_TELLING


def _is_request(one: Speech, reading: Reading) -> bool:
    """Whether what a user says asks for something: words that do not are a request where they led
    to a call or nobody has answered them."""
    return one.message.seq not in reading.answered_in_words or not one.sentences or _asks(one)


def _asks(one: Speech) -> bool:
    return any(map(_is_asking, one.sentences))


def _is_asking(sentence: Sentence) -> bool:
    """Whether a sentence asks for something, in the form of a question or not."""
    is_question = sentence.text.endswith(remarks.QUESTION_MARKS)
    return is_question or find_sign("request", sentence) is not None


def _is_only_a_rule(one: Speech) -> bool:
    return len(one.sentences) == 1 and bool(find_rules(one.text))


def main_sentence(one: Speech) -> str:
    """The first sentence of a request that asks for something, or else that says something; the
    whole of it where it is the only one."""
    spoken = filter(is_speech, split_sentences(one.text))
    sentences = [said for said in spoken if not remarks.is_pleasantry(said)]
    if len(sentences) == 1:
        return sentences[0]
    telling = (said for said in sentences if len(telling_words(said)) >= _FEWEST_TELLING)
    return _full_request(one) or next(telling, "")


def _full_request(one: Speech) -> str:
    """The first sentence that asks outright, or else as a question, as a rule or by saying how it
    should be, and is understood without those around it."""
    full = [sentence for sentence in one.sentences if _is_full_request(sentence)]
    best = next(filter(_asks_outright, full), None) or next(iter(full), None)
    return best.text if best else ""


def _asks_anew(one: Speech) -> bool:
    """Whether a message that says yes also asks for something else."""
    return any(
        _asks_outright(sentence)
        or (sentence.text.endswith(remarks.QUESTION_MARKS) and not is_acceptance(sentence.text))
        for sentence in one.sentences
        if _is_full_request(sentence)
    )


def _is_full_request(sentence: Sentence) -> bool:
    """Whether a sentence asks for something and is understood without those around it; one that
    announces what follows has to say more."""
    fewest = _FULL_REQUEST + 2 * sentence.text.endswith((":", "："))
    return _is_asking(sentence) and len(telling_words(sentence.text)) >= fewest


def _asks_outright(sentence: Sentence) -> bool:
    shown = find_sign("request", sentence)
    return shown is not None and shown.sign.strength == "firm" and not find_rules(sentence.text)


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
        if entry.ending in REFUSED and int(entry.ref[1:]) > done.get(line, 0):
            times.setdefault(line, []).append(entry)
    said = {one.message.seq: one.text for one in (*reading.said, *reading.said_later)}
    users = {m.seq for m in (*reading.messages, *reading.later) if m.is_request}
    for line, entries in times.items():
        last = entries[-1]
        after = int(last.result_ref[1:]) + 1
        words = f': "{short(said[after], 160)}"' if after in users and after in said else ""
        often = f" {len(entries)} times" if len(entries) > 1 else ""
        refs = (last.result_ref, f"m{after}") if words else (last.result_ref,)
        refs = refs if last.result_ref == last.ref else (last.ref, *refs)
        yield Item(text=f"{last.ending}{often}: {line}{words}", refs=refs)


def _line_of(entry: CallEntry) -> str:
    return f"{entry.call.name} {command_line_of(entry.action.target)}".strip()


def _rejections(reading: Reading) -> Iterator[Item]:
    for one in reading.said:
        if one.message.role == "user":
            rules = {fold(rule) for rule in find_rules(one.text)}
            is_opened = _short_no(one) is not None
            if one.sentences and is_opened:
                said = one_line(one.text[: one.sentences[0].end])
                yield Item(text=f'"{short(said)}"', refs=(one.message.ref,))
            for sentence in one.sentences[is_opened:]:
                if fold(sentence.text) not in rules and is_rejection(sentence):
                    yield Item(text=f'"{short(sentence.text)}"', refs=(one.message.ref,))


def is_rejection(sentence: Sentence) -> bool:
    """Whether a user turns down or takes back something here."""
    return find_sign("rejects", sentence) is not None and len(telling_words(sentence.text)) > 1


def objects(one: Speech) -> bool:
    """Whether a user's message plainly turns down what was said or done before it; to wait or to
    stop, or to ask why, does not."""
    shown = (_short_no(one), *(find_sign("rejects", sentence) for sentence in one.sentences))
    return any(found is not None and found.sign.strength == "firm" for found in shown)


def _short_no(one: Speech) -> Shown | None:
    """The no with which a message begins, in a word too short to be a sentence."""
    first = next(iter(one.sentences), None)
    opening = one.text[: first.start] if first else one.text
    languages = (first.languages if first else ()) or (ENGLISH,)
    is_short = len(opening) <= _LONGEST_NO
    return sign_in("rejects", opening.strip(), languages) if is_short else None


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


def closing_speeches(said: Iterable[Speech]) -> Iterator[Speech]:
    """What an assistant said when it had called its last tool of a turn."""
    return (one for one in said if one.message.role == "assistant" and not one.message.calls)
