"""Trainings as users run them: killed and resumed, in several processes, refused, and what they leave behind."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from test_audit_run import holdfast
from test_command_line import refused, run
from torch import nn

from holdfast.core import Encoder, Rng, Student
from holdfast.numerics.geometry.views import Views
from holdfast.runtime.errors import BadData, BadPlace, Failed, NotFinite, Unsupported
from holdfast.sources.encoders import open_encoder
from holdfast.training import loop
from holdfast.training.loop import Trained, train
from holdfast.training.recipe import Recipe, entry
from holdfast.training.recipe_file import make_recipe, read_recipe

DIGITS = {"encoder": "zoo:digits_cnn", "data": "digits?part=train", "images": 256, "epochs": 2, "batch_size": 64}
WINDOW = {"crop": [0.6, 1], "flip": 0}
BYOL = {"method": {"name": "byol", "hidden": 32, "dim": 16}, "views": WINDOW}
SIMCLR = {"method": {"name": "simclr", "hidden": 32, "dim": 16}, "views": WINDOW}
ATTACK = {"attack": {"name": "pgd", "steps": 2, "step_size": 0.02, "keep": "last"}, "threat": "linf"}
RECIPES = {
    "byol, attacked towards others": {
        **BYOL,
        "adversary": {**ATTACK, "objective": "targeted"},
        "optimiser": {
            "name": "sgd",
            "rate": 0.05,
        },  # Adam would blow up rounding where a gradient is 0, before BatchNorm
        "ema": 0.9,
    },
    "simclr, its own loss attacked": {**SIMCLR, "adversary": {**ATTACK, "objective": "loss"}, "accumulate": 2},
    "supervised, momentum and steps": {
        "method": {"name": "supervised", "relu": True},
        "optimiser": {"name": "sgd", "rate": 0.05, "schedule": "step", "warmup": 0.2},
        "views": {**WINDOW, "noise": 0.1},
    },
}


def recipe(*parts: dict, **values) -> Recipe:
    return make_recipe({**DIGITS, **{key: value for part in parts for key, value in part.items()}, **values})


def weights(trained: Trained) -> dict[str, torch.Tensor]:
    return trained.encoder.state_dict()


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def write(path: Path, *parts: dict, **values) -> Path:
    """Write a recipe as TOML."""
    data = {**DIGITS, **{key: value for part in parts for key, value in part.items()}, **values}

    def text(value: object) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {text(inner)}" for key, inner in value.items()) + "}"
        return json.dumps(value)

    path.write_text("\n".join(f"{key} = {text(value)}" for key, value in data.items()))
    return path


@dataclass(frozen=True)
class Dimmed(Views):
    """Views of one's own."""

    by: float = 0.5

    def __call__(self, x: torch.Tensor, rng: Rng, *, local: bool = False) -> torch.Tensor:
        return self.by * super().__call__(x, rng, local=local)


def test_views_of_ones_own_are_recorded_as_what_they_are(tmp_path: Path) -> None:
    asked = replace(recipe(SIMCLR, steps=1), views=Dimmed(flip=0.0))
    train(asked, tmp_path)
    views = json.loads((tmp_path / "recipe.json").read_text())["views"]
    assert views["class"].endswith("Dimmed")
    assert views["by"] == 0.5
    assert "class" not in entry(recipe(SIMCLR))["views"]
    with pytest.raises(BadPlace):  # the same numbers, but plain views
        train(replace(asked, views=Views(flip=0.0)), tmp_path)


# --- the same weights, whatever happens on the way ---

KILLED = """
import os, signal
import holdfast.training.loop as loop

loop.SAVE_EVERY = 0.0
look, seen = loop._Training._one_step, []

def one_step(training):
    if len(seen) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    seen.append(look(training))

loop._Training._one_step = one_step
"""


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.slow
def test_a_killed_training_comes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "recipe.toml", RECIPES[name])
    killed = holdfast("train", str(path), "--out", str(tmp_path / "killed"), before=KILLED)
    _, err = killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL, err
    assert (tmp_path / "killed" / "checkpoint.pt").exists()
    whole = train(read_recipe(path), tmp_path / "whole")
    resumed = train(read_recipe(path), tmp_path / "killed")
    assert (whole.resumed, resumed.resumed) == (0, 5)
    assert same(weights(whole), weights(resumed))
    assert whole.rows == resumed.rows
    assert not same(weights(whole), open_encoder("zoo:digits_cnn").state_dict())
    done = train(read_recipe(path), tmp_path / "killed")  # once more: nothing is left to do
    assert done.resumed == done.steps
    assert same(weights(done), weights(whole))


INTERRUPTED = """
import os, signal
import holdfast.training.loop as loop

learn = loop._Training._learn

def _learn(training, *arguments):
    outcome = learn(training, *arguments)
    if training.step == 5:  # in the middle of a step: the queue and BatchNorm have moved, the weights have not
        os.kill(os.getpid(), signal.SIGINT)
    return outcome

loop._Training._learn = _learn
"""


@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.slow
def test_signals_wait_for_the_end_of_a_step(number: str, status: int, tmp_path: Path) -> None:
    queue = {"method": {"name": "moco_v2", "hidden": 32, "dim": 16, "queue": 100}}
    path = write(tmp_path / "recipe.toml", RECIPES["byol, attacked towards others"], queue)
    interrupted = INTERRUPTED.replace("SIGINT", number)
    stopped = holdfast("train", str(path), "--out", str(tmp_path / "stopped"), before=interrupted)
    _, err = stopped.communicate(timeout=120)
    assert stopped.returncode == status, err
    assert "the same command continues" in err
    resumed, whole = train(read_recipe(path), tmp_path / "stopped"), train(read_recipe(path), tmp_path / "whole")
    assert resumed.resumed == 6
    assert same(weights(whole), weights(resumed))


EARLY = "import holdfast.training.loop as loop; loop.SAVE_FIRST = 0.1"


@pytest.mark.slow(minutes=3)
def test_signals_from_outside_lose_little_even_at_the_beginning(tmp_path: Path) -> None:
    """As Ctrl-C, schedulers and a lack of memory end it, each in the middle: all runs come to the same weights."""
    path = write(tmp_path / "recipe.toml", RECIPES["supervised, momentum and steps"], epochs=150)
    asked = ("train", str(path), "--out", str(tmp_path / "stopped"))
    kept, before = tmp_path / "stopped" / "checkpoint.pt", 0
    for number, status in ((signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)):
        stopped = holdfast(*asked, before=EARLY)
        last = kept.stat().st_mtime_ns if kept.exists() else 0
        while not kept.exists() or kept.stat().st_mtime_ns == last:
            assert stopped.poll() is None
            time.sleep(0.01)
        stopped.send_signal(number)
        _, err = stopped.communicate(timeout=60)
        assert stopped.returncode == status, err
        step = checkpoint_step(kept)
        assert before < step < 600
        before = step
    resumed, whole = train(read_recipe(path), tmp_path / "stopped"), train(read_recipe(path), tmp_path / "whole")
    assert resumed.resumed == before
    assert same(weights(whole), weights(resumed))
    assert whole.rows == resumed.rows


def checkpoint_step(path: Path) -> int:
    return torch.load(path, weights_only=True)["step"]


def test_sigterm_goes_to_whoever_would_have_heard_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the checkpoint is written: a script of one's own may do something, too."""
    asked, step, kept = recipe(SIMCLR), loop._Training._one_step, tmp_path / "run" / "checkpoint.pt"
    heard: list[int] = []

    def terminated(training: loop._Training) -> None:
        if training.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        step(training)

    monkeypatch.setattr(loop._Training, "_one_step", terminated)
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(checkpoint_step(kept)))
    try:
        with pytest.raises(KeyboardInterrupt):
            train(asked, tmp_path / "run")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [3]


def test_what_must_not_be_kept_now_is_kept_at_the_next_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a replayed batch nothing is; a minute more would not do, for the next one may end within a batch again."""
    save, step, kept, now = loop._Training._save, loop._Training._one_step, [], [0.0]

    def one_step(training: loop._Training) -> None:
        now[0] += 7
        step(training)

    def keep(training: loop._Training, digest: str) -> bool:
        done = save(training, digest)
        kept.append((training.step, done))
        return done

    monkeypatch.setattr(loop._Training, "_one_step", one_step)
    monkeypatch.setattr(loop._Training, "_save", keep)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(loop, "SAVE_FIRST", 10.0)
    monkeypatch.setattr(loop, "SAVE_EVERY", 10.0)
    train(recipe(SIMCLR, steps=6, adversary={**ATTACK, "free": 3}), tmp_path)
    assert kept == [(2, False), (3, True), (5, False), (6, True), (6, True)]  # twice at the end


def test_precisions_share_no_process(tmp_path: Path) -> None:
    train(recipe(SIMCLR, steps=1), tmp_path / "full")
    with pytest.raises(Unsupported, match="bf16"):
        train(recipe(SIMCLR, steps=1, precision="bf16"), tmp_path / "half")


def test_interrupted_trainings_keep_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, step = recipe(SIMCLR), loop._Training._one_step

    def interrupted(training: loop._Training) -> None:
        if training.step == 3:
            raise KeyboardInterrupt
        step(training)

    monkeypatch.setattr(loop._Training, "_one_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(asked, tmp_path / "run")
    monkeypatch.undo()
    resumed = train(asked, tmp_path / "run")
    assert resumed.resumed == 3
    assert same(weights(resumed), weights(train(asked, tmp_path / "whole")))


@pytest.mark.parametrize("name", ["byol, attacked towards others", "simclr, its own loss attacked"])
@pytest.mark.slow
def test_two_processes_come_to_the_weights_of_one(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "recipe.toml", RECIPES[name], epochs=1)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "holdfast"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "train", str(path), "--out", str(tmp_path / "two")],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    one = train(read_recipe(path), tmp_path / "one")
    for key, value in load_file(tmp_path / "two" / "encoder.safetensors").items():
        torch.testing.assert_close(
            value, load_file(tmp_path / "one" / "encoder.safetensors")[key], atol=2e-6, rtol=1e-4
        )
    log = pq.read_table(tmp_path / "two" / "log.parquet").to_pylist()
    assert [row["loss"] for row in log] == pytest.approx([row["loss"] for row in one.rows], rel=1e-5)
    assert done.stdout.count("audit it") == 1  # one process speaks


def test_parts_of_a_batch_add_up(tmp_path: Path) -> None:
    supervised = RECIPES["supervised, momentum and steps"]
    whole = train(recipe(supervised, steps=3), tmp_path / "whole")
    parts = train(recipe(supervised, steps=3, accumulate=4), tmp_path / "parts")
    for name, value in weights(whole).items():
        torch.testing.assert_close(value, weights(parts)[name], atol=1e-6, rtol=1e-4)


class Dropping(nn.Sequential):
    """A network whose training is random."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 8))


def test_dropout_follows_the_seed_and_leaves_the_users_numbers_alone(tmp_path: Path) -> None:
    def trained(name: str, seed: int) -> dict[str, torch.Tensor]:
        encoder = Encoder(Dropping(), mean=0.5, std=0.5, name="dropping")
        torch.manual_seed(len(name))
        before = torch.get_rng_state()
        found = train(recipe(SIMCLR, steps=3, seed=seed), tmp_path / name, encoder=encoder)
        assert torch.equal(torch.get_rng_state(), before)
        return weights(found)

    assert same(trained("first", 0), trained("second", 0))
    assert not same(trained("first", 0), trained("other", 1))


# --- what is left behind ---


def test_what_a_training_leaves_behind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, folder = write(tmp_path / "recipe.toml", SIMCLR, snapshots=1), tmp_path / "run"
    code, out, err = run(capsys, "train", str(path), "--out", str(folder), "--set", "views.noise=0.02")
    assert code == 0, err
    spec = f"zoo:digits_cnn?weights={folder}/encoder.safetensors"
    assert spec in out.replace("\n", "")
    held = json.loads((folder / "recipe.json").read_text())
    assert held["method"]["name"] == "simclr"
    assert held["views"]["noise"] == 0.02
    log = pq.read_table(folder / "log.parquet").to_pylist()
    assert [row["step"] for row in log] == list(range(1, 9))
    assert log[-1]["epoch"] == 2
    assert log[-1]["loss"] < log[0]["loss"]
    final, last = open_encoder(spec), open_encoder(f"file:{folder}/snapshots/epoch-0002.safetensors")
    assert final.fingerprint == last.fingerprint
    assert final.fingerprint != open_encoder(f"file:{folder}/snapshots/epoch-0001.safetensors").fingerprint
    code, out, _ = run(capsys, "train", str(path), "--out", str(tmp_path / "json"), "--json")
    assert json.loads(out)["steps"] == 8


def test_the_last_epochs_of_a_longer_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs after six are the last quarter of a cosine, for the rate and for all that follows the progress."""
    heard: list[float] = []
    monkeypatch.setattr(Student, "after_step", lambda self, progress: heard.append(progress))
    optimiser = {"name": "sgd", "rate": 0.1, "momentum": 0}
    for after in (0, 6):
        heard.clear()
        trained = train(recipe(SIMCLR, optimiser=optimiser, after=after), tmp_path / str(after))
        shares = [(4 * after + step) / (4 * after + 8) for step in range(9)]
        assert [row["rate"] for row in trained.rows] == pytest.approx(
            [0.1 * math.cos(math.pi / 2 * share) ** 2 for share in shares[:-1]]
        )
        assert heard == pytest.approx(shares[1:])


def test_corruption_before_views_and_after_them(tmp_path: Path) -> None:
    """A shuffle before the views is another thing than one after them; without views they are the same."""
    still = {"crop": [1, 1], "flip": 0}
    shuffled = {"name": "global_shuffle", "grid": 4}
    runs = {
        (views["crop"][0], when): weights(
            train(recipe(SIMCLR, corruption=shuffled, corrupt=when, views=views, steps=2), tmp_path / f"{when}{views}")
        )
        for views in (WINDOW, still)
        for when in ("before", "after")
    }
    assert same(runs[1, "before"], runs[1, "after"])
    assert not same(runs[0.6, "before"], runs[0.6, "after"])


# --- what is refused ---


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("method=simcl", "did you mean 'simclr'"),
        ("method.temperatur=1", "did you mean 'temperature'"),
        ("batch_size=1", "expected at least 2 images together"),
        ("batch_size=512", "expected at least a batch of 512 images, got 256"),
        ("optimiser.name=sdg", "did you mean 'sgd'"),
        ("optimiser.rate=-1", "optimiser: rate: expected a finite number above 0, got -1"),
        ("views.crop=[0.5, 2]", "a crop keeps a share of the area"),
        ("views.flip=yes", "views: flip: expected a finite number"),
        ("views=3", "expected a table"),
        ("adversary.attack=pdg", "did you mean 'pgd'"),
        ("adversary.threat=nothing", "unknown threat"),
        ("batchnorm=split", "there is no adversary"),
        ("precision=half", "unknown precision"),
        ("after=-1", "recipe.after: expected 0 or more, got -1"),
        (["after=3", "steps=8"], "after=3: expected epochs beside it, got 8 steps"),
        ("ema=2", "expected a decay between 0 and 1"),
        ("epoch=3", "did you mean 'epochs'"),
        ("encoder=onnx:none.onnx", "none.onnx"),
        ("nonsense", "expected key=value"),
    ],
)
def test_bad_recipes_are_one_clear_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: str | list[str], said: str
) -> None:
    path = write(tmp_path / "recipe.toml", SIMCLR)
    changes = [change] if isinstance(change, str) else change
    sets = [word for each in changes for word in ("--set", each)]
    assert said in refused(capsys, "train", str(path), *sets, "--out", str(tmp_path / "run"))


def test_files_that_are_no_recipes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "error: no recipe" in refused(capsys, "train", str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("encoder = ")
    assert "is not TOML" in refused(capsys, "train", str(tmp_path / "bad.toml"))
    (tmp_path / "empty.toml").write_text("")
    assert "expected 'encoder'" in refused(capsys, "train", str(tmp_path / "empty.toml"))


def test_unlabelled_images_and_methods_that_read_labels(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.zeros((80, 8, 8), np.uint8))
    path = write(tmp_path / "recipe.toml", method="supervised", data=str(tmp_path / "images.npy"))
    assert "expected images with labels" in refused(capsys, "train", str(path), "--out", str(tmp_path / "run"))


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SAVE_EVERY", 0.0)
    learn = loop._Training._learn

    def broken(training: loop._Training, *arguments):
        if training.step == 4:
            with torch.no_grad():
                next(iter(training.student.encoder.parameters())).fill_(torch.nan)
        return learn(training, *arguments)

    monkeypatch.setattr(loop._Training, "_learn", broken)
    with pytest.raises(NotFinite, match=r"5 of 8.*checkpoint\.pt"):
        train(recipe(SIMCLR), tmp_path / "run")
    assert not (tmp_path / "run" / "encoder.safetensors").exists()
    monkeypatch.undo()
    assert train(recipe(SIMCLR), tmp_path / "run").resumed == 4


def test_a_rate_that_is_far_too_high(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "recipe.toml", SIMCLR, epochs=20, optimiser={"name": "sgd", "rate": 1e30})
    said = refused(capsys, "train", str(path), "--out", str(tmp_path / "run"))
    assert "training stopped at step" in said
    assert not (tmp_path / "run" / "encoder.safetensors").exists()


class Constant(nn.Module):
    """A network that has collapsed."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bias.expand(len(x), -1)


def test_collapse_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PATIENCE", 3)
    with pytest.raises(Failed, match=r"3 of 8.*collapsed"):
        train(recipe(BYOL), tmp_path / "run", encoder=Encoder(Constant(), mean=0, std=1, name="constant"))


def test_checkpoints_of_other_recipes_and_broken_ones(tmp_path: Path) -> None:
    train(recipe(SIMCLR, steps=1), tmp_path / "run")
    with pytest.raises(BadPlace):
        train(recipe(SIMCLR, steps=1, seed=1), tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(BadData):
        train(recipe(SIMCLR, steps=1), tmp_path / "run")


def test_networks_that_cannot_be_trained(tmp_path: Path) -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Flatten(), nn.Linear(64, 8)))
    with pytest.raises(Unsupported, match="traced"):
        train(recipe(SIMCLR), tmp_path / "run", encoder=Encoder(traced, mean=0, std=1, name="traced"))
