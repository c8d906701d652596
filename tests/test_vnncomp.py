"""The competition's benchmarks: tables are read, instances answered in processes of their own, results resumed."""

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks import vnncomp
from benchmarks.store import Machine, Run


@pytest.mark.slow
def test_an_instance_is_answered_once_and_held_against_what_is_published(tmp_path: Path) -> None:
    holdfast.export_vnnlib(
        "zoo:digits-simclr-adv", "digits", out=tmp_path, eps="1/2550", images=4, negatives=2, image=[1]
    )
    ((onnx, vnnlib, seconds),) = vnncomp.instances(tmp_path)
    assert seconds == 300
    (tmp_path / "theirs.csv").write_text(f"digits,./b/{onnx},./b/{vnnlib},1.5,SAT,4.25\n")
    words = [sys.executable, "-m", "benchmarks.vnncomp", str(tmp_path), "--out", str(tmp_path / "ours.csv")]
    words += ["--certifiers", "crown", "--published", str(tmp_path / "theirs.csv")]
    for _ in range(2):
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
        assert done.returncode == 1, "a proof contradicts what is published"
        assert "verified, published as falsified" in done.stderr
    (line,) = vnncomp.read_lines(tmp_path / "ours.csv")
    assert (line.onnx, line.vnnlib, line.result, line.by) == (onnx, vnnlib, "verified", "crown")


@pytest.mark.slow
def test_a_process_that_fails_or_is_late_is_no_answer(tmp_path: Path) -> None:
    assert vnncomp.run(tmp_path, "a.onnx", "a.vnnlib", "crown", 60, 1).result.startswith("failed: ")
    late = vnncomp.run(tmp_path, "a.onnx", "a.vnnlib", "crown", 0.05, 1)
    assert (late.result, late.seconds) == ("open", 0.05)
    with pytest.raises(SystemExit, match="got 0"):
        vnncomp.instances(tmp_path)


def test_solved_instances_are_counted_over_time() -> None:
    results = [("verified", 0.5), ("falsified", 2.0), ("open", 0.1), ("verified", 30.0), ("verified", 301.0)]
    assert vnncomp.solved(results) == [2, 3, 3, 3, 3]
    assert vnncomp.solved(results, ["verified"]) == [1, 2, 2, 2, 2]


def test_results_are_kept_by_network_beside_published_ones() -> None:
    lines = [
        vnncomp.Line("a/n.onnx", "a/1.vnnlib", "verified", 5.0, "crown"),
        vnncomp.Line("a/n.onnx", "a/2.vnnlib", "open", 300.0, ""),
        vnncomp.Line("a/m.onnx", "a/1.vnnlib", "verified", 50.0, "beta_crown"),
    ]
    ours, theirs, alone = vnncomp.as_results(lines, {("n", "1"): ("verified", 40.0)})
    assert (ours.value, ours.facts["of"], theirs.value, theirs.facts["of"]) == (1, 2, 1, 1)
    assert theirs.curve is not None
    assert theirs.curve.values == (0, 0, 1, 1, 1)
    assert alone.facts == {"network": "m", "verifier": "Holdfast", "of": 1}
    run = Run((ours, theirs, alone), "2026-11-25", "abc", 1.0, Machine())
    assert "| n | published | 0 | 0 | 1 | 1 | 1 | 1 |" in vnncomp.table(run)
