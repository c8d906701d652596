"""The report in a real browser: no error, no request, both themes, phone width."""

import shutil

import pytest

from holdfast.report.html import write_report
from report_fixture import make_run, write_record

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    make_run(folder)
    return write_report(folder)


def resize(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def show(browser, path, width=1280, scheme="light"):
    resize(browser, width)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(path.as_uri())
    stored = "const count = localStorage.length; localStorage.clear(); return count"
    if browser.execute_script(f"try {{ {stored} }} catch {{ return 0 }}"):
        browser.get(path.as_uri())


def ground(browser) -> str:
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


LIGHT, DARK = "rgb(250, 249, 246)", "rgb(18, 21, 24)"


def test_no_error_and_no_request(browser, report):
    browser.get_log("browser")
    show(browser, report)
    assert browser.get_log("browser") == []
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in asked if not name.startswith("data:")] == []


def test_all_images_are_loaded(browser, report):
    show(browser, report)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    loaded = browser.execute_script("return [...document.images].map(i => i.complete && i.naturalWidth > 0)")
    assert len(loaded) == 108
    assert all(loaded)


def test_the_page_follows_the_system_and_the_button(browser, report):
    for scheme, first, second in (("light", LIGHT, DARK), ("dark", DARK, LIGHT)):
        show(browser, report, scheme=scheme)
        assert ground(browser) == first
        button = browser.find_element("id", "theme")
        assert button.is_displayed()
        button.click()
        assert ground(browser) == second
        browser.refresh()
        assert ground(browser) == second  # the choice is remembered
        browser.find_element("id", "theme").click()
        assert ground(browser) == first


def test_charts_change_with_the_theme(browser, report):
    fill = "return getComputedStyle(document.querySelector('.chart [style*=\"fill: var(--s0)\"]')).fill"
    show(browser, report, scheme="light")
    light = browser.execute_script(fill)
    show(browser, report, scheme="dark")
    assert {light, browser.execute_script(fill)} == {"rgb(0, 103, 165)", "rgb(90, 180, 240)"}


@pytest.mark.parametrize(
    "encoders", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(20, marks=pytest.mark.slow)]
)
def test_the_page_never_scrolls_sideways(browser, tmp_path, encoders):
    record = make_run(tmp_path, encoders)
    record["encoders"][0]["name"] = "py:a_package_with_a_long_name.and_a_module:" + "x" * 60
    record["plan"]["command"] = "holdfast audit " + "y" * 200
    write_record(tmp_path, record)
    show(browser, write_report(tmp_path))
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    for width in (1280, 768, 390, 320):
        resize(browser, width)
        inner, page = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
        assert (inner, page <= width) == (width, True)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_scorecard_gives_names_and_strips_room(browser, report, width):
    show(browser, report, width=width)
    sizes = "return [...document.querySelectorAll('.strips {}')].map(e => e.getBoundingClientRect().{})"
    assert min(browser.execute_script(sizes.format(".name", "width"))) >= 90
    assert max(browser.execute_script(sizes.format(".name", "height"))) <= 60
    assert min(browser.execute_script(sizes.format(".strip", "width"))) >= 150


def test_small_pictures_show_their_pixels(browser, report):
    show(browser, report)
    script = "return [...new Set([...document.images].map(i => getComputedStyle(i).imageRendering))]"
    assert browser.execute_script(script) == ["pixelated"]


def test_printing_unfolds_everything(browser, report):
    show(browser, report)
    folded = "return document.querySelectorAll('details:not([open])').length"
    assert browser.execute_script(folded) > 0
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(folded) == 0
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script(folded) > 0
