"""Keeps what a user has said once at a terminal, in small files beside the store's own."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import cast

from mcp_compaction.home import HEADLESS_PROJECTS, Kind
from mcp_compaction.store.connect import store_path


def real_folder(store: Path) -> Path:
    """The folder in which the store's file really is: a folder or a file may be a link to it."""
    return Path(os.path.realpath(store_path(store))).parent


def has_one_name(store: Path) -> bool:
    """Whether no other folder has the store's file, too; one that is not there yet has one name."""
    try:
        return store_path(store).stat().st_nlink == 1
    except OSError:
        return True


def read_noted(store: Path, kind: Kind) -> frozenset[str]:
    """What the user has noted; nothing where the folder may be a stranger's with a second name of
    the store's file in it."""
    try:
        told: object = json.loads(kind.path(real_folder(store)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    values = cast("list[object]", told) if isinstance(told, list) and has_one_name(store) else ()
    return frozenset(map(str, values))


def write_noted(store: Path, kind: Kind, values: Collection[str]) -> None:
    """Note what the user has said."""
    kind.write(real_folder(store), json.dumps(sorted(values)))


def headless_projects(store: Path) -> frozenset[str]:
    """The projects in which the user counts the prompts of programs as their own."""
    return read_noted(store, HEADLESS_PROJECTS)


def trust_headless(store: Path, project: str, is_on: bool) -> None:
    """Note that the prompts of programs in a project are the user's own, or are not any more."""
    others = headless_projects(store) - {project}
    write_noted(store, HEADLESS_PROJECTS, others | {project} if is_on else others)
