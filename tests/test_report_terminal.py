"""The summary in the terminal: aligned, marked only where the record says so, plain when piped."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.report.documents.audit import document
from holdfast.report.render import print_document
from holdfast.report.table import Table
from json_records import typed
from report_fixture import NAMES, NO_TARGETS, SHORT, in_brief, in_words, make_run


def printed(record, width=140, report=None, colour=False) -> str:
    out = io.StringIO()
    screen = Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else "auto")
    print_document(document(typed(record), report), screen)
    return out.getvalue()


@pytest.fixture
def record(tmp_path):
    return make_run(tmp_path)


def line(text: str, *words: str) -> str:
    return next(row for row in text.splitlines() if all(word in row for word in words))


def test_encoders_stand_below_each_other_with_their_first_numbers(record):
    text = printed(record)
    head = line(text, "Universal quantile ↓")
    assert head.index("Universal quantile") < head.index("behind the first")
    score = record["encoders"][2]["measures"]["universal_quantile"]["scores"]["50 steps"]
    said = f"{100 * score['value']:.1f} % [{100 * score['low']:.1f}, {100 * score['high']:.1f}] *"
    assert said in [row for row in text.splitlines() if SHORT[2] in row][1]  # after the answer


def test_answers_come_first_then_few_numbers_with_the_checks_then_the_rest(record):
    in_words(record, "breakaway_risk")
    in_brief(record, "cosine_similarity")
    text = printed(record)
    order = [
        f"{SHORT[2]} is the most robust. Its breakaway risk is", f"{SHORT[2]}: Half of the images hold.",
        f"{SHORT[0]}: Half of the images hold.", "Breakaway risk ↓", "all 8 checks passed", "Cosine similarity ↑",
        "Overlap risk ↓", "3 encoders on 600 images",
    ]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_a_table_says_what_is_only_a_number(record):
    in_words(record, "breakaway_risk")
    for encoder in record["encoders"]:
        encoder["measures"]["breakaway_risk"]["in_words"] |= {"is_number": True, "definition": "Half means a half."}
    text = printed(record)
    assert "Half of the images hold" not in text
    assert text.count("Half means a half.") == 1
    record["encoders"][0]["measures"]["breakaway_risk"]["scores"]["50 steps"] |= {
        "standing": "at least", "because": ["masking"],
    }  # fmt: skip
    assert f"{SHORT[0]}: Half of the images hold. This is only a limit" in printed(record)


def test_best_is_marked_only_where_the_comparison_says_so(record):
    marked = [row for row in printed(record).splitlines() if "*" in row and SHORT[2] in row]
    assert marked
    record["comparison"]["breakaway_risk"]["best"] = NAMES[0]
    assert line(printed(record), SHORT[0], "*")
    for entry in record["comparison"].values():
        entry["best"] = None
    assert "*" not in printed(record)


def test_failures_undefined_and_checks_are_named(record):
    text = printed(record)
    assert "failed" in line(text, "Adversarial margin")
    assert "undefined" in text
    assert "1 failed: masking" in text
    assert "1 warning: steps enough" in text
    assert text.replace("\n", " ").count(NO_TARGETS) == 1  # the record's failure and the measure's error are one
    assert "scans/bad.jpg" in text


def test_a_number_that_a_check_warns_of_is_marked(record):
    assert "!" not in printed(record)
    scores = record["encoders"][1]["measures"]["breakaway_risk"]["scores"]
    scores["50 steps"]["checks"] = [
        key for key, check in record["encoders"][1]["checks"].items() if check["status"] == "warn"
    ]
    text = printed(record)
    assert any("] !" in row for row in text.splitlines() if row.strip().startswith(SHORT[1]))
    assert "! one of the warnings below the name concerns this number." in text


def test_an_encoder_that_could_not_be_audited_is_named(record):
    record["encoders"][1] = {"name": "timm:nothing", "slug": "timm-nothing", "error": "no such model", "measures": {}}
    text = printed(record)
    assert "timm:nothing could not be audited: no such model" in text
    assert text.count("timm:nothing") == 1


def test_only_failures_still_print(record):
    for encoder in record["encoders"]:
        encoder.update(error="out of memory", measures={}, checks={})
    record["comparison"] = {}
    assert printed(record).count("out of memory") == 3


def test_long_names_are_folded_not_cut(record):
    for encoder in record["encoders"]:
        encoder["name"] = "file:" + "folder/" * 12 + encoder["name"][-3:]
    text = printed(record)
    assert "…" not in text


def test_words_of_a_first_column_stay_whole() -> None:
    rows = [["Nearest-neighbour accuracy", *["12.34 % [10.00, 15.00]"] * 3], ["x" * 40, "", "", ""]]
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(Table(("measure", "before", "after", "difference"), rows).terminal())
    text = console.export_text()
    assert "Nearest-neighbour" in text
    assert "x" * 40 not in text  # what is longer than any word is still folded
    assert max(map(len, text.splitlines())) <= 60


def test_many_encoders_and_narrow_terminals_stack(tmp_path):
    text = printed(make_run(tmp_path, 20), width=80)
    assert max(len(row) for row in text.splitlines()) <= 80
    assert text.count("run-19") >= 4  # the answer, two tables, the other measures
    assert "…" not in text


def test_colours_only_in_a_terminal(record):
    assert "\x1b[" not in printed(record)
    assert "\x1b[1;31m" in printed(record, colour=True)  # failures in bold red


def test_markup_in_names_is_text(record):
    record["encoders"][0]["name"] = "[bold red]x[/nothing]"
    assert "[bold red]x[/nothing]" in printed(record, width=200)


def test_the_path_of_the_report_is_not_broken(record):
    path = Path("/a/rather/long/folder/name/for/a/narrow/terminal/window/report.html")
    assert f"Report: {path}\n" in printed(record, width=40, report=path)
