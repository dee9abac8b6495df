"""A command is told as it was run, without changes of the folder."""

from __future__ import annotations

import pytest

from mcp_compaction.core.log.families import command_line_of


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("cd /app && make all", "make all"),
        ("cd /app && cd src; make all", "make all"),
        ("export A=1 && cd /app && make all", "export A=1 && make all"),
        ("cd /app && export A=1 && make all", "export A=1 && make all"),
        ("export A=1; cd /app; cd src; source env && make", "export A=1; source env && make"),
        ("export DIR=/mnt/cd && make all", "export DIR=/mnt/cd && make all"),
        ("export DIR=cd && make all", "export DIR=cd && make all"),
        ("export A=1 cd && make all", "export A=1 cd && make all"),
        ("source my-cd env && make all", "source my-cd env && make all"),
    ],
)
def test_only_a_change_of_the_folder_is_left_out(command: str, told: str) -> None:
    assert command_line_of(command) == told
