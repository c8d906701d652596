"""Self-distillation from another encoder: what the teacher sees, what is learned of it, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from test_command_line import refused
from test_harden import DIGITS as HARDENING
from test_harden import _tiny, unaudited  # noqa: F401
from test_training import recipe, same, weights
from torch import nn

from holdfast.core import Batch, Encoder, Facts, Geometry
from holdfast.parts.methods import self_distillation
from holdfast.parts.methods.self_distillation import SelfDistillation
from holdfast.runtime.errors import BadPlace
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training import loop
from holdfast.training.loop import train
from holdfast.workflows.harden.outcome import drift
from holdfast.workflows.harden.run import harden

OWN, TEACHER = "zoo:digits_cnn", "zoo:digits-simclr-adv"
TAUGHT = {"method": {"name": "self_distillation", "teacher": TEACHER}, "views": {"crop": [1, 1], "flip": 0}}


def linear(channels: int, side: int, dim: int, seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(channels * side * side, dim))


def test_a_teacher_sees_the_pixels_at_its_own_size_and_normalises_them_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grey student of 6 × 6 pixels learns from a teacher of colour pictures of 12 × 12."""
    plain = linear(3, 12, 5, 1)
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    geometry = Geometry((12, 12), channels=3)
    teacher = Encoder(plain, mean=mean.tolist(), std=std.tolist(), geometry=geometry, name="teacher")
    monkeypatch.setattr(self_distillation, "open_encoder", lambda spec: teacher)
    start = trainable(Encoder(linear(1, 6, 5, 2), mean=0.5, std=0.5, name="student"))
    student = SelfDistillation(teacher="it").student(start, Facts(5, 4, shape=(1, 6, 6)))
    x, attacked = torch.rand(2, 4, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    # by hand: bilinear with antialiasing, grey three times, normalised as the teacher does
    larger = F.interpolate(x, (12, 12), mode="bilinear", antialias=True).expand(-1, 3, -1, -1)
    with torch.no_grad():
        target = plain((larger - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1))
    result = student([x, x], [attacked], Batch(torch.arange(4)))
    for loss, seen in ((result.clean, x), (result.attacked, attacked)):
        assert float(loss.detach()) == pytest.approx(float((start(seen) - target).square().mean().detach()), rel=1e-5)
    torch.testing.assert_close(student.reference(x), target)  # attacks measure from there, too


def test_a_student_comes_near_its_teacher_which_stays(tmp_path: Path) -> None:
    asked = recipe(TAUGHT, steps=40, optimiser={"rate": 0.003})
    trained = train(asked, tmp_path)
    x = next(iter(open_images("digits?part=heldout", images=100).batches(100)))
    teacher, before = open_encoder(TEACHER), open_encoder(OWN)
    with torch.no_grad():
        goal = teacher(x)
        old, new = ((encoder(x) - goal).square().mean() for encoder in (before, trained.encoder))
    assert new < 0.5 * old
    assert trained.rows[0]["loss"] > 2 * trained.rows[-1]["loss"]


def test_a_taught_training_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, step = recipe(TAUGHT, steps=4), loop._Training._one_step

    def interrupted(training: loop._Training) -> None:
        if training.step == 2:
            raise KeyboardInterrupt
        step(training)

    monkeypatch.setattr(loop._Training, "_one_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(asked, tmp_path / "run")
    monkeypatch.undo()
    resumed = train(asked, tmp_path / "run")
    assert resumed.resumed == 2
    assert same(weights(resumed), weights(train(asked, tmp_path / "whole")))


def teacher_file(path: Path, shift: float) -> str:
    """A teacher's spec, whose file holds the weights of a zoo encoder, shifted."""
    state = open_encoder(TEACHER).module.get_submodule("network").state_dict()
    save_file({name: value + shift for name, value in state.items()}, path)
    return f"{TEACHER}?weights={path}&mean=0.5&std=0.5"


@pytest.mark.usefixtures("unaudited", "_tiny")
def test_another_teacher_in_the_same_file_is_another_training(tmp_path: Path) -> None:
    spec = teacher_file(tmp_path / "teacher.safetensors", 0)
    asked = recipe(TAUGHT, method={"name": "self_distillation", "teacher": spec}, steps=1)
    hardening = replace(HARDENING, objective=f"self_distillation[teacher={spec}]", steps=2)
    for _ in range(2):  # the second time it is done
        train(asked, tmp_path / "train")
        harden(hardening, tmp_path / "harden")
    teacher_file(tmp_path / "teacher.safetensors", 0.01)
    with pytest.raises(BadPlace) as error:
        train(asked, tmp_path / "train")
    assert "is of another recipe" in str(error.value)
    with pytest.raises(BadPlace) as error:
        harden(hardening, tmp_path / "harden")
    assert "holds another hardening" in str(error.value)


@pytest.mark.slow
@pytest.mark.usefixtures("unaudited", "_tiny")
def test_the_price_of_a_taught_hardening_is_what_moved_from_the_encoder_itself(tmp_path: Path) -> None:
    asked = replace(HARDENING, objective=f"fare[teacher={TEACHER}]", steps=4, rate=None)
    hardened = harden(asked, tmp_path)
    # Near the teacher is not near what was before, so nobody can tell which rate is borne
    assert [row.rate for row in hardened.record.rates] == [0.01]
    size = hardened.record.images.held_out
    held_out = open_images("digits?part=train", images=size)
    own, other = (drift(open_encoder(spec), hardened.encoder, held_out) for spec in (asked.encoder, TEACHER))
    assert hardened.record.price.cosine.value == pytest.approx(own.cosine.value, abs=0.02)
    assert own.cosine.value is not None
    assert other.cosine.value is not None
    assert other.cosine.value < own.cosine.value - 0.1


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("zoo:cnn_a_mnist", "as large as the encoder's, 64, got 100 of 'zoo:cnn_a_mnist'"),
        (
            "zoo:digits-simclr-adw",
            "teacher: unknown zoo encoder 'digits-simclr-adw'; did you mean 'digits-simclr-adv'?",
        ),
        ("none.safetensors", "teacher: weights file 'none.safetensors' does not exist"),
        ("zoo:digits-simclr?layer=2", "teacher: layer '2' gives [2, 32, 4, 4]"),
    ],
)
def test_teachers_that_do_not_fit(capsys: pytest.CaptureFixture[str], spec: str, said: str, tmp_path: Path) -> None:
    command = ["harden", OWN, "--data", "digits", "--steps", "2", "--out", str(tmp_path)]
    assert said in refused(capsys, *command, "--objective", f"self_distillation[teacher={spec}]")
