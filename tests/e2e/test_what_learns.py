"""What of an encoder learns: frozen layers stay as they are, to the bit, and all that is asked of it is told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_command_line import refused, run
from test_harden import DIGITS as HARDENING
from test_harden import _tiny, unaudited, words  # noqa: F401
from test_training import SIMCLR, recipe, same, weights, write
from torch import nn

from holdfast.core import Encoder
from holdfast.runtime.errors import BadPlace
from holdfast.sources.encoders import open_encoder
from holdfast.training import loop
from holdfast.training.learner import learner
from holdfast.training.loop import train
from holdfast.workflows.harden.run import harden

ATTACKED = {"adversary": {"attack": {"name": "pgd", "steps": 1, "keep": "last"}, "threat": "linf"}}


def network() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = nn.Sequential(nn.Conv2d(1, 4, 3, 2, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        second = nn.Sequential(
            nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4, affine=False), nn.Flatten(), nn.Linear(4, 8)
        )
    return Encoder(nn.Sequential(first, second), mean=0.5, std=0.5, name="net")


def moved(before: Encoder, after: Encoder) -> set[str]:
    """Names of the tensors that have changed."""
    old, new = before.module.state_dict(), after.module.state_dict()
    assert old.keys() == new.keys()
    return {name for name in old if not torch.equal(old[name], new[name])}


ALL = {
    "0.0.weight", "0.1.weight", "0.1.bias", "0.1.running_mean", "0.1.running_var", "0.1.num_batches_tracked",
    "1.0.weight", "1.1.running_mean", "1.1.running_var", "1.1.num_batches_tracked", "1.3.weight", "1.3.bias",
}  # fmt: skip


@pytest.mark.parametrize("batchnorm", ["shared", "split"])
@pytest.mark.parametrize(
    ("freeze", "stays"),
    [
        ((), set()),
        (("0",), {name for name in ALL if name.startswith("0.")}),
        (("0.*",), {name for name in ALL if name.startswith("0.")}),
        (("1.1",), {name for name in ALL if name.startswith("1.1")}),
        (("*.weight",), {name for name in ALL if name.endswith("weight")}),
        # all weights of a layer, one by one: its statistics stay, too
        (("0.1.weight", "0.1.b*"), {name for name in ALL if name.startswith("0.1")}),
        (("1.3", "0.0.weight"), {"1.3.weight", "1.3.bias", "0.0.weight"}),
    ],
)
def test_frozen_layers_stay_with_their_statistics(
    batchnorm: str, freeze: tuple[str, ...], stays: set[str], tmp_path: Path
) -> None:
    # with weight decay, which would move weights that have no gradient
    optimiser = {"name": "sgd", "rate": 0.1, "weight_decay": 0.1}
    asked = recipe(SIMCLR, ATTACKED, steps=2, batchnorm=batchnorm, freeze=freeze, optimiser=optimiser, ema=0.5)
    trained = train(asked, tmp_path, encoder=network())
    assert moved(network(), trained.encoder) == ALL - stays


@pytest.mark.slow
def test_a_training_with_frozen_layers_goes_on_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, step = recipe(SIMCLR, freeze=["0"], steps=5), loop._Training._one_step

    def interrupted(training: loop._Training) -> None:
        if training.step == 3:
            raise KeyboardInterrupt
        step(training)

    monkeypatch.setattr(loop._Training, "_one_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(asked, tmp_path / "run", encoder=network())
    monkeypatch.undo()
    resumed = train(asked, tmp_path / "run", encoder=network())
    assert resumed.resumed == 3
    assert same(weights(resumed), weights(train(asked, tmp_path / "whole", encoder=network())))
    with pytest.raises(BadPlace):
        train(replace(asked, freeze=()), tmp_path / "run", encoder=network())


@pytest.mark.parametrize("pattern", ["1.weight", "2.weight"])
def test_a_weight_in_two_places_is_frozen_by_either_name(pattern: str) -> None:
    shared = nn.Linear(3, 3)
    module = nn.Sequential(nn.Flatten(), shared, shared, nn.Linear(3, 2))
    found = learner(Encoder(module, mean=0, std=1), recipe(SIMCLR, freeze=[pattern]))
    assert found.in_words == "11 of 20 weights trained"  # the bias of the one, all of the other


@pytest.mark.slow
def test_how_many_weights_were_trained_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "recipe.toml", SIMCLR, steps=1)
    code, out, err = run(capsys, "train", str(path), "--out", str(tmp_path / "a"), "--set", 'freeze=["0","2.*"]')
    assert code == 0, err
    assert "32,832 of 41,216 weights trained" in out
    code, out, _ = run(capsys, "train", str(path), "--out", str(tmp_path / "b"))
    assert code == 0
    assert "weights trained" not in out


@pytest.mark.slow
@pytest.mark.usefixtures("unaudited", "_tiny")
def test_hardening_leaves_layers_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = replace(HARDENING, steps=2, freeze=("0", "2.*"))
    code, out, err = run(capsys, *words(asked, tmp_path / "a"))
    assert code == 0, err
    assert "32,832 of 41,216 weights trained" in " ".join(out.split())
    record = json.loads((tmp_path / "a" / "harden.json").read_text())
    assert "--freeze 0 --freeze '2.*'" in record["command"]
    before = open_encoder("zoo:digits-supervised")
    after = open_encoder(f"zoo:digits-supervised?weights={tmp_path}/a/encoder.safetensors")
    assert moved(before, after) == {"network.5.weight", "network.5.bias"}
    # the same once more is done; another choice is another hardening
    assert harden(asked, tmp_path / "a").record.steps == 2
    with pytest.raises(BadPlace):
        harden(replace(asked, freeze=("0",)), tmp_path / "a")


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (["layer1.*"], "unknown layer or weight to freeze 'layer1.*'; known: 0, 0.bias, 0.weight"),
        (["0", "2.wieght"], "did you mean '2.weight'?"),
        (["1"], "unknown layer or weight to freeze '1'"),  # it has neither weights nor statistics
        (["*"], "expected patterns that leave some weights to train, got *, which match all 6"),
        (["0", "2", "5.*"], "which match all 6"),
    ],
)
def test_patterns_that_freeze_nothing_or_everything(
    capsys: pytest.CaptureFixture[str], patterns: list[str], said: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "recipe.toml", SIMCLR, freeze=patterns)
    assert said in refused(capsys, "train", str(path), "--out", str(tmp_path / "train"))
    options = [word for pattern in patterns for word in ("--freeze", pattern)]
    command = ["harden", "zoo:digits_cnn", "--data", "digits", "--steps", "2", "--out", str(tmp_path / "harden")]
    assert said in refused(capsys, *command, *options)
