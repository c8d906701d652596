"""Sources, a threat, an attack, an observation and a measure of one's own, in one file, appear everywhere."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from test_command_line import status_of

import registered
from holdfast.core import registry
from holdfast.runtime.errors import Failed

OWN = tuple(Path(__file__).parents[1] / name for name in ("own_parts.py", "my_parts.py"))
PLAN = """
encoders = ["averages:4", "averages:2"]
data = "stripes:40?side=8"
profile = "quick"
images = 24
attacked = 8
"""
MEASURES = (
    "norm_loss[threat=dimmed[loss=0.25]]",
    "universal_quantile[attack=random_search[steps=3]]",
    "universal_quantile[objective=longer,attack=apgd,steps=2]",
    "turned[steps=2]",
    "turned[attack=my_attack[steps=2],ball=my_ball[radius=51/255]]",
)


@pytest.fixture(scope="module")
def audit(tmp_path_factory) -> Path:
    """A run folder, made by a worker process."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "plan.toml").write_text(PLAN)
    words = ["--out", "run", "--engine", "processes", "--workers", "1", *(f"--measure={text}" for text in MEASURES)]
    holdfast("audit", "plan.toml", *words, at=folder)
    return folder


def holdfast(*arguments: str, at: Path, own: tuple[Path, ...] = OWN, status: int = 0, before: bool = False) -> str:
    """Run the command line as a new process would, which knows no parts of one's own yet."""
    parts, printed = [word for path in own for word in ("--parts", str(path))], io.StringIO()
    words = [*parts, *arguments] if before else [*arguments, *parts]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.chdir(at)
        patch.setenv(registry.OWN, "")
        registered.forget()
        try:
            assert status_of(*words) == status, printed.getvalue()
        finally:
            registered.forget()
    return printed.getvalue()


def test_they_are_listed_and_shown(tmp_path: Path) -> None:
    listed = json.loads(holdfast("list", "--json", at=tmp_path))
    assert "averages:4" in listed["encoders"]["averages:"]
    assert listed["data"]["stripes:"] == "stripes that stand or lie: stripes:40?side=8 draws 40 of them"
    assert {"dimmed", "random_search", "norms", "norm_loss"} <= {name for kind in listed.values() for name in kind}
    for before in (True, False):
        assert "How much of its length" in holdfast("show", "norm_loss", at=tmp_path, before=before)


def test_files_before_and_after_the_command_count_both(tmp_path: Path) -> None:
    (tmp_path / "balls.py").write_text(
        "from dataclasses import dataclass\n"
        "from holdfast.core import registry\n"
        "@registry.register('threats')\n"
        "@dataclass(frozen=True)\n"
        "class Smaller(registry.find('threats', 'linf')):\n"
        "    'A ball.'\n"
    )
    listed = holdfast("--parts", "balls.py", "list", "threats", at=tmp_path)
    assert "smaller" in listed
    assert "dimmed" in listed


def test_workers_know_them_and_the_record_names_their_file(audit: Path) -> None:
    record = json.loads((audit / "run" / "record.json").read_text())
    for row in record["encoders"]:
        mean = row["measures"]["norm_loss"]["scores"]["mean"]
        assert 0 < mean["low"] < mean["value"] < mean["high"] < 1
        assert row["measures"]["universal_quantile[attack=random_search]"]["scores"]
    assert list(record["holdfast"]["parts"]) == ["own_parts.py", "my_parts.py"]
    assert record["data"]["spec"] == "stripes:40?side=8"
    assert record["comparison"]["norm_loss"]["pairs"]


def test_report_and_check_need_no_code(audit: Path) -> None:
    assert "norm loss" in holdfast("report", "run", at=audit, own=()).lower()
    assert "norm loss" in (audit / "run" / "report.html").read_text().lower()
    holdfast("check", "run", "--require", "norm_loss > 99 %", at=audit, own=(), status=1)


def test_compare_pairs_images_with_their_code(audit: Path) -> None:
    assert "norm_loss" in holdfast("compare", "run", "--json", at=audit)
    assert "holdfast --parts own_parts.py --parts my_parts.py compare" in holdfast(
        "compare", "run", at=audit, own=(), status=2
    )


@pytest.mark.slow
def test_parts_of_a_short_file_go_wherever_a_measure_names_them(audit: Path) -> None:
    """A function and a loss, an attack, an objective and a threat: on the command line, in workers, compare, check."""
    measures = json.loads((audit / "run" / "record.json").read_text())["encoders"][0]["measures"]
    usual, own = "turned[attack=apgd]", "turned[attack=my_attack]"
    assert {usual, own} < measures.keys()
    assert measures[own]["part"]["ball"] == {"kind": "threats", "name": "my_ball", "radius": 0.2}
    assert measures[usual]["part"]["objective"]["name"] == "spread"
    for name in (usual, own, "turned[attack=apgd,steps=2]"):
        (compared,) = json.loads(holdfast("compare", "run", "--json", "--measure", name, at=audit))["measures"].values()
        assert compared["part"]["name"] == "turned"
        assert compared["pairs"] or name == own  # whose attack is too weak to say more than "at least"
    holdfast("check", "run", "--require", f"{usual} > 2", at=audit, status=1)
    assert "How far does a representation turn?" in holdfast("list", "measures", at=audit)


def test_options_that_a_source_does_not_obey_are_refused(tmp_path: Path) -> None:
    said = holdfast("audit", "averages:4?layer=0", "--data", "digits", at=tmp_path, status=3)
    assert "this source takes label, got layer" in said
    assert "expected averages:SIDE" in holdfast("audit", "averages:x", "--data", "digits", at=tmp_path, status=3)


def test_a_file_that_failed_is_refused_again(tmp_path: Path, own_parts_forgotten: None) -> None:
    (tmp_path / "bad.py").write_text("raise ValueError('no')")
    for _ in range(2):
        with pytest.raises(Failed, match="ValueError"):
            registry.load(tmp_path / "bad.py")
    assert "bad.py" not in registry.files()


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    for text in ("import nowhere\n", "x = 1\n", "raise ValueError\n"):
        (tmp_path / "bad.py").write_text(text)
        printed = holdfast("list", at=tmp_path, own=(tmp_path / "bad.py",), status=2)
        assert len(printed.strip().splitlines()) == 1
        assert "bad.py" in printed
