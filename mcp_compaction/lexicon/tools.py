"""What is known of agents' tools, of the endings of calls and of shell commands, as data."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import JsonValue, model_validator

from mcp_compaction.lexicon import read_source
from mcp_compaction.model import Value

ToolKind = Literal[
    "read", "search", "write", "edit", "run", "plan", "task", "agent", "stop", "recall", "submit"
]
Ending = Literal["refused", "interrupted", "timed out", "running", "failed"]
JobKind = Literal["command", "agent", "schedule"]
TaskState = Literal["done", "active", "open", "blocked", "dropped"]
Deed = Literal["write", "edit", "delete", "move", "revert", "forget"]


class ExampleCall(Value):
    """A call, and the path or command that it is done to."""

    name: str
    arguments: dict[str, JsonValue]
    target: str


class ToolNames(Value):
    """The names of the tools of one kind."""

    kind: ToolKind
    names: tuple[str, ...]
    example: ExampleCall


class EndingSign(Value):
    """One way in which a result says that its call was not done."""

    kind: Ending
    host: str
    example: str
    near_miss: str
    begins: str = ""
    says: str = ""

    @model_validator(mode="after")
    def _is_known_by_one_thing(self) -> EndingSign:
        if bool(self.begins) == bool(self.says) or not self.example or not self.near_miss:
            raise ValueError(f"{self.kind}: give begins or says, an example and a near_miss")
        return self


class JobSign(Value):
    """One way in which a result says that its call goes on in the background."""

    kind: JobKind
    host: str
    says: str
    example: str
    id: str
    near_miss: str


class FailedTest(Value):
    """How a runner says which test failed."""

    host: str
    says: str
    example: str
    name: str
    near_miss: str


class AnswerShape(Value):
    """One way in which a result holds words of the user."""

    host: str
    begins: str
    each: str
    example: str
    words: tuple[str, ...]
    near_miss: str


class _File(Value):
    changes_files: str
    task_states: dict[TaskState, tuple[str, ...]]
    programs: dict[str, JsonValue]  # which `shell.py` reads alone
    tool: tuple[ToolNames, ...]
    ending: tuple[EndingSign, ...]
    job: tuple[JobSign, ...]
    job_ended: str
    verbs: dict[str, tuple[str, ...]]
    failed_test: tuple[FailedTest, ...]
    answer: tuple[AnswerShape, ...]
    command: tuple[dict[str, JsonValue], ...]  # the same


def known_tools() -> tuple[ToolNames, ...]:
    """The kinds of tools that agents have."""
    return _read_file().tool


def known_task_states() -> dict[TaskState, tuple[str, ...]]:
    """The words and boxes by which plans say how a task stands."""
    return _read_file().task_states


def known_endings() -> tuple[EndingSign, ...]:
    """The ways in which results say that a call was not done, in the order they are tried."""
    return _read_file().ending


def known_jobs() -> tuple[JobSign, ...]:
    """The ways in which results say that calls go on in the background."""
    return _read_file().job


def sign_of_an_ended_job() -> str:
    """A pattern for what begins a text that tells the end of a job it names."""
    return _read_file().job_ended


@cache
def verbs_of_tools(kind: str) -> frozenset[str]:
    """The words by which tools say that they make a thing (`makes`) or take it away (`unmakes`)."""
    return frozenset(_read_file().verbs[kind])


def known_failed_tests() -> tuple[FailedTest, ...]:
    """How runners say which tests failed, those that name a test first."""
    return _read_file().failed_test


def known_answers() -> tuple[AnswerShape, ...]:
    """The ways in which results hold words of the user."""
    return _read_file().answer


def code_that_changes_files() -> str:
    """A pattern for what code says that changes files."""
    return _read_file().changes_files


@cache
def _read_file() -> _File:
    import tomllib

    return _File.model_validate(tomllib.loads(read_source("tools.toml")))
