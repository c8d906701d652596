"""The leaderboard in a real browser: it sorts by mouse and by key, in both themes, and fits a phone."""

import pytest
from test_report_in_browser import DARK, LIGHT, browser, ground, pytestmark, show  # noqa: F401

from holdfast.report.leaderboard import render

NAMES = ("low", "none", "high", "middle")
VALUES = (0.1, None, 0.9, 0.5)


def comparison() -> dict:
    """A group of four encoders on two measures, one of which gave one of them no number."""

    def row(name: str, value: float | None) -> dict:
        ends = {"low": None, "high": None} if value is None else {"low": value - 0.05, "high": value + 0.05}
        return {
            "encoder": name, "score": {"value": value, "n": 40, "note": "", "unit": "", **ends}, "headline": "value",
            "scores": {}, "rank": None if value is None else [1, 3], "best": False, "behind": None,
            "why_not": "its score is undefined" if value is None else None,
        }  # fmt: skip

    rows = [row(name, value) for name, value in zip(NAMES, VALUES, strict=True)]
    facts = {
        "part": {"name": "m"},
        "unit": "share",
        "needs_labels": False,
        "question": "?",
        "leader": None,
        "best": None,
    }
    measures = {
        name: facts | {"title": name, "better": better, "rows": rows, "pairs": [], "charts": []}
        for name, better in (("Risk", "lower"), ("Accuracy", "higher"))
    }
    points = [{"encoder": r["encoder"], "x": r["score"], "y": r["score"], "dominated_by": []} for r in rows]
    return {
        "measures": measures, "correction": "holm", "promises": "nothing", "comparisons": 12, "assumed": "nothing",
        "conditions": {"data": "digits", "number of images": 40, "attacked images": 40, "seed": 0},
        "runs": [{"place": "run", "holdfast": "0", "finished": "2026-01-01T00:00:00", "command": "holdfast"}],
        "encoders": [{"name": name, "unfit": [], "fails": [], "warns": ["masking"]} for name in NAMES],
        "pareto": {"x": "Accuracy", "y": "Risk", "why_not": None, "points": points},
        "left_out": [], "cautions": ["be careful"], "problems": [],
    }  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "l.html"
    path.write_text(render({"groups": [comparison()], "unreadable": []}), encoding="utf-8")
    return path


def order(browser) -> list[str]:  # noqa: F811
    return browser.execute_script(
        "return [...document.querySelectorAll('table.sortable tbody th')].map((th) => th.dataset.sort)"
    )


def test_heads_sort_the_best_first_and_leave_what_has_no_number_last(browser, page) -> None:  # noqa: F811
    from selenium.webdriver.common.keys import Keys

    show(browser, page)
    assert order(browser) == list(NAMES)
    name, risk, accuracy = browser.find_elements("css selector", "button.sort")
    risk.click()
    assert order(browser) == ["low", "middle", "high", "none"]
    risk.click()
    assert order(browser) == ["high", "middle", "low", "none"]
    accuracy.send_keys(Keys.ENTER)
    assert order(browser) == ["high", "middle", "low", "none"]
    name.send_keys(Keys.SPACE)
    assert order(browser) == ["high", "low", "middle", "none"]
    said = [th.get_attribute("aria-sort") for th in browser.find_elements("css selector", "table.sortable thead th")]
    assert said == ["ascending", None, None, None]
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_it_follows_the_theme_and_fits_a_phone(browser, page) -> None:  # noqa: F811
    show(browser, page, scheme="dark")
    assert ground(browser) == DARK
    browser.find_element("id", "theme").click()
    assert ground(browser) == LIGHT
    show(browser, page, width=360)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
