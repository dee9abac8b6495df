"""What goes out for one call: its body, without thinking that is bound to another beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_

from mcp_compaction.formats.identity import fingerprint_of
from mcp_compaction.formats.thinking import Bindings, Left, Sending, may_be_bound, sending_of
from mcp_compaction.formats.turns import join_turns, place_before_joining
from mcp_compaction.gateway.answers import READABLE
from mcp_compaction.gateway.calls import SentHistory
from mcp_compaction.gateway.forwarding import Headers
from mcp_compaction.gateway.keeping import KeptChat
from mcp_compaction.model import JsonObject

_SIGNS = (b'"signature"', b'"redacted_thinking"', b'"encrypted_content"')  # of thinking


class Outgoing:
    """The body of one call as it goes out; at first as it came."""

    def __init__(
        self,
        given: SentHistory,
        body: bytes,
        kept: Callable[[], KeptChat],
        *,
        is_shadow: bool,
    ) -> None:
        """`is_shadow`: the body stays as it came, and the size it would have is told."""
        self.body = body
        self.share = 1.0  # of the request's size, that would have been sent without --shadow
        self.mark: str | None = None  # the beginning that the answer is made behind
        self.is_refused = False  # for its thinking, and sent again without it
        self._original = body
        self._given = given
        self._call = given.call
        self._kept = kept
        self._is_shadow = is_shadow
        self._out: Sending | None = None  # what went out, where its thinking may be bound
        self._shown: Sequence[JsonObject] = given.call.messages  # what went out

    @property
    def is_original(self) -> bool:
        """Whether the body is the host's own."""
        return self.body is self._original

    def is_same(self, messages: Sequence[JsonObject]) -> bool:
        """Whether messages are those of the history as it came."""
        return _are_same(messages, self._given.messages)

    def body_of(self, messages: Sequence[JsonObject]) -> bytes:
        """The body with messages in the place of the history."""
        return self._call.with_messages([*self._before, *messages])

    def make(self, messages: Sequence[JsonObject]) -> None:
        """Make the body that has messages in the place of the history."""
        if not self._is_shadow:
            self._write(self._leave_thinking([*self._before, *messages]))
        elif not self.is_same(messages):
            # What came is written anew, too: a host may write the same text in fewer bytes.
            came = self._call.with_messages(self._call.messages)
            self.share = len(self.body_of(messages)) / len(came)

    def pass_as_it_came(self) -> None:
        """Send what the host sent, but for thinking that was made behind something else."""
        self.make(self._given.messages)

    def leave_refused(self, place: tuple[int, int]) -> bool:
        """Make the body without the thinking that the provider refuses; once for each call."""
        if self._is_shadow:
            return False
        call = self._call
        # A call beside the conversation teaches nothing of it.
        known = self._kept().bindings if call.kind == "turn" else Bindings()
        sent = self._out or self._sending_of(self._shown)
        message, block = place
        if not self.is_original:
            message = place_before_joining(self._shown, message)
        left = known.take_refusal(call.model, sent, message, block)
        self.is_refused = True
        self._write(self._take_left(sent, left))
        return True

    def narrow(self, headers: Headers) -> Headers:
        """The headers to send: only encodings that can be read here are asked for."""
        readable = b", ".join(word.encode() for word in READABLE)
        return [
            (name, readable if name.lower() == b"accept-encoding" else value)
            for name, value in headers
        ]

    @property
    def _before(self) -> Sequence[JsonObject]:
        """What a provider's own compaction stands for."""
        return self._call.messages[: self._given.before]

    def _write(self, shown: Sequence[JsonObject]) -> None:
        self._shown = shown
        if _are_same(shown, self._call.messages):
            self.body = self._original
        else:
            turns = join_turns(shown) if self._call.api.shape == "anthropic" else shown
            self.body = self._call.with_messages(turns)

    def _leave_thinking(self, messages: list[JsonObject]) -> Sequence[JsonObject]:
        """The messages without thinking that is bound to another beginning."""
        call = self._call
        if not may_be_bound(call.model):
            return messages
        known = self._kept().bindings
        is_known = known.is_bound(call.model)
        if not is_known and not any(sign in self._original for sign in _SIGNS):
            return messages
        came = self._sending_of(call.messages)
        sending = came if _are_same(messages, call.messages) else self._sending_of(messages)
        left = known.send(came, sending, call.model, for_good=call.kind == "turn")
        return self._take_left(sending, left)

    def _take_left(self, sending: Sending, left: Left) -> Sequence[JsonObject]:
        """What to send: the messages without the blocks that are good no more."""
        self._out = Sending(sending.beside, left.messages, left.prints)
        self.mark = left.mark
        return left.messages

    def _sending_of(self, messages: Sequence[JsonObject]) -> Sending:
        given = self._given
        known = dict(zip(map(id, given.messages), given.prints, strict=True))
        prints = [known.get(id(one)) or fingerprint_of(one) for one in messages]
        return sending_of(messages, self._call.recordable(()), prints)


def _are_same(sent: Sequence[JsonObject], came: Sequence[JsonObject]) -> bool:
    return len(sent) == len(came) and all(map(is_, sent, came))
