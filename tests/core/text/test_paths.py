"""Any path of a file system becomes text that can be stored, and comes back from it."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mcp_compaction.core.text.paths import (
    path_of,
    readable_path,
    without_surrogates,
)


@given(st.binary(max_size=40))
@example(b"/caf\xe9")
@example(rb"/caf\xe9")
@example(b"/a\\\xe9\\x5c")
def test_every_path_comes_back_from_its_text(data: bytes) -> None:
    path = data.decode("utf-8", "surrogateescape")
    readable = readable_path(path)
    readable.encode()
    assert path_of(readable) == path


@given(st.text(st.characters()))
def test_what_has_no_surrogates_stays_as_it_is(text: str) -> None:
    written = without_surrogates(text)
    written.encode()
    assert without_surrogates(written) == written
