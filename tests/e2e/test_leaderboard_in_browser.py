"""The leaderboard in a real browser: it sorts by mouse and by key, in both themes, and fits a phone."""

import pytest
import torch
from test_report_in_browser import DARK, LIGHT, browser, ground, pytestmark, show  # noqa: F401
from torch import nn

import holdfast
from holdfast.core import Encoder
from holdfast.report.leaderboard import render
from holdfast.storage.comparison import Comparison, Leaderboard, Pareto, ParetoPoint, RankedRow
from json_records import compared_encoder, compared_measure, ranked_row, small_comparison
from report_fixture import make_score

NAMES = ("low", "none", "high", "middle")
VALUES = (0.1, None, 0.9, 0.5)


def comparison() -> Comparison:
    """A group of four encoders on two measures, one of which gave one of them no number."""

    def row(name: str, value: float | None) -> RankedRow:
        if value is None:
            return ranked_row(name, make_score(None), why_not="its score is undefined")
        return ranked_row(name, make_score(value, value - 0.05, value + 0.05), rank=(1, 3))

    rows = [row(name, value) for name, value in zip(NAMES, VALUES, strict=True)]
    measures = {
        name: compared_measure(rows, title=name, better=better)
        for name, better in (("Risk", "lower"), ("Accuracy", "higher"))
    }
    points = [ParetoPoint(encoder=r.encoder, x=r.score, y=r.score, dominated_by=[]) for r in rows if r.score]
    pareto = Pareto(x="Accuracy", y="Risk", why_not=None, points=points)
    encoders = [compared_encoder(name, warns=["masking"]) for name in NAMES]
    return small_comparison(encoders, measures, pareto=pareto, cautions=["be careful"])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "l.html"
    path.write_text(render(Leaderboard(groups=[comparison()])), encoding="utf-8")
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


def test_on_a_phone_whom_to_trust_stands_below_the_name_and_above_the_numbers(browser, page) -> None:  # noqa: F811
    show(browser, page, width=390)
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('table.cells tbody tr')].map((row) =>"
        "  ['th', '.trusts', 'td'].map((one) => row.querySelector(one).getBoundingClientRect())"
        "    .map((box) => [box.top, box.right]))"
    )
    assert len(boxes) == len(NAMES)
    for name, trust, first in boxes:
        assert name[0] < trust[0] < first[0]
        assert max(right for _, right in (name, trust, first)) <= 390


def test_on_a_phone_every_number_of_an_index_is_on_the_screen(browser, tmp_path) -> None:  # noqa: F811
    images = torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    old = Encoder(nn.Flatten(), mean=0, std=1, name="an-encoder-with-a-long-name_025.onnx")
    new = Encoder(nn.Sequential(nn.Flatten(), nn.Linear(64, 8)), mean=0, std=1, name="another-encoder_100.onnx")
    holdfast.compare_index(old, new, images, rate=0.02, out=tmp_path / "up", quiet=True)
    show(browser, tmp_path / "up" / "report.html", width=390)
    ends = browser.execute_script(
        "return [...document.querySelectorAll('#answer table td:not(.unknown)')].map((cell) =>"
        "  cell.getBoundingClientRect().right)"
    )
    assert len(ends) > 8
    assert max(ends) <= 390
    # What the rows of a table are about stands above them, where its head is hidden
    titles = browser.execute_script(
        "return [...document.querySelectorAll('#answer table')].map((table) =>"
        "  [table.rows[0].cells[0].textContent, getComputedStyle(table, '::before').content.slice(1, -1)])"
    )
    assert titles
    assert all(head == shown for head, shown in titles)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
