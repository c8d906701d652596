"""Attacks on f(x) = W x + c reach the optimum that linear algebra gives; images are far from the edges of the box."""

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Attack, Ball, Encoder, Objective, Rng, Trajectory
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.bim import Bim
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.fgsm import Fgsm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.objectives.loss import Loss
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import NotFinite

SHAPE = (1, 4, 4)
IDS = tuple("abcdef")


def linear(weight: Tensor, bias: float = 0.3) -> Encoder:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.fill_(bias)
    return Encoder(nn.Sequential(nn.Flatten(), layer), mean=0, std=1)


@pytest.fixture
def weight() -> Tensor:
    return torch.randn(5, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def x() -> Tensor:
    return 0.4 + 0.2 * torch.rand(len(IDS), *SHAPE, generator=torch.Generator().manual_seed(1))


def run(attack: Attack, encoder: Encoder, x: Tensor, ball: Ball, objective: Objective, readouts=()) -> Trajectory:
    with torch.no_grad():
        clean = encoder(x)
    return attack(objective.pursue(encoder, clean, clean.roll(1, 0)), x, ball, Rng(0, ids=IDS[: len(x)]), readouts)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("attack", [Pgd(100, 0.3), Pgd(100, 0.3, keep="last"), Apgd(100), Bim(100, 0.3)], ids=str)
@pytest.mark.parametrize("divergence", ["l2", "squared_l2"])
def test_l2_drift_is_the_largest_singular_value(attack, divergence, weight, x) -> None:
    radius = 0.3
    optimum = radius * float(torch.linalg.matrix_norm(weight, 2))
    found = run(attack, linear(weight), x, L2(radius), Untargeted(divergence))
    drift = found.values[-1] if divergence == "l2" else found.values[-1].sqrt()
    assert (drift >= 0.99 * optimum).all()
    assert (drift <= optimum * (1 + 1e-5)).all()


def test_normalisation_divides_the_drift(weight, x) -> None:
    """With std = 1/4 the network sees pixels four times as far apart; the radius stays in pixels."""
    encoder = linear(weight)
    scaled = Encoder(encoder.module, mean=0.5, std=0.25)
    found = run(Pgd(100, 0.1), scaled, x, L2(0.1), Untargeted())
    optimum = 0.1 * 4 * float(torch.linalg.matrix_norm(weight, 2))
    torch.testing.assert_close(found.values[-1], torch.full((len(x),), optimum), rtol=0.01, atol=0)


@pytest.mark.parametrize(
    "attack", [Fgsm(), Fgsm(0.0), Pgd(20, 0.2), Pgd(20, 0.2, keep="last"), Bim(5), Apgd(10)], ids=str
)
@pytest.mark.parametrize("ball", [Linf(0.07), L2(0.4)], ids=str)
def test_margin_is_the_dual_norm(attack, ball, weight, x) -> None:
    """max wᵀ(f(x') - f(x)) = ε ||Wᵀw||, in the dual norm: ℓ1 for the ℓ∞ ball, ℓ2 for the ℓ2 ball."""
    w = torch.randn(5, generator=torch.Generator().manual_seed(2))
    margin = Loss(lambda reps, clean, target: (reps - clean) @ w)
    found = run(attack, linear(weight), x, ball, margin)
    optimum = ball.radius * float((w @ weight).norm(p=1 if isinstance(ball, Linf) else 2))
    torch.testing.assert_close(found.values[-1], torch.full((len(x),), optimum), rtol=1e-4, atol=0)


def test_margin_without_gradient(weight, x) -> None:
    """Square search reaches most of it; the optimum is a sign pattern that squares can draw."""
    w = torch.randn(5, generator=torch.Generator().manual_seed(2))
    margin = Loss(lambda reps, clean, target: (reps - clean) @ w)
    found = run(Square(1500), linear(weight), x, Linf(0.07), margin)
    optimum = 0.07 * float((w @ weight).norm(p=1))
    assert (found.values[-1] > 0.97 * optimum).all()
    assert (found.values[-1] <= optimum * (1 + 1e-5)).all()


@pytest.mark.parametrize("divergence", ["l1", "linf"])
def test_linf_drift_of_one_feature(divergence, weight, x) -> None:
    found = run(Pgd(20), linear(weight[:1]), x, Linf(0.05), Untargeted(divergence))
    optimum = 0.05 * float(weight[0].abs().sum())
    torch.testing.assert_close(found.values[-1], torch.full((len(x),), optimum), rtol=1e-4, atol=0)


@pytest.mark.parametrize("attack", [Pgd(200), Pgd(200, start="nudge"), Apgd(200)], ids=str)
def test_targeted_attack_in_one_dimension(attack) -> None:
    """f(x) = 2 x_1 - x_2: ε reaches 3 ε nearer to the target, and no further than the target itself."""
    encoder = linear(torch.tensor([[2.0, -1.0]]), bias=0.0)
    x = torch.tensor([[0.5, 0.5], [0.8, 0.3], [0.52, 0.5]]).view(3, 1, 1, 2)
    clean = encoder(x).detach()
    target = clean.roll(1, 0)  # distances 0.04, 0.8, 0.76
    found = run(attack, encoder, x, Linf(0.1), Targeted())
    expected = ((clean - target).abs().flatten() - 0.3).clamp_min(0)
    torch.testing.assert_close(-found.values[-1], expected, rtol=0, atol=2e-3)


def test_the_pixel_box_binds() -> None:
    """At the edge of the box only steps inwards are left: f(x) = x_1 + x_2 at (1, ½) falls by 2 ε, rises by ε."""
    encoder = linear(torch.ones(1, 2), bias=0.0)
    x = torch.tensor([1.0, 0.5]).view(1, 1, 1, 2)
    rise = Loss(lambda reps, clean, target: (reps - clean).sum(1))
    fall = Loss(lambda reps, clean, target: (clean - reps).sum(1))
    assert float(run(Pgd(20), encoder, x, Linf(0.1), rise).values[-1]) == pytest.approx(0.1)
    assert float(run(Pgd(20), encoder, x, Linf(0.1), fall).values[-1]) == pytest.approx(0.2)


@pytest.mark.parametrize("attack", [Pgd(12, 0.02), Apgd(12), Square(60), Bim(12)], ids=str)
def test_more_steps_never_report_less(attack, weight, x) -> None:
    found = run(attack, linear(weight), x, Linf(0.05), Untargeted(), readouts=range(attack.steps + 1))
    assert (found.values.diff(dim=0) >= 0).all()
    assert found.values.shape == (attack.steps + 1, len(x))
    clean = linear(weight)(x)
    for step, reps in found.reps.items():
        torch.testing.assert_close((reps - clean).norm(dim=1), found.values[step])


@pytest.mark.parametrize("make", [Pgd, Apgd], ids=["pgd", "apgd"])
def test_restarts_never_weaken(make, weight, x) -> None:
    """At every read-out: the first search is the same, and the others can only add."""
    steps, found = range(4), []
    for restarts in (1, 2, 5):
        attack = make(3, restarts=restarts)
        found.append(run(attack, linear(weight), x, Linf(0.05), Untargeted(), readouts=steps).values)
    assert (found[1] >= found[0]).all()
    assert (found[2] >= found[1]).all()
    assert (found[2] > found[0]).any()


def test_readouts_of_restarts_spend_no_more_steps_than_they_say(weight, x) -> None:
    """The read-out at 2 of 6 steps is what restarts of 2 steps each find."""
    whole = run(Pgd(6, 0.02, restarts=3), linear(weight), x, Linf(0.05), Untargeted(), readouts=(2, 6))
    short = run(Pgd(2, 0.02, restarts=3), linear(weight), x, Linf(0.05), Untargeted())
    assert torch.equal(whole.values[2], short.values[-1])
    assert torch.equal(whole.images[2], short.images[2])


def test_the_ensemble_is_at_least_each_member(weight, x) -> None:
    members = (Pgd(3), Apgd(5), Square(40), Fgsm())
    encoder = linear(weight)
    whole = run(Ensemble(members), encoder, x, Linf(0.05), Untargeted())
    alone = torch.stack([run(member, encoder, x, Linf(0.05), Untargeted()).values[-1] for member in members])
    torch.testing.assert_close(whole.values[-1], alone.max(0).values, rtol=0, atol=0)
    assert whole.winner is not None
    assert torch.equal(whole.winner, alone.argmax(0))
    with torch.no_grad():
        drift = (encoder(whole.images[1]) - encoder(x)).norm(dim=1)
    torch.testing.assert_close(drift, whole.values[-1])


def test_the_untargeted_gradient_is_zero_at_the_image_itself(weight, x) -> None:
    """So a start at x itself finds nothing (FGSM without its nudge), while every other start moves away."""
    encoder, ball = linear(weight), Linf(0.05)
    assert torch.equal(run(Fgsm(0.0), encoder, x, ball, Untargeted()).images[1], x)
    for attack in (Fgsm(), Pgd(1), Pgd(1, start="nudge"), Bim(1), Apgd(1)):
        found = run(attack, encoder, x, ball, Untargeted())
        assert (found.values[-1] > 0.3 * 0.05 * float(torch.linalg.matrix_norm(weight, 2))).all(), attack


def test_readouts_of_the_last_iterate_may_fall(weight, x) -> None:
    """`keep="last"` reports the iterate itself: too large a step overshoots an impersonation that "best" keeps."""
    values = {}
    for keep in ("best", "last"):
        found = run(Pgd(40, 0.05, keep=keep), linear(weight[:1]), x, Linf(0.2), Targeted())
        values[keep] = found.values
    assert (values["best"].diff(dim=0) >= 0).all()
    assert (values["last"].diff(dim=0) < 0).any()
    assert (values["best"][-1] >= values["last"][-1]).all()


def test_apgd_goes_back_to_its_best_point_at_the_published_checkpoints() -> None:
    """Every look at this goal is worse than the one before, so that each checkpoint finds the search stalled."""
    looks: list[Tensor] = []

    def falling(at: Tensor) -> tuple[Tensor, Tensor]:
        looks.append(at.detach().clone())
        return at.flatten(1).sum(1) - 100 * len(looks), at.flatten(1)

    Apgd(100)(falling, torch.full((1, *SHAPE), 0.5), Linf(0.1), Rng(0, ids=IDS[:1]))
    back = [step for step in range(100) if (looks[step + 1] < looks[step] - 1e-6).any()]
    assert back == [22, 41, 57, 70, 80, 87, 93, 99]


def test_a_gradient_that_is_not_finite_is_an_error(x) -> None:
    def root(at: Tensor) -> tuple[Tensor, Tensor]:
        return (at - at.detach()).flatten(1).sum(1).abs().sqrt(), at.flatten(1)

    with pytest.raises(NotFinite, match="6 of 6"):
        Pgd(2)(root, x, Linf(0.1), Rng(0, ids=IDS))
