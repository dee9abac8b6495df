"""Options made of fields: the arguments of a tool, the traits of a session, the policy; and the
model that the commands which measure ask for digests, beside those that rules extract.
"""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.errors import InputError
from mcp_compaction.model import AgentProfile, Complexity, SessionInfo, Traits
from mcp_compaction.ports import TokenCounter
from mcp_compaction.settings import POLICY
from mcp_compaction.tools.arguments import Arguments

if TYPE_CHECKING:
    from mcp_compaction.evals.runner import AskedSummarizer

T = TypeVar("T", bound=Arguments)


def add_tool(parser: ArgumentParser, tool: type[Arguments], **own: Mapping[str, Any]) -> None:
    """Declare the arguments of a tool; `own`: what the command says differently of them."""
    for name, field in tool.model_fields.items():
        said = {**_declare(field), **own.get(name, {})}
        is_word = field.is_required() and "default" not in said
        parser.add_argument(name if is_word else f"--{name.replace('_', '-')}", **said)


def _declare(field: FieldInfo) -> dict[str, Any]:
    text = (field.description or "").rstrip(".")
    said: dict[str, Any] = {"help": text[:1].lower() + text[1:]}
    kinds = (field.annotation, *get_args(field.annotation))
    if field.annotation is bool:
        said["action"] = BooleanOptionalAction if field.default else "store_true"
    else:
        said["type"] = next((kind for kind in (float, int) if kind in kinds), str)
        choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), None)
        said |= {"choices": choices} if choices else {"metavar": "TEXT"}
    return said if field.is_required() else {**said, "default": field.default}


def typed_as(tool: type[T], args: Namespace, **read: Any) -> T:
    """The arguments of a tool as they were typed; `read`: those that are typed in another form."""
    typed = {name: getattr(args, name) for name in tool.model_fields}
    return tool.model_construct(**{**typed, **read})


_LEAST_WINDOW = 500  # tokens: no model has less


def add_traits(parser: ArgumentParser) -> None:
    """Declare the options for the session's model, its window, its task and its agent."""
    parser.add_argument("--model", metavar="NAME", help="the model that the session talks to")
    parser.add_argument("--window", metavar="N", type=int, help="the tokens its window holds")
    parser.add_argument(
        "--complexity",
        choices=get_args(Complexity),
        help="of its task; the more complex, the more a compaction keeps",
    )
    parser.add_argument(
        "--agent-profile",
        choices=get_args(AgentProfile),
        help="its agent's manner; of all but a plain one every stated doubt is kept",
    )


def typed_traits(call: Invocation) -> dict[str, object]:
    """The traits that were typed, by the names they are kept under."""
    args = call.args
    if args.window is not None and args.window < _LEAST_WINDOW:
        raise InputError(f"{args.window} is no window; pass its size in tokens, as 200000.")
    known = {
        "model": args.model,
        "window_tokens": args.window,
        "complexity": args.complexity,
        "agent_profile": args.agent_profile,
    }
    return {name: value for name, value in known.items() if value is not None}


async def set_traits(work: Workspace, info: SessionInfo, given: dict[str, object]) -> SessionInfo:
    """The session with these traits set for it, beside those it had."""
    if info.traits.model_copy(update=given) == info.traits:
        return info
    return await work.store.set_traits(info.id, Traits.model_validate(given))


def add_policy(parser: ArgumentParser) -> None:
    """Offer every policy field as an option of this one run."""
    parser.usage = "%(prog)s [options]"  # the policy's would bury the others
    group = parser.add_argument_group(
        "policy", "the numbers that decide, for this run only; percent are of the window"
    )
    for name in POLICY:
        field = Policy.model_fields[name]
        option = "--" + name.replace("_", "-")
        words = f"{field.description} (default: {describe_value(field.default)})".replace("%", "%%")
        if field.annotation is bool:
            group.add_argument(
                option, dest=name, action=BooleanOptionalAction, default=None, help=words
            )
        else:
            sign = "P" if name.endswith("_percent") else "N"
            group.add_argument(option, dest=name, metavar=sign, help=words)


def describe_value(value: object) -> str:
    """The value of a setting in words."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def add_transcripts(parser: ArgumentParser, hosts: Sequence[str], most: int) -> None:
    """Declare whose compactions are looked at, and how many."""
    parser.add_argument(
        "sources",
        metavar="HOST|PATH",
        nargs="*",
        help=f"hosts, files or folders (default: {', '.join(hosts)})",
    )
    parser.add_argument(
        "--limit", metavar="N", type=int, help=f"at most so many, the newest (default: {most})"
    )


def add_summarizer(parser: ArgumentParser) -> None:
    """Declare the option that names a summarizer."""
    parser.add_argument(
        "--summarizer",
        metavar="NAME",
        help="measure a model too: anthropic, openai or auto, set up by the summarizer settings",
    )


def asked_model(call: Invocation, counter: TokenCounter) -> AskedSummarizer | None:
    """The model that writes digests beside the rules, from the user's own settings."""
    name: str | None = call.args.summarizer
    if name is None:
        return None
    from mcp_compaction.evals.runner import AskedSummarizer  # most commands measure nothing
    from mcp_compaction.settings import load_settings
    from mcp_compaction.wiring import summarizer_of

    settings = load_settings(call.environ, {"summarizer": name})
    if settings.summarizer_model is None or settings.summarizers == ("extractive",):
        raise InputError(
            f"--summarizer {name} asks no model; pass anthropic or openai, and set "
            "MCP_COMPACTION_SUMMARIZER_MODEL."
        )
    return AskedSummarizer(summarizer_of(settings, counter.count), settings.summarizer_model)
