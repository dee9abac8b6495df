"""Short ways to say things in the Messages API's shape."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
WORDS = "word " * 60


def user(text: str) -> Json:
    """The user says something."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    """The assistant says something and calls nothing."""
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def thought(text: str) -> Json:
    """The assistant only thinks."""
    block = {"type": "thinking", "thinking": text, "signature": "s=="}
    return {"role": "assistant", "content": [block]}


def calls(*called: tuple[str, str, Json], text: str = "") -> Json:
    """The assistant calls tools, each as (id, name, arguments)."""
    said: list[Json] = [{"type": "text", "text": text}] if text else []
    uses: list[Json] = [
        {"type": "tool_use", "id": id, "name": name, "input": arguments}
        for id, name, arguments in called
    ]
    return {"role": "assistant", "content": [*said, *uses]}


def call(id: str, name: str, **arguments: Any) -> Json:
    """The assistant calls one tool."""
    return calls((id, name, arguments))


def results(*given: tuple[str, str], text: str = "") -> Json:
    """What tools answered, each as (id, text), perhaps with words of the user's."""
    blocks: list[Json] = [
        {"type": "tool_result", "tool_use_id": id, "content": answer} for id, answer in given
    ]
    more: list[Json] = [{"type": "text", "text": text}] if text else []
    return {"role": "user", "content": [*blocks, *more]}


def failed(id: str, text: str) -> Json:
    """A tool's failure."""
    block = {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": True}
    return {"role": "user", "content": [block]}


def used(id: str, name: str, answer: str, **arguments: Any) -> list[Json]:
    """A call and its result: one step of two messages."""
    return [call(id, name, **arguments), results((id, answer))]


def read(id: str, path: str, answer: str, **more: Any) -> list[Json]:
    """A file is read."""
    return used(id, "Read", answer, file_path=path, **more)


def ran(id: str, command: str, answer: str) -> list[Json]:
    """A command is run."""
    return used(id, "Bash", answer, command=command)


def planned(id: str, *tasks: tuple[str, str]) -> list[Json]:
    """A plan is written, each task as (text, state)."""
    todos = [{"content": text, "status": state} for text, state in tasks]
    return used(id, "TodoWrite", "ok", todos=todos)


def chatter(number: int, start: int = 0) -> list[Json]:
    """Turns of a user and an assistant who say nothing worth keeping; each about 60 tokens."""
    return [(user if n % 2 else assistant)(f"{start + n} {WORDS}") for n in range(1, number + 1)]
