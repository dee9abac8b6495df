"""What is known of agents' tools, of the endings of calls, of shell commands, and of the deeds that
a line may claim, as data.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import Field, JsonValue, model_validator

from mcp_compaction.lexicon import read_table
from mcp_compaction.model import JobKind, Value

ToolKind = Literal[
    "read", "search", "write", "edit", "run", "plan", "task", "agent", "stop", "recall", "submit"
]
Ending = Literal["refused", "interrupted", "timed out", "running", "failed"]
TaskState = Literal["done", "active", "open", "blocked", "dropped"]
Deed = Literal["write", "edit", "delete", "move", "revert", "forget"]

ByLanguage = dict[str, str]


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


class KnownTools(Value):
    """All that is known of tools; see the head of `tools.toml`."""

    changes_files: str  # a pattern for what code says that changes files
    task_states: dict[TaskState, tuple[str, ...]]  # words and boxes of plans
    programs: dict[str, JsonValue]  # which `shell.py` reads alone
    tool: tuple[ToolNames, ...]
    ending: tuple[EndingSign, ...]  # in the order they are tried
    job: tuple[JobSign, ...]
    job_ended: str  # a pattern for what begins a text that tells the end of a job it names
    verbs: dict[Literal["makes", "unmakes"], frozenset[str]]  # what makes a thing, what removes it
    failed_test: tuple[FailedTest, ...]  # those that name a test first
    answer: tuple[AnswerShape, ...]
    command: tuple[dict[str, JsonValue], ...]  # which `shell.py` reads alone


@cache
def known_tools() -> KnownTools:
    """What is known; read once."""
    return KnownTools.model_validate(read_table("tools.toml"))


class KnownDeed(Value):
    """Something that may be claimed to have been done; see the head of `deeds.toml`."""

    name: str
    shown_by: str
    example: str
    call: str
    near_miss: str
    claims: ByLanguage = Field(default_factory=dict)
    about: ByLanguage = Field(default_factory=dict)
    denies: ByLanguage = Field(default_factory=dict)
    result: str = ""
    may_show: str = ""
    spoiled_by: str = ""

    @model_validator(mode="after")
    def _is_claimed_in_one_way(self) -> KnownDeed:
        if bool(self.claims) == bool(self.about):
            raise ValueError(f"{self.name}: give claims or about")
        return self


class KnownWill(Value):
    """Something that may be claimed of the user's will; see the end of `deeds.toml`."""

    name: Literal["consent", "wish"]
    beside: ByLanguage
    alone: ByLanguage = Field(default_factory=dict)
    yes: tuple[str, ...]
    no: tuple[str, ...]


class KnownDeeds(Value):
    """All that is known of deeds; see the head of `deeds.toml`."""

    fine: ByLanguage
    broken: ByLanguage
    once: ByLanguage
    unless: ByLanguage
    deed: tuple[KnownDeed, ...]
    user: ByLanguage
    awaited: ByLanguage
    will: tuple[KnownWill, ...]
    files: dict[str, ByLanguage]
    between: ByLanguage


@cache
def known_deeds() -> KnownDeeds:
    """The deeds and the words around them; read once."""
    return KnownDeeds.model_validate(read_table("deeds.toml"))
