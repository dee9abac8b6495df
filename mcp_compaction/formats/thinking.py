"""The one rule for thinking that a model has bound to what was sent before it.

Such a block is good only behind the beginning that it was made behind: `system`, `tools` and all
messages before it, whatever cache marks they bear; a reasoning item of the Responses API, behind
what was sent before its whole answer. Behind any other it leaves the request, and with it every
later one, since their beginning had it. What was left out once never comes back, so
that the beginning of later blocks stays the same. The archive keeps them all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple, cast

from pydantic import JsonValue

from mcp_compaction.core.text.secrets import redact
from mcp_compaction.formats.content import objects_in, text_or_empty
from mcp_compaction.formats.identity import fingerprint_of, fingerprints_of, unwrap_text
from mcp_compaction.formats.responses import piece_of
from mcp_compaction.lexicon.models import rule_of
from mcp_compaction.model import JsonObject, Message, Part, Text, Thinking

LEFT_OUT = ""  # stands for a beginning: the block is good behind none any more
UNNAMED = "-"  # stands for a model without a name, which is taken for one that binds
NOWHERE = "nowhere"  # a beginning that is never sent
_KINDS = ("thinking", "redacted_thinking")
_MOST_REQUESTS = 8  # of which it is remembered what was sent for them
_MOST_READ = 20_000  # messages whose blocks are remembered
_NOTHING = b""  # the fingerprint of no messages
_REQUEST, _MODEL = "request ", "model "  # begin the keys of rows that are of no block
_REFUSED = "refused"
_MARK = re.compile("[0-9a-f]{32}")
_LONGEST_MODEL = 200
_REASON = re.compile("[a-z_]{1,40}")


class Sending(NamedTuple):
    """The messages of a request with their fingerprints, and that of what stands beside them."""

    beside: bytes
    messages: Sequence[JsonObject]
    prints: Sequence[bytes]


class Left(NamedTuple):
    """A request without the thinking that is good no more."""

    messages: list[JsonObject]  # those that nothing was taken from are the same objects
    prints: list[bytes]
    places: list[int]  # of each in the request before
    mark: str  # of all of it: the beginning that an answer is made behind
    gone: int  # blocks that were left out
    name: str  # of its messages


def print_beside(system: JsonValue, tools: JsonValue) -> bytes:
    """The fingerprint of what a request has beside its messages; deferred tools do not count."""
    offered = [tool for tool in objects_in(tools) if not tool.get("defer_loading")]
    return fingerprint_of([unwrap_text(system), cast("JsonValue", offered)])


def hear_thinking(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages of a model that says in its thinking what it says between two calls: what can
    be read of that counts as its words."""
    return tuple(
        message.model_copy(update={"parts": tuple(map(_hear, message.parts))})
        if message.shape == "anthropic"
        and not all(isinstance(part, Thinking) for part in message.parts)
        else message
        for message in messages
    )


def _hear(part: Part) -> Part:
    if isinstance(part, Thinking) and part.text.strip():
        return Text(text=part.text)
    return part


def sending_of(
    messages: Sequence[JsonObject],
    beside: JsonObject,
    prints: Sequence[bytes] | None = None,
    more: bytes = b"",
) -> Sending:
    """A request of these messages, and of what a body has beside them.

    `prints`: of the messages, where they are known. `more`: the fingerprint of what else is sent.
    """
    system = beside.get("system") or beside.get("instructions")
    known = fingerprints_of(messages) if prints is None else prints
    return Sending(more + print_beside(system, beside.get("tools")), messages, known)


def may_be_bound(model: str) -> bool:
    """Whether thinking in requests to a model has to be watched."""
    return rule_of(model) != "free"


def is_row(key: str, value: str | None) -> bool:
    """Whether something may be kept of a conversation's thinking: marks and the name of a model,
    no other words."""
    is_mark = value in (None, LEFT_OUT, NOWHERE) or _MARK.fullmatch(value or "") is not None
    if key.startswith(_MODEL):
        return value == _REFUSED and not redact(key).counts and len(key) <= _LONGEST_MODEL
    return is_mark and _MARK.fullmatch(key.removeprefix(_REQUEST)) is not None


def has_thinking(messages: Iterable[JsonObject]) -> bool:
    """Whether any of these messages holds thinking."""
    return any(map(thinking_in, messages))


def thinking_in(message: JsonObject) -> list[str]:
    """The fingerprints of a message's thinking blocks, in order."""
    if message.get("type") == "reasoning":
        return [fingerprint_of(message).hex()]
    if message.get("role") != "assistant":
        return []
    return [fingerprint_of(block).hex() for block in _blocks_in(message)]


def _blocks_in(message: JsonObject) -> list[JsonObject]:
    # Programs that speak OpenAI's dialect to Anthropic's models keep them beside the content.
    apart = objects_in(message.get("thinking_blocks"))
    said = objects_in(message.get("content"))
    return [*apart, *(block for block in said if block.get("type") in _KINDS)]


def without_thinking(message: JsonObject, kept: int = 0) -> JsonObject | None:
    """The message with only its first `kept` thinking blocks; None where nothing is left of it."""
    if message.get("type") == "reasoning":
        return None
    bare = dict(message)
    apart = message.get("thinking_blocks")
    if isinstance(apart, list):
        bare["thinking_blocks"] = apart[:kept]
        if not bare["thinking_blocks"]:
            del bare["thinking_blocks"]
        kept = max(0, kept - len(apart))
    content = message.get("content")
    if isinstance(content, list):
        bare["content"] = _without_blocks(content, kept)
    is_empty = not bare.get("content") and not bare.get("tool_calls")
    return None if is_empty else {**bare, "content": bare.get("content") or ""}


def _without_blocks(content: list[JsonValue], kept: int) -> list[JsonValue]:
    found: list[JsonValue] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") in _KINDS:
            kept -= 1
            if kept < 0:
                continue
        found.append(block)
    return found


def removed_in(answer: JsonObject) -> Counter[str]:
    """The thinking that a provider says to have left out of a request, by its reasons."""
    told = objects_in(answer.get("input_transformations"))
    gone = (
        one
        for one in told
        if one.get("type") == "thinking_dropped" or one.get("action") == "removed"
    )
    reasons = (text_or_empty(one.get("reason")) for one in gone)
    return Counter(why if _REASON.fullmatch(why) else "another_reason" for why in reasons)


def _is_item_said(message: JsonObject) -> bool:
    """Whether a model said an item of the Responses API: an answer is a run of them."""
    return bool(message.get("type")) and piece_of(message).said


def _go_on(messages: bytes, one: bytes) -> bytes:
    """The fingerprint of messages with one more behind them."""
    return blake2b(messages + one, digest_size=16).digest()


def _mark(beside: bytes, messages: bytes) -> str:
    """The mark of a beginning."""
    return blake2b(beside + messages, digest_size=16).hexdigest()


class _Walked(NamedTuple):
    """How far a history was looked at."""

    known: list[bytes]  # the fingerprints of its messages
    messages: bytes
    start: bytes  # those before the newest answer
    is_said: bool  # the newest message is an item of an answer


_BEGUN = _Walked([], _NOTHING, _NOTHING, False)


class Bindings:
    """The blocks of thinking of one conversation, and the beginnings that they were made behind."""

    def __init__(self, rows: Mapping[str, str] | None = None) -> None:
        """`rows`: what `changes` gave an earlier process."""
        self._blocks: dict[str, str] = {}  # the beginning that each was made behind
        self._requests: dict[str, str] = {}  # the marks of what was sent for messages of a caller
        self._models: set[str] = set()  # that have refused a block
        self._changes: dict[str, str | None] = {}
        self._walked = _BEGUN  # the last history of a caller
        self._read: dict[bytes, list[str]] = {}  # the blocks of messages, by their fingerprints
        self._newest: tuple[str, ...] = ()  # the names of the last request's messages
        self.newest: str | None = None  # the mark of it as it was sent
        self.learn(rows or {})

    def learn(self, rows: Mapping[str, str]) -> None:
        """Take over what another process has kept."""
        for key, value in rows.items():
            if key.startswith(_REQUEST):
                self._requests.setdefault(key.removeprefix(_REQUEST), value)
            elif key.startswith(_MODEL):
                self._models.add(key.removeprefix(_MODEL))
            elif key not in self._blocks or value == LEFT_OUT:
                self._blocks[key] = value

    def rows_of(self, blocks: Container[str]) -> dict[str, str]:
        """What is known of some blocks, and all else, to be kept."""
        known = {block: mark for block, mark in self._blocks.items() if block in blocks}
        requests = {_REQUEST + own: sent for own, sent in self._requests.items()}
        return known | requests | dict.fromkeys((_MODEL + one for one in self._models), _REFUSED)

    def changes(self) -> dict[str, str | None]:
        """The rows that are new since the last time; None: one that is to go."""
        found, self._changes = self._changes, {}
        return found

    def put_back(self, changes: Mapping[str, str | None]) -> None:
        """Take rows back that could not be kept, to be kept with the next ones."""
        self._changes = {**changes, **self._changes}

    def is_bound(self, model: str) -> bool:
        """Whether thinking of that model is bound, as is known of it or as it has shown."""
        return rule_of(model) == "bound" or model in self._models or model == UNNAMED

    def bind_own(self, own: Sending) -> str:
        """Bind the blocks of a caller's history that are new; gives the name of all its messages.

        A block was made behind what was sent for the messages before it, whatever stood beside
        them then; where nothing is known to be sent, behind the history itself.
        """
        walked = self._walked
        if list(own.prints[: len(walked.known)]) != walked.known:
            walked = _BEGUN
        start, messages, is_said = walked.start, walked.messages, walked.is_said
        for place in range(len(walked.known), len(own.prints)):
            one, was_said = own.prints[place], is_said
            is_said = _is_item_said(own.messages[place])
            start = start if is_said and was_said else messages
            blocks = self._blocks_in(own.messages[place], one)
            if blocks:
                sent = self._requests.get(start.hex())
                self.bind(blocks, sent or _mark(own.beside, start))
            messages = _go_on(messages, one)
        self._walked = _Walked(list(own.prints), messages, start, is_said)
        return messages.hex()

    def _blocks_in(self, message: JsonObject, one: bytes) -> list[str]:
        """The blocks of a message, which need no hashing again where its fingerprint is known."""
        found = self._read.get(one)
        if found is None:
            if len(self._read) > _MOST_READ:
                self._read.clear()
            found = self._read[one] = thinking_in(message)
        return found

    def send(self, own: Sending, sending: Sending, model: str, *, for_good: bool = True) -> Left:
        """What to send of a request that stands for a caller's own history, as `leave_out` gives
        it; noted as sent."""
        name, left = self.bind_own(own), self.leave_out(sending, model, for_good=for_good)
        if for_good:
            self.note_sent(name, left.name, sent=left.mark)
        return left

    def bind_answer(self, messages: Iterable[JsonObject], behind: str | None = None) -> None:
        """Bind the thinking of an answer to what was sent last, or to a request of another mark."""
        mark = behind or self.newest
        if mark is not None:
            self.bind((block for message in messages for block in thinking_in(message)), mark)

    def bind(self, blocks: Iterable[str], mark: str) -> None:
        """Note the beginning that blocks were made behind, where it is not known yet."""
        for block in blocks:
            if block not in self._blocks:
                self._set(block, mark)

    def beginning_of(self, block: str) -> str | None:
        """The beginning that a block was made behind; None where it is not known."""
        return self._blocks.get(block)

    def leave_out(self, sending: Sending, model: str, *, for_good: bool = True) -> Left:
        """A request without the blocks that stand behind another beginning than their own; all of
        it for a model that is not known to bind them, and may turn out to do so later.

        `for_good`: the conversation goes on behind it; False: it is beside the conversation.
        """
        is_bound = self.is_bound(model)
        start = messages = _NOTHING
        left = Left([], [], [], "", 0, "")
        gone, is_said, is_bare = 0, False, False
        for place, message in enumerate(sending.messages):
            shown: JsonObject | None = message
            one, was_said = sending.prints[place], is_said
            is_said = is_bound and _is_item_said(message)
            if not (is_said and was_said):
                start, is_bare = messages, False
            blocks = self._blocks_in(message, one) if is_bound else []
            good = self._count_good(blocks, _mark(sending.beside, start)) if blocks else 0
            if is_bare and "id" in message and not blocks:
                # By its id its provider asks for the reasoning that it followed.
                shown = {key: value for key, value in message.items() if key != "id"}
                one = fingerprint_of(shown)
            if good < len(blocks):
                is_bare = is_said
                gone += len(blocks) - good
                if for_good:
                    self.give_up(blocks[good:])
                shown = without_thinking(message, good)
                if shown is None:
                    continue
                one = fingerprint_of(shown)
            left.messages.append(shown)
            left.prints.append(one)
            left.places.append(place)
            messages = _go_on(messages, one)
        mark = _mark(sending.beside, messages)
        return left._replace(mark=mark, gone=gone, name=messages.hex())

    def _count_good(self, blocks: Sequence[str], mark: str) -> int:
        """How many of a message's blocks, from the first on, were made behind a beginning."""
        return len(list(takewhile(lambda block: self._blocks.get(block) == mark, blocks)))

    def sent_for(self, own: str) -> str | None:
        """The mark of what was sent for messages of that name; None where it is not known."""
        return self._requests.get(own)

    def note_sent(self, *names: str, sent: str) -> None:
        """Note the mark of what was sent for messages of a name; of another, where their caller
        may go on with them as they were sent."""
        self._newest, self.newest = names, sent
        for name in names:
            self._note_sent(name, sent)

    def _note_sent(self, own: str, sent: str) -> None:
        if self._requests.get(own) == sent:
            return
        self._requests.pop(own, None)
        self._requests[own] = sent
        self._changes[_REQUEST + own] = sent
        while len(self._requests) > _MOST_REQUESTS:
            oldest = next(iter(self._requests))
            del self._requests[oldest]
            # One that nobody has kept yet needs no removing.
            if self._changes.pop(_REQUEST + oldest, None) is None:
                self._changes[_REQUEST + oldest] = None

    def note_removed(self, answer: JsonObject, model: str) -> Counter[str]:
        """What a provider says to have left out of a request, by its reasons: behind another
        beginning it shows that its model binds thinking."""
        removed = removed_in(answer)
        if any("prefix" in why for why in removed):
            self.note_bound(model)
        return removed

    def note_bound(self, model: str) -> None:
        """Note that a provider left thinking of that model out behind another beginning."""
        self._models.add(model)
        self._changes[_MODEL + model] = _REFUSED

    def take_refusal(self, model: str, sent: Sending, message: int, block: int) -> Left:
        """Learn from a provider's refusal: those before the named block are good behind what was
        sent, that one and all later ones are not. Gives what to send, noted as sent."""
        self.note_bound(model)
        messages = _NOTHING
        for place, obj in enumerate(sent.messages):
            blocks = thinking_in(obj)
            good = len(blocks) if place < message else 0
            if place == message and "thinking_blocks" not in obj:
                content = obj.get("content")
                before = content[:block] if isinstance(content, list) else []
                good = len(thinking_in({**obj, "content": before}))
            for known in blocks[:good]:
                self._set(known, _mark(sent.beside, messages))
            self.give_up(blocks[good:])
            messages = _go_on(messages, sent.prints[place])
        left = self.leave_out(sent, model)
        self.note_sent(*self._newest, sent=left.mark)
        return left

    def note_passing(self) -> None:
        """Note that what was sent last will not be sent again: nothing is good behind it."""
        self.note_sent(*self._newest, sent=NOWHERE)

    def give_up(self, blocks: Iterable[str]) -> None:
        """Leave blocks out from now on."""
        for block in blocks:
            self._set(block, LEFT_OUT)

    def _set(self, block: str, mark: str) -> None:
        if self._blocks.get(block) != mark:
            self._blocks[block] = self._changes[block] = mark
