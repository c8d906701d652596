"""Every benchmark runs at a tiny size and gives finite numbers; what is predicted and not timed must hold."""

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks import (
    asked,
    attack_step,
    breaking_radius,
    certificate_growth,
    certified_radius,
    constants,
    dimensions,
    images,
    index,
    mutants,
    onnx_step,
    scale,
    sharing,
    whole_audit,
    workers,
)
from benchmarks import result as results
from benchmarks.__main__ import QUICK, SLOW, chosen
from benchmarks.curve import Curve, draw, fresh
from benchmarks.result import Result

linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")


def finite(found: list[Result]) -> dict[str, Result]:
    assert found
    assert all(math.isfinite(result.value) for result in found)
    assert len({result.name for result in found}) == len(found), "two results of one name"
    return {result.name: result for result in found}


def test_the_exponent_of_a_power_is_its_power():
    sizes = (10, 100, 1000)
    assert Curve("c", "n", "s", sizes, (3e1, 3e2, 3e3)).exponent() == pytest.approx(1)
    assert Curve("c", "n", "s", sizes, (1e2, 1e4, 1e6)).exponent() == pytest.approx(2)
    with pytest.raises(ValueError, match="above 0"):
        Curve("c", "n", "s", sizes, (0.0, 1.0, 2.0)).exponent()


def test_curves_are_drawn(tmp_path):
    (file,) = draw([Curve("time / D", "D", "s", (1, 10), (1.0, 2.0))], tmp_path / "out")
    assert file.name == "time_D.svg"
    assert "<svg" in file.read_text(encoding="utf-8")


def test_passes_are_those_that_were_predicted():
    counted, recorded, predicted = sharing.real_run(20, 4, checks=False)
    assert counted == recorded == predicted == sharing.by_hand(20, 4)
    paper = sharing.plan_of(10_000, 1000, checks=False)
    assert paper.predict(10_000) == sharing.by_hand(10_000, 1000)
    assert sharing.alone(paper.measures, 10_000, 1000).total > 2 * paper.predict(10_000).total


def test_a_whole_audit_is_timed_beside_its_parts():
    found = finite(whole_audit.measure(20, 4, most=3))
    assert found["whole audit, the same in passes"].value < 1


@pytest.fixture
def here(monkeypatch):
    """Measure in this process: starting others takes longer than everything that is measured."""
    for module in (images, index, dimensions):
        monkeypatch.setattr(module, "fresh", lambda call, *arguments: call(*arguments))


def test_a_fresh_process_answers():
    assert fresh(divmod, 7, 2) == (3, 1)


@linux
@pytest.mark.usefixtures("here")
def test_an_index_is_opened_without_its_images():
    found = finite(index.measure((500, 2000), 50))
    assert found["index of 2,000, images read on opening"].value == 0
    assert found["index of 2,000, read beyond the 50 chosen"].value == 0


@linux
@pytest.mark.usefixtures("here")
@pytest.mark.slow
def test_an_audit_grows_with_its_images():
    found = finite(images.measure((20, 40)))
    assert found["images, exponent of time"].curve is not None
    alone = found["images, all pairs alone"].curve
    assert alone is not None
    assert alone.sizes == (20, 40)


@linux
@pytest.mark.usefixtures("here")
@pytest.mark.slow
def test_an_audit_of_a_free_encoder_grows_with_its_images():
    found = finite(scale.measure((20, 40)))
    assert found["scale, exponent of time"].curve is not None
    assert found["scale, memory beyond representations"].unit == "MiB"


@linux
@pytest.mark.usefixtures("here")
def test_widths_are_measured():
    assert len(finite(dimensions.measure((4, 16), rows=40, rounds=1))) == len(dimensions.CASES)


def test_growth_of_certificates_is_measured():
    sizes = dict.fromkeys(certificate_growth.SIZES, (1, 2))
    assert len(finite(certificate_growth.measure(sizes, rounds=1, tolerance=0.05))) == len(sizes) + 1


def test_constants_are_measured():
    found = finite(constants.measure(("zoo:cnn_b_cifar",), batch=2, rows=50, rounds=1))
    assert found["a stored representation"].value == pytest.approx(4 * 768, rel=0.1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.fx and the exporter
def test_a_step_through_a_file_is_measured():
    found = finite(onnx_step.measure(rounds=1, batch=1, size=32))
    assert all(float(result.note.split()[-1]) < 1e-4 for result in found.values())  # the same network


@pytest.mark.filterwarnings("ignore:Please import `gaussian_filter`:DeprecationWarning")  # foolbox
def test_smallest_changes_are_searched_at_equal_passes(monkeypatch, tmp_path):
    monkeypatch.setattr(breaking_radius, "POPULATION", 40)
    monkeypatch.setattr(breaking_radius, "ATTACKED", 3)
    searches = [name for name in breaking_radius.SEARCHES if name != "Brendel-Bethge"]  # numba compiles for a minute
    saved = tmp_path / "rows.json"
    rows = breaking_radius.search([breaking_radius.DIGITS], [20], searches, saved)
    ours = [row for row in rows if row.search == "Holdfast"]
    assert [row.norm for row in ours] == ["linf", "l2"]
    assert all(row.unbroken == 0 and 0 < row.median < math.inf for row in ours)
    assert all(row.passes <= 20 for row in rows)
    assert all(row.why for row in rows if not row.radii)  # without foolbox
    # what was saved is what was found, and the table and the picture show it
    assert breaking_radius.read([saved]) == rows
    assert breaking_radius.read([saved, saved]) == rows
    assert f"{ours[0].median:.4g}" in breaking_radius.markdown(rows)
    breaking_radius.draw(rows, tmp_path / "chart.svg")
    assert "Holdfast" in (tmp_path / "chart.svg").read_text(encoding="utf-8")


def test_radii_are_compared_with_the_best_of_each_image():
    def row(search, *radii):
        return breaking_radius.Row("e", "l2", 100, search, radii, 100.0, "" if radii else "?")

    rows = [
        row("a", 1.0, None, None),
        row("b", math.e, 2.0, None),
        breaking_radius.Row("e", "l2", 100, "c", (), 0, "?"),
    ]
    best = breaking_radius.best(rows, "e", "l2")
    assert best == [1.0, 2.0, math.inf]
    assert rows[0].log_ratio(best) == pytest.approx(breaking_radius.CAP / 3)
    assert rows[1].log_ratio(best) == pytest.approx(1 / 3)
    assert (rows[0].median, rows[0].unbroken) == (math.inf, 2)


def test_breaking_radii_of_trained_encoders_want_their_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOLDFAST_SHARED", str(tmp_path))
    with pytest.raises(SystemExit, match="set the environment variable HOLDFAST_SHARED"):
        breaking_radius.search(["mnist_cnn_a_eps0"])
    with pytest.raises(SystemExit, match="got nosuch"):
        breaking_radius.search(["nosuch"])
    assert breaking_radius.measure() == []


@pytest.mark.slow
def test_smallest_changes_of_a_trained_encoder(shared, monkeypatch):
    monkeypatch.setenv("HOLDFAST_SHARED", str(shared))
    monkeypatch.setattr(breaking_radius, "ATTACKED", 2)
    rows = breaking_radius.search(["mnist_cnn_a_eps0"], [20], ["Holdfast"])
    assert all(row.unbroken == 0 for row in rows)


@pytest.mark.slow  # starts six processes
def test_workers_give_one_record(monkeypatch):
    monkeypatch.setattr(workers, "PAUSE", 0.0)
    finite(workers.measure((1, 2), images=32))


@pytest.mark.slow
def test_attack_steps_and_radii_are_measured(monkeypatch):
    monkeypatch.setattr(attack_step, "BATCH", 2)
    monkeypatch.setattr(attack_step, "PEERS", {})
    finite(attack_step.measure(steps=3, queries=3))
    monkeypatch.setattr(certified_radius, "IMAGES", 1)
    monkeypatch.setattr(certified_radius, "TOLERANCE", 0.05)
    monkeypatch.setattr(certified_radius, "ENCODERS", {"mnist_base": certified_radius.ENCODERS["mnist_base"]})
    monkeypatch.setattr(certified_radius, "ALPHA", ())
    finite(certified_radius.measure())


def test_names_are_chosen():
    assert chosen(None, slow=False) == QUICK
    assert chosen(None, slow=True) == (*QUICK, *SLOW)
    assert chosen("knn,sharing", slow=True) == ("knn", "sharing")
    with pytest.raises(SystemExit, match="got nkn"):
        chosen("nkn", slow=False)
    folder = Path(asked.__file__).parent
    assert all((folder / f"{name}.py").exists() for name in (*QUICK, *SLOW))


def test_what_was_asked_is_answered_by_the_worst_of_this_run(tmp_path):
    found = [
        Result("images, exponent of time", 0.9, None, "", 1.05),
        Result("images, less fixed costs", 1.2, None, "", 1.05),
        Result("gaussian_blur", 0.05, None, "x", 0.1),
        Result("gaussian_blur_in_numpy", 9.0, None, "x", None),
    ]
    file = tmp_path / "results.json"
    file.write_text(results.as_json(found), encoding="utf-8")
    assert asked.read(file) == found
    answers = {row[0]: row[2:4] for row in asked.rows(asked.read(file))}
    assert answers["exponent of time over images"] == ("1.2", "**not met**")
    assert answers["corruption / published code, gaussian_blur"] == ("0.05 x", "met")
    assert answers["learning step / bare passes"][0].endswith("not repeated)")
    assert answers["2 workers / 1"] == ("(not measured)", "")
    assert asked.markdown(found).count("\n") == len(asked.ASKED) + 1
    assert json.loads(file.read_text(encoding="utf-8"))[1]["met"] is False


def test_every_mutant_changes_one_place_and_names_tests_that_are_there():
    assert [problem for mutant in mutants.mutants() if (problem := mutant.problem())] == []


def test_a_mutant_is_planted_in_a_copy(tmp_path):
    mutant = mutants.mutants("PGD does not project")[0]
    planted = (mutant.planted(tmp_path) / Path(mutant.file).relative_to("src")).read_text(encoding="utf-8")
    assert mutant.new in planted
    assert mutant.old not in planted
    assert not mutant.problem()
