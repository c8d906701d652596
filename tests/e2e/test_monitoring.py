"""Looking at encoders that are trained, by Holdfast or by others, without disturbing them."""

import io
import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from typer.testing import CliRunner

from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.cli import app
from holdfast.core import Encoder, HoldfastError
from holdfast.report.documents.training import document
from holdfast.report.render import print_document
from holdfast.runtime.errors import BadValue, Conflict, Failed, Missing, NotEnough, UnknownName
from holdfast.runtime.listener import Silent
from holdfast.runtime.optional import optional
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.entry import read_json
from holdfast.storage.monitor import MonitorRecord
from holdfast.storage.run_folder import Store
from holdfast.training.loop import Trained, train
from holdfast.training.pace import Pace
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.monitor import AuditMonitor, HoldfastCallback, Look, look, monitor
from holdfast.workflows.monitor.snapshot import measures_of
from json_records import run_audit

BREAKAWAY = {"name": "breakaway_risk", "attack": {"kind": "attacks", "name": "pgd", "steps": 2}}
KNN = {"name": "probe_accuracy", "probe": {"kind": "probes", "name": "knn", "k": 5}}
RECIPE = {
    "encoder": "zoo:digits_cnn", "data": "digits?part=train", "images": 120, "method": "supervised", "epochs": 3,
    "batch_size": 40, "views": {"crop": [1, 1], "flip": 0},
}  # fmt: skip


def network() -> nn.Sequential:
    """A network in the middle of a training: modes, gradients and statistics of every kind."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout(),
            nn.Conv2d(4, 4, 3),
            nn.Flatten(),
            nn.Linear(64, 8),
        )
        made(torch.rand(8, 1, 8, 8)).square().mean().backward()
    made[1].eval()
    made[4].requires_grad_(False)
    return made


def state(net: nn.Module) -> list[object]:
    """Everything about a network and about random numbers that a snapshot could change.

    Not Python's `random`, from which the type checker of these tests draws.
    """
    tensors = [*net.parameters(), *net.buffers()]
    facts: list[object] = [(t.requires_grad, t.stride(), t.data_ptr(), t.tolist()) for t in tensors]
    facts += [None if t.grad is None else t.grad.tolist() for t in tensors]
    facts += [module.training for module in net.modules()]
    facts += [len(module._forward_hooks) for module in net.modules()]
    return [
        *facts,
        torch.get_rng_state().tolist(),
        str(np.random.get_state()),
        torch.is_grad_enabled(),
    ]


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_look_leaves_everything_as_it_was(mode: type) -> None:
    net = network()
    before = state(net)
    with mode():
        seen = monitor(net, "digits", ["uniformity", BREAKAWAY], mean=0.5, std=0.5, images=20)
    assert state(net) == before
    assert set(seen) == {f"{name}{end}" for name in ("uniformity", "breakaway_risk") for end in ("", ".low", ".high")}


def test_values_are_those_of_an_audit(tmp_path: Path) -> None:
    encoder = open_encoder("zoo:digits-simclr")
    seen = monitor(encoder, "digits", ["uniformity", BREAKAWAY, KNN], images=120, attacked=30, seed=3)
    asked = [{"name": "uniformity"}, BREAKAWAY, KNN]
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", measures=asked, images=120, attacked=30, seed=3))
    found = run_audit(plan, tmp_path)["encoders"][0]["measures"]
    for name in ("uniformity", "breakaway_risk", "probe_accuracy"):
        score = found[name]["scores"][found[name]["headline"]]
        for end, key in (("", "value"), (".low", "low"), (".high", "high")):
            assert seen[f"{name}{end}"] == pytest.approx(score[key])
    assert seen["probe_accuracy/class_3"] == pytest.approx(found["probe_accuracy"]["scores"]["class 3"]["value"])


def test_a_measure_that_fails_is_said_and_the_others_are_kept() -> None:
    images = open_images("digits", images=20).batch(0, 20)  # an array, without labels
    seen = look(network(), images, ["uniformity", KNN], mean=0, std=1)
    assert "uniformity" in seen.values
    assert len(seen.failures) == 1
    assert "labels" in seen.failures[0]
    with pytest.raises(Failed, match=r"probe_accuracy.*labels"):
        monitor(network(), images, ["uniformity", KNN], mean=0, std=1)


@pytest.mark.parametrize(
    ("net", "how", "kind", "said"),
    [
        (network(), {}, Conflict, "bare"),
        (Encoder(network(), mean=0, std=1), {"mean": 0, "std": 1}, Conflict, "Encoder"),
        (network(), {"mean": 0, "std": 1, "measures": ["uniformty"]}, UnknownName, r"'uniformity'\?"),
        (network(), {"mean": 0, "std": 1, "measures": []}, BadValue, "measures"),
        (network(), {"mean": 0, "std": 1, "train": "digits"}, NotEnough, "train"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(net: nn.Module, how: dict, kind: type[HoldfastError], said: str) -> None:
    measures = how.pop("measures", ["uniformity"])
    with pytest.raises(kind, match=said):
        monitor(net, "digits", measures, images=None if "train" in how else 20, **how)


def watch(folder: Path, every: int = 3) -> AuditMonitor:
    images, bank = open_images("digits", images=40), open_images("digits?part=train", images=80)
    return AuditMonitor(Store(folder), every, images, measures_of([KNN, "class_uniformity"]), train=bank)


class Interrupted(Silent):
    """Interrupts a training at some step."""

    def __init__(self, step: int):
        self.left = step

    def advance(self, passes: int) -> None:
        self.left -= passes
        if self.left == 0:
            raise KeyboardInterrupt


def test_looks_change_no_weights_and_survive_a_kill(tmp_path: Path) -> None:
    recipe = make_recipe(RECIPE)
    alone = train(recipe, tmp_path / "alone")
    whole = watch(tmp_path / "whole")
    watched = train(recipe, tmp_path / "whole", monitors=(whole,))
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "killed", monitors=(watch(tmp_path / "killed"),), listener=Interrupted(4))
    killed = watch(tmp_path / "killed")
    resumed = train(recipe, tmp_path / "killed", monitors=(killed,))
    prints = [one.encoder.refresh_fingerprint() for one in (alone, watched, resumed)]
    assert len(set(prints)) == 1
    assert resumed.resumed == 4
    assert killed.summary() == whole.summary()
    assert [one["step"] for one in whole.summary()["looks"]] == [3, 6, 9]
    log = pq.read_table(tmp_path / "killed" / "log.parquet")["probe_accuracy"].to_pylist()
    assert [value is not None for value in log] == [step % 3 == 0 for step in range(1, 10)]


def test_looks_of_another_training_are_forgotten(tmp_path: Path) -> None:
    early, encoder = watch(tmp_path), open_encoder("zoo:digits_cnn")
    for step in (3, 6):
        early(encoder, step)
    early(encoder, 3)
    assert [one["step"] for one in early.summary()["looks"]] == [3]


def test_fluctuation_is_the_total_variation_of_class_accuracies(tmp_path: Path) -> None:
    seen, labels = watch(tmp_path), torch.tensor(open_images("digits", images=40).labels)
    found: list[Tensor] = []
    for step, spec in enumerate(["zoo:digits_cnn?seed=1", "zoo:digits-supervised", "zoo:digits_cnn?seed=2"], 1):
        encoder = open_encoder(spec)
        seen(encoder, 3 * step)
        right = look(encoder, "digits", [KNN], images=40, train=open_images("digits?part=train", images=80)).tables
        found.append(right["probe_accuracy"]["right"])
    summary = json.loads((tmp_path / "monitor.json").read_text())["fluctuation"]["probe_accuracy"]
    for c in range(10):
        shares = [float(right[labels == c].mean()) for right in found]
        moved = (abs(shares[1] - shares[0]) + abs(shares[2] - shares[1])) / 2
        assert summary["classes"][f"class {c}"] == pytest.approx(moved)
    assert summary["mean"]["value"] == pytest.approx(sum(summary["classes"].values()) / 10)


def test_what_failed_or_is_not_defined_is_kept_and_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watch(tmp_path)
    odd = Look({"uniformity": math.nan, "uniformity.low": -math.inf}, ("knn: no labels",), {})
    monkeypatch.setattr("holdfast.workflows.monitor.training_monitor.look", lambda *args, **how: odd)
    seen(open_encoder("zoo:digits_cnn"), 3)
    kept = json.loads((tmp_path / "monitor.json").read_text())
    assert kept == seen.summary()
    values = {"uniformity": None, "uniformity.low": None}
    assert kept["looks"] == [{"step": 3, "values": values, "failures": ["knn: no labels"]}]
    rows, console = [{"step": 3, "loss": 1.0, "spread": 0.5}], Console(file=io.StringIO(), width=80)
    trained = Trained(open_encoder("zoo:digits_cnn"), "zoo:digits_cnn", 3, 0, rows, [], Pace(3, None), "")
    print_document(document(trained, [read_json(kept, MonitorRecord)], 1.0), console)
    text = console.file.getvalue()
    assert re.search("uniformity +undefined +undefined", text)
    assert "knn: no labels" in text
    assert "3 steps, 1.0 s" in text


TOML = """
encoder = "zoo:digits_cnn"
data = "digits?part=train"
images = 80
method = "supervised"
batch_size = 40
epochs = 2
track = ["tensorboard"]
[views]
crop = [1, 1]
flip = 0
[monitor]
epochs = 1
data = "digits"
images = 30
measures = ["uniformity"]
"""


def command(folder: Path, toml: str, *more: str) -> str:
    (folder / "recipe.toml").write_text(toml)
    done = CliRunner().invoke(app, ["train", str(folder / "recipe.toml"), "--out", str(folder / "run"), *more])
    if isinstance(done.exception, HoldfastError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_a_recipe_says_who_looks_and_who_is_told(tmp_path: Path) -> None:
    events = optional("tensorboard.backend.event_processing.event_accumulator", "tensorboard", "tensorboard", "test")
    said = command(tmp_path, TOML)
    assert "uniformity" in said
    assert "4 steps" in said
    told = events.EventAccumulator(str(tmp_path / "run" / "holdfast"))
    told.Reload()
    log = pq.read_table(tmp_path / "run" / "log.parquet").to_pydict()
    assert [event.step for event in told.Scalars("loss")] == [1, 2, 3, 4]
    assert [event.value for event in told.Scalars("loss")] == pytest.approx(log["loss"])
    assert [event.step for event in told.Scalars("uniformity.low")] == [2, 4]
    assert "monitor" not in json.loads((tmp_path / "run" / "recipe.json").read_text())


@pytest.mark.parametrize(
    ("before", "after", "kind", "said"),
    [
        ("epochs = 1", "every = 1\nepochs = 1", BadValue, "every"),
        ("epochs = 1", "evry = 1", UnknownName, r"'every'\?"),
        ("epochs = 1", 'epochs = "1"', BadValue, "monitor"),
        ('data = "digits"', "", BadValue, "data"),
        ('"uniformity"', '"uniformty"', UnknownName, r"'uniformity'\?"),
        ("[monitor]", "[monitors]", UnknownName, r"'monitor'\?"),
        ('"tensorboard"', '"tensorbord"', UnknownName, r"'tensorboard'\?"),
    ],
)
def test_a_monitor_or_tracker_that_nobody_knows_is_refused(
    tmp_path: Path, before: str, after: str, kind: type[HoldfastError], said: str
) -> None:
    assert before in TOML
    with pytest.raises(kind, match=said):
        command(tmp_path, TOML.replace(before, after))


def test_a_tracker_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.training.accelerator.find_spec", lambda name: None)
    with pytest.raises(Missing, match=r"mlflow.*'\.\[mlflow\]"):
        command(tmp_path, TOML, "--track", "mlflow")


@pytest.mark.slow
def test_lightning_logs_what_the_callback_sees() -> None:
    lightning = optional("pytorch_lightning", "pytorch_lightning", "lightning", "test")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = network().requires_grad_(True), nn.Linear(8, 10)

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            return nn.functional.cross_entropy(self.head(self.backbone(batch[0])), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    images = open_images("digits?part=train", images=64)
    pairs = torch.utils.data.TensorDataset(images.batch(0, 64), torch.tensor(images.labels))

    def fit(*callbacks: object) -> tuple[nn.Module, dict[str, Tensor]]:
        torch.manual_seed(0)
        module = Module()
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        quiet |= {"enable_model_summary": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=list(callbacks), **quiet)
            trainer.fit(module, torch.utils.data.DataLoader(pairs, batch_size=16))
        return module, trainer.logged_metrics

    how = {"every": 2, "mean": 0, "std": 1, "images": 20}
    module, logged = fit(HoldfastCallback("backbone", "digits", ["uniformity"], **how))
    alone, _ = fit()
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), alone.parameters(), strict=True))
    last = monitor(module.backbone, "digits", ["uniformity"], mean=0, std=1, images=20)  # step 4 is the last
    assert float(logged["holdfast/uniformity"]) == pytest.approx(last["uniformity"], rel=1e-5)
    with pytest.raises(UnknownName, match="'trunk'"):
        fit(HoldfastCallback("trunk", "digits", ["uniformity"], **how))
