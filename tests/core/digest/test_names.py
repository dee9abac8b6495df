"""The ledger of names: what the agent typed in its calls, by use and recency, where room is."""

from __future__ import annotations

from mcp_compaction.core.digest.names import (
    choose_names,
    names_of_digests,
    with_names,
    without_names,
)
from mcp_compaction.core.limits import LONGEST_LINE
from mcp_compaction.core.log.identifiers import identifiers_by_message
from mcp_compaction.core.log.used_names import UsedName, used_names
from mcp_compaction.model import Digest, Item
from tests.core.saying import ran, used, user
from tests.sessions import messages_of


def count(text: str) -> int:
    return len(text.split())


def digest_with(*items: Item) -> Digest:
    return Digest(number=1, first=1, last=9, messages=9, sections=(("NAMES", items),))


def test_names_are_those_typed_most_and_last() -> None:
    steps = [m for n in range(1, 4) for m in ran(str(n), f"python part_{n}.py --fast", "ok")]
    found = [name.text for name in used_names(messages_of(steps))]
    assert found == ["part_3.py", "part_2.py", "part_1.py"]


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


def test_a_command_that_a_request_shows_names_nothing_and_a_name_alone_does() -> None:
    asked = user("Mend `src/main.py`; prefix it with `A=B cd /path/to/dir && ...` if you like.")
    messages = messages_of([asked])
    found = used_names(messages, identifiers_by_message(messages))
    assert [name.text for name in found] == ["src/main.py"]


def test_an_address_is_one_name() -> None:
    found = used_names(messages_of(ran("1", "curl https://docs.example.org/guide/valve", "ok")))
    assert [name.text for name in found] == ["https://docs.example.org/guide/valve"]


def test_paths_that_were_only_met_come_after_all_that_was_typed() -> None:
    messages = messages_of([*ran("1", "cat src/one.py", "ok"), *ran("2", "ls", "src/two.py")])
    found = used_names(messages, identifiers_by_message(messages))
    assert [name.text for name in found] == ["src/one.py", "src/two.py"]


def test_of_paths_only_met_libraries_give_none() -> None:
    trace = 'File "/usr/lib/python3/site-packages/httpx/_client.py", line 3\nnode_modules/a/b.js'
    messages = messages_of(ran("2", "run", trace))
    assert used_names(messages, identifiers_by_message(messages)) == []
    typed = messages_of(ran("3", "cat node_modules/a/b.js", "ok"))
    assert [name.text for name in used_names(typed)] == ["node_modules/a/b.js"]


def test_dates_of_fields_come_last_and_are_never_folded() -> None:
    held = '{"code": "HAT097", "from": "2024-05-17", "to": "2024-05-18", "born": "2024-05-19"}'
    asked = user("Look at ORD-77812, due: 2024-05-16.")
    messages = messages_of([asked, *used("1", "look_up", held, holder="mia_li_3668")])
    found = [name.text for name in used_names(messages, identifiers_by_message(messages))]
    dates = [f"2024-05-{day}" for day in (16, 17, 18, 19)]
    assert found == ["mia_li_3668", "HAT097", "ORD-77812", *dates]
    listing = messages_of(ran("2", "ls", "-rw-r--r-- 2024-05-20 notes\n2024-05-21 started"))
    assert used_names(listing, identifiers_by_message(listing)) == []


def test_names_that_were_met_together_keep_their_order() -> None:
    held = '{"id": "mia_li_3668", "pays": "voucher_7504069", "trips": ["HAT097", "GAR012"]}'
    messages = messages_of(used("1", "look_up", held))
    found = used_names(messages, identifiers_by_message(messages))
    assert [name.text for name in found] == ["mia_li_3668", "voucher_7504069", "HAT097", "GAR012"]


def test_names_of_earlier_digests_come_back_and_rise_when_they_are_typed_again() -> None:
    messages = messages_of([user("go"), *ran("1", "cat old_thing new_thing", "ok")])
    found = used_names(messages, earlier=["old_thing", "other_thing"])
    assert [name.text for name in found] == ["old_thing", "new_thing", "other_thing"]


def test_what_a_view_shows_is_not_listed_and_names_of_one_call_stand_together() -> None:
    names = [
        UsedName("late_b", 3.0, (9, 1)),
        UsedName("shown_name", 2.5, (8, 0)),
        UsedName("early", 2.0, (2, 0)),
        UsedName("late_a", 1.0, (9, 0)),
        UsedName("left_out", 0.5, (9, 2)),
    ]
    assert choose_names(names, "so shown_name it is", 5, count) == ["early", "late_a", "late_b"]


def test_a_name_gives_way_to_a_longer_one_that_shows_it() -> None:
    names = [
        UsedName("src/valve.py", 3.0, (1, 0)),
        UsedName("/w/src/valve.py", 2.0, (2, 0)),
        UsedName("pump_two", 1.0, (3, 0)),
    ]
    assert choose_names(names, "", 4, count) == ["/w/src/valve.py", "pump_two"]


def test_a_ledger_is_replaced_and_what_a_model_wrote_stays() -> None:
    written = Item(text="FooBar: the parser", provenance="summarized")
    digest = digest_with(written, Item(text="one_name two_names"))
    assert names_of_digests([digest]) == ["one_name", "two_names"]
    assert without_names(digest, count).items("NAMES") == (written,)
    changed = with_names(digest, ["three_names"], count)
    assert changed.items("NAMES") == (written, Item(text="three_names"))
    assert changed.tokens > without_names(digest, count).tokens


def test_a_ledger_is_broken_into_lines() -> None:
    names = [f"a_rather_long_name_{n:03}" for n in range(30)]
    lines = with_names(digest_with(), names, count).items("NAMES")
    assert [name for line in lines for name in line.text.split()] == names
    assert all(len(line.text) <= LONGEST_LINE for line in lines)
