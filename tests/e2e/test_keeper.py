"""Which weights of a hardening come out: those under which images may move farthest, whatever came later."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from test_command_line import refused

from holdfast.core import Encoder, registry
from holdfast.report.documents.hardening import price
from holdfast.runtime.errors import BadValue
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.run_folder import Store
from holdfast.workflows.harden import keeper as _keeper
from holdfast.workflows.harden import run as hardening
from holdfast.workflows.harden.keeper import EQUAL, Keeper
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.harden.run import harden
from holdfast.workflows.monitor.snapshot import Look
from json_records import encoder_entry, small_record

ASKED = Hardening(
    "zoo:digits-supervised", "digits?part=train", eps=0.1, steps=8, views="none", rate=0.03, profile="quick"
)


def told(monkeypatch: pytest.MonkeyPatch, radii: list[float]) -> None:
    """Let the looks find these radii, one after the other; the first one is of the encoder before."""
    left = iter([0.25 if radii[0] == radii[0] else float("nan"), *radii])

    def look(*_: object, **__: object) -> Look:
        radius = next(left)
        ends = {"": radius, ".low": radius / 2, ".high": radius * 2}
        return Look({f"breaking_radius{end}": value for end, value in ends.items()}, (), {})

    monkeypatch.setattr(_keeper, "look", look)


@pytest.fixture
def unaudited(monkeypatch: pytest.MonkeyPatch) -> None:
    found = small_record([encoder_entry("before"), encoder_entry("after")])
    monkeypatch.setattr(hardening, "run_audit", lambda *_, **__: found)
    monkeypatch.setattr(hardening, "write_report", lambda folder: folder / "report.html")
    monkeypatch.setattr(Keeper, "every", 2)


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path)


def same(first: Path, second: Path) -> bool:
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("radii", "kept"),
    [
        ([0.1, 0.3, 0.2, 0.1], 4),  # the network lost what it had
        pytest.param([0.1, 0.2, 0.3, 0.4], 8, marks=pytest.mark.slow),
        ([0.1, 0.4, 0.4 * EQUAL, 0.2], 6),  # of equal ones the last
        ([float("nan")] * 4, 8),  # nothing is told apart
        ([0.1, float("nan"), float("nan"), float("nan")], 2),  # and is less robust than before
    ],
)
def test_the_weights_of_the_largest_radius_come_out(
    unaudited, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, radii: list[float], kept: int
) -> None:
    told(monkeypatch, radii)
    record = harden(ASKED, tmp_path / "a").record
    assert record.kept == kept
    assert [seen.step for seen in record.looks] == [0, 2, 4, 6, 8]
    worse = 0 < max((radius for radius in radii if radius == radius), default=0) < 0.25
    assert any("less robust" in line for line in record.warnings) == worse
    assert any("no change was found" in line for line in record.warnings) == (radii[0] != radii[0])
    assert ("The weights are those of step" in price(record.summary)) == (kept < 8)
    # they are those of a training that is stopped there
    assert record.steps == 8
    alone = tmp_path / "b"
    monkeypatch.setattr(hardening.Keeper, "choose", lambda self, last: last)
    told(monkeypatch, radii)
    monkeypatch.setattr(
        hardening.Keeper, "is_over", property(lambda self: any(seen.step == kept for seen in self.looks))
    )
    assert harden(ASKED, alone).record.steps == kept
    assert same(tmp_path / "a" / "encoder.safetensors", alone / "encoder.safetensors")


def test_weights_that_cannot_come_out_are_not_kept(unaudited, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told(monkeypatch, [0.1, 0.3, 0.29, 0.1])
    harden(ASKED, tmp_path)
    assert sorted(path.stem for path in (tmp_path / "looks").iterdir()) == ["00000004", "00000006"]


def test_looks_of_a_training_that_left_no_checkpoint_are_forgotten(
    unaudited, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stale = {"step": 0, "radius": 9.0, "low": 9.0, "high": 9.0, "cosine": 1.0}  # of another encoder
    (tmp_path / "looks.json").write_text(json.dumps([stale]))
    told(monkeypatch, [0.1, 0.2, 0.3, 0.4])
    assert harden(ASKED, tmp_path).record.looks[0].radius == 0.25


def test_patience_ends_a_training_and_is_part_of_its_command(
    unaudited, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told(monkeypatch, [0.3, 0.2, 0.1, 0.4])
    record = harden(replace(ASKED, patience=2), tmp_path).record
    assert (record.steps, record.kept) == (6, 2)
    assert "--patience 2" in record.command
    # done, the same call says so and looks no more
    assert harden(replace(ASKED, patience=2), tmp_path).record.kept == 2


def test_looks_are_told_step_by_step_and_see_no_other_images(
    unaudited, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []
    monkeypatch.setattr(Keeper, "__init__", spied(Keeper.__init__, seen))
    record = harden(ASKED, tmp_path).record
    (looked_at,) = seen
    assert len(looked_at) == record.images.looked_at
    held_out = open_images("digits?part=train", images=record.images.held_out)
    assert set(held_out.ids).isdisjoint(looked_at.ids)
    log = json.loads((tmp_path / "looks.json").read_text())
    assert [row["step"] for row in log] == [0, 2, 4, 6, 8]
    assert log[0]["cosine"] == pytest.approx(1)
    # a look is the measure that users know, on these images
    encoder = open_encoder(record.encoder)
    measure = registry.part("measures", "breaking_radius", ball=ASKED.ball(), certified=0, steps=_keeper.STEPS)
    found = _keeper.look(encoder, looked_at, (measure,), attacked=_keeper.ATTACKED).values
    (kept,) = [row for row in log if row["step"] == record.kept]
    assert kept["radius"] == pytest.approx(found["breaking_radius"], rel=1e-5)
    assert kept["low"] < kept["radius"] < kept["high"]
    assert 0.9 < kept["cosine"] <= 1


def spied(init, seen: list):
    def call(self: Keeper, store: Store, start: Encoder, images, *more: object, **named: object) -> None:
        seen.append(images)
        init(self, store, start, images, *more, **named)

    return call


@pytest.mark.slow
@pytest.mark.parametrize("length", [["--steps", "6"], ["--budget", "20s"]])
def test_two_processes_harden_as_one(length: list[str], tmp_path: Path) -> None:
    words = ["harden", ASKED.encoder, "--data", ASKED.data, "--eps", "0.1", "--views", "none", *length]
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "holdfast"]
    done = subprocess.run(
        [*two, *words, "--profile", "quick", "--out", str(tmp_path / "two"), "--json"],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    record = json.loads(done.stdout)  # one process speaks
    rows = pq.read_table(tmp_path / "two" / "log.parquet").to_pylist()
    assert record["steps"] == len(rows)
    asked = replace(ASKED, steps=record["steps"], pace=tuple(record["pace"]), rate=record["rate"])
    assert harden(asked, tmp_path / "one")
    alone = pq.read_table(tmp_path / "one" / "log.parquet").to_pylist()
    # rounding grows with the steps, of which a clock makes many
    first = min(6, len(rows))
    assert [row["loss"] for row in rows[:first]] == pytest.approx([row["loss"] for row in alone[:first]], rel=1e-3)
    assert [row["rate"] for row in rows] == pytest.approx([row["rate"] for row in alone])
    if not record["pace"]:
        for name, value in weights(tmp_path / "two" / "encoder.safetensors").items():
            torch.testing.assert_close(
                value, weights(tmp_path / "one" / "encoder.safetensors")[name], atol=1e-4, rtol=1e-2
            )


def test_the_attack_is_as_asked() -> None:
    def attack(**asked: object) -> tuple[int, float]:
        found = replace(ASKED, **asked).attack_of_training()
        return found.steps, found.step_size / 0.1

    assert attack() == (3, pytest.approx(0.5))
    assert attack(attack_steps=10) == (10, pytest.approx(0.25))
    assert attack(attack_steps=1, attack_step=0.125) == (1, pytest.approx(1.25))


@pytest.mark.parametrize("asked", [{"patience": 0}, {"attack_steps": 0}, {"attack_step": 0.0}])
def test_nothing_is_no_number_of_steps(asked: dict[str, float]) -> None:
    with pytest.raises(BadValue) as error:
        replace(ASKED, **asked)
    assert "above 0" in str(error.value)


def test_options_of_training_reach_the_recipe(capsys, tmp_path: Path) -> None:
    recipe = replace(ASKED, ema=0.9, clip=1.0, precision="bf16").recipe()
    assert (recipe.ema, recipe.clip, recipe.precision) == (0.9, 1.0, "bf16")
    start = ["harden", "zoo:digits-supervised", "--data", "digits?part=train", "--out", str(tmp_path / "out")]
    assert "expected a decay between 0 and 1" in refused(capsys, *start, "--ema", "2")
    assert "known: bf16, fp16, no" in refused(capsys, *start, "--precision", "fp8")
    assert "tensorboard" in refused(capsys, *start, "--track", "tensorbord", "--rate", "0.01", "--steps", "2")
