"""Audits as users run them: killed and resumed, with failing parts, full disks and folders in the way."""

import copy
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_command_line import run as command_line
from turns import Turns

from holdfast.auditing.estimate.estimate import estimate
from holdfast.auditing.execute import INLINE
from holdfast.auditing.partition import make_part, part_of
from holdfast.auditing.plan import Plan, merge
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.prepare import prepare
from holdfast.auditing.profile import profile
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder, HoldfastError, Passes
from holdfast.core.engine import Engine
from holdfast.core.naming import name_parts
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.engines.processes import Processes
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.overlap_risk import OverlapRisk
from holdfast.runtime.errors import BadPlace, BadValue, NothingAudited
from holdfast.storage.run_folder import StoreError
from json_records import merge_parts, run_audit

ENCODER = "zoo:digits-simclr"
SMALL = [
    "audit", ENCODER, "--data", "digits", "--profile", "quick", "--images", "24", "--attacked", "16",
    "--batch-size", "8", "--eps", "0.1", "--set", "*.attack.steps=5", "--set", "breaking_radius.steps=10",
    "--set", "nearest_neighbour_accuracy.passes=10",
]  # fmt: skip
KILLED_WHILE_WRITING = """
import os, pathlib, signal
import holdfast.storage.run_folder as store

save, begun = store.safetensors.torch.save_file, []

def save_file(tensors, path, facts):
    begun.append(path)
    save(tensors, path, facts)
    if len(begun) == 5:  # after the three shards of the clean images and one of the first attack
        path = pathlib.Path(path)
        path.write_bytes(path.read_bytes()[:100])
        os.kill(os.getpid(), signal.SIGKILL)

store.safetensors.torch.save_file = save_file
"""


def holdfast(*arguments: str, before: str = "", **options) -> subprocess.Popen[str]:
    # what a shell runs in the background ignores SIGINT, and so would what it starts
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heard}\n{before}\nfrom holdfast.cli import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def timeless(record: dict) -> dict:
    """A record without what must differ between two runs: when, and for how long."""
    record = copy.deepcopy(record)
    del record["run"], record["seal"]
    del record["plan"]["command"]
    for encoder in record["encoders"]:
        for part in (*encoder["observations"], *encoder["measures"].values()):
            del part["seconds"]
    return record


def test_a_killed_audit_resumes_to_the_same_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    killed = holdfast(*SMALL, "--out", str(tmp_path / "killed"), before=KILLED_WHILE_WRITING)
    settings = {
        "images": 24,
        "attacked": 16,
        "batch_size": 8,
        "eps": 0.1,
        "settings": ["*.attack.steps=5", "breaking_radius.steps=10", "nearest_neighbour_accuracy.passes=10"],
    }
    run_audit(make_plan(AuditRequest([ENCODER], "digits", profile="quick", **settings)), tmp_path / "whole")
    _, err = killed.communicate(timeout=200)
    assert killed.returncode == -signal.SIGKILL, err
    assert not (tmp_path / "killed" / "record.json").exists()
    code, _, err = command_line(capsys, *SMALL, "--out", str(tmp_path / "killed"))
    assert code == 0, err
    first = json.loads((tmp_path / "whole" / "record.json").read_text())
    second = json.loads((tmp_path / "killed" / "record.json").read_text())
    assert second["run"]["resumed_shards"] == 4
    assert timeless(first) == timeless(second)
    tables = list((tmp_path / "whole" / "tables").rglob("*.parquet"))
    assert tables
    for path in tables:
        twin = tmp_path / "killed" / "tables" / path.relative_to(tmp_path / "whole" / "tables")
        assert path.read_bytes() == twin.read_bytes()


def test_ctrl_c_is_one_line_and_keeps_what_is_done(tmp_path: Path) -> None:
    run = holdfast(*SMALL, "--out", str(tmp_path), start_new_session=True)
    cache = tmp_path / "cache"
    while len(list(cache.glob("*/*.safetensors"))) < 3:
        assert run.poll() is None
        time.sleep(0.02)
    os.kill(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert err.strip().splitlines()[-1] == "interrupted: what is done is stored; the same command continues"
    assert len(list(cache.glob("*/*.safetensors"))) >= 3
    assert not list(tmp_path.rglob("*.part"))


def plan(*encoders: str, **options) -> Plan:
    measures = (UniversalQuantile(Pgd(4)), BreakawayRisk(Pgd(4)), OverlapRisk(Pgd(4)))
    return Plan(encoders, **{"data": "digits", "measures": measures, "images": 20, "attacked": 10, **options})


def test_a_damaged_shard_is_made_again(tmp_path: Path) -> None:
    first = run_audit(plan("zoo:digits-simclr"), tmp_path)
    shard = next((tmp_path / "cache").rglob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:100])
    second = run_audit(plan("zoo:digits-simclr"), tmp_path)
    assert timeless(first) == timeless(second)
    assert load_file(shard)


def test_edited_code_with_the_same_weights_is_run_again(tmp_path: Path) -> None:
    class Power(torch.nn.Module):
        exponent = 1.0

        def forward(self, x):
            return x.flatten(1) ** self.exponent

    first = run_audit(plan("it"), tmp_path, encoders={"it": Encoder(Power(), mean=0, std=1)})
    Power.exponent = 2.0
    with pytest.raises(BadPlace, match="--overwrite"):
        run_audit(plan("it"), tmp_path, encoders={"it": Encoder(Power(), mean=0, std=1)})
    assert json.loads((tmp_path / "record.json").read_text()) == first
    (tmp_path / "record.json").unlink()  # killed before there was one: nothing is lost by going on
    again = run_audit(plan("it"), tmp_path, encoders={"it": Encoder(Power(), mean=0, std=1)})
    assert again["run"]["remade_shards"] > 0
    fresh = run_audit(plan("it"), tmp_path / "fresh", encoders={"it": Encoder(Power(), mean=0, std=1)})
    assert again["run"]["resumed_shards"] == 0
    assert timeless(again)["encoders"] == timeless(fresh)["encoders"] != timeless(first)["encoders"]


def test_other_pixels_of_the_same_images_are_run_again(tmp_path: Path) -> None:
    run_audit(plan("zoo:digits-simclr", data="digits?size=8"), tmp_path)
    with_crop = plan("zoo:digits-simclr", data="digits?size=8x8")
    assert run_audit(with_crop, tmp_path, overwrite=True)["run"]["resumed_shards"] == 0


def test_another_audit_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    run_audit(plan("zoo:digits-simclr"), tmp_path)
    with pytest.raises(BadPlace):
        run_audit(plan("zoo:digits-simclr", seed=1), tmp_path)
    record = run_audit(plan("zoo:digits-simclr", seed=1), tmp_path, overwrite=True)
    assert record["plan"]["seed"] == 1


def test_a_failing_encoder_does_not_stop_the_others(tmp_path: Path) -> None:
    record = run_audit(plan("zoo:digits-simclr?layer=2", "zoo:digits-simclr"), tmp_path)
    bad, good = record["encoders"]
    assert "not one vector per image" in bad["error"]
    assert good["error"] is None
    assert good["measures"]["breakaway_risk"]["scores"]
    assert len(record["failures"]) == 1


@pytest.mark.parametrize("engine", [INLINE, Processes(2), Turns(2)])
def test_a_name_mistyped_is_refused_before_any_pass_of_the_others(tmp_path: Path, engine: Engine) -> None:
    """On other machines there may be other packages and files: those are not asked beforehand."""
    asked = plan("zoo:digits-simclr", "zoo:no-such")
    if not engine.here:
        assert run_audit(asked, tmp_path, engine=engine)["encoders"][0]["measures"]
        return
    with pytest.raises(NothingAudited, match="no-such"):
        run_audit(asked, tmp_path, engine=engine)
    with pytest.raises(NothingAudited, match="no-such"):
        estimate(asked, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_parts_that_are_made_are_merged_without_an_encoder_that_has_gone(tmp_path: Path) -> None:
    weights = tmp_path / "gone.safetensors"
    weights.write_bytes((files("holdfast.sources.encoders") / "weights" / "digits-simclr.safetensors").read_bytes())
    asked = plan("zoo:digits-simclr", f"zoo:digits_cnn?weights={weights}&label=gone")
    make_part(prepare(asked, tmp_path / "run"), part_of("1/1"))
    weights.unlink()
    good, bad = merge_parts(tmp_path / "run")["encoders"]
    assert good["measures"]["breakaway_risk"]["scores"]
    assert "does not exist" in bad["error"]


def test_a_failing_measure_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self, subject):
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(BreakawayRisk, "observe", broken)
    record = run_audit(plan("zoo:digits-simclr"), tmp_path)
    measures = record["encoders"][0]["measures"]
    assert measures["breakaway_risk"]["error"] == "RuntimeError: first line"
    assert measures["overlap_risk"]["error"] is None
    assert "second line" in (tmp_path / "failures.log").read_text()


def test_a_failing_attack_fails_its_readers_only(tmp_path: Path) -> None:
    class OnlyClean(torch.nn.Module):
        def forward(self, x):
            return x.detach().flatten(1)

    encoder = Encoder(OnlyClean(), mean=0, std=1)
    record = run_audit(plan("it"), tmp_path, encoders={"it": encoder})
    (entry,) = record["encoders"]
    assert entry["dim"] == 64
    assert all("no gradient" in m["error"] for m in entry["measures"].values())
    assert record["failures"]


class Huge(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1) * 1e30


class Half(torch.nn.Sequential):
    """Its first layer is in half precision, its last is not."""

    def __init__(self):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 4, dtype=torch.float16), torch.nn.Linear(4, 4))


class Short(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1)[:-1]


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (Huge(), "not finite"),
        (Half(), r"\.float\(\)"),
        (Short(), "expected a real"),
    ],
)
def test_strange_encoders_never_cost_the_others_their_record(tmp_path: Path, module, says) -> None:
    encoders = {"strange": Encoder(module, mean=0, std=1), "sound": Encoder(torch.nn.Flatten(), mean=0, std=1)}
    record = run_audit(plan("strange", "sound"), tmp_path, encoders=encoders)
    strange, sound = record["encoders"]
    errors = [strange["error"], *(m["error"] for m in strange["measures"].values())]
    assert any(re.search(says, str(error)) for error in errors), errors
    assert all(m["error"] is None for m in sound["measures"].values())


def test_a_full_disk_ends_the_audit_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import holdfast.storage.run_folder as store

    written, save = [], store.safetensors.torch.save_file

    def fill(tensors, path, facts):
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        save(tensors, path, facts)

    monkeypatch.setattr(store.safetensors.torch, "save_file", fill)
    with pytest.raises(StoreError, match="kept"):
        run_audit(plan("zoo:digits-simclr", batch_size=8), tmp_path)
    assert len(list((tmp_path / "cache").rglob("*.safetensors"))) == 2
    monkeypatch.undo()
    assert run_audit(plan("zoo:digits-simclr", batch_size=8), tmp_path)["run"]["resumed_shards"] == 2


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreError):
        run_audit(plan("zoo:digits-simclr"), tmp_path / "taken")


def test_out_of_memory_halves_the_batch(tmp_path: Path) -> None:
    class Greedy(torch.nn.Module):
        def forward(self, x):
            if len(x) > 3:
                raise torch.OutOfMemoryError("too much")
            return x.flatten(1)

    encoder = Encoder(Greedy(), mean=0, std=1)
    record = run_audit(plan("it", batch_size=8), tmp_path, encoders={"it": encoder})
    (entry,) = record["encoders"]
    assert record["failures"] == []
    assert {k: entry["passes"][k] for k in ("forward", "backward", "bounds")} == entry["passes"]["predicted"]


def test_numbers_depend_on_the_seed_alone(tmp_path: Path) -> None:
    first, second, other = (
        run_audit(plan("zoo:digits-simclr", seed=seed), tmp_path / folder)
        for seed, folder in ((3, "a"), (3, "b"), (4, "c"))
    )
    assert timeless(first) == timeless(second)
    assert timeless(first)["encoders"][0]["measures"] != timeless(other)["encoders"][0]["measures"]


def test_the_papers_table_shares_most_passes() -> None:
    measures = profile("paper").measures
    union = merge((name, m.observations()) for name, m in name_parts(measures).items())
    together = sum((o.passes * o.images(10_000, 1000) for o in union), Passes())
    alone = Passes()
    for m in measures:
        alone += sum((o.passes * o.images(10_000, 1000) for o in merge([("", m.observations())])), Passes())
    assert len(union) == 5  # clean, and targeted and untargeted at two radii
    assert together.total == 10_000 + 4 * 1000 * (51 + 50)
    assert together.total <= 0.5 * alone.total


def test_pairs_are_even() -> None:
    def attacked(asked: int | None, population: int, **more) -> int:
        return Plan(("it",), "digits", (BreakawayRisk(),), attacked=asked, **more).count_attacked(population)

    assert attacked(None, 7) == 6
    assert attacked(4, 100) == 4
    with pytest.raises(BadValue, match=r"attacked.*4 or 6"):
        attacked(5, 100)
    assert attacked(50, 9) == 8
    assert attacked(50, 9, spare=True) == attacked(None, 9, spare=True) == 4
    assert attacked(2, 9, spare=True) == 2


@pytest.mark.parametrize("options", [{"images": 1}, {"attacked": 0}, {"batch_size": 0}, {"measures": ()}])
def test_impossible_plans_are_refused(options: dict) -> None:
    with pytest.raises(HoldfastError, match=r"expected|no measures"):
        plan("zoo:digits-simclr", **options)


def test_two_encoders_with_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"\?label="):
        run_audit(plan("zoo:digits-simclr", "zoo:digits-simclr"), tmp_path)
