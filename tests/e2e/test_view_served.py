"""The viewer as it is served, and in a real browser: who may ask what, pages that change, both widths and themes."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from test_report_in_browser import BROWSER, DRIVER, browser  # noqa: F401

from holdfast.runtime.errors import BadPlace, BadValue
from holdfast.workflows.view.server import Server, bound, is_local, names_of
from holdfast.workflows.view.site import Page, Site
from holdfast.workflows.view.write import write_site
from report_fixture import no_charts
from view_fixture import EVIL, make_runs, write_progress

in_browser = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver")


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve a folder and give the address of its first page."""
    server = Server(root, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("viewed") / "runs"
    make_runs(folder)
    return folder


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with serving(root) as address:
        yield address


def ask(address: str, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and content; the path goes out as it is."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {key.lower(): value for key, value in answer.getheaders()}, content


# --- the server -----------------------------------------------------------------------------------


def test_pages_load_nothing_from_elsewhere(address: str) -> None:
    status, headers, content = ask(address)
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"].partition("script-src")[2]
    assert headers["x-content-type-options"] == "nosniff"
    assert not re.search(rb"https?://(?!www.w3.org)", content)
    assert ask(address, "/", "HEAD")[::2] == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading(address: str, method: str) -> None:
    assert ask(address, "/", method)[0] == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "192.168.1.5", ""])
def test_other_names_are_refused(address: str, host: str) -> None:
    assert ask(address, "/", Host=host)[0] == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8000"])
def test_names_of_this_machine_are_not(address: str, host: str) -> None:
    assert ask(address, "/", Host=host)[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/runs/..%2f..%2frecord.json", "//etc/passwd", "/record.json",
     "/outside/", "/runs/x/pictures/%00.png"],
)  # fmt: skip
def test_no_path_leads_out(address: str, path: str) -> None:
    status, _, content = ask(address, path)
    assert status == 404
    assert b"root:" not in content


def test_large_pages_are_compressed(address: str) -> None:
    headers = ask(address, "/", **{"Accept-Encoding": "gzip"})[1]
    assert headers["content-encoding"] == "gzip"


def test_a_port_in_use_leads_to_the_next_or_to_advice() -> None:
    with bound("127.0.0.1", 0, fixed=False) as first:
        taken = first.getsockname()[1]
        with bound("127.0.0.1", taken, fixed=False) as second:
            assert taken < second.getsockname()[1] <= taken + 20
        with pytest.raises(BadPlace, match=rf"{taken} .*--port"):
            bound("127.0.0.1", taken, fixed=True)


def test_a_page_that_takes_long_holds_up_nobody(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, released, page = threading.Event(), threading.Event(), Site.page

    def slow(site: Site, address: str) -> Page | None:
        if address == "slow":
            made.set()
            released.wait(60)
        if address == "fault":
            raise RuntimeError("odd")
        return page(site, address)

    monkeypatch.setattr(Site, "page", slow)
    answers: list[int] = []
    with serving(root) as address:
        waiting = threading.Thread(target=lambda: answers.append(ask(address, "/slow")[0]))
        waiting.start()
        assert made.wait(30)
        assert ask(address)[0] == 200
        status, _, content = ask(address, "/fault")
        assert (status, b"a fault of Holdfast" in content) == (500, True)
        began = time.monotonic()
    waiting.join()  # the server has ended by now, though the page is not made
    assert answers == [503]
    assert time.monotonic() - began < 30
    released.set()


def test_only_addresses_of_this_machine() -> None:
    assert is_local("127.0.0.1")
    assert is_local("localhost")
    assert is_local("::1")
    assert not is_local("0.0.0.0")
    with pytest.raises(BadValue, match="--host"):
        is_local("example.com")
    assert "evil.example" not in names_of("0.0.0.0")
    assert socket.gethostname() in names_of("0.0.0.0")


def test_the_command_serves_until_it_is_interrupted(root: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "view", str(root), "--no-open", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_interruptible
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "Ctrl-C ends it" in line
    assert ask(line.split()[0])[0] == 200
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said.splitlines()[-1]) == (0, "the viewer has ended")
    assert "Traceback" not in said


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# --- in a browser ---------------------------------------------------------------------------------


def show(browser, url: str, width: int = 1280) -> None:  # noqa: F811
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(url)


def until(browser, script: str, value, seconds: float = 10.0) -> None:  # noqa: F811
    """Wait until a script returns a value."""
    end = time.monotonic() + seconds
    while (got := browser.execute_script(script)) != value:
        assert time.monotonic() < end, (script, got)
        time.sleep(0.05)


PLACES = "return [...document.querySelectorAll('#rows tr:not([hidden]) th > a')].map(a => a.textContent)"
IMAGES = "return [...document.querySelectorAll('.image')].map(a => a.querySelector('h3').textContent)"
LOADED = "return [...document.images].filter(i => i.complete && i.naturalWidth > 0).length === document.images.length"


def choose(browser, words: str, option: str) -> None:  # noqa: F811
    from selenium.webdriver.support.select import Select

    label = next(one for one in browser.find_elements("css selector", "label") if one.text.startswith(words))
    Select(label.find_element("css selector", "select")).select_by_visible_text(option)


@pytest.mark.slow
@in_browser
def test_the_index_is_searched_and_sorted(browser, address: str) -> None:  # noqa: F811
    show(browser, address)
    assert len(browser.execute_script(PLACES)) == 8
    assert EVIL in " ".join(browser.execute_script(PLACES))
    search = browser.find_element("id", "search")
    search.send_keys("done/ digits")
    assert len(browser.execute_script(PLACES)) == 4
    choose(browser, "profile", "standard")
    assert browser.execute_script(PLACES) == ["done/other"]
    search.clear()
    search.send_keys("nothing of that kind")
    assert browser.find_element("id", "none").is_displayed()
    search.clear()
    search.send_keys(" ")
    choose(browser, "profile", "all")
    state = next(b for b in browser.find_elements("css selector", "button.sort") if b.text == "state")
    state.click()
    states = browser.execute_script("return [...document.querySelectorAll('#rows .state')].map(s => s.textContent)")
    assert states == sorted(states)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@in_browser
def test_a_run_at_work_is_followed(browser, tmp_path: Path) -> None:  # noqa: F811
    write_progress(tmp_path / "run", stage="opening the encoder")
    with serving(tmp_path) as address:
        show(browser, address)
        browser.find_element("link text", "run").click()
        now = "return document.querySelector('#state').textContent.includes(arguments[0])"
        until(browser, now.replace("arguments[0]", "'opening the encoder'"), True)
        write_progress(tmp_path / "run", stage="scoring breakaway_risk")
        until(browser, now.replace("arguments[0]", "'scoring breakaway_risk'"), True)
        assert not browser.find_element("id", "gone").is_displayed()
        assert browser.execute_script("return window.alert.name") == "alert"
    until(browser, "return document.getElementById('gone').hidden", False)


@in_browser
@pytest.mark.slow
@pytest.mark.parametrize("served", [True, False], ids=["served", "from a disk"])
def test_images_side_by_side(browser, root: Path, address: str, tmp_path: Path, served: bool) -> None:  # noqa: F811
    if not served:
        with no_charts():
            write_site(root, tmp_path / "site", lambda text: None)
    top = address if served else f"{(tmp_path / 'site').as_uri()}/index.html"
    show(browser, top)
    link = "//tr[contains(., 'done/a')]//a[contains(., 'images of')]"
    browser.find_element("xpath", link).click()
    assert len(browser.execute_script(IMAGES)) == 20
    choose(browser, "pictures", "only with pictures")
    browser.execute_script("[...document.images].forEach((image) => { image.loading = 'eager'; })")
    until(browser, LOADED, True)
    assert browser.execute_script("return document.images.length") >= 10
    assert "no attacked picture stored" in browser.find_element("id", "images").text
    choose(browser, "pictures", "all images")
    # sorted by disagreement: the gap never grows
    choose(browser, "measure", "Universal quantile")
    choose(browser, "sort by", "disagreement")
    choose(browser, "from", "largest")
    data = json.loads(browser.execute_script("return document.getElementById('data').textContent"))
    measure = next(m for m in data["measures"] if m["title"] == "Universal quantile")
    gaps = {
        name: max(v[row] for v in measure["values"]) - min(v[row] for v in measure["values"])
        for row, name in enumerate(data["ids"])
    }
    shown = browser.execute_script(IMAGES)
    assert [gaps[name] for name in shown] == sorted(gaps.values(), reverse=True)[: len(shown)]
    # found by id, page by page, as the address says
    browser.find_element("css selector", "[aria-label='Next page']").click()
    assert browser.execute_script("return document.querySelector('#pager input').value") == "2"
    assert not set(shown) & set(browser.execute_script(IMAGES))
    assert "page=2" in browser.current_url
    browser.refresh()
    assert not set(shown) & set(browser.execute_script(IMAGES))
    find = browser.find_element("css selector", "#controls input[type=search]")
    find.send_keys("digit-0007")
    assert browser.execute_script(IMAGES) == ["digit-0007"]
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.slow
@in_browser
def test_images_are_kept_by_what_broke(browser, root: Path, address: str) -> None:  # noqa: F811
    show(browser, address)
    browser.find_element("xpath", "//tr[contains(., 'done/a')]//a[contains(., 'images of')]").click()
    choose(browser, "measure", "Overlap risk")
    data = json.loads(browser.execute_script("return document.getElementById('data').textContent"))
    values = next(m for m in data["measures"] if m["title"] == "Overlap risk")["values"]
    broken = [sum(v[row] > 0.5 for v in values) for row in range(len(data["ids"]))]
    total = "return document.querySelector('#pager .note').textContent"
    for option, expected in (
        ("broken for all encoders", sum(count == len(values) for count in broken)),
        ("broken for some encoder", sum(count > 0 for count in broken)),
        ("apart: some break, some hold", sum(0 < count < len(values) for count in broken)),
        ("held for all encoders", sum(count == 0 for count in broken)),
    ):
        choose(browser, "images that are", option)
        assert browser.execute_script(total) == f"{expected} image{'s' * (expected != 1)}", option


@pytest.mark.sweep(2)
@in_browser
@pytest.mark.parametrize(
    "page", ["", r"images-\w+\.html", r"runs/done-a-\w+/index\.html", r"runs/killed-\w+/index\.html"]
)
def test_no_page_scrolls_sideways(browser, address: str, page: str) -> None:  # noqa: F811
    (path, *_) = re.findall(page, ask(address)[2].decode())
    for width in (1280, 390, 320):
        show(browser, address + path, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, width
