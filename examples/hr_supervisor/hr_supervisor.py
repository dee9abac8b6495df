"""A recruiter's supervisor answers in plain prose: what of it stands when 80 % was compacted.

Nothing but the agent's own answers tells who applied for what, and how it went.
"""

# LangGraph's own types are partly unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from mcp_compaction import NothingToDo, Outcome
from mcp_compaction.adapters.langgraph import CompactedGraph

CANDIDATES = (
    ("Maria Lopez", "backend engineer", "12 March", "passed, 4.5 of 5"),
    ("Jonas Weber", "data analyst", "14 March", "rejected, weak in SQL"),
    ("Aiko Tanaka", "UX designer", "18 March", "passed, offer of 68,000 euros"),
    ("Samuel Okoro", "reliability engineer", "21 March", "second interview on 2 April"),
    ("Lena Fischer", "product manager", "25 March", "withdrew, took another job"),
)


def interviews() -> list[tuple[str, str]]:
    """Two questions for each candidate, and what the agent answers."""
    asked: list[tuple[str, str]] = []
    for name, role, day, result in CANDIDATES:
        asked += (
            (
                f"When does {name} come in?",
                f"{name} applies as {role}. The interview is on {day} at 10:00 with Tom Berger. "
                "I have sent the invitation and booked room 3 for it.",
            ),
            (
                "How did the interview go?",
                f"I have the notes of the panel here. {name}: {result}. The panel was Tom Berger "
                "and Ines Costa. Let me know if I shall write to the candidate.",
            ),
        )
    return asked


def history_after(
    asked: list[tuple[str, str]], limit: int, ratio: float
) -> tuple[list[str], Outcome | None]:
    """The texts of a thread in which all that was asked, and what came of compacting it."""
    graph = _graph_that_says(answer for _, answer in asked)
    thread: Any = {"configurable": {"thread_id": "hiring"}}
    with (
        tempfile.TemporaryDirectory() as home,
        CompactedGraph(
            graph, token_limit=limit, compaction_ratio=ratio, home=home, project="/hr"
        ) as hr,
    ):
        for question, _ in asked:
            hr.invoke({"messages": [HumanMessage(question)]}, thread)
        texts = [message.text for message in hr.get_state(thread).values["messages"]]
        return texts, hr.outcome("hiring")


def _graph_that_says(answers: Iterable[str]) -> Any:
    said = iter(answers)

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(next(said))]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("hr", answer)
    builder.add_edge(START, "hr")
    return builder.compile(checkpointer=InMemorySaver())


def main() -> None:
    """Show what stands of each candidate, and how many of ten messages each ratio takes."""
    shown, _ = history_after(interviews(), 500, 0.8)
    print(f"500 tokens, 0.8: {2 * len(interviews())} messages became {len(shown)}")
    for candidate in CANDIDATES:
        stands = [word for word in candidate if any(word in text for text in shown)]
        print(f"- {'; '.join(stands)}")
    ten = interviews()[:5]
    for ratio in (0.2, 0.3, 0.5, 0.8):
        texts, outcome = history_after(ten, 240, ratio)
        if isinstance(outcome, NothingToDo):
            print(f"240 tokens, {ratio}: {outcome.text}")
        else:
            print(f"240 tokens, {ratio}: {texts[0].partition(';')[0].removeprefix('[')}")


if __name__ == "__main__":
    main()
