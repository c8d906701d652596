"""Every benchmark runs at a tiny size and gives finite numbers; what is predicted and not timed must hold."""

import doctest
import json
import math
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks import (
    attack_step,
    breaking_radius,
    certificate_growth,
    certified_radius,
    constants,
    dimensions,
    images,
    index,
    libraries,
    mutants,
    onnx_step,
    own_work,
    page,
    quick,
    running,
    scale,
    sharing,
    startup,
    store,
    summary,
    tables,
    targets,
    whole_audit,
    workers,
)
from benchmarks import result as results
from benchmarks.__main__ import HOURS, QUICK, SLOW, chosen
from benchmarks.curve import Curve, draw, fresh
from benchmarks.libraries.work import Work, compare
from benchmarks.paced import beside
from benchmarks.result import Result
from benchmarks.store import Run

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


@pytest.mark.slow
def test_a_whole_audit_is_timed_beside_its_parts():
    found = finite(whole_audit.table_5(20, 4, most=3))
    assert found["whole audit, the same in passes"].value < 1
    finite([whole_audit.of_profile("quick", 20, 4, rounds=1)])


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


@pytest.mark.slow
def test_growth_of_certificates_is_measured():
    sizes = dict.fromkeys(certificate_growth.SIZES, (1, 2))
    assert len(finite(certificate_growth.measure(sizes, rounds=1, tolerance=0.05))) == len(sizes) + 1


def test_constants_are_measured():
    found = finite(constants.measure(("zoo:cnn_b_cifar",), batch=2, rows=50, rounds=1))
    assert found["a stored representation"].value == pytest.approx(4 * 768, rel=0.1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.fx and the exporter
def test_a_step_through_a_file_is_measured():
    found = finite(onnx_step.measure(rounds=1, batch=1, size=32))
    assert all(float(result.note.split()[-1]) < 1e-4 for result in found.values())  # the same network


@pytest.mark.slow
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
    kept = stored(*breaking_radius.as_results(rows))
    assert f"{ours[0].median:.4g}" in breaking_radius.table(kept)
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
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch.compile
def test_attack_steps_and_radii_are_measured(monkeypatch):
    monkeypatch.setattr(attack_step, "BATCH", 2)
    monkeypatch.setattr(attack_step, "PEERS", {})
    monkeypatch.setattr(attack_step, "OWN_STEPS", 4)
    monkeypatch.setattr(attack_step, "SEARCHES", tuple(replace(search, steps=3) for search in attack_step.SEARCHES[:3]))
    finite(attack_step.measure(peer_steps=2))
    monkeypatch.setattr(certified_radius, "IMAGES", 1)
    monkeypatch.setattr(certified_radius, "TOLERANCE", 0.05)
    monkeypatch.setattr(certified_radius, "ENCODERS", {"mnist_base": certified_radius.ENCODERS["mnist_base"]})
    monkeypatch.setattr(certified_radius, "ALPHA", ())
    finite(certified_radius.measure())


@pytest.mark.slow
def test_starting_is_measured():
    found = finite(startup.measure(rounds=1, commands={"holdfast --help": 0.2}))
    assert all(result.value > 0 for result in found.values())
    assert found["first encoder pass of an audit, processor"].target == startup.FIRST


def test_names_are_chosen():
    assert chosen(None, slow=False) == QUICK
    assert chosen(None, slow=True) == (*QUICK, *SLOW)
    assert chosen("knn,sharing", slow=True) == ("knn", "sharing")
    with pytest.raises(SystemExit, match="got nkn"):
        chosen("nkn", slow=False)
    assert chosen(",".join(HOURS), slow=False) == HOURS
    assert all(find_spec(f"benchmarks.{name}") for name in (*QUICK, *SLOW, *HOURS))


def stored(*results: Result, commit: str = "new", date: str = "2026-11-25T12:00") -> Run:
    return Run(results, date, commit, 1.0, store.Machine("a processor", 2, 1, "2.13", 0.1))


def test_a_target_is_judged_by_the_worst_row():
    known = {
        "images": stored(
            Result("images, exponent of time", 0.9, None, "", 1.05),
            Result("images, less fixed costs", 1.2, None, "", 1.05),
        ),
        "common_corruptions": stored(
            results.from_rounds("gaussian_blur / published", [0.04, 0.05, 0.07], 0.1),
            Result("gaussian_blurred / published", 9.0, None, "x", None),
            commit="old",
            date="2026-11-02",
        ),
    }
    answers = {row[0]: row[2:6] for row in targets.rows(known)}
    assert answers["exponent of time over images"] == ("1.2", "", "**not met**", "")
    blur = ("0.05 x", "0.04 to 0.07", "met", "old, 2 November 2026")
    assert answers["corruption / published code, gaussian_blur"] == blur
    assert answers["2 workers / 1"] == ("not measured", "", "", "")
    assert targets.table(known).count("\n") == len(targets.TARGETS) + 1


def test_a_line_of_the_summary_is_the_range_of_its_rows_of_its_unit():
    rows = [Result("a, time", value, None, "x", None) for value in (2.0, 0.5, 1.0)]
    runs = {"one": stored(*rows, Result("a, distance", 9.0, None, "levels", None), Result("b", 7.0, None, "x", None))}
    assert summary.Line("a", "one", ("a",)).answer(runs) == "0.5 to 2 x"
    assert summary.Line("b", "one", ("b",)).answer(runs) == "7 x"
    assert summary.Line("b", "one", ("b",), "s").answer(runs) == "not measured"
    assert summary.Line("b", "two", ("b",)).answer(runs) == "not measured"


def test_what_is_stored_is_read_as_it_was_and_replaced_as_a_whole(tmp_path):
    curve = Curve("time", "n", "s", (1, 10), (0.5, 5.0))
    full = Result("a", math.inf, 1.0, "x", 2.0, "n", curve, highest=3.0, rounds=5, facts={"of": 3.0, "by": "us"})
    file, runs = tmp_path / "measured.json", {"one": stored(full, Result("b", 1.5, None, "s", None)), "two": stored()}
    store.save(runs, file)
    json.loads(file.read_text(encoding="utf-8"), parse_constant=pytest.fail)  # of infinity, which is no JSON
    assert store.load(file) == runs
    assert store.load(tmp_path / "nothing.json") == {}


def test_the_spread_of_many_rounds_is_their_quartiles():
    few, many = results.from_rounds("few", [3, 1, 2], None), results.from_rounds("many", [*range(99), 1e6], None)
    assert (few.lowest, few.value, few.highest, few.rounds) == (1, 2, 3, 3)
    assert many.highest == pytest.approx(74.75)


def test_tables_stand_between_their_markers_and_prose_stays(monkeypatch):
    monkeypatch.setitem(page.TABLES, "targets", lambda runs: f"{len(runs)} runs")
    text = "before\n\n<!-- targets: begin -->\n\nold\n\n<!-- targets: end -->\n\nafter\n"
    once = page.render(text, {"sharing": stored()})
    assert once == text.replace("old", "1 runs")
    assert page.render(once, {"sharing": stored()}) == once
    with pytest.raises(SystemExit, match="got a marker of 'nosuch'"):
        page.render(text.replace("targets", "nosuch"), {})


def test_the_page_shows_what_is_stored_and_every_table_has_a_place():
    names = []
    for file in page.PAGES:
        text = file.read_text(encoding="utf-8")
        assert page.render(text, store.load()) == text, "run python -m benchmarks.page"
        names += [marked["name"] for marked in page.MARKED.finditer(text)]
    assert sorted(names) == sorted(page.TABLES)


def test_figures_are_written_as_the_examples_say():
    assert doctest.testmod(tables).failed == 0
    assert doctest.testmod(tables).attempted == 2


def test_every_target_has_a_stored_row():
    runs = store.load()
    assert [row.what for row in targets.TARGETS if row.worst(runs) is None] == []
    assert [line.what for line in summary.LINES if line.answer(runs) == "not measured"] == []
    assert {*QUICK, *SLOW, *HOURS} - set(runs) == set()


def test_libraries_that_agree_are_told_with_time_and_distance():
    def spun(answer: float) -> float:
        ends = process_time() + 0.001
        while process_time() < ends:
            pass
        return answer

    work = Work("torch", "a sum", lambda: spun(1.0), lambda: spun(1.5), lambda a, b: abs(a - b), "difference", "", 0.1)
    ratio, apart = compare(work, 3)
    assert (apart.value, apart.met, ratio.rounds) == (0.5, False, 3)
    assert "| 0.5 | ≤ 0.1, **not met** |" in libraries.table(stored(ratio, apart))


def spinning(seconds: float) -> list[Result]:
    """A loop whose step costs 2 ms, so many seconds more than that, and a floor of 2 ms."""

    def spin(cost: float) -> None:
        ends = process_time() + cost
        while process_time() < ends:
            pass

    ratios, _ = beside(lambda: spin(0.002 + seconds), lambda: spin(0.002), 5)
    return [results.from_rounds("step", ratios, None)]


def test_a_planted_slowdown_is_named_and_noise_is_not():
    runs = {"loop": stored(results.from_rounds("step", [0.9, 1.0, 1.3], None))}

    def verdict(seconds: float) -> quick.Verdict:
        (one,) = quick.judge("loop", lambda: spinning(seconds), ["st*"], runs)
        return one

    assert verdict(0.003).fate == "slower"
    assert verdict(-0.0018).fate == "faster"
    assert verdict(0.0).fate == "as before"


def test_what_is_slow_once_is_measured_again():
    runs = {"loop": stored(results.from_rounds("a", [1.0, 1.1], None), results.from_rounds("b", [1.0, 1.1], None))}
    answers = iter([
        [results.from_rounds("a", [2.0, 2.1], None), results.from_rounds("b", [2.0, 2.1], None)],
        [results.from_rounds("a", [1.0, 1.2], None), results.from_rounds("b", [1.5, 1.6], None)],
        [results.from_rounds("a", [1.0, 1.2], None), results.from_rounds("b", [1.4, 1.5], None)],
    ])  # fmt: skip
    first, second = quick.judge("loop", lambda: next(answers), ["*"], runs)
    assert (first.name, first.fate) == ("a", "as before")
    assert (second.name, second.fate) == ("b", "slower")


@pytest.mark.parametrize(
    ("starts", "now", "fate"),
    [
        ([1.0, 1.01, 1.03], [1.15, 1.16, 1.13], "slower"),  # by 15 %
        ([1.0, 1.01, 1.2], [1.15], "as before"),  # processes differ by more
        ([1.0, 1.01, 1.03], [1.15, 1.0, 1.16], "as before"),  # one was as fast
        ([1.0, 1.01, 1.03], [1.09, 1.08, 1.09], "as before"),  # within the tolerance
        ([1.0, 1.01, 1.03], [1.04], "as before"),  # not measured again
        ([1.0, 1.01, 1.03], [0.8], "faster"),
    ],
)
def test_processes_are_compared_with_processes(starts, now, fate):
    row = replace(results.from_rounds("step", [0.999, 1.0, 1.001], None), facts={"starts": starts})
    answers = iter(now)
    short = lambda: [results.from_rounds("step", [next(answers)], None)]  # noqa: E731
    (verdict,) = quick.judge("loop", short, ["step"], {"loop": stored(row)})
    assert verdict.fate == fate
    assert not list(answers)


def test_what_short_versions_measure_is_stored_of_processes_of_their_own(monkeypatch):
    values = iter([1.0, 1.2, 1.1])
    row = results.from_rounds("step", [1.0, 1.1], None)
    short = SimpleNamespace(
        measure=lambda: [row, results.from_rounds("other", [1.0], None)],
        short=lambda: [results.from_rounds("step", [next(values)], None)],
    )
    monkeypatch.setitem(sys.modules, "benchmarks.loop", short)
    monkeypatch.setattr(running, "fresh", lambda call, *arguments: call(*arguments))
    step, other = running.run("loop").results
    assert step == replace(row, facts={"starts": [1.0, 1.2, 1.1]})
    assert not other.facts


@pytest.mark.parametrize(("passes", "fate"), [(99.0, "faster"), (100.0, "as before"), (101.0, "slower")])
def test_counts_have_no_tolerance(passes, fate):
    runs = {"loop": stored(Result("passes", 100.0, None, "passes", None))}
    (verdict,) = quick.judge("loop", lambda: [Result("passes", passes, None, "passes", None)], ["passes"], runs)
    assert verdict.fate == fate


def test_what_is_missing_is_said():
    rows = [Result(name, 1.0, None, "x", None) for name in ("a", "b", "not short")]
    now = [Result("a", 1.0, None, "x", None), Result("new", 1.0, None, "x", None), Result("t", 9.0, None, "s", None)]
    verdicts = quick.judge("loop", lambda: now, ["a", "b"], {"loop": stored(*rows)})
    assert {verdict.name: verdict.fate for verdict in verdicts} == {
        "a": "as before", "new": "not stored", "b": "not measured",
    }  # fmt: skip


def test_short_versions_measure_what_they_say():
    loaded = quick.shorts((*QUICK, *SLOW))
    assert {"own_work", "sharing", "knn", "sampling"} <= set(loaded)
    runs = store.load()
    for name, (_, rows) in loaded.items():
        known = [row.name for row in runs[name].results]
        assert all(any(fnmatchcase(row, text) for row in known) for text in rows), name
    own = finite(own_work.measure(steps=2, rounds=1))
    assert all(any(fnmatchcase(row, text) for text in own_work.SHORT) for row in own)


@pytest.mark.parametrize(("cost", "status"), [(0.0, 0), (0.004, 1)])
def test_the_exit_status_says_whether_something_got_slower(cost, status, monkeypatch, capsys):
    monkeypatch.setattr(store, "load", lambda: {"loop": stored(results.from_rounds("step", [0.9, 1.0, 1.4], None))})
    monkeypatch.setattr(quick, "shorts", lambda names: {"loop": (lambda: spinning(cost), ("step",))})
    monkeypatch.setattr(sys, "argv", ["quick", "--json"])
    with pytest.raises(SystemExit) as ended:
        quick.main()
    assert ended.value.code == status
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0]["fate"] == ("slower" if status else "as before")
    assert ("slower: loop: step" in printed.err) == bool(status)


@pytest.mark.slow
def test_a_benchmark_that_fails_loses_no_other(capfd, monkeypatch):
    monkeypatch.setenv("HOLDFAST_SHARED", "/nowhere")
    ((name, run),) = running.measure(("nosuch", "certified_accuracy"))
    assert (name, run.results) == ("certified_accuracy", ())  # nothing without its data
    assert "nosuch FAILED: ModuleNotFoundError" in capfd.readouterr().err


def test_every_mutant_changes_one_place_and_names_tests_that_are_there():
    assert [problem for mutant in mutants.mutants() if (problem := mutant.problem())] == []


def test_a_mutant_is_planted_in_a_copy(tmp_path):
    mutant = mutants.mutants("PGD does not project")[0]
    planted = (mutant.planted(tmp_path) / Path(mutant.file).relative_to("src")).read_text(encoding="utf-8")
    assert mutant.new in planted
    assert mutant.old not in planted
    assert not mutant.problem()
