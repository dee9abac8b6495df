"""What hosts put into a conversation, as data: the kinds of host text and our own tools."""

from __future__ import annotations

from functools import cache

from pydantic import model_validator

from mcp_compaction.lexicon import read_source
from mcp_compaction.model import Value


class HostText(Value):
    """One kind of text that a host writes; see the head of `host_texts.toml`."""

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


class _File(Value):
    own_tools: tuple[str, ...]
    host_text: tuple[HostText, ...]


def known_host_texts() -> tuple[HostText, ...]:
    """The kinds of host text, host by host."""
    return _read_file().host_text


def is_printed(text: str) -> bool:
    """Whether a text is what a program printed, by how it begins."""
    return text.startswith(tuple(one.begins for one in known_host_texts() if one.printed))


def own_tools() -> tuple[str, ...]:
    """The names of this server's tools, without what a host puts before them."""
    return _read_file().own_tools


@cache
def _read_file() -> _File:
    import tomllib

    return _File.model_validate(tomllib.loads(read_source("host_texts.toml")))
