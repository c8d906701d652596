"""The README: short enough to be read, its examples run as written. Its Python is run with that of the pages."""

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^holdfast .+$", TEXT, re.MULTILINE)]


def rendered_height(text: str) -> int:
    """Return about how many pixels high GitHub shows Markdown, in a window that is 1280 wide."""
    height = 0
    for block in re.findall(r"^```[^`]*^```$|^(?:(?!```).+\n?)+", text, re.MULTILINE):
        if block.startswith("```"):
            height += 20 * (block.count("\n") - 1) + 48
        elif block.startswith("#"):
            height += 78
        elif picture := re.search(r'(docs/pictures/[^")]+)(?:" width="(\d+)")?', block):
            with Image.open(ROOT / picture[1]) as image:
                height += int(picture[2] or 830) * image.height // image.width + 16
        else:
            shown = re.sub(r"\]\([^)]*\)", "", block)
            height += 24 * -(-len(shown) // 108) + 16
    return height


def test_it_takes_less_than_two_screens() -> None:
    assert rendered_height(TEXT) < 1450
    assert "make demo" in TEXT
    assert "make test" in TEXT
    assert "half a grey level" in TEXT


def test_its_examples_need_nothing_that_a_reader_has_not() -> None:
    audits = [words for words in COMMANDS if words[0] == "audit"]
    assert len(audits) > 1
    for words in audits:
        place = words.index("--data")
        assert len(open_images(words[place + 1])) > 100
        for encoder in words[1:place]:
            open_encoder(encoder)


@pytest.mark.slow(minutes=3)
def test_its_commands_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parity, *audits, check = COMMANDS
    answer = CliRunner().invoke(app, parity)
    assert (parity[0], answer.exit_code) == ("parity", 1)
    assert "where pixels are brought to -1 to 1" in " ".join(answer.output.split())
    for words in audits:
        assert CliRunner().invoke(app, words).exit_code == 0, words
    answer = CliRunner().invoke(app, check)
    assert (check[0], answer.exit_code) == ("check", 1)
    assert "worse" in answer.output
