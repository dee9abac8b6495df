"""One summarizer after another until one answers; what is extracted by rules is always the last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from mcp_compaction.core.digest.extract import extract
from mcp_compaction.errors import SummarizerError
from mcp_compaction.model import Draft, ModelCall, SummaryRequest
from mcp_compaction.ports import Summarizer

logger = logging.getLogger(__name__)

Link = Callable[[], Summarizer]


class Chain:
    """Summarizers in the order they are asked; each is made when it is first needed."""

    def __init__(self, links: Sequence[tuple[str, Link]]) -> None:
        self._links = tuple(links)
        self._made: dict[str, Summarizer] = {}

    @property
    def name(self) -> str:
        """All of them, in order."""
        return ", ".join((*(name for name, _ in self._links), "extractive"))

    async def summarize(self, request: SummaryRequest) -> Draft:
        """The first draft there is, with the reason for every fall before it."""
        reasons: list[str] = []
        calls: list[ModelCall] = []
        for name, link in self._links:
            left = {
                "calls_left": _count_calls_left(request, calls),
                "cost_left": _find_cost_left(request, calls),
            }
            asked = request.model_copy(update=left)
            try:
                draft = await self._find_summarizer(name, link).summarize(asked)
            except SummarizerError as error:
                reasons.append(f"{name}: {error}")
                calls += error.calls
            except (MemoryError, RecursionError):
                raise
            except Exception as error:  # noqa: BLE001  # the next one may do better
                logger.warning("%s failed (%s)", name, type(error).__name__)
                reasons.append(f"{name} failed ({type(error).__name__})")
            else:
                return _with_notes(draft, (*reasons, draft.note), (*calls, *draft.calls))
        return _with_notes(extract(request), (*reasons, "extracted instead"), calls)

    def _find_summarizer(self, name: str, link: Link) -> Summarizer:
        if name not in self._made:
            self._made[name] = link()
        return self._made[name]


def _count_calls_left(request: SummaryRequest, calls: Sequence[ModelCall]) -> int | None:
    return None if request.calls_left is None else max(0, request.calls_left - len(calls))


def _find_cost_left(request: SummaryRequest, calls: Sequence[ModelCall]) -> float | None:
    spent = sum(call.cost or 0.0 for call in calls)
    return None if request.cost_left is None else max(0.0, request.cost_left - spent)


def _with_notes(draft: Draft, reasons: Sequence[str], calls: Sequence[ModelCall]) -> Draft:
    note = "; ".join(filter(None, reasons))
    return draft.model_copy(update={"note": note, "calls": tuple(calls)})
