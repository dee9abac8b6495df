"""Has the session's own model in Claude Code write a handover over its own window, ahead of a
compaction or at it, and keeps the draft until a compaction takes it.

The module in the host asks, by a fork that the provider serves from its cache. What comes back is a
draft like any other. A first answer that the cache did not serve turns it off for the chat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.digest.prompt import Unusable
from mcp_compaction.formats.usage import read_usage
from mcp_compaction.model import Draft, SessionInfo
from mcp_compaction.settings import PROSE_TIMES, ProseTime
from mcp_compaction.summarizers.session_model import (
    QUESTION,
    account_for,
    estimate_cost,
    explain_miss,
    read_handover,
)

_DUE_IN_TURN, _DUE_AT_END, _GROWTH = 85, 60, 10  # percent of the host's own limit
_HELP = "; /window prose off, at-compact or ahead says when this chat's model writes the handover"


@dataclass(slots=True)
class ChatProse:
    """What the session's own model was asked in one chat, and the draft that waits."""

    setting: ProseTime
    draft: Draft | None = None
    is_asked: bool = False  # and has not answered yet
    is_due: bool = False  # the module is told with its next question
    asked_at: float = -math.inf  # percent of the host's limit that were full
    percent: float = 0.0  # that were full when it was last measured
    taken_at: float = math.inf  # percent before a compaction; till less is counted, all is older
    up_to: int = 0  # the newest message when it was asked
    stopped: str = ""  # why nothing is asked any more
    last: str = ""  # what came, in a line

    @property
    def is_on(self) -> bool:
        """Whether the model may be asked in this chat."""
        return self.setting != "off" and not self.stopped

    def measure(self, percent: float, *, in_turn: bool) -> None:
        """Note how full the window is: a draft is due once near the host's limit, and again after
        some growth."""
        self.percent = percent
        if percent > self.taken_at - _GROWTH:
            return  # counted before the compaction, and maybe more than was known when it came
        self.taken_at = math.inf
        least = max(_DUE_IN_TURN if in_turn else _DUE_AT_END, self.asked_at + _GROWTH)
        if self.setting == "ahead" and self.is_on and not self.is_asked and percent >= least:
            self.is_due, self.asked_at = True, percent

    def lacks_draft(self) -> bool:
        """Whether a compaction that a person waits for is to ask first."""
        return self.is_on and self.draft is None and not self.is_asked

    def ask(self, up_to: int) -> str:
        """What the model is to be asked now, over all messages up to one."""
        self.is_due, self.is_asked, self.up_to = False, True, up_to
        return QUESTION

    def take(self) -> Draft | None:
        """The draft for a compaction, behind which all starts anew; what is asked already may still
        come."""
        draft = self.draft if self.setting != "off" else None
        self.draft, self.is_due, self.asked_at = None, False, -math.inf
        self.taken_at = max(self.percent, _DUE_AT_END)
        return draft

    async def hear(self, work: Workspace, info: SessionInfo, told: dict[str, Any]) -> None:
        """Take in what came of a question: its cost in any case, and its words as a draft."""
        self.is_asked = False
        model = info.traits.model or "a model"
        text = str(told.get("text") or "") if told.get("isAnswered") is True else ""
        seconds = told.get("seconds")
        taken = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else 0.0
        call = account_for(model, read_usage(told.get("usage")), taken)
        read = read_handover(text, model, self.up_to, call, work.counter.count) if text else None
        why = read.reason if isinstance(read, Unusable) else "" if read else _reason_in(told)
        if call.input_tokens or text:
            call = call.model_copy(update={"failed": why})
            await work.store.add_calls(info.id, [call], work.now())
            self.stopped = explain_miss(call) or self.stopped
        if isinstance(read, Draft):
            self.draft = read
        self.last = f"no prose: {why}" if why else f"prose up to m{self.up_to}"

    @property
    def shown(self) -> str:
        """What the line above the prompt says of it."""
        if self.setting == "off":
            return ""
        return f"no prose: {self.stopped}" if self.stopped else self.last

    def choose(self, words: str) -> str:
        """Answer `/window prose WORDS`: what is chosen in this chat, or what stands."""
        if words in PROSE_TIMES:
            self.setting, self.stopped = words, ""
        elif words:
            return f"prose has no {words!r}{_HELP}."
        stopped = f", but stopped: {self.stopped}" if self.stopped else ""
        last = f"; last: {self.last}" if self.last else ""
        return f"prose: {self.setting}{stopped}{last}{_HELP}."


def offer_once(home: Path, model: str, tokens: int) -> str:
    """What a person is told at their first compaction, once in a home: that the chat's own model
    could write the handover, and about what that costs; blank ever after."""
    noted = home / "prose-offered"
    try:
        noted.touch(exist_ok=False)
    except OSError:  # it is there, or nothing can be noted
        return ""
    cost = estimate_cost(model, tokens)
    price = f" (about ${cost:.2f} here, by list prices)" if cost is not None else ""
    return f"mcp-compaction: this chat's own model can write the handover too{price}{_HELP}"


def _reason_in(told: dict[str, Any]) -> str:
    return " ".join(str(told.get("reason") or "no answer").split())[:120]
