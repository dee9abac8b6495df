"""The rung for duplicates: what stands there twice, or is overtaken, is shown once."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.compaction.blocks import StepBlock, WindowPlan, cuts_of
from mcp_compaction.core.limits import SHORTEST_PREVIEW
from mcp_compaction.core.log.content import calls_by_id, compact_json
from mcp_compaction.core.log.tool_calls import Action, action_of, is_plan
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.model import Cut, CutReason, Message, ToolCall, ToolResult, Value


class AnsweredCall(Value):
    """A tool's result with the call it answers, and where it stands."""

    block: int
    message: Message
    part: int
    result: ToolResult
    call: ToolCall
    action: Action
    is_free: bool  # outside the tail, read, and shown whole

    @property
    def ref(self) -> str:
        """The ref of the message it stands in."""
        return self.message.ref


def deduplicate(window: WindowPlan, goal: int, policy: Policy, count: CountTokens) -> WindowPlan:
    """Stubs replace repeated results, superseded reads and plans, and our own recall answers."""
    answers = list(_find_answers(window))
    cuts: dict[int, dict[int, list[Cut]]] = {}
    for answer, text, why in (
        *_find_recall_answers(answers),
        *_find_repeated(answers),
        *_find_superseded(answers),
    ):
        shown = answer.result.model_copy(update={"text": text, "has_media": False})
        _add_cut(
            cuts, answer.block, answer.message.seq, Cut(part=answer.part, shown=shown, why=why)
        )
    for block, message, cut in _find_old_plans(window):
        _add_cut(cuts, block, message.seq, cut)
    return window.trimmed("deduplicate", cuts, count)


def _find_answers(window: WindowPlan) -> Iterable[AnsweredCall]:
    for number, block in enumerate(window.blocks):
        if not isinstance(block, StepBlock):
            continue
        calls = calls_by_id(block.step.messages)
        for message, entry in zip(block.step.messages, block.entries, strict=True):
            cut = {c.part for c in cuts_of(entry)}
            for part, result in enumerate(message.parts):
                if isinstance(result, ToolResult) and result.call in calls:
                    call = calls[result.call]
                    yield AnsweredCall(
                        block=number,
                        message=message,
                        part=part,
                        result=result,
                        call=call,
                        action=action_of(call),
                        is_free=block.guard in (None, "loop")
                        and message.seq not in block.unread
                        and part not in cut,
                    )


def _find_recall_answers(
    answers: Iterable[AnsweredCall],
) -> Iterable[tuple[AnsweredCall, str, CutReason]]:
    for answer in answers:
        if answer.action.kind == "recall" and _is_worth_cutting(answer):
            yield answer, "[an earlier recall answer; ask recall_archived again]", "recalled"


def _find_repeated(answers: list[AnsweredCall]) -> Iterable[tuple[AnsweredCall, str, CutReason]]:
    newest: dict[tuple[str, str], AnsweredCall] = {}
    for answer in reversed(answers):
        key = (answer.call.name, answer.result.text)
        later = newest.setdefault(key, answer)
        if later is not answer and _is_worth_cutting(answer):
            yield answer, f"[the same as in {later.ref}]", "duplicate"


def _find_superseded(answers: list[AnsweredCall]) -> Iterable[tuple[AnsweredCall, str, CutReason]]:
    newest: dict[tuple[str, str], AnsweredCall] = {}
    for answer in reversed(answers):
        if answer.action.kind != "read" or not answer.action.target or answer.result.is_error:
            continue
        whole = newest.get((answer.action.target, ""))
        later = whole or newest.setdefault((answer.action.target, answer.action.detail), answer)
        if later is not answer and _is_worth_cutting(answer):
            text = f"[{answer.action.target} was read again in {later.ref}; that is the newer text]"
            yield answer, text, "superseded"
        newest.setdefault((answer.action.target, answer.action.detail), answer)


def _find_old_plans(window: WindowPlan) -> Iterable[tuple[int, Message, Cut]]:
    plans = [
        (number, block, message, part, call)
        for number, block in enumerate(window.blocks)
        if isinstance(block, StepBlock)
        for message in block.step.messages
        for part, call in enumerate(message.parts)
        if isinstance(call, ToolCall) and is_plan(call)
    ]
    for number, block, message, part, call in plans[:-1]:
        newest = plans[-1][2].ref
        is_long = len(compact_json(call.arguments)) > SHORTEST_PREVIEW
        if block.guard in (None, "loop") and is_long:
            shown = call.model_copy(update={"arguments": {"superseded_by": newest}})
            yield number, message, Cut(part=part, shown=shown, why="superseded")


def _is_worth_cutting(answer: AnsweredCall) -> bool:
    return answer.is_free and len(answer.result.text) > SHORTEST_PREVIEW


def _add_cut(cuts: dict[int, dict[int, list[Cut]]], block: int, seq: int, cut: Cut) -> None:
    known = cuts.setdefault(block, {}).setdefault(seq, [])
    if all(cut.part != other.part for other in known):
        known.append(cut)
