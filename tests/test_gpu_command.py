"""The command for a borrowed GPU: rows come as they are made, whatever a row does to its process."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from benchmarks import page
from benchmarks.gpu import __main__ as command
from benchmarks.gpu import docs
from benchmarks.gpu.conduct import LATE, attempt, conduct
from benchmarks.gpu.device import REHEARSAL, Device
from benchmarks.gpu.networks import RESNET18
from benchmarks.gpu.photos import EAGER
from benchmarks.gpu.photos import tasks as photos
from benchmarks.gpu.pretend import pretended_gpu
from benchmarks.gpu.row import Finding, Report, Row, read
from benchmarks.gpu.sections import SECTIONS, tasks
from benchmarks.gpu.task import Task

ROOT = Path(__file__).parents[1]
CPU, GPU = Device("cpu"), Device("cuda")


# --- rows, one by one ---


def good() -> Finding:
    return Finding("fine", "fine", True)


def crash() -> Finding:
    os.kill(os.getpid(), signal.SIGSEGV)
    return good()


def leave() -> Finding:
    os._exit(3)


def hang() -> Finding:
    time.sleep(600)
    return good()


def raises() -> Finding:
    raise ValueError("first line\nsecond line")


def listed(*works: Callable[[], Finding]) -> list[Task]:
    absent = Task("waits", "absent", hang, needs=("no_such_package", "torch"))
    return [absent, *(Task("waits", work.__name__, work, limit=3 if work is hang else 60) for work in works)]


def rows(folder: Path, *works: Callable[[], Finding], seconds: float = 120) -> dict[str, Finding]:
    report = Report(CPU.machine("abc"), folder)
    conduct(partial(listed, *works), CPU, report, seconds)
    assert read(folder / "gpu.jsonl") == [(report.machine, report.rows)]
    return {row.name: row.finding for row in report.rows}


@pytest.mark.slow
def test_whatever_a_row_does_the_next_one_is_made(tmp_path: Path) -> None:
    made = rows(tmp_path, crash, good, leave, raises, hang)
    assert list(made) == ["absent", "crash", "good", "leave", "raises", "hang"]
    assert made["absent"].found == "left out: no_such_package is not installed"
    assert made["good"].met is True
    assert [made[name].met for name in ("crash", "leave", "raises", "hang")] == [False] * 4
    assert "SIGSEGV" in made["crash"].found
    assert "status 3" in made["leave"].found
    assert made["raises"].found == "ValueError: first line"
    assert made["hang"].found == "killed after 3 s, its limit"
    text = (tmp_path / "gpu.md").read_text()
    assert "**not met**" in text
    assert REHEARSAL in text


@pytest.mark.slow
def test_what_the_time_does_not_reach_says_so(tmp_path: Path) -> None:
    for works in ((good,), (sleepy, good)):
        made = rows(tmp_path, *works, seconds=1 if works == (good,) else 15)
        assert [made[work.__name__] for work in works] == [Finding(LATE)] * len(works)


def test_an_interrupt_keeps_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(CPU.machine("abc"), tmp_path)
    add = report.add

    def interrupted(row: Row) -> None:
        add(row)
        if row.name == "absent":
            raise KeyboardInterrupt

    monkeypatch.setattr(report, "add", interrupted)
    conduct(partial(listed, good), CPU, report, 60)
    assert [row.name for row in read(tmp_path / "gpu.jsonl")[0][1]] == ["absent", "interrupted"]


@pytest.mark.slow
def test_the_process_of_a_killed_command_ends(tmp_path: Path) -> None:
    """And what it was about to do with it: a borrowed card is not held by nobody."""
    code = f"""
import sys; sys.path.insert(0, {str(ROOT)!r}); sys.path.insert(0, {str(ROOT / "tests")!r})
from functools import partial
from pathlib import Path
from test_gpu_command import *
import multiprocessing, threading
def told():
    while not multiprocessing.active_children(): time.sleep(0.1)
    print(multiprocessing.active_children()[0].pid, flush=True)
if __name__ == "__main__":
    threading.Thread(target=told).start()
    conduct(partial(listed, sleepy), CPU, Report(CPU.machine("abc"), Path({str(tmp_path)!r})), 60)
"""
    script = tmp_path / "killed.py"
    script.write_text(code)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        worker = next(int(line) for line in running.stdout if line.strip().isdigit())
        running.kill()
    for _ in range(300):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    raise AssertionError("the process goes on")


def sleepy() -> Finding:
    time.sleep(50)
    return good()


# --- what is looked at ---


def test_every_section_has_rows_of_a_name_each_on_a_gpu_and_in_a_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    for device in (CPU, GPU):
        made = tasks(device)
        assert {task.section for task in made} == set(SECTIONS)
        names = [(task.section, task.name) for task in made]
        assert len(set(names)) == len(names)
        assert sum(task.limit for task in made if task.section == "correctness" and "quick" in task.name) <= 240
    assert [task.section for task in tasks(GPU)[:2]] == ["correctness", "certificates"]  # what is wrong comes first
    assert {task.section for task in tasks(CPU, frozenset({"bank", "waits"}))} == {"bank", "waits"}


@pytest.mark.slow
def test_steps_run_on_a_pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(RESNET18, title="small", spec="zoo:cnn_b_cifar")
    monkeypatch.setattr("benchmarks.gpu.photos.RESNET50", small)
    monkeypatch.setattr("benchmarks.gpu.photos.SIZES", (1, 2))
    with pretended_gpu():
        findings = [attempt(task.work) for task in photos(GPU, EAGER[:2]) if "small" in task.name]
    assert len(findings) == 2
    for finding in findings:
        assert math.isfinite(finding.figures["step"]), finding  # a difference of times, on a machine that may be busy
        assert finding.figures["work"] >= 1


@pytest.mark.slow
def test_the_rehearsal_says_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["--rehearse", "--only", "certificates", "--out", str(tmp_path)])
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert REHEARSAL in printed
    assert "5 rows: 5 met, 0 not met, 0 not made" in printed
    assert [row.finding.met for row in read(tmp_path / "gpu.jsonl")[0][1]] == [True] * 5
    with pytest.raises(SystemExit, match="expected sections among"):
        run(["--only", "nothing"])


def run(words: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["gpu", *words])
        command.main()


@pytest.mark.slow
def test_a_rehearsal_of_a_whole_audit() -> None:
    """It reads a record, as they are today."""
    (task,) = (task for task in tasks(CPU, frozenset({"audits"})) if "CNN" in task.name)
    finding = attempt(task.work)
    assert finding.figures["passes"] > 0
    assert finding.met is not False


@pytest.mark.slow
def test_the_whole_rehearsal_from_a_checkout(tmp_path: Path) -> None:
    """With PYTHONPATH alone, and without packages of extras."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\nsys.modules.update(dict.fromkeys(['ray', 'lightly', 'open_clip', 'onnxruntime', 'beartype']))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--rehearse", "--out", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{hidden}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
    ((_, made),) = read(tmp_path / "gpu.jsonl")
    assert {row.section for row in made} == set(SECTIONS)


# --- into the docs ---


def written(
    folder: Path, name: str, *made: Row, gpu: str = "Card 80GB, 79 GiB, CUDA 13.0", commit: str = "abc"
) -> Path:
    report = Report(replace(CPU.machine(commit), gpu=gpu), folder / name)
    for row in made:
        report.add(row)
    return folder / name / "gpu.jsonl"


STEP = Row("steps", "ResNet-50, bf16: PGD", Finding("…", figures={
    "step": 1.02, "work": 1.01, "bare": 3188.0, "batch": 128, "default": 0.91, "memory": 6.14,
}))  # fmt: skip
AUDIT = Row("audits", "quick, ResNet-50, float32", Finding("…", figures={
    "seconds": 12.3, "ratio": 1.4, "passes": 8000, "images": 64, "attacked": 32,
}))  # fmt: skip
WRONG = Row("correctness", "quick, digits", Finding("scores apart 1", "≤ 0.05", False))
RIGHT = replace(WRONG, finding=Finding("scores apart 0", "≤ 0.05", True))


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Copies of the pages, and no row kept."""
    copies = []
    for file in page.PAGES:
        copies.append(tmp_path / file.name)
        shutil.copy(file, copies[-1])
    monkeypatch.setattr(docs, "FILE", tmp_path / "measured.jsonl")
    monkeypatch.setattr(page, "PAGES", tuple(copies))
    return copies


def test_rows_go_into_the_docs_and_newer_ones_take_the_place_of_older(tmp_path: Path, pages: list[Path]) -> None:
    late = Row("waits", "pgd", Finding("not reached: the time for all was over"))
    first = written(tmp_path, "first", STEP, WRONG, late)
    second = written(tmp_path, "second", AUDIT, RIGHT, replace(STEP, finding=late.finding), commit="def")
    page.write()
    assert "not yet measured" in pages[-1].read_text()
    docs.publish(first)
    assert " | 0 of 1 | quick, digits |" in pages[1].read_text()
    docs.publish(second)
    benchmarks, scale, *_, readme = (file.read_text() for file in pages)
    assert "| ResNet-50, bf16 | 3,188 | 128 | 91% | 1.02 x | 1.01 x | 6.1 |" in benchmarks
    assert "| quick, ResNet-50, float32 | 64, 32 | 8,000 | 12.3 s | 1.4 x |  |" in benchmarks
    assert "| correctness | quick, digits | scores apart 0 | ≤ 0.05 | met |" in benchmarks
    assert "scores apart 1" not in benchmarks
    assert "not reached" not in benchmarks
    assert "1 of 1 |  |" in scale
    assert "abc (1 rows), def (2 rows)" in scale
    assert "None of this has run on a GPU yet" not in scale
    assert "not yet measured" not in readme
    assert "on one Card 80GB" in readme
    assert docs.publish(first, second).startswith("kept: 3 rows")


def test_what_is_no_card_or_cut_off_changes_nothing(tmp_path: Path, pages: list[Path]) -> None:
    before = [file.read_text() for file in pages]
    rehearsal = written(tmp_path, "rehearsal", STEP, gpu="")
    cut = written(tmp_path, "cut", STEP)
    cut.write_text(cut.read_text()[:-30])
    empty = written(tmp_path, "empty")
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"a": 1}) + "\n")
    for file, message in (
        (rehearsal, "got a rehearsal"),
        (cut, "line 2: expected a machine or a row"),
        (empty, "got none that was made"),
        (other, "line 1: expected a machine or a row"),
        (tmp_path / "absent.jsonl", "No such file"),
    ):
        with pytest.raises(SystemExit, match=message):
            docs.publish(file)
    assert [file.read_text() for file in pages] == before
    assert not docs.FILE.exists()
