"""One option for every field of the policy, made from the fields themselves."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any, get_args

from pydantic.fields import FieldInfo

from mcp_compaction.core.policy import Policy

_METAVARS = (("_percent", "P"), ("_tokens", "N"), ("_chars", "N"), ("_ratio", "SHARE"))


def add_policy(parser: ArgumentParser) -> None:
    """Offer every policy field as an option of this one run."""
    parser.usage = "%(prog)s [options]"  # thirty policy options would bury the others
    group = parser.add_argument_group(
        "policy", "the numbers that decide, for this run only; percent are of the window"
    )
    for name, field in Policy.model_fields.items():
        option = "--" + name.replace("_", "-")
        words = f"{field.description} (default: {describe_value(field.default)})".replace("%", "%%")
        if field.annotation is bool:
            group.add_argument(
                option, dest=name, action=BooleanOptionalAction, default=None, help=words
            )
        else:
            group.add_argument(option, dest=name, metavar=_metavar_of(name, field), help=words)


def describe_value(value: object) -> str:
    """The value of a setting in words."""
    match value:
        case None:
            return "unset"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"{value:,}"
        case _:
            return str(value)


def _metavar_of(name: str, field: FieldInfo) -> str:
    choices: tuple[Any, ...] = get_args(field.annotation)
    if choices and all(isinstance(choice, str) for choice in choices):
        return "|".join(choices)
    return next((sign for ending, sign in _METAVARS if name.endswith(ending)), "N")
