"""The learning rate of a hardening: the one that a network bears, whatever the size of its weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from holdfast.core import Encoder, HoldfastError
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.optimiser import LEAST, Optimiser
from holdfast.workflows.harden import rate as _rate
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.harden.rate import MOST, RATES, STEPS, losses

RECIPE = Hardening("memory", "memory", eps=0.1, views="none", steps=1).recipe()


def encoder(layers: int, gain: float) -> Encoder:
    """A network without normalisation; the deeper it is and the larger its gains, the less it bears."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        further = [module for _ in range(layers) for module in (nn.ReLU(), nn.Linear(48, 48))]
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), *further)
    with torch.no_grad():
        for module in network:
            if isinstance(module, nn.Linear):
                module.weight.mul_(gain)
    return Encoder(network, mean=0, std=1)


@pytest.fixture(scope="module")
def images() -> TrainingImages:
    return TrainingImages("digits", images=128, geometry=None)


def test_a_network_that_bears_little_gets_a_smaller_rate(images: TrainingImages) -> None:
    shallow, deep = (losses(RECIPE, encoder(*shape), images) for shape in ((0, 1.0), (12, 2.5)))
    for tried in (shallow, deep):
        *larger, borne = tried.values()
        assert list(tried) == list(RATES[: len(tried)])  # from the largest down
        assert all(loss > MOST for loss in larger)
        assert borne <= MOST
    assert list(deep)[-1] < list(shallow)[-1]


def test_losses_are_in_units_of_that_before_any_step(images: TrainingImages, tmp_path: Path) -> None:
    start = encoder(0, 1.0)
    rate, borne = list(losses(RECIPE, start, images).items())[-1]
    recipe = replace(RECIPE, steps=STEPS, optimiser=replace(RECIPE.optimiser, rate=rate, schedule="constant", warmup=0))
    first, *_, third, fourth = (row["loss"] for row in train(recipe, tmp_path, encoder=start, images=images).rows)
    assert borne == pytest.approx((third + fourth) / 2 / first)


def test_what_cannot_be_trained_at_any_rate_says_why(images: TrainingImages, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise HoldfastError("not finite: loss")

    monkeypatch.setattr(_rate, "train", fails)
    with pytest.raises(HoldfastError, match="not finite: loss"):
        losses(RECIPE, encoder(0, 1.0), images)


def test_a_scaled_rate_is_in_units_of_each_tensor() -> None:
    """Adam's first step moves every number by the rate, here by so much of its tensor's size; zeros by the least."""
    large, small = nn.Linear(3, 4), nn.Linear(4, 2)
    network = nn.Sequential(large, small)
    with torch.no_grad():
        large.weight.mul_(100)
        small.bias.zero_()
    before = [value.detach().clone() for value in network.parameters()]
    optimiser = Optimiser("adam", rate=0.5, weight_decay=0.0, schedule="constant", scaled=True)
    built = optimiser.build(network)
    assert optimiser.set_rate(built, 0.0) == 0.5
    for value in network.parameters():
        value.grad = torch.ones_like(value)
    built.step()
    for value, old in zip(network.parameters(), before, strict=True):
        size = max(LEAST, float(old.square().mean().sqrt()))
        torch.testing.assert_close(value.detach(), old - 0.5 * size, atol=1e-5, rtol=1e-4)
