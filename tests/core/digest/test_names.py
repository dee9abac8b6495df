"""The ledger of names: what the agent typed in its calls, by use and recency, where room is."""

from __future__ import annotations

from mcp_compaction.core.digest.names import (
    names_of_digests,
    with_names,
    without_names,
)
from mcp_compaction.core.log.identifiers import identifiers_by_message
from mcp_compaction.core.log.used_names import used_names
from mcp_compaction.model import Digest, Item
from tests.core.saying import ran, used, user
from tests.sessions import messages_of


def count(text: str) -> int:
    return len(text.split())


def digest_with(*items: Item) -> Digest:
    return Digest(number=1, first=1, last=9, messages=9, sections=(("NAMES", items),))


def test_names_are_values_of_calls_and_neither_tools_nor_keys_nor_devices() -> None:
    step = used("1", "book_seat", "ok", seat_code="HAT097", holders=[{"user_id": "mia_li_3668"}])
    found = used_names(messages_of([*step, *ran("2", "make >/dev/null", "ok")]))
    assert {name.text for name in found} == {"HAT097", "mia_li_3668"}


def test_the_sign_of_a_new_line_is_no_part_of_a_name_but_a_folder_of_windows_is_one() -> None:
    code = r'print(f"\nLayerOne {x}\tsrc/two.py\nlayer_three")'
    path = r"C:\Users\new_folder"
    found = used_names(messages_of(used("1", "Write", "ok", content=code, to=path)))
    names = {"LayerOne", "src/two.py", "layer_three", "new_folder"}
    assert {name.text for name in found} == names


def test_what_code_calls_and_the_examples_of_a_request_are_no_names() -> None:
    asked = user("Mend src/feed.py.\n\n```\nsed -i s/a/b/ other/newfile.py\n```")
    code = "stack.pop(); self.queue; rows = sheet.cell_rows[0]; load('model.bin')"
    messages = messages_of([asked, *used("1", "Write", "ok", content=code)])
    found = used_names(messages, identifiers_by_message(messages))
    assert {name.text for name in found} == {"cell_rows", "model.bin", "src/feed.py"}


def test_a_ledger_is_replaced_and_what_a_model_wrote_stays() -> None:
    written = Item(text="FooBar: the parser", provenance="summarized")
    digest = digest_with(written, Item(text="one_name two_names"))
    assert names_of_digests([digest]) == ["one_name", "two_names"]
    assert without_names(digest, count).items("NAMES") == (written,)
    changed = with_names(digest, ["three_names"], count)
    assert changed.items("NAMES") == (written, Item(text="three_names"))
    assert changed.tokens > without_names(digest, count).tokens


def test_whole_hashes_that_were_only_met_are_no_names_to_type() -> None:
    whole, short = "8c029afd834cc328647ace3b48773331453a3dca", "8c029afd"
    messages = messages_of(ran("1", "git log", f"commit {whole}\n{short} One"))
    met = [one.text for one in used_names(messages, identifiers_by_message(messages))]
    assert short in met
    assert whole not in met
