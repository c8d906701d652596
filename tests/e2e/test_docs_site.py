"""The site of docs/: it builds without a warning, loads nothing, explains every measure, and its own parts work."""

import importlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from holdfast.core import registry
from holdfast.report.documents.reproduction import document
from holdfast.report.render import to_markdown
from json_records import typed_reproduction

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is an extra: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_strictly_and_knows_every_measure(site: Path) -> None:
    everything = "".join(path.read_text(encoding="utf-8") for path in (site / "measures").glob("*.html"))
    for name in registry.names("measures"):
        assert registry.find("measures", name).question.split("?")[0].split("'")[0] in everything, name


@pytest.mark.slow
def test_the_site_loads_nothing(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]+src=\"(https?:[^\"]+)", text)
        loaded += re.findall(r"<link[^>]+rel=\"(?:stylesheet|preload|preconnect)\"[^>]+href=\"(https?:[^\"]+)", text)
        assert loaded == [], path.relative_to(site)


@pytest.mark.slow
def test_no_request_for_what_the_code_knows_is_left(site: Path) -> None:
    for path in site.rglob("*.html"):
        left = re.findall(
            r"<!-- (?:facts|measures|profiles|verdicts|commands|parts|gallery)\b", path.read_text("utf-8")
        )
        assert left == [], path.relative_to(site)


def test_every_measure_is_explained_on_one_page() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (DOCS / "measures").glob("*.md")]
    told = [name for page in pages for name in re.findall(r"^<!-- facts: (?!end)(\w+) -->$", page, re.MULTILINE)]
    assert sorted(told) == sorted(registry.names("measures"))
    for page in pages:
        for name, rest in re.findall(r"^<!-- facts: (?!end)(\w+) -->$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL):
            for what in ("**What affects it.**", "**What it does not show.**"):
                assert what in rest, f"{name}: {what}"


def test_pictures_of_the_pages_exist_and_are_small() -> None:
    shown = {
        (path.parent / name).resolve()
        for path in DOCS.rglob("*.md")
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
    }
    readme = DOCS.parent / "README.md"
    shown |= {(readme.parent / name).resolve() for name in re.findall(r'src="([^"]+)"', readme.read_text("utf-8"))}
    assert shown
    for path in shown:
        assert path.is_file(), path.name
    drawn, gallery = {path.resolve() for path in (DOCS / "pictures").iterdir()}, {*(DOCS / "gallery").glob("*.png")}
    figures = {path.resolve() for path in (DOCS / "reproductions").glob("*.svg")}
    assert shown == drawn | gallery | figures
    assert max(path.stat().st_size for path in figures) < 60_000
    assert sum(path.stat().st_size for path in figures) < 1_200_000
    assert sum(path.stat().st_size for path in drawn) < 600_000
    reports = [path.stat().st_size for path in (DOCS / "gallery").glob("*.png")]
    assert max(reports) < 60_000
    assert sum(reports) < 320_000


def test_the_gallery_shows_every_report_of_its_table() -> None:
    page, folder = (DOCS / "gallery.md").read_text(encoding="utf-8"), DOCS / "gallery"
    text = (folder / "gallery.json").read_text(encoding="utf-8")
    table = json.loads(text)
    sections = re.findall(r"^## ([^\n]+)$(?:(?!^## ).)*?^<!-- gallery: (\S+) -->$", page, re.MULTILINE | re.DOTALL)
    assert sections == [(report["title"], name) for name, report in table.items()]
    assert {path.name for path in folder.iterdir()} == {"gallery.json", *(f"{name}.png" for name in table)}
    assert not re.search(r"(?:^|[\s'\":=])(?:[/~]|[A-Z]:)\w", text), "a place on somebody's machine"
    for name, report in table.items():
        written = generated().gallery(name)
        command = written.partition("```sh\n")[2].partition("```")[0]
        assert shlex.join(shlex.split(command.replace("\\\n", ""))) == report["command"]
        assert f"](gallery/{name}.png)" in written
        assert written.count("\n> ") == len(report["says"]) > 0
        with PIL.Image.open(folder / f"{name}.png") as picture:
            assert (picture.mode, picture.width) == ("P", 1280)


def test_the_gallery_is_what_its_script_makes(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    script = importlib.import_module("make_gallery")
    table = json.loads(script.TABLE.read_text(encoding="utf-8"))
    made = {name: (report["title"], report["command"]) for name, report in table.items()}
    assert made == {name: (exhibit.title, exhibit.typed) for name, exhibit in script.GALLERY.items()}


def block(page: str, language: str, containing: str) -> str:
    (found,) = [
        text
        for text in re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        if containing in text
    ]
    return found


@pytest.mark.slow
def test_the_parts_shown_join_through_entry_points_and_are_audited(tmp_path: Path) -> None:
    page = (DOCS / "extend.md").read_text(encoding="utf-8")
    package, points = tmp_path / "my_parts", tmp_path / "my_parts-1.dist-info"
    package.mkdir()
    points.mkdir()
    (package / "__init__.py").touch()
    (package / "random_search.py").write_text(block(page, "python", "class RandomSearch"), encoding="utf-8")
    (package / "relative_drift.py").write_text(block(page, "python", "class RelativeDrift"), encoding="utf-8")
    (package / "tiles.py").write_text(block(page, "python", "class Tiles"), encoding="utf-8")
    PIL.Image.effect_noise((90, 50), 80).save(tmp_path / "scan.png")
    told = block(page, "toml", "entry-points")
    declared = re.sub(r'\[project\.entry-points\."(.+)"\]', r"[\1]", told).replace('"', "")
    (points / "entry_points.txt").write_text(declared, encoding="utf-8")
    (points / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1\n", encoding="utf-8")
    (tmp_path / "plan.toml").write_text(block(page, "toml", "encoders ="), encoding="utf-8")

    def holdfast(*command: str) -> str:
        call = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
                "from holdfast.cli import main; main()", *command]  # fmt: skip
        run = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
        return " ".join(run.stdout.split())  # as wide as the terminal is

    assert "usual distance of two images" in holdfast("show", "relative_drift")
    assert "among `steps` images" in holdfast("show", "random_search")
    assert "Relative drift" in holdfast("audit", "plan.toml")
    assert "tiles: squares of one large picture, tiles:FILE?side=64" in holdfast("list", "data")
    seen = holdfast("show", "zoo:digits-simclr", "--data", "tiles:scan.png?side=8&channels=1")
    assert "5 of 66 images" in seen


def generated(name: str = "generated"):
    """A hook of the site, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_of_the_repository_hold_what_the_code_says(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    script = importlib.import_module("fill")
    old = [path.name for path, text in script.pages() if text != path.read_text(encoding="utf-8")]
    assert old == [], "type `make pages`, and commit what it writes"


def test_a_block_is_written_once_and_read_back(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    blocks = importlib.import_module("blocks")
    asked, page = (
        blocks.pattern("facts", "all"),
        "# A\n\n<!-- facts: one -->\n\ntext\n\n<!-- facts: two -->\n<!-- all -->\n",
    )

    def say(kind: str, of: str | None) -> str:
        return f"{kind} of {of}"

    filled = blocks.fill(asked, page, say)
    assert filled.count("facts of one\n\n<!-- facts: end -->\n\ntext") == filled.count("all of None") == 1
    assert blocks.fill(asked, filled, say) == filled
    assert blocks.fill(asked, filled, lambda kind, of: "new").count("new") == 3
    assert blocks.replace(asked, filled, say) == "# A\n\nfacts of one\n\ntext\n\nfacts of two\nall of None\n"
    assert blocks.fill(asked, page, say, but="facts").count("of") == 1


def test_what_was_measured_of_known_encoders_is_in_the_pages() -> None:
    """Every comment that asks for a table gets one, and every kind of images that was measured has its tables."""
    hook = generated("measured")
    page = (DOCS / "encoders.md").read_text(encoding="utf-8")
    made = hook.on_page_markdown(page)
    assert "<!--" not in made
    rows = hook.measured()["encoders"]
    assert len({(row["images"], row["name"]) for row in rows}) == len(rows) >= 20
    for row in rows:
        assert f"<!-- worst case: {row['images']} -->" in page
        assert made.count(f"| {row['name']} |") >= 2
    best = max((row for row in rows if row["images"] == "CIFAR-10"), key=lambda row: _radius(row))
    first = hook.worst_case("CIFAR-10").splitlines()[2]
    assert first.startswith(f"| {best['name']} | {255 * _radius(best):.0f} ")
    assert "| 0.77 " not in hook.told_by()  # its interval excludes 0: bold
    assert "**0.77 " in hook.told_by()
    with pytest.raises(ValueError, match="expected images of CIFAR-10, MNIST, digits, photos, got 'MINST'"):
        hook.worst_case("MINST")


def test_what_hardening_made_of_known_networks_is_in_the_pages() -> None:
    page = (DOCS / "hardening.md").read_text(encoding="utf-8")
    made = generated("measured").on_page_markdown(page)
    assert "<!--" not in made
    studies = json.loads((DOCS / "hardening.json").read_text(encoding="utf-8"))
    for study in studies:
        assert f"<!-- hardening: {study['network']} -->" in page
        assert all(f"| {row['way']} |" in made for row in study["rows"])
        by_way = {row["way"]: row["breaking_radius"] for row in study["rows"]}
        loops = [score["high"] for way, score in by_way.items() if way.startswith("FARE")]
        assert loops
        assert by_way["harden"]["low"] > max(loops)  # what the page says of the hand-written loop


def _radius(row: dict) -> float:
    return row["scores"]["Breaking radius (ball linf)"]["value"]


def test_claims_are_read_from_what_the_command_writes(tmp_path: Path) -> None:
    outcomes = ["holds", "fails", "not shown", "fails"]
    about = {
        "name": "a-table1",
        "paper": "A paper",
        "where": "Table 1",
        "title": "of | things",
        "profile": "small",
        "units": "",
        "notes": "",
    }
    common = {"why": "1 | 2", "network": "authors", "published": None}
    claims = [{"text": f"claim {i} | a < b", "outcome": o, **common} for i, o in enumerate(outcomes)]
    claims[1] |= {
        "network": "real",
        "published": {"number": 3, "as_claimed": 1, "ties": ["a"], "against": ["b | c"]},
    }
    where = {"python": "", "torch": "", "platform": "", "packages": {}}
    usual = {"holdfast": {"version": "0", "git": None}, "environment": where, "command": "", "seconds": 3.0}
    found = usual | {"reproduction": about, "columns": [], "rows": [], "inputs": {}, "failures": []}
    number = {"row": "a | b", "column": "c", "gap": 1.0, "low": -1.0, "high": 3.0, "agrees": True}
    found |= {"agreement": [number, number | {"low": 0.5, "agrees": False}]}
    page = tmp_path / "a-table1-small.md"
    page.write_text(to_markdown(document(typed_reproduction(found | {"claims": claims}))), encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert generated().agreement_of(text) == (1, 2)
    assert "a \\| b, c" in text
    assert "+1 \\[0.5, 3\\]" in text
    read = generated().claims_of(page)
    assert [claim.outcome for claim in read] == [outcomes[0], *outcomes[2:], outcomes[1]]  # the authors' own first
    assert read[0].text.startswith("claim 0")
    assert (read[0].network, read[0].published) == ("on the authors' own networks", "–")
    assert (read[-1].network, read[-1].published) == ("on other real networks", "1 of 3; against it: b \\| c; ties: a")


def test_every_claim_of_the_reproductions_is_counted() -> None:
    pages = [page for page in (DOCS / "reproductions").glob("*.md") if "-" in page.stem]
    told = generated().verdicts(pages)
    heads = [line for line in told.splitlines() if line.startswith("- **On ")]
    counted = sum(int(n) for line in heads for n in re.findall(r"\d+", line)[1:])
    assert heads[0].startswith("- **On the authors' own networks**")
    written = sum(len(re.findall(r"\*\*(?:holds|fails|not shown)\*\*", page.read_text("utf-8"))) for page in pages)
    assert counted == written
    assert all(f"({page.name})" in told for page in pages)


def test_a_page_of_an_earlier_recipe_says_so(tmp_path: Path) -> None:
    there = DOCS / "reproductions/rvcl-fig9-small.md"
    text = there.read_text(encoding="utf-8")
    assert r"\_" in text  # what Markdown escapes is no other recipe
    assert "by an earlier recipe" not in generated().verdicts([there])
    changed = tmp_path / there.name
    changed.write_text(text.replace("The figure is a plot", "The figure was a plot"), encoding="utf-8")
    assert "by an earlier recipe" in generated().verdicts([changed])


def test_what_code_says_stays_as_it_is_in_markdown() -> None:
    facts = generated().facts("breakaway_risk")
    assert "`breakaway_risk`, in shares, lower is more robust." in facts
    assert "| `attack` | `Apgd(steps=50, restarts=1)` | how" in facts
    assert "how the worst case is searched" in facts  # said by the class above it


def test_every_measure_has_its_formula(monkeypatch) -> None:
    hook = generated()
    assert set(hook._formulas()) == set(registry.names("measures"))
    for name in registry.names("measures"):
        assert "$$" in hook.facts(name)
    assert r"\operatorname{rank}(\hat{x})" in hook.facts("retrieval")
    formulas = {"retrieval": {**hook._formulas()["retrieval"], "says": "another formula"}}
    monkeypatch.setattr(hook, "_formulas", lambda: formulas)
    with pytest.raises(ValueError, match=r"formulas\.toml: expected what retrieval says"):
        hook.facts("retrieval")


TUTORIALS = sorted(page.stem for page in (DOCS / "tutorials").glob("*.md") if page.stem != "index")


@pytest.mark.parametrize("name", TUTORIALS)
@pytest.mark.slow
def test_a_tutorial_runs_and_shows_what_came_out(name: str) -> None:
    """The build of the site reads the same runs: see `notebooks.py`."""
    pytest.importorskip("nbclient", reason="nbclient is an extra: pip install '.[docs]'")
    hook = generated("notebooks")
    page = DOCS / f"tutorials/{name}.md"
    notebook = hook.executed(page)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code] == [cell.strip() for cell in hook.CELL.findall(page.read_text("utf-8"))]
    assert all(cell.execution_count for cell in code)
    shown, drawings = hook.as_markdown(notebook, name)
    assert shown.startswith("# ")
    assert all(f"]({drawing})" in shown for drawing in drawings)
    printed = [out["text"] for cell in code for out in cell.outputs if out.output_type == "stream"]
    tables = [out["data"]["text/html"] for cell in code for out in cell.outputs if "text/html" in out.get("data", {})]
    assert all(text.splitlines()[0] in shown for text in printed)
    assert all(table in shown for table in tables)
    assert tables
    assert f"tutorials/{name}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_tutorial_that_fails_or_warns_is_no_page(tmp_path: Path, monkeypatch) -> None:
    errors = pytest.importorskip("nbclient.exceptions", reason="nbclient is an extra: pip install '.[docs]'")
    hook = generated("notebooks")
    monkeypatch.setattr(hook, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(hook, "SETTING", "")
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\n1 / 0\n```\n")
    with pytest.raises(errors.CellExecutionError, match="ZeroDivisionError"):
        hook.executed(page)
    page.write_text("# A page\n\n```python\nimport warnings\nwarnings.warn('mind the gap')\n```\n")
    with pytest.raises(ValueError, match=r"page\.md: expected no warning, got .*mind the gap"):
        hook.executed(page)
    assert not (tmp_path / "kept").exists()
    page.write_text("# A page\n\n```python\nprint(6 * 7)\n```\n")
    assert "    42" in hook.as_markdown(hook.executed(page), "page")[0]
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_text(kept.read_text().replace("42", "43"))
    assert "    43" in hook.as_markdown(hook.executed(page), "page")[0]  # what was kept is not run again


def test_drawings_take_the_colours_of_the_page() -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is an extra: pip install '.[docs]'")
    look, style = generated("look"), (DOCS / "scripts/site.css").read_text(encoding="utf-8")
    for file in (*(DOCS / "pictures").glob("*.svg"), *(DOCS / "reproductions").glob("*.svg")):
        html = look.in_page(file.read_text(encoding="utf-8"), "what it shows")
        assert '<span class="drawing" role="img" aria-label="what it shows"><svg' in html
        assert not re.search(r"(?:fill|stroke): #", html)
        assert all(style.count(f"{ink}:") == 2 for ink in re.findall(r"var\((--\w+)\)", html))


def test_only_pages_with_formulas_load_what_sets_them() -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is an extra: pip install '.[docs]'")
    look, page = generated("look"), types.SimpleNamespace(url="measures/drift.html")
    assert look.on_post_page("<body>plain</body>", page=page) == "<body>plain</body>"
    html = look.on_post_page('<body><span class="arithmatex">\\(x\\)</span></body>', page=page)
    loaded = re.findall(r'(?:src|href)="\.\./([^"]+)"', html)
    assert len(loaded) == 3
    assert all((DOCS / file).is_file() for file in loaded)
    style = (DOCS / "scripts/katex/katex.min.css").read_text(encoding="utf-8")
    fonts = {path.name for path in (DOCS / "scripts/katex/fonts").iterdir()}
    assert set(re.findall(r"url\(fonts/([^)]+)\)", style)) == fonts


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("--headless", "--no-sandbox", "--disable-gpu"):
        options.add_argument(flag)
    with webdriver.Chrome(options=options, service=webdriver.chrome.service.Service(driver)) as opened:
        yield opened


@pytest.mark.slow
def test_the_search_works_from_a_folder(site: Path, browser: Any) -> None:
    browser.get(f"{(site / 'index.html').as_uri()}?q=breakaway")
    found = "return [...document.querySelectorAll('.md-search-result__link')].map((e) => e.href)"
    WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    links = WebDriverWait(browser, 60).until(lambda page: page.execute_script(found))
    assert any("measures/neighbours.html" in link for link in links)
    assert _loaded_elsewhere(browser) == []


@pytest.mark.slow
def test_formulas_are_set_and_nothing_is_clipped(site: Path, browser: Any) -> None:
    """Every page with a formula sets it; at both widths no page is wider than the window."""
    made_by_commands = {path.name for path in (site / "reproductions").glob("*-*.html")}
    pages = [path for path in site.rglob("*.html") if path.name not in made_by_commands]
    counted = "return ['.arithmatex', '.arithmatex > .katex, .arithmatex > .katex-display', '.katex-error']"
    counted += ".map((kind) => document.querySelectorAll(kind).length)"
    with_formulas = 0
    for width in (390, 1280):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for path in pages:
            browser.get(path.as_uri())
            there, made, wrong = browser.execute_script(counted)
            assert there == made, path.relative_to(site)
            assert wrong == 0, path.relative_to(site)
            with_formulas += there > 0
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, f"{path.relative_to(site)} is {wide} wide"
            assert _loaded_elsewhere(browser) == []
    assert with_formulas >= 2 * len(list((site / "measures").glob("*.html"))) - 2


def _loaded_elsewhere(browser: Any) -> list[str]:
    asked = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    return [one for one in asked if not one.startswith(("file:", "data:"))]
