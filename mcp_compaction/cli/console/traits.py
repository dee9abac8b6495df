"""The options for what is known of one session, and what of it was typed."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import get_args

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError
from mcp_compaction.model import AgentProfile, Complexity, SessionInfo, Traits

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
