"""What was known of a file goes when the file is changed; no later sentence takes a fact back."""

from __future__ import annotations

import pytest

from mcp_compaction.core.digest import extract
from mcp_compaction.core.digest.extract import must_keep
from mcp_compaction.core.text.words import telling_words
from mcp_compaction.model import Item
from tests.core.saying import assistant, ran, used, user
from tests.sessions import messages_of

FACT = "The file `./lib/process.py` contains two AWS keys."
LOOK = ran("1", "ls", "a")
EDIT = used("2", "Edit", "ok", file_path="/app/lib/process.py")


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
