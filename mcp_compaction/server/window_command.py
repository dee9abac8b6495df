"""What the command /window of Claude Code answers: the window, its receipts, undo and search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.core.wording import kilo
from mcp_compaction.errors import InputError
from mcp_compaction.model import Compaction, Mode, Receipt, SessionInfo
from mcp_compaction.server.compaction_wish import preview
from mcp_compaction.tools.recalling import AnswerPlace, new_nonce, recall_text

_MOST_RECEIPTS = 5
_MOST_OF_PIN = 40  # characters
_MOST_FOUND = 600  # tokens
_FIND = (
    "/window preview says what /compact would free, `/compact up to m120` keeps all that is newer; "
    "/window find WORDS looks for words in all that was said"
)


class WindowAnswer(NamedTuple):
    """What a user reads, and whether the view has changed."""

    text: str
    is_changed: bool = False


async def answer_command(
    work: Workspace, info: SessionInfo, words: str, mode: Mode, about: str
) -> WindowAnswer:
    """Answer what a user typed behind the command; `about`: how full the window is."""
    verb, _, rest = words.strip().partition(" ")
    match verb:
        case "":
            return WindowAnswer(await _describe(work, info, about))
        case "preview":
            return WindowAnswer(await preview(work, info, rest))
        case "undo":
            return await _undo(work, info, rest.strip(), mode)
        case "find" if rest.strip():
            found = await compactor.recall(work, info, rest, max_tokens=_MOST_FOUND)
            here = AnswerPlace(info.project, info.name, info.updated.year)
            return WindowAnswer(recall_text(found, here, rest, new_nonce(), 0))
        case _:
            return WindowAnswer(_explain(await compactor.receipts(work, info)))


async def _describe(work: Workspace, info: SessionInfo, about: str) -> str:
    pins = [pin for pin in await work.pins(info) if pin.kind != "note"]
    receipts = (await compactor.receipts(work, info))[-_MOST_RECEIPTS:]
    lines = [_line_of(one) for one in reversed(receipts)] or ["not compacted yet"]
    shown = [f"{pin.ref} {_begin_of(pin.text)}" for pin in pins] or ["no pins"]
    return "\n".join([about, *shown, *lines, _explain(receipts)])


def _explain(receipts: Sequence[Receipt]) -> str:
    """What can be typed behind the command; undoing where there is something to undo."""
    if not receipts:
        return _FIND
    last, first = receipts[-1].ref, receipts[0].ref
    earlier = f", /window undo {first} all since {first}" if first != last else ""
    return f"/window undo takes {last} back{earlier}; {_FIND}"


def _begin_of(text: str) -> str:
    """How a pin begins: this answer goes to the model, too, which has its words already."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_OF_PIN else f"{line[:_MOST_OF_PIN].rstrip()} …"


def _line_of(receipt: Receipt) -> str:
    size = f"{kilo(receipt.before)} -> {kilo(receipt.after)} tokens"
    return f"{receipt.ref} {receipt.kind}: {size}"


async def _undo(work: Workspace, info: SessionInfo, ref: str, mode: Mode) -> WindowAnswer:
    receipts = await compactor.receipts(work, info)
    if not ref and not receipts:
        return WindowAnswer("there is no compaction to undo")
    try:
        outcome = await compactor.restore(work, info, ref or receipts[-1].ref)
    except InputError as error:
        return WindowAnswer(str(error))
    text = outcome_text(outcome, mode, info.name).replace("this turn", "the next turn")
    return WindowAnswer(text, isinstance(outcome, Compaction))
