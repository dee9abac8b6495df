"""The words for a chat of which hooks of its host tell."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from mcp_compaction.compactor.results import Prepared
from mcp_compaction.core.compaction.receipt import running_lines
from mcp_compaction.core.text.injection import defuse
from mcp_compaction.core.wording import kilo, plural

ALREADY_PREPARED = (
    "already prepared: nothing was said since. The host's next compaction uses it, and calling "
    "again frees nothing. Go on."
)


class HookedChat(NamedTuple):
    """A chat of which hooks of its host tell."""

    host: str
    is_fill_reported: bool
    limit: int | None  # the tokens that the fill is told against; None: not known
    where: str = ""  # what happens there

    def describe_fill(self, tokens: int) -> str:
        """How full the window is as the host reports it, as far as its limit is known."""
        if self.limit is None:
            known = f"{kilo(tokens)} tokens as {self.host} reports"
            return f"in the window: {known}; at how many it compacts is not known"
        percent = 100 * tokens / self.limit
        return (
            f"fill: {kilo(tokens)} of {kilo(self.limit)} tokens ({percent:.0f} %, as {self.host} "
            f"reports); {self.where}"
        )


def describe_hook(put_back: datetime | None) -> str:
    """The hook that puts pins back, and when it last did."""
    after = "after the host's own compaction"
    if put_back is None:
        return f"{after} a hook is to put the pins back"
    return f"a hook last put the pins back {after} {put_back:%b %d %H:%M}"


def prepared_text(prepared: Prepared, pins: int) -> str:
    """What a host's next compaction will bring back."""
    return "\n".join(
        [
            f"ready: after the host's next compaction {plural(pins, 'pin')}, the digests of all up "
            f"to m{prepared.digested_upto} and the index are put back. The window is unchanged "
            "until then, and calling again frees nothing.",
            *(f"note: {defuse(note)}" for note in prepared.notes),
            *running_lines(prepared.running),
            "next: go on, or tell the user that this is a good moment for /compact.",
        ]
    )
