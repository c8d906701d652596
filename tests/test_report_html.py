"""The report as a file: complete, escaped, honest, deterministic, and readable when pieces are missing."""

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

from holdfast.report.charts.figure import COLOURS, MARKERS
from holdfast.report.html import write_report
from holdfast.report.scorecard import cards, favours
from holdfast.runtime.errors import BadPlace, UnreadableRecord
from holdfast.storage.record import PairEntry
from json_records import typed
from report_fixture import (
    CHARTS,
    MEASURES,
    NAMES,
    NO_TARGETS,
    SHORT,
    harden,
    in_brief,
    in_words,
    make_run,
    make_score,
    write_record,
)

VOID = {"meta", "link", "img", "br", "col", "wbr", "input"}


class Page(HTMLParser):
    """Every element with its attributes, every text; fails where tags do not nest."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.texts))

    def all(self, tag: str) -> list[dict]:
        return [attrs for name, attrs in self.elements if name == tag]


@dataclass(frozen=True)
class Whole:
    """The report of a whole run, for tests that change nothing."""

    folder: Path
    record: dict
    html: str
    page: Page


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Whole:
    folder = tmp_path_factory.mktemp("whole") / "run"
    record = make_run(folder)
    html = write_report(folder).read_text(encoding="utf-8")
    return Whole(folder, record, html, Page(html))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def record(folder):
    return make_run(folder)


def page(folder) -> Page:
    return Page(write_report(folder).read_text(encoding="utf-8"))


def rewritten(folder, record) -> Page:
    write_record(folder, record)
    return page(folder)


@pytest.mark.parametrize("encoders", [2, pytest.param(1, marks=pytest.mark.slow), COLOURS + 1])
def test_any_number_of_encoders(folder, encoders, undrawn):
    record = make_run(folder, encoders)
    found = page(folder)
    assert all(encoder["name"] in found.text for encoder in record["encoders"])  # whole, among the details
    assert all(title in found.text for title, *_ in MEASURES.values())


def test_one_self_contained_file(whole):
    links = [attrs.get("src") or attrs.get("href") or attrs.get("xlink:href") for _, attrs in whole.page.elements]
    assert {link[:1] if link[0] == "#" else link[:5] for link in links if link} == {"#", "data:"}
    assert not re.search(r"url\((?!#)|@import", whole.html)
    assert sorted(p.name for p in whole.folder.iterdir()) == ["pictures", "record.json", "report.html", "tables"]


def test_same_run_same_bytes(folder, record, whole):
    first = (whole.folder / "report.html").read_bytes()
    CHARTS.clear()  # all are drawn again
    path = write_report(folder)
    assert path == folder / "report.html"
    assert path.read_bytes() == first
    assert write_report(folder).read_bytes() == first


def test_ids_are_unique_and_references_resolve(whole):
    ids = [attrs["id"] for _, attrs in whole.page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    named = {*re.findall(r'href="#([^"]+)"', whole.html), *re.findall(r"url\(#([^)]+)\)", whole.html)}
    assert named <= set(ids)


def test_every_colour_of_a_chart_follows_the_theme(whole):
    charts = re.findall(r'<div role="img".*?</svg>', whole.html, re.DOTALL)
    assert len(charts) == 1 + 7 + 2 + 5  # the first one, read-outs, objectives, histograms of what is not yes or no
    assert not re.search(r"(?:fill|stroke): *#", "".join(charts))
    assert "var(--s0)" in charts[0]
    assert "var(--muted)" in charts[0]


def test_texts_of_the_record_are_escaped(folder, record):
    hostile = '<script>alert(1)</script>"><img src=x onerror=alert(1)>{{ 7 * 7 }} $x$ &amp;'
    data, encoder = record["data"], record["encoders"][0]
    encoder.update(name=hostile, fingerprint=hostile, origin={hostile: hostile})
    record["plan"]["command"] = hostile
    data.update(spec=hostile, description=hostile, skipped=[[hostile, hostile]])
    record["failures"] = [hostile]
    record["comparison"]["overlap_risk"]["best"] = hostile
    encoder["observations"][0]["charts"][0]["title"] = hostile
    encoder["gallery"][0]["id"] = encoder["gallery"][0]["before"][0]["id"] = hostile
    encoder["measures"]["overlap_risk"].update(title=hostile, how_to_read=hostile, reference=hostile, question=hostile)
    encoder["measures"]["overlap_risk"]["scores"]["50 steps"].update(note=hostile, interval=hostile)
    encoder["checks"]["masking"].update(title=hostile, finding=hostile, meaning=hostile, details={hostile: 1.0})
    found = rewritten(folder, record)
    assert len(found.all("script")) == 1
    assert all(image["src"].startswith("data:image/png;base64,") for image in found.all("img"))
    assert found.text.count(hostile) >= 15
    assert not any(key.startswith("on") for _, attrs in found.elements for key in attrs)


def test_no_line_ends_within_an_option(folder, record):
    rounds = {"number": 1, "of": 600, "before": 0.0, "answers_only": False, "budget": 120.0, "ended": "budget"}
    record["run"]["rounds"] = rounds
    found = rewritten(folder, record)
    assert [span["class"] for span in found.all("span") if span.get("class") == "option"] == ["option"]
    assert 'larger <span class="option">--budget</span> goes on' in (folder / "report.html").read_text("utf-8")


def test_the_verdict_says_what_the_record_says(whole):
    text = whole.page.text
    assert "3 encoders on 600 images of digits, 200 attacked" in text
    assert "Attacked: every pixel may change by up to 25.5/255 (ε in ℓ∞)." in text
    assert f"{SHORT[2]} is best on all 7 measures" in text
    assert "On relative quantile and adversarial margin, best means best among the encoders that have a number." in text
    assert f"The check “masking” failed for {SHORT[0]}" in text
    assert "Every validity check passed" not in text


def test_the_answer_stands_before_all_else(folder, record):
    in_words(record, "overlap_risk")
    in_brief(record, "cosine_similarity")
    text = rewritten(folder, record).text
    order = [
        "is the most robust",
        "Half of the images hold.",
        "checks passed",
        "How to read this chart",
        "could mislead",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert text.index(NAMES[2]) > places[-1]  # the whole name is among the details


def test_the_verdict_names_no_winner_that_the_comparison_does_not_name(folder, record):
    record["comparison"]["overlap_risk"]["best"] = None
    assert "No encoder is clearly best on overlap risk." in rewritten(folder, record).text
    for entry in record["comparison"].values():
        entry["best"] = None
    found = rewritten(folder, record)
    assert "No encoder is clearly best on any measure" in found.text
    assert " is best on" not in found.text
    assert [attrs for _, attrs in found.elements if attrs.get("class") == "won"] == []


def test_a_doubt_marks_the_number_wherever_it_stands(folder, record):
    entry = record["encoders"][1]
    warned = next(name for name, check in entry["checks"].items() if check["status"] == "warn")
    for measure in entry["measures"].values():
        for score in measure["scores"].values():
            score["checks"] = [warned]
    rows = {(card.key, row.name): row.doubt for card in cards(typed(record)) for row in card.rows}
    assert {name for (_, name), doubt in rows.items() if doubt} == {entry["name"]}
    rewritten(folder, record)
    html = (folder / "report.html").read_text(encoding="utf-8")
    marks = [re.findall('class="doubtful" title="([^"]+)"', part) for part in html.split('id="scorecard"')]
    assert len(marks[1]) == sum(map(bool, rows.values())) > 3
    assert set(marks[0]) <= set(marks[1])


def test_best_stands_in_the_row_of_the_best(whole):
    rows = re.findall(r'<tr class="won">.*?</tr>', whole.html, re.DOTALL)
    assert len(rows) == 7
    assert all(SHORT[2] in row.replace("<wbr>", "") for row in rows)
    assert whole.page.text.count("favours") == 5 * 3 + 2  # all pairs; two measures have one, for want of numbers


@pytest.mark.parametrize(
    ("low", "winner", "says"),
    [(0.05, "a", "favours a"), (0.05, None, "no clear difference"), (None, None, "undefined")],
)
def test_a_paired_difference_favours_who_wins_after_correction(low, winner, says):
    pair = PairEntry(first="a", second="b", difference=make_score(0.1, low, low and 0.2), winner=winner)
    assert favours(pair) == says


def test_failed_undefined_and_left_out_are_told(folder, record, whole):
    text = whole.page.text
    assert NO_TARGETS in text
    assert "undefined: 3 pairs had a distance of zero" in text
    assert "scans/bad.jpg" in text
    assert "differs" not in text
    record["encoders"][0]["observations"][0]["passes"]["forward"] += 1
    assert "differs" in rewritten(folder, record).text


def test_everything_to_reproduce_is_there(whole):
    text, record = whole.page.text, whole.record
    encoder = record["encoders"][0]
    wanted = [record["plan"]["command"], record["data"]["fingerprint"], encoder["fingerprint"], "2.13.0", "2e7f5b8"]
    wanted += [f"{encoder['passes']['alone']['forward']:,}", "scikit-learn", "2026-03-02T10:11:12", "1.0.31"]
    assert [word for word in wanted if word not in text] == []


def test_without_gallery_curves_tables_and_checks(folder, record):
    for encoder in record["encoders"]:
        encoder.update(gallery=[], checks={}, geometry=None)
        for measure in encoder["measures"].values():
            measure["column"] = None
    record["holdfast"]["git"] = None
    text = rewritten(folder, record).text
    assert "Worst images" not in text
    assert "no check was run" in text


def test_when_every_measure_failed(folder, record):
    for encoder in record["encoders"]:
        for measure in encoder["measures"].values():
            measure.update(error="out of memory", scores={}, headline=None, table=None, column=None)
    record["comparison"] = {}
    text = rewritten(folder, record).text
    assert text.count("out of memory") == 21
    assert "Overlap risk failed for" in text


def test_when_no_encoder_could_be_audited(folder, record):
    record["encoders"] = [{"name": "timm:nothing", "error": "no such model", "measures": {}, "checks": {}}]
    record["comparison"] = {}
    text = rewritten(folder, record).text
    assert "No encoder could be audited" in text
    assert "timm:nothing could not be audited (no such model)." in text


def test_missing_files_are_named_in_the_report(folder, record):
    table, picture = (
        record["encoders"][0]["measures"]["cosine_similarity"]["table"],
        record["encoders"][0]["gallery"][0]["clean"],
    )
    (folder / table).unlink()
    (folder / picture).write_text("not a picture")
    text = page(folder).text
    assert f"expected a Parquet table at {table}" in text
    assert f"expected a PNG picture at {picture}" in text


def test_nothing_outside_the_folder_is_read(folder, record, whole):
    secret = folder.parent / "secret.png"
    secret.write_bytes((folder / record["encoders"][0]["gallery"][0]["clean"]).read_bytes())
    before = len(whole.page.all("img"))
    record["encoders"][0]["gallery"][0]["clean"] = "../secret.png"
    found = rewritten(folder, record)
    assert len(found.all("img")) == before - 1
    assert "expected a path inside the run folder" in found.text


def test_a_card_of_a_measure_in_grey_levels_is_in_grey_levels_everywhere(record):
    for encoder in record["encoders"]:
        measure = encoder["measures"]["breakaway_risk"]
        measure |= {"unit": "pixels", "levels": True}
        for score in measure["scores"].values():
            score |= {"value": 5 / 255, "low": 2 / 255, "high": 10 / 255}
    for pair in record["comparison"]["breakaway_risk"]["pairs"]:
        pair["difference"] |= {"value": -5 / 255, "low": -10 / 255, "high": 2 / 255}
    card = next(card for card in cards(typed(record)) if card.title == "Breakaway risk")
    assert {(row.value, row.interval) for row in card.rows} == {("5/255", "[2, 10]")}
    assert [label for _, label in card.ticks] == ["0", "5", "10/255"]
    assert {(row.start, row.at, row.end) for row in card.rows} == {(20.0, 50.0, 100.0)}
    assert all(text == "5/255 [2, 10]" for _, texts in card.table for text in texts)
    assert {difference for _, _, difference, _ in card.pairs} == {"−5/255 [−10, 2]"}


def test_undefined_values_of_a_table_are_counted(folder, record):
    import pyarrow as pa
    import pyarrow.parquet as pq

    measure = record["encoders"][1]["measures"]["cosine_similarity"]
    table = pq.read_table(folder / measure["table"])
    values = table["cosine"].to_pylist()
    values[:3] = [None, float("nan"), float("inf")]
    pq.write_table(table.set_column(1, "cosine", pa.array(values)), folder / measure["table"])
    assert "3 images without a value (not attacked, or undefined) are not drawn" in page(folder).text


def test_every_picture_and_chart_has_words(whole):
    found = whole.page
    assert len(found.all("img")) == 3 * 4 * 9
    assert all(image["alt"] for image in found.all("img"))
    assert all(attrs["aria-label"] for _, attrs in found.elements if attrs.get("role") in ("img", "region"))
    assert all("scope" in header for header in found.all("th"))


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast_in_both_themes(whole, theme):
    colours = {m[0]: m[1 + theme] for m in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", whole.html)}
    for ground in (colours["page"], colours["card"]):
        assert all(contrast(colours[name], ground) >= 4.5 for name in ("ink", "muted", "accent", "good", "warn", "bad"))
        assert all(contrast(colours[f"s{i}"], ground) >= 3 for i in range(COLOURS))


def test_encoders_look_different():
    looks = {(i % COLOURS, i % len(MARKERS)) for i in range(56)}
    assert len(looks) == 56


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "folder"),
        ("{", "JSON"),
        ('{"schema": 1}', "schema 1"),
        ('{"schema": true}', "schema True"),
        ('{"schema": 3}', "schema 3; upgrade"),
        ("[]", "schema '"),
    ],
)
def test_folders_without_a_record_that_can_be_read(tmp_path, content, message):
    if content is not None:
        (tmp_path / "record.json").write_text(content)
    with pytest.raises(UnreadableRecord, match=message):
        write_report(tmp_path)


def test_a_folder_that_cannot_be_written(folder, record):
    (folder / "report.html").mkdir()
    with pytest.raises(BadPlace):
        write_report(folder)


def test_the_price_of_a_hardening_stands_beside_its_answers(folder, record) -> None:
    in_words(record, "cosine_similarity")
    harden(record, "accuracy on clean images fell by 20 points")
    write_record(folder, record)
    text = write_report(folder).read_text(encoding="utf-8")
    answers, price = (
        text.index('<div class="answers">'),
        text.index("The price of the hardening: clean"),
    )
    assert answers < price < text.index("Accuracy on clean images fell by 20 points.")
