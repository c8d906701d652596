"""The report in a real browser: no error, no request, both themes, phone width."""

import shutil

import pytest

from holdfast.report.html import write_report
from report_fixture import SHORT, in_brief, in_words, make_run, write_record

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
    record = make_run(folder)
    in_words(record, "cosine_similarity", "Half of the images are taken for another one after a change. " * 3)
    in_brief(record, "universal_quantile", "overlap_risk", "breakaway_risk", "relative_quantile")
    write_record(folder, record)
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


def bottom(browser, selector: str) -> float:
    return browser.execute_script(f"return document.querySelector('{selector}').getBoundingClientRect().bottom")


def test_one_screen_answers(browser, report):
    show(browser, report)
    for part in ("h1", ".answers", ".brief", ".brief tr:last-child .trust"):
        assert 0 < bottom(browser, part) <= 900, part
    assert browser.execute_script("return document.querySelector('.leading').getBoundingClientRect().top") < 800


@pytest.mark.parametrize(("width", "height", "screens"), [(1280, 900, 6), (390, 844, 10)])
def test_folded_the_page_is_short(browser, report, width, height, screens):
    show(browser, report, width=width)
    assert browser.execute_script("return document.documentElement.scrollHeight") <= screens * height
    assert browser.execute_script("return document.querySelectorAll('details.fold[open]').length") == 0


def test_sections_open_by_key_by_link_and_all_at_once(browser, report):
    from selenium.webdriver.common.keys import Keys

    show(browser, report)
    is_open = "return [...document.querySelectorAll('details.fold')].map(d => d.open)"
    summary = browser.find_element("css selector", "#scorecard > summary")
    summary.send_keys(Keys.ENTER)
    assert browser.find_element("id", "scorecard").get_attribute("open")
    summary.send_keys(Keys.SPACE)
    assert not any(browser.execute_script(is_open))
    browser.find_element("css selector", "nav a[href='#charts']").send_keys(Keys.ENTER)
    assert browser.find_element("id", "charts").get_attribute("open")
    button = browser.find_element("id", "unfold")
    assert button.text == "Open all"
    button.send_keys(Keys.ENTER)
    assert all(browser.execute_script(is_open))
    assert button.text == "Close all"
    button.send_keys(Keys.ENTER)
    assert not any(browser.execute_script(is_open))
    browser.get(report.as_uri() + "#measure-2")  # something inside of a section
    browser.refresh()
    assert browser.find_element("id", "scorecard").get_attribute("open")


def test_pictures_are_filtered_and_sorted(browser, report):
    from selenium.webdriver.support.select import Select

    show(browser, report)
    browser.find_element("id", "unfold").click()
    of, by = (Select(item) for item in browser.find_elements("css selector", "#pictures .controls select"))
    shown = (
        "return [...document.querySelectorAll('#pictures [data-encoder]')].filter(e => !e.hidden)"
        ".map(e => [e.dataset.encoder, Number(e.dataset.sort)])"
    )
    of.select_by_visible_text(SHORT[1])
    assert {name for name, _ in browser.execute_script(shown)} == {SHORT[1]}
    of.select_by_index(0)
    by.select_by_visible_text("smallest first")
    drifts = [value for _, value in browser.execute_script(shown)]
    assert drifts == sorted(drifts)
    assert len(drifts) == 12


def test_pictures_open_large(browser, report):
    from selenium.webdriver.common.keys import Keys

    show(browser, report)
    browser.find_element("id", "unfold").click()
    first, second, third = browser.find_elements("css selector", "article.worst")[:3]
    button = first.find_element("css selector", "button.enlarge")
    button.send_keys(Keys.ENTER)
    dialog = browser.find_element("css selector", "dialog.lightbox")
    name = dialog.find_element("css selector", "b")
    assert name.text == first.find_element("css selector", "b").text
    images = dialog.find_elements("css selector", ".huge img")
    assert len(images) == 3
    assert all(image.size["width"] >= 200 for image in images)
    # arrows go to the next that is shown, Escape closes, and whoever used the keyboard is where they were
    browser.execute_script("arguments[0].hidden = true", second)
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert dialog.find_element("css selector", "b").text == third.find_element("css selector", "b").text
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert dialog.find_element("css selector", "b").text == first.find_element("css selector", "b").text
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not dialog.is_displayed()
    assert browser.switch_to.active_element == button
    picture = third.find_element("css selector", ".shot.large img")
    browser.execute_script("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", picture)
    picture.click()
    assert dialog.is_displayed()


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
    browser.find_element("id", "unfold").click()
    sizes = "return [...document.querySelectorAll('.strips {}')].map(e => e.getBoundingClientRect().{})"
    assert min(browser.execute_script(sizes.format(".name", "width"))) >= 80
    assert max(browser.execute_script(sizes.format(".name", "height"))) <= 60
    assert min(browser.execute_script(sizes.format(".strip", "width"))) >= 150


def test_small_pictures_show_their_pixels(browser, report):
    show(browser, report)
    script = "return [...new Set([...document.images].map(i => getComputedStyle(i).imageRendering))]"
    assert browser.execute_script(script) == ["pixelated"]


@pytest.mark.slow
def test_printing_unfolds_everything(browser, report):
    show(browser, report)
    folded = "return document.querySelectorAll('details:not([open], [name])').length"
    assert browser.execute_script(folded) > 0
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(folded) == 0
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script(folded) > 0
