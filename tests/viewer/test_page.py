"""The page of `open`: who is given what, and what a browser makes of hostile text."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from mcp_compaction.core.wording import kilo
from tests.audit.chats import RULE, ClaudeChat
from tests.hosts.live import PROGRAM
from tests.viewer.browser import Browser, needs_browser, start_browser

pytestmark = pytest.mark.thorough

HOSTILE = (
    "<script>document.title='broken into'</script><img src=x onerror=\"document.title='broken "
    "into'\"></script><style>body{display:none}</style> Never ![](http://evil.example/x.png)"
)
_OPENER = build_opener(ProxyHandler({}))


class Page(NamedTuple):
    """A page that is served."""

    url: str
    token: str
    place: tuple[str, ...]  # the options that name the store

    def ask(self, path: str, body: Any = None, **headers: str) -> Any:
        """The answer to a request, by default with the token."""
        given = {"authorization": f"Bearer {self.token}", **headers}
        data = None if body is None else json.dumps(body).encode()
        with _OPENER.open(Request(f"{self.url}{path}", data, given)) as answer:
            return json.loads(answer.read())

    def status(self, path: str, body: Any = None, **headers: str) -> int:
        """The status of a request that is refused."""
        with pytest.raises(HTTPError) as refused:
            self.ask(path, body, **headers)
        with refused.value as error:
            return error.code


def run(*words: str) -> str:
    done = subprocess.run([PROGRAM, *words], check=True, capture_output=True, text=True)
    return done.stdout


def messages() -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "content": HOSTILE}]
    for number in range(40):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash"}
        said.append(
            {"role": "assistant", "content": [{**call, "input": {"command": f"ls {number}"}}]}
        )
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "a.py\n" * 30}
        said.append({"role": "user", "content": [result]})
    return said


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a store with one session, which was compacted once and holds hostile text."""
    folder = tmp_path_factory.mktemp("open")
    chat = folder / "chat.jsonl"
    chat.write_text("\n".join(map(json.dumps, messages())), encoding="utf-8")
    place = ("--home", str(folder / "home"), "--project", "/p")
    run("record", str(chat), "--session", "a", *place)
    run("pin", HOSTILE, "--session", "a", *place)
    run("compress", "--session", "a", "--window-tokens", "9000", "--force", *place)
    hosts = folder / "hosts"
    (hosts / ".claude/projects/-work").mkdir(parents=True)
    chat = ClaudeChat(hosts / ".claude/projects/-work")
    chat.ask(RULE)
    chat.compact("We talked.")
    command = [PROGRAM, "open", "--json", *place]
    environ = {**os.environ, "HOME": str(hosts)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server:
        assert server.stdout is not None
        url, _, token = json.loads(server.stdout.readline())["url"].partition("#token=")
        yield Page(url, token, place)
        server.terminate()


def test_the_page_is_given_to_anybody_and_holds_nothing(page: Page) -> None:
    with _OPENER.open(page.url) as answer:
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "Never" not in answer.read().decode()


@pytest.mark.parametrize("path", ["api/sessions", "api/session/1", "api/session/1/messages/0"])
def test_facts_are_given_only_for_the_token(page: Page, path: str) -> None:
    assert page.status(path, authorization="Bearer wrong") == 401


def test_a_name_that_another_site_has_for_this_address_is_refused(page: Page) -> None:
    assert page.status("api/sessions", host="evil.example") == 421


def test_one_session_is_told_with_all_that_was_said(page: Page) -> None:
    (one,) = page.ask("api/sessions")
    told = page.ask(f"api/session/{one['id']}")
    assert (told["name"], told["messages"]) == ("a", 81)
    assert [pin["text"] for pin in told["pins"]] == [HOSTILE]
    assert [receipt["ref"] for receipt in told["receipts"]] == ["c1"]
    said = page.ask(f"api/session/{one['id']}/messages/0")
    assert [message["ref"] for message in said] == [f"m{n}" for n in range(1, 82)]
    assert [message["role"] for message in said[1:3]] == ["assistant", "tool Bash"]
    assert page.ask(f"api/session/{one['id']}/message/1")["text"] == HOSTILE


def test_the_curve_stands_on_time_and_has_the_sizes_of_the_receipts(page: Page) -> None:
    told = page.ask("api/session/1")
    moments = [datetime.fromisoformat(at) for at, _, _ in told["curve"]]
    assert moments == sorted(moments)
    (receipt,) = told["receipts"]
    cut = next(n for n, (_, _, ref) in enumerate(told["curve"]) if ref == "c1")
    sizes = [tokens for _, tokens, _ in told["curve"]]
    assert sizes[cut - 1 : cut + 1] == [receipt["before"], receipt["after"]]
    assert sizes[:cut] == sorted(sizes[:cut])
    assert len(set(sizes[:cut])) > 40  # it grows with each message
    assert abs(sizes[-1] - receipt["after"]) <= 2
    assert sizes[-1] == told["fill"]["view"]


def test_looking_for_words_finds_them_and_counts_as_no_recall(page: Page) -> None:
    found = page.ask("api/session/1/search", {"words": "ls 3"})
    assert any("ls 3" in hit["text"] for hit in found)
    assert "recalled" not in run("stats", "--session", "a", *page.place)


def test_the_page_tells_what_past_compactions_of_hosts_lost(page: Page) -> None:
    told = page.ask("api/audit")
    assert told["headline"] == "1 compaction by hosts in 1 chat; 1 of 1 rule not word for word"
    assert told["table"][1][:3] == ["rules", "1", "0"]
    assert page.status("api/audit", authorization="") == 401


def test_undo_needs_a_post_with_the_token(page: Page) -> None:
    assert page.status("api/session/1/undo") == 405
    assert page.status("api/session/1/undo", {"ref": "c1"}, authorization="") == 401
    assert "boundary: m" in run("show", "--session", "a", *page.place)
    assert "restored" in page.ask("api/session/1/undo", {"ref": "c1"})["text"]
    assert page.status("api/session/1/undo", {"ref": "c99"}) == 400


def browse(browser: Browser, url: str) -> str:
    """What a browser makes of a page, after its messages are there."""
    browser.open(url)
    browser.wait_for("document.getElementById('m1')")
    return browser.run("document.documentElement.outerHTML")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with start_browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@needs_browser
@pytest.mark.thorough
def test_hostile_text_is_shown_and_runs_nothing(page: Page, browser: Browser) -> None:
    shown = browse(browser, f"{page.url}#token={page.token}")
    assert "<title>mcp-compaction</title>" in shown
    assert "&lt;script&gt;document.title" in shown
    assert "<img" not in shown
    assert shown.count("<script") == 1
    assert page.token not in shown


@needs_browser
@pytest.mark.thorough
def test_the_browser_asks_only_this_machine(page: Page, browser: Browser) -> None:
    browser.requests.clear()
    browse(browser, f"{page.url}#token={page.token}")
    follow_by_keyboard(browser, "What past compactions lost")
    browser.wait_for("document.querySelector('h2').textContent.includes('by hosts')")
    asked = [url.removeprefix(page.url) for url in browser.requests]
    assert {"style.css", "app.js", "api/sessions", "api/audit"} <= set(asked)
    assert [url for url in asked if "://" in url] == []


def follow_by_keyboard(browser: Browser, label: str) -> None:
    """Go to what is called so by Tab, and press Enter there."""
    start = browser.run("document.activeElement?.blur(), 0")
    for _ in range(start, 500):
        browser.press("Tab")
        if label in browser.run("document.activeElement.textContent"):
            return browser.press("Enter")
    raise AssertionError(f"Tab never came to {label}")


@needs_browser
@pytest.mark.thorough
def test_the_keyboard_alone_reaches_everything_and_one_sees_where_it_is(
    page: Page, browser: Browser
) -> None:
    browse(browser, f"{page.url}#token={page.token}")
    browser.run("for (const folded of document.querySelectorAll('details')) folded.open = true")
    controls = browser.run(
        "for (const [n, one] of document.querySelectorAll('a, button:not([hidden]), input, "
        "summary').entries()) one.dataset.n = n; document.querySelectorAll('[data-n]').length"
    )
    reached: set[str] = set()
    for _ in range(controls + 5):
        browser.press("Tab")
        number, outline = browser.run(
            "[document.activeElement.dataset.n ?? '', "
            "getComputedStyle(document.activeElement).outlineStyle]"
        )
        if number:
            assert outline == "solid"
            reached.add(number)
    assert controls > 50
    assert len(reached) == controls


@needs_browser
@pytest.mark.thorough
def test_by_keyboard_one_searches_follows_a_place_and_reads_it_whole(
    page: Page, browser: Browser
) -> None:
    browse(browser, f"{page.url}#token={page.token}")
    browser.run("document.querySelector('input').focus()")
    browser.write("ls 33")
    browser.press("Enter")
    browser.wait_for("document.querySelector('#found .ref')")
    browser.press("Tab")
    browser.press("Enter")
    browser.wait_for("document.activeElement.classList.contains('found')")
    assert "ls 33" in browser.run("document.activeElement.textContent")


@needs_browser
def test_the_page_writes_sizes_as_receipts_do_and_draws_long_pauses_short(
    page: Page, browser: Browser
) -> None:
    browse(browser, f"{page.url}#token={page.token}")
    sizes = [0, 812, 6_149, 9_999, 20_700, 147_600, 999_499, 999_500, 1_050_000, 12_345_678]
    assert browser.run(f"{sizes}.map(kilo)") == [kilo(size) for size in sizes]
    minute, day = 60_000, 24 * 60 * 60_000
    times = [0, minute, 3 * minute, 3 * minute + 200 * day, 4 * minute + 200 * day]
    places, pauses = browser.run(f"placesOf({times})")
    assert places == pytest.approx([0, 0.235, 0.705, 0.765, 1])
    assert [(one["from"], one["to"]) for one in pauses] == [(places[2], places[3])]
    assert browser.run(f"lasting({pauses[0]['ms']})") == "7 months"
    assert browser.run("placesOf([5, 5, 5])") == [[0, 0, 0], []]


@needs_browser
def test_a_restore_is_shown_as_one(page: Page, browser: Browser) -> None:
    run("compress", "--session", "a", "--window-tokens", "9000", "--force", *page.place)
    newest = page.ask("api/session/1")["receipts"][0]["ref"]
    run("restore", newest, "--session", "a", *page.place)
    back = page.ask("api/session/1")["receipts"][0]
    browse(browser, f"{page.url}#token={page.token}")
    browser.wait_for("document.querySelector('svg .cut.back')")
    labels = browser.run("[...document.querySelectorAll('svg text')].map((one) => one.textContent)")
    assert {newest, f"↶{back['ref']}"} <= set(labels)
    assert f"{back['ref']} undo {newest}, " in browser.run("document.body.textContent")


@needs_browser
@pytest.mark.thorough
def test_by_keyboard_undo_takes_a_second_press(page: Page, browser: Browser) -> None:
    compress = ("compress", "--session", "a", "--window-tokens", "9000", "--force")
    run(*compress, *page.place)
    browse(browser, f"{page.url}#token={page.token}")
    before = page.ask("api/session/1")["receipts"]
    follow_by_keyboard(browser, "Undo c")
    assert page.ask("api/session/1")["receipts"] == before
    browser.press("Enter")
    browser.wait_for("document.getElementById('state').textContent.includes('restored')")
    assert browser.run("document.activeElement.id") == "main"


@needs_browser
@pytest.mark.thorough
def test_a_page_that_was_written_shows_the_same_and_loads_nothing(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    run("open", "a", "--html", str(file), *page.place)
    shown = browse(browser, file.as_uri())
    assert "&lt;script&gt;document.title" in shown
    assert "<title>mcp-compaction</title>" in shown
    assert "<img" not in shown
    text = file.read_text(encoding="utf-8")
    assert "src=" not in text.replace("src=x", "").replace("-src", "")


def test_without_a_store_it_says_what_to_do_first(tmp_path: Path) -> None:
    ran = subprocess.run(
        [PROGRAM, "open", "--home", str(tmp_path / "none")], capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert "first run: " in ran.stderr
