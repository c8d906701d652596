"""The plugin for pytest: audits are made once, marks hold them, failures show the findings, baselines are written."""

import importlib
import importlib.util
import inspect
import subprocess
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from torch import nn

import holdfast
from holdfast.pytest_plugin import audits, gate

pytest_plugins = ["pytester"]

TINY = {"images": 24, "attacked": 12, "measures": "breaking_radius[steps=20,certified=0]"}
PROJECT = f"""
    import pytest

    @pytest.fixture(scope="session")
    def record(holdfast_audit):
        return holdfast_audit("zoo:digits-simclr", "digits", **{TINY})
"""


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a hardened encoder."""
    folder = tmp_path_factory.mktemp("last")
    holdfast.audit("zoo:digits-simclr-adv", "digits", **TINY, budget="none", quiet=True, out=folder)
    return folder


@pytest.fixture(scope="module")
def plugin() -> types.ModuleType:
    """The plugin as pytest imports it: shapes are enforced by wrappers, which are no generators as hooks must be."""
    spec = importlib.util.spec_from_file_location("plugin", inspect.getfile(holdfast.pytest_plugin))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(
    pytester: pytest.Pytester, plugin: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Runs tests in a project of their own, by this process, whether the plugin is installed or not."""
    monkeypatch.delenv("CI", raising=False)  # in CI pytest's summary repeats whole messages

    def in_project(tests: str, *words: str) -> pytest.RunResult:
        path = pytester.makepyfile(dedent(PROJECT) + dedent(tests))
        words = ("-p", "no:holdfast", "--strict-markers", "-W", "error", *words)
        return pytester.runpytest_inprocess(path, *words, plugins=[plugin])

    return in_project


def test_it_is_declared_and_imports_no_torch() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    assert importlib.import_module(module).holdfast_audit
    code = f"import sys, {module}; sys.exit(bool({{'torch', 'numpy', 'rich'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_marks_hold_what_tests_audit(run: Callable[..., pytest.RunResult], last: Path) -> None:
    result = run(
        f"""
        @pytest.mark.holdfast(require=["breaking_radius > 1/255", "checks.frozen == pass"])
        def test_met(record):
            pass

        @pytest.mark.holdfast(require=["breaking_radius > 200/255"])
        class TestMissed:
            def test_of_a_fixture(self, record):
                pass

        @pytest.mark.holdfast(require=["breaking_radius > 200/255"])
        def test_of_its_own(holdfast_audit):
            holdfast_audit("zoo:digits-simclr", "digits", **{TINY})

        @pytest.mark.holdfast(baseline={str(last)!r}, allow_drop=["breaking_radius 5%"])
        def test_regression(record):
            pass

        @pytest.mark.holdfast(require=["breaking_radius > 1/255"])
        def test_without_an_audit():
            pass

        @pytest.mark.holdfast(requires=["breaking_radius > 1/255"])
        def test_misspelt(record):
            pass

        @pytest.mark.holdfast(["breaking_radius > 1/255"])
        def test_positional(record):
            pass

        @pytest.mark.holdfast(baseline="runs/last")
        def test_no_baseline(record):
            pass

        @pytest.mark.holdfast(require=["breaking_radius > 200/255"])
        def test_fails_by_itself(record):
            assert 1 == 2
        """
    )
    result.assert_outcomes(passed=1, failed=8)
    text = result.stdout.str()
    assert "test_met: 2 of 2 requirements met" in text
    assert text.count("is not > 200/255") == 2
    assert "worse: Breaking radius" in text
    assert "expected an audit by holdfast_audit, got none" in text
    assert "unknown keyword of the mark holdfast 'requires'; did you mean 'require'?" in text
    assert "expected keywords, got (['breaking_radius > 1/255'],)" in text
    assert "expected a baseline in 'runs/last', got none; write it with pytest --holdfast-update-baseline" in text
    assert "assert 1 == 2" in text
    assert "During handling" not in text


def test_builds_of_one_network_are_the_same_encoder_or_the_test_fails(run: Callable[..., pytest.RunResult]) -> None:
    result = run(
        """
        import numpy
        import holdfast
        from holdfast.sources.encoders import open_encoder

        SIMCLR = "zoo:digits-simclr"

        def mirrored(pixels):
            import torch
            return open_encoder(SIMCLR)(torch.from_numpy(numpy.ascontiguousarray(pixels[:, :, :, ::-1]))).detach()

        def test_it_is(holdfast_parity):
            record = holdfast_parity(SIMCLR, SIMCLR, "digits", images=150, require=["overlap@10 > 80 %"])
            assert record["diagnosis"]["causes"] == []

        def test_it_is_not(holdfast_parity):
            holdfast_parity(SIMCLR, mirrored, "digits", images=150)
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    text = " ".join(result.stdout.str().split())
    assert "test_it_is: still the same encoder" in text
    assert "where pictures are mirrored" in text


def test_the_fixtures(run: Callable[..., pytest.RunResult], last: Path) -> None:
    result = run(
        f"""
        def test_once(holdfast_audit, record):
            assert holdfast_audit("zoo:digits-simclr", "digits", **{TINY}) is record
            assert "report.html" in {{path.name for path in __import__("pathlib").Path(record.folder).iterdir()}}

        def test_missed(holdfast_check, record):
            holdfast_check(record, require="breaking_radius > 200/255")  # shown

        def test_worse(holdfast_check, record):
            holdfast_check(record, baseline={str(last)!r})

        def test_no_record(holdfast_check):
            holdfast_check("runs/last", require="breaking_radius > 0")

        def test_out(holdfast_audit):
            holdfast_audit("zoo:digits-simclr", "digits", out="elsewhere")
        """,
        "--holdfast-out",
        "kept",
    )
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(["*breaking_radius > 200/255*# shown", "*is not > 200/255*", "*run folder: *kept*"])
    text = result.stdout.str()
    assert "worse: Breaking radius" in text
    assert "expected a record of holdfast_audit, got 'runs/last'" in text
    assert "expected no out, got 'elsewhere'; keep run folders with --holdfast-out DIR" in text


@pytest.mark.slow
def test_a_baseline_is_written_where_requirements_are_met(
    run: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    tests = """
        @pytest.mark.holdfast(baseline="runs/last", allow_drop=["breaking_radius 5%"])
        def test_regression(record):
            pass

        @pytest.mark.holdfast(baseline="runs/other", require=["breaking_radius > 200/255"])
        def test_missed(record):
            pass

        @pytest.mark.holdfast(baseline="runs/both")
        def test_two(holdfast_audit, record):
            holdfast_audit("zoo:digits-simclr", "digits", **dict(TINY, seed=1))
        """.replace("TINY", repr(TINY))
    result = run(tests, "--holdfast-update-baseline", "--holdfast-out", "kept")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*test_regression: wrote the baseline runs/last"])
    assert "expected one audit, got 2; say holdfast_check(record, baseline=...) for each" in result.stdout.str()
    assert {path.name for path in (pytester.path / "runs").iterdir()} == {"last"}
    assert {path.name for path in (pytester.path / "runs/last").iterdir()} == {"record.json", "tables"}  # no pixels
    held = run(tests, "--holdfast-out", "kept", "-k", "regression")
    held.assert_outcomes(passed=1)
    held.stdout.fnmatch_lines(["*test_regression: 1 no worse"])


def test_what_is_the_same_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: Path) -> None:
    made: list[Path] = []

    def audit(*arguments: object, out: Path, **options: object) -> holdfast.Record:
        made.append(out)
        return holdfast.open(last)

    monkeypatch.setattr(holdfast, "audit", audit)
    audited = audits.Audits(tmp_path, worker="gw1")
    network, images = nn.Linear(2, 2), np.zeros((4, 2))
    first = audited(network, images, mean=0, std=1)
    assert audited(network, images, std=1, mean=0) is first
    with torch.no_grad():
        network.weight += 1
    assert audited(network, images, mean=0, std=1) is not first
    images[0] = 1
    audited(network, images, mean=0, std=1)
    audited(network, images, mean=0, std=True)
    assert len(made) == len(set(made)) == 4
    assert {path.parent.name for path in made} == {"gw1"}  # no other process can know this network
    assert audited("zoo:a/b", tmp_path) is audited("zoo:a/b", tmp_path)
    assert audited("zoo:a/b", str(tmp_path)) is not audited("zoo:a/b", tmp_path, seed=1)
    assert {path.parent for path in made[4:]} == {tmp_path}
    assert len(set(made)) == len(made) == 7


def test_its_keywords_are_those_of_the_check() -> None:
    parameters = inspect.signature(holdfast.check).parameters
    of_indexes = {"canaries", "rate", "threshold", "divergence"}  # baselines that tests write keep no representations
    assert list(gate.KEYWORDS) == [name for name in parameters if name not in {"record", *of_indexes}]


@pytest.mark.slow
def test_processes_share_an_audit(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    tests = """
        @pytest.mark.holdfast(require=["breaking_radius > 1/255"])
        @pytest.mark.parametrize("number", range(4))
        def test_met(record, number, worker_id):
            assert worker_id in ("gw0", "gw1")
        """
    pytester.makepyfile(dedent(PROJECT) + dedent(tests))
    plugin = ("-p", "no:holdfast", "-p", "holdfast.pytest_plugin", "--holdfast-out", "kept")
    result = pytester.runpytest_subprocess(*plugin, "-n", "2", "--dist", "load")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_met*1 of 1 requirements met"] * 4)
    assert len([path for path in (pytester.path / "kept").iterdir() if path.is_dir()]) == 1
