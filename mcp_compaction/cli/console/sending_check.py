"""What `doctor` says of a store that is sent on to a team's server."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_compaction.core.wording import plural
from mcp_compaction.model import Value
from mcp_compaction.settings import Settings
from mcp_compaction.settings_file import TOKEN
from mcp_compaction.store.outbox import MOST_WAITING, Outbox
from mcp_compaction.wiring import SystemClock


class SendingCheck(Value):
    """How far a store was sent on, and what keeps it from going."""

    server: str
    messages_waiting: int
    bytes_waiting: int
    pins_waiting: int
    state: str
    problems: tuple[str, ...] = ()


def look_at_sending(settings: Settings, environ: Mapping[str, str]) -> SendingCheck | None:
    """What waits to be sent; None where nothing is sent."""
    outbox = Outbox(settings.home)
    target = outbox.read() if settings.store is None else None
    if target is None:
        return None
    waiting = outbox.count_waiting(target, SystemClock().now())
    size = f"{waiting.bytes / 1e6:,.1f} MB"
    waits = [f"{plural(waiting.messages, 'message')} ({size})"] if waiting.messages else []
    waits += [plural(waiting.pins, "pin")] if waiting.pins else []
    what = f"{' and '.join(waits)} wait" if waits else "all sent"
    whose = "" if target.project is None else f" of {target.project}"
    last = f", the last at {target.done[:16]}Z" if target.done else ", none so far"
    problems = list(target.refused)
    if waiting.is_too_much:
        problems.append(
            f"{size} wait for {target.server}, over {MOST_WAITING // 10**6} MB; the store keeps "
            "them and nothing is lost, but see why they do not go: mcp-compaction send"
        )
    if target.trouble and waits:
        problems.append(f"nothing goes to the team's server: {target.trouble}")
    elif target.trouble:
        problems.append(f"the team's server: {target.trouble}")
    elif waits and not environ.get(TOKEN):
        problems.append(f"{TOKEN} is not set here; set it where hosts are started")
    return SendingCheck(
        server=target.server,
        messages_waiting=waiting.messages,
        bytes_waiting=waiting.bytes,
        pins_waiting=waiting.pins,
        state=f"{target.server}: {what}{whose}{last}",
        problems=tuple(problems),
    )
