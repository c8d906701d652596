"""The minimum-norm attack where the smallest change is known: linear goals, and goals that are flat at the image."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from holdfast.core import Ball, Goal, Rng, Trajectory
from holdfast.parts.attacks.minimum_norm import MinimumNorm, within
from holdfast.parts.attacks.shared.minimal import minimal_radius
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue

IDS = tuple("abcdefgh")
WAY = torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0))
BALLS = [pytest.param(Linf, float(WAY.abs().sum()), id="linf"), pytest.param(L2, float(WAY.norm()), id="l2")]
MARGIN = 0.5


@pytest.fixture
def x() -> Tensor:
    return 0.4 + 0.2 * torch.rand(len(IDS), 1, 8, 8, generator=torch.Generator().manual_seed(1))


def falling(x: Tensor) -> Goal:
    """Above 0 beyond a hyperplane at distance MARGIN / ||WAY||, in the dual norm."""
    return lambda at: (((at - x) * WAY).flatten(1).sum(1) - MARGIN, at.flatten(1))


def run(goal: Goal, x: Tensor, ball: Ball) -> Trajectory:
    return MinimumNorm()(goal, x, ball, Rng(0, ids=IDS))


@pytest.mark.parametrize(("norm", "dual"), BALLS)
def test_breaks_where_the_ball_reaches_and_only_there(norm: Callable[[float], Ball], dual: float, x: Tensor) -> None:
    """The search breaks every image, but outside of the smaller ball: that must not be reported."""
    radius = MARGIN / dual
    assert (run(falling(x), x, norm(1.01 * radius)).values[-1] > 0).all()
    found = run(falling(x), x, norm(0.99 * radius))
    assert (found.values[-1] < 0).all()
    torch.testing.assert_close(falling(x)(found.images[100])[0], found.values[-1])


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("norm", "dual"), BALLS)
@pytest.mark.parametrize("share", [0.6, 3.0])
def test_reports_the_edge_of_the_ball(norm: Callable[[float], Ball], dual: float, share: float, x: Tensor) -> None:
    """Of a linear goal the smallest change leads straight to the optimum, ε ||WAY|| - MARGIN."""
    ball = norm(share * MARGIN / dual)
    found = run(falling(x), x, ball)
    torch.testing.assert_close(found.values[-1], torch.full((8,), (share - 1) * MARGIN), rtol=0.01, atol=0)
    assert within(ball, x, found.images[100]).all()


@pytest.mark.parametrize(("norm", "dual"), BALLS)
def test_finds_a_way_where_the_image_itself_has_no_gradient(
    norm: Callable[[float], Ball], dual: float, x: Tensor
) -> None:
    def drift(at: Tensor) -> tuple[Tensor, Tensor]:
        return ((at - x) * WAY).flatten(1).sum(1).abs() - MARGIN, at.flatten(1)

    assert (run(drift, x, norm(1.05 * MARGIN / dual)).values[-1] > 0).all()


def test_a_broken_image_is_walked_back_where_nothing_has_a_gradient() -> None:
    """Grey images brighter than 0.3 break; white ones are known to."""
    black = torch.zeros(2, 1, 8, 8)
    radius, image, _ = minimal_radius(
        lambda at: (0 * at.flatten(1).sum(1) - 1, at.flatten(1)), lambda reps: reps.mean(1) > 0.3,
        black, Linf(0.1), steps=1, broken=black + 1,
    )  # fmt: skip
    assert ((radius > 0.3) & (radius < 0.3 + 1e-3)).all()
    torch.testing.assert_close(image.amax((1, 2, 3)), radius)


def test_within_tells_the_ball_and_the_box(x: Tensor) -> None:
    ball = Linf(0.1)
    assert within(ball, x, x + 0.1).all()
    assert not within(ball, x, x + 0.10001).any()
    dark = torch.zeros_like(x)
    assert not within(ball, dark, dark - 0.01).any()
    assert not within(ball, 1 - dark, 1.01 - dark).any()


def test_no_steps_are_refused() -> None:
    with pytest.raises(BadValue, match="steps >= 1"):
        MinimumNorm(0)
