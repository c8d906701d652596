"""A document says the same in a terminal, as text, as Markdown and in a page, and nothing in it is read as markup."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from holdfast.cli.common import show_markdown
from holdfast.core import Score
from holdfast.report.document import Document, Heading, Items, ToCopy, Verbatim, list_items
from holdfast.report.documents import comparison
from holdfast.report.render import Shown, print_document, to_html, to_markdown, to_text
from holdfast.report.table import Table
from holdfast.storage.comparison import Behind
from json_records import compared_encoder, compared_measure, ranked_row, small_comparison

EVIL = "<b>`x` | [y](z) *a*\n- b"
"""Text that is markup in each medium."""

TABLE = Table(
    ["name", "value", "why"], [["first", Text("12 %", "bold"), "it | is"], ["second", "3", EVIL]], words=(0, 2)
)

WHOLE = [
    Heading("The title", level=1),
    Text.assemble(("Price: ", "bold"), "none, ", ("small", "code")),
    Heading("A part"),
    TABLE,
    *list_items(["one", "two"], "yellow"),
    *list_items([]),
    Items([Text("above"), Text("  below")]),
    ToCopy({"Again": "holdfast audit a --data b"}),
    Verbatim("  >>> f(```)\n  1"),
]


def printed(document, width: int = 80) -> str:
    out = io.StringIO()
    print_document(document, Console(file=out, width=width))
    return out.getvalue()


def test_markdown_has_headings_lists_tables_and_code() -> None:
    assert to_markdown(WHOLE) == "\n\n".join([
        "## The title",
        "**Price:** none, `small`",
        "### A part",
        "| name | value | why |\n| --- | ---: | --- |\n| first | **12 %** | it \\| is |\n"
        "| second | 3 | \\<b\\>\\`x\\` \\| \\[y\\](z) \\*a\\*, - b |",
        "- one\n- two",
        "- above\n  - below",
        "- Again: `holdfast audit a --data b`",
        "````\n  >>> f(```)\n  1\n````\n",
    ])  # fmt: skip


def test_the_terminal_shows_every_word_and_breaks_nothing_that_is_copied() -> None:
    place = "/a/path/" + 20 * "longer/"
    text = printed([*WHOLE, ToCopy({"Report": place}), Verbatim(f"  {place} a\n  b")], width=40)
    for words in (
        "The title",
        "Price: none, small",
        "A part",
        "first",
        "one",
        "two",
        "below",
        "holdfast audit a --data b",
    ):
        assert words in text
    assert f"Report: {place}\n  {place} a\n  b\n" in text


def test_a_page_has_no_markup_but_ours() -> None:
    blocks = [Heading(EVIL), Text(EVIL, "bold red"), Items([Text(EVIL)]), ToCopy({EVIL: EVIL}), TABLE, Verbatim(EVIL)]
    html = to_html(blocks)
    assert "<b>" not in html
    assert '<span class="bold red">&lt;b&gt;' in html
    assert html.count("<tr>") == 3
    assert set(re.findall(r"<(\w+)", html)) == {
        "br",
        "code",
        "div",
        "p",
        "pre",
        "span",
        "style",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
    }


def test_nothing_of_anybody_is_markdown() -> None:
    shown = to_markdown([Heading(EVIL), Text(EVIL), Items([Text(EVIL)]), ToCopy({"a": "x`` `y"})])
    assert shown.splitlines()[::2] == [
        "### \\<b\\>\\`x\\` \\| \\[y\\](z) \\*a\\* - b",
        "\\<b\\>\\`x\\` \\| \\[y\\](z) \\*a\\* - b",
        "- \\<b\\>\\`x\\` \\| \\[y\\](z) \\*a\\* - b",
        "- a: ``` x`` `y ```",
    ]


TOKEN, KEY = "hf_abcdefghijklmnop_rstuv", "api_key=s_ecret*1"
"""Credentials with letters that Markdown escapes."""

WITH_SECRETS = [
    Heading(f"of {TOKEN}"),
    Text.assemble(("bold ", "bold"), (TOKEN, "code"), f" and s3://b?{KEY}"),
    Text.assemble("hf_abcdefghij", ("klmnop_rstuv", "bold")),
    Items([Text(f"failed: {TOKEN}")]),
    Table([TOKEN, KEY], [[TOKEN, Text(KEY, "bold")]], TOKEN),
    ToCopy({TOKEN: f"holdfast audit x?{KEY}"}),
    Verbatim(f"audit x?{KEY}\n{TOKEN}"),
]


@pytest.mark.parametrize("render", [to_markdown, to_html, to_text])
def test_no_medium_says_a_credential(render: Callable[[Document], str]) -> None:
    shown = render(WITH_SECRETS).replace("\\", "")
    for secret in ("abcdefghij", "klmnop", "rstuv", "ecret"):
        assert secret not in shown
    assert shown.count("***") >= 11 - (render is to_text)  # the title of a table is folded in a terminal


def test_what_is_written_into_a_run_folder_names_no_place(tmp_path: Path) -> None:
    show_markdown({}, True, list_items([f"cannot open /home/alice_b/x_y.npz with {TOKEN}"]), tmp_path / "said.md")
    assert (tmp_path / "said.md").read_text(encoding="utf-8") == "- cannot open …/x\\_y.npz with \\*\\*\\*\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("- b", "\\- b"),
        ("1. b", "1\\. b"),
        ("---", "\\---"),
        ("= =", "\\= ="),
        ("-1.5 of", "-1.5 of"),
        ("3.5 %", "3.5 %"),
    ],
)
def test_a_sentence_begins_no_list(text: str, written: str) -> None:
    assert to_markdown([Text(text)]) == f"{written}\n"


def test_what_does_not_fit_a_terminal_has_another_form_there_alone() -> None:
    table = Table(["a"], [["wide"]], narrow=[Text("narrow")], wide=50)
    assert "wide" in printed([table], width=50)
    assert printed([table], width=49) == "narrow\n"
    assert "wide" in to_markdown([table])
    assert "wide" in to_html([table])


def test_rows_that_name_themselves_need_no_head() -> None:
    table = Table(["", ""], [[Text("first", "bold"), "its words"]], words=(0, 1))
    assert printed([table, Text("after")]) == "first  its words\n\nafter\n"
    assert to_markdown([table]) == "|  |  |\n| --- | --- |\n| **first** | its words |\n"
    assert "<thead>" not in to_html([table])


def test_what_is_shown_prints_and_draws_itself(monkeypatch) -> None:
    class Result(Shown):
        def _document(self):
            return WHOLE

    monkeypatch.setenv("FORCE_COLOR", "1")  # as a Jupyter kernel does
    assert str(Result()) == repr(Result()) == to_text(WHOLE)
    assert "\x1b" not in str(Result())
    assert Result()._repr_html_() == to_html(WHOLE)


def test_a_comparison_shows_every_number_whatever_the_width() -> None:
    difference = Score(-0.07, -0.09, -0.05, n=40, interval="MOVER")
    behind = Behind(difference=difference, p=0.001, p_adjusted=0.002)
    rows = [
        ranked_row("good", Score(0.12, 0.1, 0.14, n=40, interval="x"), rank=(1, 1), best=True),
        ranked_row("a longer name than many", Score(0.19, 0.17, 0.21, n=40, interval="x"), rank=(2, 2), behind=behind),
        ranked_row("void", None, why_not="failed: no memory"),
    ]
    encoders = [compared_encoder(row.encoder) for row in rows]
    shown = comparison.document(small_comparison(encoders, {"m": compared_measure(rows)}))
    wide, narrow = printed(shown, width=120), printed(shown, width=60)
    assert "paired difference to the best" in wide
    assert "paired difference to the best" not in narrow
    for text in (wide, narrow):
        words = " ".join(text.split())
        for number in (
            "12.0 % [10.0, 14.0] *",
            "19.0 % [17.0, 21.0]",
            "−7.0 % [−9.0, −5.0]",
            "0.002",
            "void",
            "failed",
        ):
            assert number in words
