"""The arguments of a tool as those of a command: declared, and read as they were typed."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo

from mcp_compaction.tools.arguments import Arguments

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
