"""What reaches a terminal: text that others wrote is shown, and does nothing."""

import io
import re

import pytest
from rich.table import Table
from rich.text import Text

from holdfast.report.render import to_text
from holdfast.runtime.screen import Screen, plain

HOSTILE = ["\x1b]0;title\x07", "\x1b[2J\x1b[31m", "\x9b31m", "a\rb", "\x08" * 5, "\u202egnp.exe", "\udc80", "\x7f"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_control_characters_are_shown_and_not_sent(text: str) -> None:
    shown = io.StringIO()
    screen = Screen(file=shown, width=60)
    table = Table(text, title=text)
    table.add_row(text)
    table.add_row(Text(text, "bold"))
    for one in (text, Text(text), table):
        screen.print(one)
    screen.print(text, soft_wrap=True, highlight=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", shown.getvalue())
    assert plain(text) != text
    assert len(plain(text)) == len(text)


def test_markup_of_others_is_text() -> None:
    shown = io.StringIO()
    screen = Screen(file=shown, width=60, force_terminal=True)
    table = Table()
    table.add_row("[bold]x[/]")
    screen.print(table)
    screen.print("[/closing] :smile:", highlight=False)
    assert "[bold]x[/]" in shown.getvalue()
    assert "[/closing] :smile:" in shown.getvalue()


def test_lines_tabs_and_writing_stay() -> None:
    assert plain("a\n\tb ε ü 漢 🙂") == "a\n\tb ε ü 漢 🙂"


def test_text_of_a_result_has_no_colours_in_a_kernel_of_jupyter(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm-color", "CLICOLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert to_text([Text.assemble(("worse", "bold red"), " [1, 2]")]) == "worse [1, 2]"
