"""Every formula of the papers is the same number by the authors' code or by an independent computation."""

import ast
import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import benchmarks.same
import pytest
import torch
from benchmarks.same import __main__ as command
from benchmarks.same.comparison import ByHand, Comparison, Published, stored
from benchmarks.tables import read_table

from holdfast.core import HoldfastError

FOLDER = Path(benchmarks.same.__file__).parent
ALL = list(command.comparisons())
NAMES = [f"{paper}-{what.formula}-{type(what.theirs).__name__}" for paper, what in ALL]
LIGHTLY = importlib.util.find_spec("lightly") is not None


def cases() -> list:
    """A method of training imports, and branch and bound takes, as much time as all other comparisons together."""
    extra = [] if LIGHTLY else [pytest.mark.skip(reason="lightly is an extra: pip install '.[train]'")]
    marks = [
        [pytest.mark.slow, *extra] if "simclr" in what.part else [pytest.mark.slow] if "beta" in what.part else []
        for _, what in ALL
    ]
    return [pytest.param(what, id=name, marks=mark) for (_, what), name, mark in zip(ALL, NAMES, marks, strict=True)]


@pytest.mark.parametrize("what", cases())
def test_both_sides_are_the_same(what: Comparison) -> None:
    found = what.run()
    assert found.is_same, f"{found.largest:.3g} apart, at most {what.limit:g} is allowed"


def test_a_limit_is_no_wider_than_its_row_explains() -> None:
    """Beyond the rounding of float32 there must be a reason: a search's tolerance, or one that the row gives."""
    wide = [what for _, what in ALL if what.limit > 1e-5]
    assert all(";" in what.on or "bisection" in what.theirs.title for what in wide)


def test_the_page_has_every_comparison_as_it_is() -> None:
    for paper, rows in command.PAPERS.items():
        cells = [line.split(" | ") for line in read_table(command.PAGE, paper.lower()).splitlines()[2:]]
        said = [(first.removeprefix("| "), second) for first, second, *_ in cells]
        assert said == [command.row(command.Difference(what, 1, 0))[:2] for what in rows] != []
        for (*_, largest), what in zip(cells, rows, strict=True):
            assert float(largest.split()[0]) <= what.limit
    summary = read_table(command.PAGE, "summary")
    assert f"in {len(ALL)} comparisons" in summary
    assert summary.endswith("**Different: 0.**")


def test_what_the_authors_code_gave_is_all_read_and_all_there() -> None:
    there = {
        (repository, key if key != "scripts" else f"scripts/{part}")
        for repository, kept in stored().items()
        for key, value in kept["outputs"].items()
        for part in (value if key == "scripts" else [""])
    }
    read = {
        (what.theirs.repository, key)
        for _, what in ALL
        if isinstance(what.theirs, Published)
        for key in what.theirs.output.split("|")
    }
    assert read <= there
    unread = {key for _, key in there - read}
    assert all(key.startswith("scripts/") for key in unread)  # other columns of the same table
    assert all(len(kept["commit"]) == 40 for kept in stored().values())


def test_the_other_side_knows_nothing_of_holdfast() -> None:
    for path in [*FOLDER.glob("by_hand/*.py"), FOLDER / "inputs.py", FOLDER / "theirs.py"]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not any(name.startswith("holdfast") for name in names), path.name
        if path.parent.name == "by_hand":
            assert {name.partition(".")[0] for name in names} <= {"math", "numpy", "scipy", "typing"}, path.name


def made(ours: object, theirs: object, limit: float = 1e-6) -> Comparison:
    return Comparison("a formula", "`part`", ByHand(lambda: theirs, "by hand"), "numbers", limit, lambda: ours)  # type: ignore


def test_a_difference_is_seen() -> None:
    assert made([1.0, 2.0], [1.0, 2.0 + 1e-7]).run().is_same
    found = made(torch.tensor([1.0, 2.0]), [1.0, 2.1]).run()
    assert (found.is_same, found.count) == (False, 2)
    assert found.largest == pytest.approx(0.1 / 2.1)
    assert "**different**" in command.row(found)[-1]
    assert not made([1.0, math.nan], [1.0, 2.0]).run().is_same
    assert not made([1.0, 2.0], [1.0, math.nan]).run().is_same
    assert not made(1.0, math.inf).run().is_same
    assert made([0.0], [0.0], 0).run().is_same
    for ours, theirs in (([1.0], [1.0, 1.0]), ([], [])):
        with pytest.raises(HoldfastError) as error:
            made(ours, theirs).run()
        assert "as many numbers on both sides" in str(error.value)


def test_the_command_fails_where_something_differs(monkeypatch, capsys) -> None:
    same, other = made(1.0, 1.0), made(1.0, 2.0)
    for rows, status in (((same,), False), ((same, replace(other, formula="another")), True)):
        monkeypatch.setattr(command, "PAPERS", {"A paper": rows})
        monkeypatch.setattr("sys.argv", ["same"])
        with pytest.raises(SystemExit) as ended:
            command.main()
        assert ended.value.code is status
    assert "DIFFERENT" in capsys.readouterr().out


def test_an_image_that_steps_meet_the_edges_of_the_pixel_range_with() -> None:
    from benchmarks.same import inputs, rvcl

    x, moved = inputs.images(8), rvcl.attack(False)
    assert ((x == 0) | (x == 1)).any()
    assert ((moved - x).abs().amax() - inputs.RADIUS).abs() < 1e-6
    assert (moved >= 0).all()
    assert (moved <= 1).all()
