"""Optimisers and schedules against their formulas."""

import math

import pytest
import torch
from torch import nn

from holdfast.core import HoldfastError, registry
from holdfast.runtime.errors import BadValue, UnknownName
from holdfast.training.optimiser import Optimiser
from holdfast.training.recipe import Recipe


def test_cosine_with_warm_up() -> None:
    asked = Optimiser(rate=0.4, schedule="cosine", warmup=0.2)
    assert asked.rate_at(0.0) == 0
    assert asked.rate_at(0.1) == pytest.approx(0.2)
    assert asked.rate_at(0.2) == pytest.approx(0.4)
    assert asked.rate_at(0.6) == pytest.approx(0.4 * (1 + math.cos(math.pi / 2)) / 2)
    assert asked.rate_at(1.0) == pytest.approx(0)


def test_steps_and_constant() -> None:
    asked = Optimiser(rate=1.0, schedule="step", milestones=(0.5, 0.75), factor=0.1)
    assert [asked.rate_at(at) for at in (0.0, 0.49, 0.5, 0.74, 0.75, 0.99)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01, 0.01]
    )
    assert Optimiser(rate=0.3, schedule="constant").rate_at(0.9) == 0.3


@pytest.mark.parametrize(
    ("optimiser", "epochs", "rates"),
    [
        # MoCo v2, cosine of .03 over 210 epochs: .03 cos²(π/2 · epoch / 210)
        (Optimiser(rate=0.03), (200, 10), {0.0: 1.67538e-4, 0.5: 4.19430e-5, 0.9: 1.67847e-6}),
        # MoCo v3, 7.5e-4 with 40 epochs of warm-up: 7.5e-4 cos²(π/2 · (epoch - 40) / 270)
        (Optimiser(rate=7.5e-4, warmup=40 / 310), (300, 10), {0.0: 2.53562e-6, 0.5: 6.34441e-7, 0.9: 2.53845e-8}),
    ],
)
def test_the_last_epochs_of_a_cosine(optimiser: Optimiser, epochs: tuple[int, int], rates: dict[float, float]) -> None:
    recipe = Recipe("none", "none", registry.part("methods", "moco_v2"), after=epochs[0], epochs=epochs[1])
    for share, rate in rates.items():
        assert optimiser.rate_at(recipe.progress(share)) == pytest.approx(rate, rel=1e-5)
    assert optimiser.rate_at(recipe.progress(1)) == pytest.approx(0, abs=1e-12)


def test_a_training_that_ends_no_other_keeps_its_shares() -> None:
    recipe = Recipe("none", "none", registry.part("methods", "moco_v2"), epochs=7)
    assert all(recipe.progress(step / 997) == step / 997 for step in range(998))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    made[2].bias.requires_grad_(False)
    return made


@pytest.mark.parametrize("name", ["sgd", "lars", "adam", "adamw"])
def test_biases_and_normalisation_do_not_decay(name: str) -> None:
    made = network()
    optimiser = Optimiser(name=name, weight_decay=0.1).build(made)
    decay = {value: group["weight_decay"] for group in optimiser.param_groups for value in group["params"]}
    assert {decay[made[0].weight], decay[made[2].weight]} == {0.1}
    assert {decay[made[0].bias], decay[made[1].weight], decay[made[1].bias]} == {0.0}
    assert made[2].bias not in decay


def test_sgd_step_by_hand() -> None:
    made = network()
    optimiser = Optimiser(name="sgd", rate=0.1, momentum=0.5, weight_decay=0.2).build(made)
    weight = made[0].weight
    before, velocity = weight.detach().clone(), torch.zeros_like(weight)
    for scale in (1.0, 2.0):
        weight.grad = scale * torch.ones_like(weight)
        velocity = 0.5 * velocity + scale + 0.2 * before
        before = before - 0.1 * velocity
        optimiser.step()
        torch.testing.assert_close(weight.detach(), before)


def test_lars_scales_each_layer_by_its_norms() -> None:
    """First step of LARS: w <- w - rate · λ (g + β w), λ = trust · ‖w‖ / (‖g‖ + β ‖w‖)."""
    made = network()
    optimiser = Optimiser(name="lars", rate=0.1, weight_decay=0.2).build(made)
    weight = made[0].weight
    weight.grad = torch.arange(12.0).view(4, 3)
    before, gradient, trust = (
        weight.detach().clone(),
        weight.grad.clone(),
        optimiser.param_groups[0]["trust_coefficient"],
    )
    scale = trust * before.norm() / (gradient.norm() + 0.2 * before.norm() + 1e-8)
    optimiser.step()
    torch.testing.assert_close(weight.detach(), before - 0.1 * scale * (gradient + 0.2 * before), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        ({"name": "adamn"}, UnknownName, "adamn"), ({"schedule": "cosin"}, UnknownName, r"'cosine'\?"),
        ({"rate": 0.0}, BadValue, r"optimiser\.rate"),
        ({"weight_decay": -1.0}, BadValue, r"optimiser\.weight_decay"),
        ({"momentum": 1.0}, BadValue, "momentum"), ({"warmup": 1.0}, BadValue, "warmup"),
        ({"milestones": (0.5, 0.2)}, BadValue, "optimiser"), ({"milestones": (0.0,)}, BadValue, "between 0 and 1"),
    ],
)  # fmt: skip
def test_wrong_optimisers(wrong: dict, kind: type[HoldfastError], said: str) -> None:
    with pytest.raises(kind, match=said):
        Optimiser(**wrong)
