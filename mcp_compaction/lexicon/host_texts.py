"""What hosts and we put into a conversation, as data: the kinds of host text and our own tools."""

from __future__ import annotations

from functools import cache

from pydantic import model_validator

from mcp_compaction.lexicon import host_names, read_host, read_table
from mcp_compaction.model import Value


class HostText(Value):
    """One kind of text that a host writes; see lexicon/hosts/README.md."""

    kind: str
    host: str
    begins: str
    example: str
    near_miss: str
    ends: str = ""
    in_results: bool = False
    changes: bool = False
    printed: bool = False
    spoken: bool = False
    summary: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_shown_by_examples(self) -> HostText:
        if not (self.begins and self.example and self.near_miss):
            raise ValueError(f"{self.kind}: give begins, an example and a near_miss")
        if self.in_results and not self.ends:
            raise ValueError(f"{self.kind}: what stands behind results has to end")
        return self


@cache
def known_host_texts() -> tuple[HostText, ...]:
    """The kinds of host text, host by host, and those of our kit; read once."""
    of_hosts = [
        {"host": name, **text} for name in host_names() for text in read_host(name).get("text", ())
    ]
    return tuple(map(HostText.model_validate, [*of_hosts, *read_table("ours.toml")["text"]]))


def is_printed(text: str) -> bool:
    """Whether a text is what a program printed, by how it begins."""
    return text.startswith(tuple(one.begins for one in known_host_texts() if one.printed))


def own_tools(*kinds: str) -> tuple[str, ...]:
    """The names of this server's tools, those of some kinds or all of them; see `ours.toml`."""
    table: dict[str, list[str]] = read_table("ours.toml")["tools"]
    return tuple(tool for kind in kinds or table for tool in table[kind])
