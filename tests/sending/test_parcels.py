"""What machines send to a team's server is kept once, on any store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.errors import InputError
from mcp_compaction.sending.parcel import Parcel, SentMessage, SentPin
from mcp_compaction.server.receiving import take_parcel
from tests.hosts.given_hosts import workspace_in

pytestmark = pytest.mark.anyio


def parcel(source: str, *seqs: int, parent: str = "") -> bytes:
    """A parcel with these messages of a session."""
    messages = tuple(
        SentMessage(seq=n, shape="openai", raw=json.dumps({"role": "user", "content": f"m{n}"}))
        for n in seqs
    )
    whole = Parcel(source=source, parent=parent, project="shop", name="tax", messages=messages)
    return whole.model_dump_json().encode()


async def test_a_parcel_that_comes_again_or_overlaps_is_kept_once(tmp_path: Path) -> None:
    async with workspace_in(tmp_path) as work:
        assert (await take_parcel(work, parcel("a1:1", 1, 2))).new == 2
        assert (await take_parcel(work, parcel("a1:1", 1, 2))).new == 0
        assert (await take_parcel(work, parcel("a1:1", 2, 3))).new == 1
        (info,) = await compactor.list_sessions(work, "shop")
        said = [one.message.text for one in await compactor.originals(work, info, "m1..m3")]
        assert said == ["m1", "m2", "m3"]


async def test_sessions_of_one_name_on_two_machines_stay_two(tmp_path: Path) -> None:
    async with workspace_in(tmp_path) as work:
        await take_parcel(work, parcel("aaaaaaaa:1", 1))
        await take_parcel(work, parcel("bbbbbbbb:1", 1))
        await take_parcel(work, parcel("bbbbbbbb:2", 1, parent="bbbbbbbb:1"))
        found = {info.host_session: info for info in await compactor.list_sessions(work, "shop")}
        assert found["aaaaaaaa:1"].name == "tax"
        assert found["bbbbbbbb:1"].name == "tax-bbbbbb"
        assert found["bbbbbbbb:2"].parent == found["bbbbbbbb:1"].id
        assert len(found) == 3


async def test_what_is_no_parcel_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    async with workspace_in(tmp_path) as work:
        for body in (b"", b"{}", parcel("a1:1", 1).replace(b'"openai"', b'"nothing"')):
            with pytest.raises(InputError, match="nothing was kept"):
                await take_parcel(work, body)
        assert await compactor.list_sessions(work, None) == ()


async def test_a_pin_whose_checks_are_none_is_refused_and_not_kept_without_them(
    tmp_path: Path,
) -> None:
    pin = SentPin(
        number=1,
        text="Never push.",
        kind="constraint",
        scope="project",
        author="user",
        checks="garbage (((",
    )
    whole = Parcel(source="a1:1", project="shop", name="tax", pins=(pin,))
    async with workspace_in(tmp_path) as work:
        taken = await take_parcel(work, whole.model_dump_json().encode())
        assert (taken.pins, list(taken.refused)) == ({}, [1])
        assert await work.project_pins("shop") == ()
