"""What the documents show is true: their code runs, their commands are known, and their links lead somewhere.

Every block of Python runs, page by page and in order, in a folder of its own. What a reader has already and a test has
not is made in a comment before the block, `<!-- run before` to `-->`. A block after `<!-- not run: REASON -->` is only
compiled.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples/README.md", *ROOT.glob("docs/**/*.md")]
    if page.parent.name != "reproductions"  # made by commands
)
BLOCK = re.compile(
    r"(?:<!-- run before\n(?P<before>.*?)-->\s*)?(?P<skip><!-- not run: [^>]+ -->\s*)?"
    r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
SIGNATURE = re.compile(r"^<!-- function: .*?^<!-- function: end -->$", re.DOTALL | re.MULTILINE)
"""How a function is called, as its page has it: no code."""

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[re.Match[str]]:
    return BLOCK.finditer(SIGNATURE.sub("", page.read_text(encoding="utf-8")))


def commands() -> list[tuple[str, str]]:
    """Return every line of every page that begins with the command, in a block or indented, but for how it is used."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        found += [
            (named(page), line)
            for line in re.findall(r"^(?:    )?(?:\$ )?(holdfast [^\n]+)", text, re.MULTILINE)
            if not line.endswith(" [options]")
        ]
    return found


WITH_PYTHON = [
    page
    for page in PAGES
    if page.parent.name != "tutorials"  # notebooks, which test_docs_site.py runs
    and any(block["language"] == "python" for block in blocks(page))
]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("page", WITH_PYTHON, ids=named)
@pytest.mark.usefixtures("own_parts_forgotten")
def test_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block["language"] != "python":
            continue
        code = compile(block["code"], f"{named(page)}: {block['code'].splitlines()[0]}", "exec")
        if block["before"]:
            exec(block["before"], names)
        if not block["skip"]:
            exec(code, names)


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_are_known(page, line):
    group: Any = typer.main.get_command(app)
    words = shlex.split(line, comments=True)[1:]
    words = words[: words.index("&&")] if "&&" in words else words
    with group.make_context("holdfast", words) as context:
        if rest := [*context._protected_args, *context.args]:
            name, command, rest = group.resolve_command(context, rest)
            command.make_context(name, rest, parent=context).close()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    lost = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert lost == []
