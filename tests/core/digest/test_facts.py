"""What was known of a file goes when the file is changed; no later sentence takes a fact back."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest import extract
from mcp_compaction.core.digest.aging import without_overtaken
from mcp_compaction.core.digest.extract import must_keep
from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.core.text.words import telling_words
from mcp_compaction.model import Digest, Item
from tests.core.digest.drafting import drafted, texts
from tests.core.saying import assistant, ran, read, used, user
from tests.sessions import messages_of

FACT = "The file `./lib/process.py` contains two AWS keys."
LOOK = ran("1", "ls", "a")
EDIT = used("2", "Edit", "ok", file_path="/app/lib/process.py")


def test_what_was_said_of_a_file_holds_until_it_is_changed() -> None:
    said = [*LOOK, assistant(FACT)]
    assert texts(drafted(said), "FACTS") == [FACT]
    assert texts(drafted([*EDIT, *said]), "FACTS") == [FACT]
    assert texts(drafted([*said, *EDIT]), "FACTS") == []
    assert texts(drafted(said, EDIT), "FACTS") == []


def test_a_line_that_a_search_found_in_a_file_goes_when_the_file_is_changed() -> None:
    found = [
        *ran("1", "grep -r KEY .", "./lib/process.py: KEY = AKIA_1 is set"),
        assistant("I look for AKIA_1 elsewhere."),
    ]
    assert texts(drafted(found), "FACTS") == ["./lib/process.py: KEY = AKIA_1 is set"]
    assert texts(drafted([*found, *EDIT]), "FACTS") == []


def test_an_older_digest_loses_what_it_knew_of_a_file_that_was_changed_since() -> None:
    told = Item(text="AWS keys are in lib/process.py", refs=("m1",), provenance="verbatim")
    other = Item(text="The port is 8080.", refs=("m2",))
    facts = (told, Item(text=FACT, refs=("m2",)), other)
    digest = Digest(number=1, first=1, last=2, messages=2, sections=(("FACTS", facts),))
    aged = without_overtaken(digest, ledger_of(messages_of(EDIT, 3)), is_followed=False)
    assert aged.items("FACTS") == (told, other)


@pytest.mark.parametrize(
    "fact",
    [
        "`lib/process.py` still contains two AWS keys.",
        "- `process.py` has 120 lines.",
        "/app/lib/process.py contains two AWS keys.",
        "2. **`lib/process.py`** contains two AWS keys.",
        "Die Datei `lib/process.py` enthält zwei Schlüssel.",
        "Le fichier `lib/process.py` contient deux clés.",
        "El archivo `lib/process.py` contiene dos claves.",
    ],
)
def test_what_a_file_contained_goes_when_it_is_changed(fact: str) -> None:
    said = [*LOOK, assistant(fact)]
    assert len(texts(drafted(said), "FACTS")) == 1
    assert texts(drafted([*said, *EDIT]), "FACTS") == []


@pytest.mark.parametrize(
    "fact",
    [
        "`lib/process.py` uses bcrypt with cost 12, and must stay compatible.",
        "`lib/process.py` contains the public hash, and must never be renamed.",
        "`lib/process.py` has 2 maintainers.",
        "`lib/process.py`: the entry point of the service.",
        "The folder with `lib/process.py` contains 3 more modules.",
        "The file `tests/process.py` contains two AWS keys.",
        "The file `other/lib/process.py` contains two AWS keys.",
        "The file `lib/process.pyi` contains two AWS keys.",
        "`../../b/lib/process.py` contains two AWS keys.",
        "The secret SECRET_1 is in `lib/process.py`.",
    ],
)
def test_what_else_was_said_of_a_file_stays_when_it_is_changed(fact: str) -> None:
    said = [*LOOK, assistant(fact)]
    assert texts(drafted([*said, *EDIT]), "FACTS") == texts(drafted(said), "FACTS") != []
    digest = Digest(
        number=1, first=1, last=2, messages=2, sections=(("FACTS", (Item(text=fact),)),)
    )
    assert without_overtaken(digest, ledger_of(messages_of(EDIT, 3)), is_followed=False) == digest


def test_a_bare_name_that_two_known_files_have_tells_neither() -> None:
    fact = "The file `config.py` contains 3 keys."
    said = [*read("1", "src/config.py", "A = 1"), assistant(fact)]
    edit = used("2", "Edit", "ok", file_path="tests/config.py")
    assert fact in texts(drafted([*said, *edit]), "FACTS")
    own = used("2", "Edit", "ok", file_path="src/config.py")
    assert fact not in texts(drafted([*said, *own]), "FACTS")


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (
            "The timeout_ms value is 3000 for the client.",
            "The timeout_ms value is not in seconds.",
        ),
        (
            "The `MAX_SIZE` constant is 4096 bytes.",
            "The `MAX_SIZE` constant isn't in the docs.",
        ),
        (
            "The bug is in `parse_date`, since it reads the 12-hour clock.",
            "The bug in `parse_date` does not exist on Windows.",
        ),
        (
            "The test suite `tests/a_test.py` has 41 cases.",
            "`tests/a_test.py` does not contain test suite fixtures.",
        ),
        (
            "The file `cli.py` contains the package, including the `CommandParser`.",
            "The `CommandParser` does not read the parent's options.",
        ),
    ],
)
def test_a_fact_stays_when_something_else_of_its_words_is_denied(fact: str, said: str) -> None:
    assert fact in texts(drafted([*LOOK, assistant(fact), assistant(said)]), "FACTS")


@pytest.mark.parametrize(
    "said",
    [
        "The task involves a tool in `cli_tool.py` that reads rows.",
        "## The 3 constants of `config.py`",
        "# The fields of `Book` in config.py take 12 ms",
        "✅ The container of config.py exists (created Oct 7, 2024)",
        "**Move edge case tests** to integration tests of library.py",
    ],
)
def test_headings_comments_ticked_rows_and_what_is_asked_for_are_no_facts(said: str) -> None:
    assert texts(drafted([*LOOK, assistant(said)]), "FACTS") == []


@pytest.mark.parametrize(
    ("ban", "said"),
    [
        ("Never read files in `logs/`.", "I'm giving you explicit permission to read `logs/`."),
        ("Öffne nie die Dateien in `logs/`.", "Ich erlaube dir die Dateien in `logs/`."),
        ("Ne lis jamais les fichiers de logs.", "Je vous autorise à lire les fichiers de logs."),
        ("Nunca leas los archivos de logs.", "Te doy permiso para leer los archivos de logs."),
    ],
)
def test_what_a_user_permits_is_kept_word_for_word_beside_its_ban(ban: str, said: str) -> None:
    kept = dict(must_keep(messages_of([user(ban), user(f"Look at it.\n\n{said}")]), ""))
    assert [item.text for item in kept["CONSTRAINTS"]] == [ban]
    assert kept["FACTS"] == (Item(text=said, refs=("m2",), provenance="verbatim", must_stay=True),)
    for other in ([user(said)], [user(ban), assistant(said)]):
        assert "FACTS" not in dict(must_keep(messages_of(other), ""))


def test_permissions_and_rules_are_each_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def look(text: str) -> tuple[str, ...]:
        looks.append(text)
        return telling_words(text)

    monkeypatch.setattr(extract, "telling_words", look)
    said = "".join(
        f"You are allowed to use port {n}. Never push row {n} to main.\n" for n in range(20, 60)
    )
    extract.must_keep(messages_of([user(said)]), "")
    assert len(looks) == 80
