"""The minimum of a linear form over an ℓ2 ball inside a box, against a search for its multiplier."""

import pytest
import torch
from torch import Tensor

from holdfast.parts.threats.l2 import L2


def least_by_bisection(slopes: Tensor, x: Tensor, low: Tensor, high: Tensor, radius: float) -> float:
    """λ is where the length of clamp(-slopes / λ) is the radius; 0 where the corner of the box is in the ball."""
    corner = torch.where(slopes > 0, low, high) - x
    if corner.norm() <= radius:
        return float(slopes @ (x + corner))
    below, above, step = 0.0, float(slopes.norm()) / radius, corner
    for _ in range(200):
        price = (below + above) / 2
        step = (-slopes / price).clamp(low - x, high - x)
        below, above = (price, above) if step.norm() > radius else (below, price)
    return float(slopes @ (x + step))


@pytest.mark.parametrize("radius", [1e-3, 0.1, 0.7, 2.0, 3.5, 20.0])
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_the_least_value_is_exact(radius: float, spread: float) -> None:
    """Whatever share of the pixels ends on the box, however unequal the slopes; its gradient is the minimiser."""
    generator = torch.Generator().manual_seed(0)
    slopes = torch.randn(6, 40, generator=generator, dtype=torch.float64)
    slopes = (slopes.sign() * (spread * slopes.abs()).exp()).requires_grad_()
    x = torch.rand(40, generator=generator, dtype=torch.float64).round(decimals=1)  # some on the box
    low, high = (x - radius).clamp_min(0), (x + radius).clamp_max(1)
    least = L2(radius).least(slopes, x, (low, high), torch.tensor(radius, dtype=torch.float64))
    for row, value in zip(slopes.detach(), least, strict=True):
        assert value.item() == pytest.approx(least_by_bisection(row, x, low, high, radius), rel=1e-12, abs=1e-12)
    (minimiser,) = torch.autograd.grad(least.sum(), slopes)
    torch.testing.assert_close((minimiser * slopes).sum(1), least)
    assert bool(((minimiser >= low - 1e-12) & (minimiser <= high + 1e-12)).all())
    assert bool(((minimiser - x).norm(dim=1) <= radius * (1 + 1e-12)).all())


def test_rows_do_not_depend_on_each_other() -> None:
    """Rows that need more rounds do not change those that need fewer."""
    slopes = torch.randn(50, 30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = torch.full((30,), 0.4, dtype=torch.float64)
    box, radius = ((x - 1.5).clamp_min(0), (x + 1.5).clamp_max(1)), torch.tensor(1.5, dtype=torch.float64)
    together = L2(1.5).least(slopes, x, box, radius)
    alone = torch.cat([L2(1.5).least(slopes[i : i + 1], x, box, radius) for i in range(50)])
    torch.testing.assert_close(alone, together, rtol=1e-14, atol=0)
