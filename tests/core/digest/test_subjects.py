"""A line that tells of what nobody in its source speaks of is left out, whatever its wording."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.check.subjects import Subjects
from mcp_compaction.model import Item, SectionName

SAID = (
    "Please mend the import of the invoices: it stops when a file is empty, and then we have to "
    "start it again by hand. I found that the reader does not look at the size of the file before "
    "it reads the first line, so I added a check, and now it goes on with the next one. The tests "
    "of the reader were run after that and they are green again. If you want more of this, there "
    "should be another check for what comes from other tools, because some of them can write their "
    "names only once, or how many lines they will have, but not which of those has been read."
)
ON_DEUTSCH = (
    "Bitte repariere den Import der Rechnungen: er bricht ab, wenn eine Datei leer ist, und dann "
    "müssen wir ihn von Hand wieder starten. Ich habe gesehen, dass der Leser nicht auf die Größe "
    "der Datei achtet, bevor er die erste Zeile liest, und das ist jetzt behoben. Was aus anderen "
    "Programmen kommt, sollte man auch noch prüfen, weil sie nur einmal schreiben, wie viele es "
    "sind, oder gar nicht mehr, als hier schon war. Wir werden sie dann mit euch zusammen lesen, "
    "ohne dass du etwas machen musst, aber nach dem Urlaub, für den ich bis Mai keine Zeit hatte."
)


def holds(text: str, said: str = SAID, section: SectionName = "DONE") -> bool:
    return Subjects(Evidence([(said, None)]), said).hold(section, Item(text=text))


@pytest.mark.parametrize(
    "text",
    [
        "The certificate was renewed on the proxy.",
        "Customers got a letter about the outage.",
        "Rolled the cluster back overnight.",
    ],
)
def test_what_nobody_speaks_of_is_not_believed(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "Empty files no longer break importing invoices.",
        "The reader checks sizes first and continues with the following file.",
        "Commit 3cc2e39 tidies everything.",
        "Pending chores:",
        "Fixed.",
    ],
)
def test_what_is_told_in_other_words_is_believed(text: str) -> None:
    assert holds(text)


def test_what_lies_ahead_may_be_new() -> None:
    assert holds("Renew the certificate on the proxy.", section="NEXT")


def test_a_line_in_another_language_than_its_source_is_believed() -> None:
    assert holds("The certificate was renewed on the proxy.", ON_DEUTSCH)
    assert not holds("Das Zertifikat wurde auf dem Proxy erneuert.", ON_DEUTSCH)
    assert holds("Der Import bricht bei leeren Dateien nicht mehr ab.", ON_DEUTSCH)
    assert holds("The certificate was renewed on the proxy.", f"{SAID} {ON_DEUTSCH}")


IN_JAPANESE = (
    "請求書の取り込みを直してください。ファイルが空だと止まってしまい、手で始め直すことになります。"
    "読み取りの前に大きさを調べる処理を加えたので、今は次のファイルへ進みます。"
)
IN_KOREAN = (
    "청구서 가져오기를 고쳐 주세요. 파일이 비어 있으면 멈추고, 손으로 다시 시작해야 합니다. "
    "읽기 전에 크기를 확인하는 검사를 넣어서 이제는 다음 파일로 넘어갑니다."
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("空のファイルでも、取り込みは 止まらなくなった。", IN_JAPANESE),
        ("빈 파일에서도 청구서를 가져올 때 중단되지 않음.", IN_KOREAN),
    ],
)
def test_a_true_line_in_a_language_without_a_stemmer_is_believed(text: str, said: str) -> None:
    assert holds(text, said)


def test_a_source_that_says_little_proves_nothing() -> None:
    assert holds("The certificate was renewed on the proxy.", "ok")


@given(st.text(max_size=60))
def test_a_source_speaks_of_its_own_words(text: str) -> None:
    assert holds(text, f"{SAID}\n{text}")
