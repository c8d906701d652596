"""Audits by several workers, in parts, and with workers that die: the record is that of one process."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import watched
from sameness import content, record_of, said, same
from test_audit_run import holdfast
from test_command_line import refused
from test_command_line import run as command_line
from torch import nn
from turns import Turns
from watched import until

from holdfast.auditing.execute import execute, results_of
from holdfast.auditing.partition import make_part, part_of
from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import prepare
from holdfast.auditing.series import Series
from holdfast.auditing.session import Session
from holdfast.auditing.shards import ShardFile, ShardResults
from holdfast.auditing.work import Step
from holdfast.core import Encoder, Observation, registry
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.checks.collapse import Collapse
from holdfast.parts.checks.frozen import Frozen
from holdfast.parts.engines.processes import Processes
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.probabilistic.probabilistic_robustness import ProbabilisticRobustness
from holdfast.runtime.errors import BadPlace, Failed, Mismatch, Missing, UnreadableRecord, Unsupported
from holdfast.runtime.listener import Silent
from holdfast.sources.data import open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.storage.run_folder import StoreError
from json_records import merge_parts, run_audit

pytestmark = pytest.mark.timeout(900)  # seconds, where the machine is shared
HERE = Path(__file__).parent
WATCHED = "py:watched:network?mean=0&std=1"
MEASURES = (UniversalQuantile(Pgd(4)), BreakawayRisk(Pgd(4)), ProbabilisticRobustness(estimator=Counting(20)))


IMPORTS_AS_THE_SERVER = """
import importlib, pkgutil, sys
import torch, holdfast
from holdfast.parts.engines.shared.fork_server import HEAVY, SHARED

def look(name):
    def looked(*_, **__):
        raise AssertionError(f"torch.cuda.{name} was called on import")
    return looked

for name in ("init", "_lazy_init", "is_available", "device_count", "current_device", "get_device_capability"):
    setattr(torch.cuda, name, look(name))
for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
    if module.name.startswith((*HEAVY, *SHARED)) or module.name + "." in SHARED:
        importlib.import_module(module.name)
print(sum(name.startswith("holdfast.") for name in sys.modules))
"""


@pytest.fixture(autouse=True)
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a test says what watched networks should do."""
    folder = tmp_path / "asked"
    folder.mkdir()
    monkeypatch.setenv("WATCHED", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.syspath_prepend(str(HERE))
    return folder


def plan(*encoders: str, **options) -> Plan:
    fields = {"data": "digits", "measures": MEASURES, "checks": (Collapse(), Frozen())} | options
    return Plan(encoders or (WATCHED,), **{"images": 24, "attacked": 16, "batch_size": 8, **fields})


class Heard(Silent):
    """Adds up what a listener hears."""

    def __init__(self):
        self.planned = self.done = 0

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        self.planned += passes

    def advance(self, passes: int) -> None:
        self.done += passes


def files(folder: Path) -> list[Path]:
    return sorted((folder / "cache").rglob("*.safetensors"))


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody has asked for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    own: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):  # a process may end while it is looked at
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # and so may a thread
                own += map(int, (task / "children").read_text().split())
    return own + [inner for child in own for inner in children(child)]


# --- the same record ------------------------------------------------------------------------------


def test_processes_make_the_same_record(tmp_path: Path) -> None:
    asked, heard = plan(WATCHED, "zoo:digits-simclr"), Heard()
    run_audit(asked, tmp_path / "one")
    record = run_audit(asked, tmp_path / "two", engine=Processes(2, threads=1), listener=heard)
    same(tmp_path / "one", tmp_path / "two")
    assert record["run"]["engine"] == "2 worker processes"
    assert record["run"]["workers_lost"] == record["run"]["resumed_shards"] == 0
    assert heard.done == heard.planned > 0
    again = run_audit(asked, tmp_path / "two", engine=Turns())
    assert again["run"]["resumed_shards"] == len(files(tmp_path / "two"))
    same(tmp_path / "one", tmp_path / "two")


def test_no_shard_is_made_while_scoring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, made, heard = Turns(3), Counter(), Heard()
    make = Session._make

    def counted(self, observation: Observation, shard: ShardFile) -> ShardResults:
        assert engine.doing[-1].step is Step.OBSERVE, f"{shard.file} is made while scoring"
        made[self.encoder.fingerprint, shard.file] += 1
        return make(self, observation, shard)

    run_audit(plan(WATCHED, "zoo:digits-simclr"), tmp_path / "one")
    monkeypatch.setattr(Session, "_make", counted)
    record = run_audit(plan(WATCHED, "zoo:digits-simclr"), tmp_path / "two", engine=engine, listener=heard)
    assert set(made.values()) == {1}
    assert len(made) == len(files(tmp_path / "two"))
    assert heard.done == heard.planned
    same(tmp_path / "one", tmp_path / "two")
    for encoder in record["encoders"]:
        assert {k: encoder["passes"][k] for k in ("forward", "backward", "bounds")} == encoder["passes"]["predicted"]


def parts(asked: Plan, folders: list) -> list[int]:
    """Make one part in each folder, one after the other; return how many shards each has made."""
    made = []
    for number, folder in enumerate(folders, 1):
        heard = Heard()
        result = make_part(prepare(asked, folder, listener=heard), part_of(f"{number}/{len(folders)}"))
        assert result.failures == []
        assert heard.done == heard.planned
        made.append(result.shards)
    return made


@pytest.mark.slow
def test_parts_in_one_folder_or_in_several_make_the_same_record(tmp_path: Path) -> None:
    asked, one = plan(WATCHED, "zoo:digits-simclr"), tmp_path / "one"
    run_audit(asked, one)
    together = parts(asked, [tmp_path / "shared"] * 3)
    merge_parts(tmp_path / "shared", trust=True)
    same(one, tmp_path / "shared")
    assert sum(together) == len(files(one))
    own = [tmp_path / name for name in "abc"]
    parts(asked, own)
    (files(own[1])[0].parent / "0000000-0000008.safetensors.0123abcd.part").write_bytes(b"half")  # of a kill
    assert all(0 < len(files(folder)) < len(files(one)) for folder in own)
    with pytest.raises(Missing, match="py:watched"):
        merge_parts(own[0], [own[1]], trust=True)
    record = merge_parts(tmp_path / "merged", own, trust=True)
    assert record["failures"] == []
    same(one, tmp_path / "merged")


def test_merging_makes_what_is_missing_where_asked(tmp_path: Path) -> None:
    run_audit(plan(), tmp_path / "one")
    make_part(prepare(plan(), tmp_path / "two"), part_of("1/4"))
    merge_parts(tmp_path / "two", complete=True, trust=True, engine=Turns())
    same(tmp_path / "one", tmp_path / "two")


def test_what_cannot_be_merged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRecord):
        merge_parts(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    prepare(plan(), tmp_path / "a")
    prepare(plan(seed=1), tmp_path / "b")
    with pytest.raises(Mismatch):
        merge_parts(tmp_path / "a", [tmp_path / "b"])
    with pytest.raises(UnreadableRecord):
        merge_parts(tmp_path / "a", [tmp_path / "none"])


# --- workers that die -----------------------------------------------------------------------------


class Writes:
    """Every file of a folder that anybody has written, and how often, as far as looking often shows it."""

    def __init__(self, folder: Path):
        self.folder, self.seen = folder, {}

    def look(self) -> None:
        for path in files(self.folder):
            self.seen.setdefault(path, set()).add((path.stat().st_ino, path.stat().st_mtime_ns))


def test_a_worker_that_dies_loses_nothing(tmp_path: Path) -> None:
    heard = Heard()
    run_audit(plan(), tmp_path / "one")
    record = run_audit(plan(), tmp_path / "two", engine=Turns(mortal=True), listener=heard)
    assert record["run"]["workers_lost"] == 1
    assert record["failures"] == []
    assert heard.done == heard.planned
    same(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_a_killed_process_loses_nothing_and_makes_nothing_twice(tmp_path: Path, asked: Path) -> None:
    run_audit(plan(), tmp_path / "one")
    (asked / "stop").touch()
    writes, pids = Writes(tmp_path / "two"), []

    class Kills(Silent):
        def advance(self, passes: int) -> None:
            writes.look()

        def stage(self, text: str) -> None:
            writes.look()
            if (asked / "begun").exists() and not pids:
                pids.append(int((asked / "begun").read_text()))
                os.kill(pids[0], signal.SIGKILL)

    record = run_audit(plan(), tmp_path / "two", engine=Processes(2, threads=1), listener=Kills())
    writes.look()
    assert pids, "no worker was killed"
    assert pids[0] != os.getpid()
    assert record["run"]["workers_lost"] == 1
    assert {len(versions) for versions in writes.seen.values()} == {1}
    assert sorted(writes.seen) == files(tmp_path / "two")
    passes = record["encoders"][0]["passes"]
    assert {k: passes[k] for k in ("forward", "backward")} == passes["predicted"]
    same(tmp_path / "one", tmp_path / "two")


def test_workers_have_the_environment_and_the_outputs_of_whoever_starts_them(tmp_path, monkeypatch) -> None:
    Processes.begin()  # a server, which has those of the process when it was started
    monkeypatch.setenv("WATCHED", "later")
    usual = os.dup(1)
    with (tmp_path / "printed").open("w") as file:
        os.dup2(file.fileno(), 1)
        try:
            with Processes(1).open(watched.surrounded) as pool:
                pool.give(0, "task")
                assert pool.wait().value == "later task"
        finally:
            os.dup2(usual, 1)
            os.close(usual)
    assert (tmp_path / "printed").read_text() == "printed in later\n"


@pytest.mark.slow
def test_what_the_server_imports_leaves_gpus_alone() -> None:
    """A process that has looked at its GPUs cannot be forked into one that uses them."""
    command = [sys.executable, "-c", IMPORTS_AS_THE_SERVER]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert completed.returncode == 0, completed.stderr
    assert int(completed.stdout) > 400  # modules


@pytest.mark.slow
def test_a_worker_that_dies_idle_is_replaced(tmp_path: Path) -> None:

    class Kills(Silent):
        def __init__(self):
            self.killed = set()

        def stage(self, text: str) -> None:
            workers = [pid for server in children(os.getpid()) for pid in children(server)]
            for pid in workers if "starting" not in text else ():
                # the worker that waits while the other one opens the only encoder
                if len(self.killed) < 1:
                    self.killed.add(pid)
                    os.kill(pid, signal.SIGKILL)

    engine = Processes(3, threads=1)
    audit = prepare(plan(), tmp_path, engine=engine, listener=Kills())
    schedule = execute(audit, engine)
    assert schedule.deaths == 1
    assert results_of(audit, schedule)[0].failures == []


@pytest.mark.slow
def test_a_unit_that_kills_every_worker_is_recorded_and_the_rest_is_there(tmp_path: Path, asked: Path) -> None:
    (asked / "die").touch()
    heard = Heard()
    units = plan(checks=(Collapse(),))  # a check that makes passes dies where scores are made, and takes them with it
    record = run_audit(units, tmp_path / "run", engine=Processes(2, threads=1), listener=heard)
    assert record["run"]["workers_lost"] >= 3
    assert heard.done == heard.planned
    why = r"its worker died 3 times: killed by signal 9 (SIGKILL), as the system does where memory runs out"
    assert len(record["failures"]) == 1
    assert record["failures"][0].startswith(WATCHED)
    assert why in record["failures"][0]
    measures = record["encoders"][0]["measures"]
    assert why in measures["breakaway_risk"]["error"]
    assert measures["probabilistic_robustness"]["error"] is None
    assert measures["probabilistic_robustness"]["scores"]
    (asked / "die").unlink()
    again = run_audit(units, tmp_path / "run", engine=Turns())
    assert again["failures"] == []
    run_audit(units, tmp_path / "whole")
    assert said(tmp_path / "run") == said(tmp_path / "whole")


class Deadly(nn.Module):
    """Cannot be moved to a device by a worker: kills it, as where memory runs out."""

    def __init__(self, driver: int):
        super().__init__()
        self.driver = driver

    def _apply(self, *how, **more) -> nn.Module:
        if os.getpid() != self.driver:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._apply(*how, **more)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


@pytest.mark.slow
def test_an_encoder_that_kills_every_worker_does_not_end_the_audit_of_others(tmp_path: Path) -> None:
    deadly = Encoder(Deadly(os.getpid()), mean=0, std=1)
    record = run_audit(plan("deadly", WATCHED), tmp_path, encoders={"deadly": deadly}, engine=Processes(2, threads=1))
    first, second = record["encoders"]
    assert first["error"].startswith("opening it: its worker died 3 times: killed by signal 9")
    assert record["failures"] == [f"deadly: {first['error']}"]
    assert second["error"] is None
    assert second["measures"]["breakaway_risk"]["scores"]


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [Turns(2), pytest.param(Processes(2, threads=1), marks=pytest.mark.slow)])
def test_an_error_in_a_unit_is_recorded_as_in_one_process(tmp_path: Path, asked: Path, engine) -> None:
    (asked / "fail").touch()
    encoders, heard = (WATCHED, "zoo:digits-simclr?layer=2"), Heard()
    one = run_audit(plan(*encoders), tmp_path / "one")
    run_audit(plan(*encoders), tmp_path / "two", engine=engine, listener=heard)
    assert len(one["failures"]) == 2
    assert "RuntimeError: asked to fail" in one["failures"][0]
    assert said(tmp_path / "one") == said(tmp_path / "two")
    assert (tmp_path / "two" / "failures.log").exists()
    assert heard.done == heard.planned
    folder, found = tmp_path / "three", []
    for number in (1, 2):
        found.append(make_part(prepare(plan(*encoders), folder), part_of(f"{number}/2")))
    assert any("asked to fail" in failure for failure in found[0].failures)
    assert any("not one vector per image" in failure for failure in found[1].failures)
    merge_parts(folder, trust=True)
    assert said(folder) == said(tmp_path / "one")
    (asked / "fail").unlink()
    again = run_audit(plan(WATCHED), folder, overwrite=True)
    assert again["failures"] == []
    assert not (folder / "failures.log").exists()


@pytest.mark.slow
def test_what_cannot_be_certified_is_no_failure_of_a_worker_or_part(tmp_path: Path) -> None:
    asked = plan("py:watched:normed?mean=0&std=1", measures=(CertifiedRadius(negatives=3), *MEASURES))
    run_audit(asked, tmp_path / "one")
    entry = record_of(tmp_path / "one")["encoders"][0]["measures"]["certified_radius"]
    assert entry["not_certified"].startswith("not certified: Hardshrink")
    record = run_audit(asked, tmp_path / "two", engine=Turns())
    assert record["failures"] == []
    same(tmp_path / "one", tmp_path / "two")
    parts(asked, [tmp_path / "three"] * 2)
    merge_parts(tmp_path / "three", trust=True)
    assert said(tmp_path / "three") == said(tmp_path / "one")


def test_a_folder_that_cannot_be_written_ends_the_audit(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(StoreError, match="cache"):
        run_audit(plan(), tmp_path, engine=Processes(1, threads=1))
    idle = ("resource_tracker", "multiprocessing.forkserver")  # which end with this process
    assert all(any(name in command(pid) for name in idle) for pid in children(os.getpid()))


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.slow
def test_encoders_that_are_open_are_sent_to_workers(tmp_path: Path, tiny: Encoder) -> None:
    x = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(5))
    given = {"encoders": {"it": tiny}, "source": Arrays(x, torch.arange(24) % 3)}
    run_audit(plan("it"), tmp_path / "one", **given)
    run_audit(plan("it"), tmp_path / "two", engine=Processes(2, threads=1), **given)
    same(tmp_path / "one", tmp_path / "two")


def test_what_cannot_be_sent_to_workers_is_refused(tmp_path: Path) -> None:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1)

    for module in (Local(), nn.Sequential(nn.Flatten(), Hooked())):
        given = {"it": Encoder(module, mean=0, std=1)}
        with pytest.raises(Unsupported):
            run_audit(plan("it"), tmp_path, encoders=given, engine=Processes(2))


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = lambda x: 2 * x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale(x)


@pytest.mark.slow
def test_a_module_that_workers_cannot_import_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.modules["vanishing"] = vanishing = type(sys)("vanishing")
    exec("from torch import nn\nclass Net(nn.Flatten):\n    pass", vanishing.__dict__)
    given = {"it": Encoder(vanishing.Net(), mean=0, std=1)}
    with pytest.raises(Failed, match="vanishing"):
        run_audit(plan("it"), tmp_path, encoders=given, engine=Processes(2))
    del sys.modules["vanishing"]


@pytest.mark.slow
def test_workers_must_see_the_run_folder(tmp_path: Path) -> None:
    with pytest.raises(BadPlace, match="memory://"):
        run_audit(plan(), "memory://unseen/run", engine=Processes(1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--workers", "0"], "processes.workers: expected a whole number above 0, got 0"),
        (["--workers", "-1"], "processes.workers: expected a whole number above 0, got -1"),
        (["--workers", "-1", "--engine", "ray"], "ray.workers: expected a whole number above 0, got -1"),
        (["--workers", "2", "--engine", "rya"], "did you mean 'ray'"),
        (["--shard", "3/2"], "expected a number from 1 to the count, such as 2/8, got 3/2"),
        (["--shard", "0/2"], "from 1 to the count"),
        (["--shard", "half"], "expected NUMBER/COUNT such as 2/8, got 'half'"),
        (["--shard", "1/2", "--workers", "2"], "leave out --workers"),
        (["--address", "auto", "--workers", "2"], "--address and --gpus are for --engine ray"),
        (["--engine", "ray", "--gpus", "1.5"], "a share of one GPU, or whole GPUs"),
        (["--engine", "ray", "--gpus", "-1"], "ray.gpus: expected 0 or more, got -1.0"),
    ],
)
def test_bad_options(capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], words: str) -> None:
    line = refused(capsys, "audit", "zoo:digits-simclr", "--data", "digits", "--out", str(tmp_path / "out"), *options)
    assert words in line
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_workers_on_a_gpu_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["audit", "zoo:digits-simclr", "--data", "digits", "--device", "cuda", "--workers", "2"]
    assert "device 'cuda' cannot be used here" in refused(capsys, *asked, "--out", str(tmp_path))


# --- from the command line ------------------------------------------------------------------------

COMMAND = [
    "audit", WATCHED, "--data", "digits", "--profile", "quick", "--images", "24", "--attacked", "16",
    "--batch-size", "8", "--eps", "0.1", "--set", "*.attack.steps=5", "--budget", "none",
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes of the command."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WATCHED", str(folder))
        patch.setenv("PYTHONPATH", str(HERE))
        run = holdfast(*COMMAND, "--out", str(folder / "run"))
        _, err = run.communicate(timeout=200)
    assert run.returncode == 0, err
    return folder / "run"


@pytest.mark.slow
def test_ctrl_c_ends_all_workers_and_the_same_command_continues(tmp_path: Path, asked: Path, whole: Path) -> None:
    (asked / "stop").touch()
    folder = tmp_path / "run"
    run = holdfast(*COMMAND, "--out", str(folder), "--workers", "2", start_new_session=True)
    until((asked / "begun").exists)
    started = children(run.pid)
    assert len(started) >= 2
    os.killpg(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=100)
    assert run.returncode == 130
    assert err.strip().splitlines()[-1] == "interrupted: what is done is stored; the same command continues"
    until(lambda: not any(map(alive, started)))
    assert not list(folder.rglob("*.part"))
    (asked / "stop").unlink()
    stored = len(files(folder))
    assert stored > 0
    run = holdfast(*COMMAND, "--out", str(folder), "--workers", "2")
    _, err = run.communicate(timeout=200)
    assert run.returncode == 0, err
    assert record_of(folder)["run"]["resumed_shards"] == stored
    same(whole, folder)


@pytest.mark.slow
def test_a_killed_driver_takes_its_workers_with_it_and_its_audit_continues(
    tmp_path: Path, asked: Path, whole: Path
) -> None:
    (asked / "stop").touch()
    folder = tmp_path / "run"
    run = holdfast(*COMMAND, "--out", str(folder), "--workers", "2", start_new_session=True)
    until((asked / "begun").exists)
    started = children(run.pid)
    run.kill()
    run.communicate()
    until(lambda: not any(map(alive, started)), 20)  # in the middle of a unit, which waits for 120 s
    assert not (folder / "record.json").exists()
    (asked / "stop").unlink()
    run = holdfast(*COMMAND, "--out", str(folder), "--workers", "2")
    _, err = run.communicate(timeout=200)
    assert run.returncode == 0, err
    same(whole, folder)


@pytest.mark.slow
def test_parts_at_the_same_time_and_two_audits_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, whole: Path
) -> None:
    for at_once in (["--shard", "1/3", "--json"], ["--shard", "2/3"], ["--shard", "3/3"]), ([], ["--workers", "2"]):
        folder = tmp_path / str(len(at_once))
        runs = [holdfast(*COMMAND, "--out", str(folder), *options) for options in at_once]
        told = [run.communicate(timeout=600) for run in runs]
        assert [run.returncode for run in runs] == [0] * len(runs), told
        if len(at_once) == 3:
            made = json.loads(told[0][0])
            assert (made["part"], made["failures"]) == ("1/3", [])
            assert made["made"] > 0
            assert f"holdfast merge {folder}" in told[1][0].replace("\n", "")
            code, _, err = command_line(capsys, "merge", str(folder), "--trust")
            assert code == 0, err
        same(whole, folder)


@pytest.mark.slow
def test_every_measure_and_check_by_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, heard = everything(monkeypatch), Heard()
    run_audit(asked, tmp_path / "one")
    run_audit(asked, tmp_path / "two", engine=Processes(3, threads=1), listener=heard)
    assert heard.done == heard.planned
    same(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_every_measure_and_check_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = everything(monkeypatch)
    run_audit(asked, tmp_path / "one")
    parts(asked, [tmp_path / "two"] * 2)
    merge_parts(tmp_path / "two", trust=True)
    same(tmp_path / "one", tmp_path / "two")


def everything(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Every measure and every check on two encoders, with training images: probes, learned noise, proofs, SynBench.

    But not those of patches, which these encoders have none of, nor a retrieval task, which is data of another kind.
    """
    monkeypatch.syspath_prepend(str(HERE.parent / "contracts"))
    import test_audit_parts as small

    encoders = ("py:watched:relu?mean=0.5&std=0.5&seed=1", "py:watched:relu?mean=0.5&std=0.5&seed=2")
    data = "digits?part=heldout"
    captioned = replace(small.measure("caption_retrieval"), path=small.captions(open_images(data).ids))
    others = [name for name in small.MEASURES if name not in ("caption_retrieval", "task_retrieval")]
    others = [name for name in others if ".dense." not in registry.find("measures", name).__module__]
    return plan(
        *encoders,
        data=data,
        train="digits?part=train",
        train_images=60,
        measures=(*map(small.measure, others), captioned),
        checks=tuple(map(small.check, small.CHECKS)),
        series=(Series("training", encoders),),
        images=60,  # of every class some
        attacked=14,
    )


def test_nothing_is_left_of_a_run_but_what_is_told(tmp_path: Path) -> None:
    old = tmp_path / "cache" / "x" / "0000000-0000008.safetensors.0123abcd.part"
    old.parent.mkdir(parents=True)
    for path in (old, old.with_name("1.0123abcd.part"), tmp_path / "my.part"):
        path.write_bytes(b"half")
    for path in (old, tmp_path / "my.part"):
        os.utime(path, (0, 0))
    run_audit(plan(), tmp_path)
    left = {name for name in content(tmp_path) if name.endswith(".part")}
    assert left == {"cache/x/1.0123abcd.part", "my.part"}  # somebody may be writing the one, the other is not ours
