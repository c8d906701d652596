"""Every ball: draws, projections and steps stay inside it and inside [0, 1]."""

import pytest
import torch
from torch import Tensor

from holdfast.core import Ball, Rng, registry
from holdfast.runtime.errors import BadValue

BALLS = [registry.find("threats", name) for name in registry.names("threats")]
BALLS = [cls for cls in BALLS if issubclass(cls, Ball)]
RADII = (0.03, 0.4)
IDS = tuple("abcdefgh")


@pytest.mark.parametrize("cls", BALLS)
@pytest.mark.parametrize("radius", RADII)
def test_draws_stay_inside(cls: type[Ball], radius: float, edges: Tensor) -> None:
    ball = cls(radius)
    x = ball.sample(edges, Rng(3, ids=IDS))
    assert float(ball.size(x - edges).max()) <= radius + 1e-6
    assert x.min() >= 0
    assert x.max() <= 1
    assert not torch.equal(x, edges)


@pytest.mark.parametrize("cls", BALLS)
def test_draws_depend_on_seed_and_id_alone(cls: type[Ball], edges: Tensor) -> None:
    ball, rng = cls(0.1), Rng(3, ids=IDS)
    all_at_once = ball.sample(edges, rng)
    order = [5, 2, 7]
    some = ball.sample(edges[order], rng.at([IDS[i] for i in order]))
    assert torch.equal(all_at_once[order], some)
    assert not torch.equal(ball.sample(edges, Rng(4, ids=IDS)), all_at_once)
    assert not torch.equal(ball.sample(edges, rng.child("again")), all_at_once)


@pytest.mark.parametrize("cls", BALLS)
@pytest.mark.parametrize("radius", RADII)
def test_projection_is_idempotent_and_keeps_the_inside(cls: type[Ball], radius: float, edges: Tensor) -> None:
    ball = cls(radius)
    delta = torch.randn(edges.shape, generator=torch.Generator().manual_seed(0))
    inside = ball.project(delta)
    assert float(ball.size(inside).max()) <= radius * (1 + 1e-6)
    torch.testing.assert_close(ball.project(inside), inside)
    small = delta * 0.5 * radius / ball.size(delta).view(-1, 1, 1, 1)
    torch.testing.assert_close(ball.project(small), small)


@pytest.mark.parametrize("cls", BALLS)
def test_around_stays_inside_at_the_edges(cls: type[Ball], edges: Tensor) -> None:
    ball = cls(0.3)
    moved = edges + torch.randn(edges.shape, generator=torch.Generator().manual_seed(0))
    x = ball.around(edges, moved)
    assert float(ball.size(x - edges).max()) <= 0.3 + 1e-6
    assert x.min() >= 0
    assert x.max() <= 1


@pytest.mark.parametrize("cls", BALLS)
@pytest.mark.parametrize("radius", [0.7, 0.3, 0.03, 8 / 255, 1e-3, 1e-6])
def test_no_image_leaves_the_ball_by_rounding(cls: type[Ball], radius: float) -> None:
    """Pixels of every size, moved anywhere and drawn, measured in float64."""
    ball, generator = cls(radius), torch.Generator().manual_seed(0)
    x = torch.rand(8, 3, 64, 64, generator=generator) ** torch.tensor([0, 1, 1, 1, 1, 8, 8, 40]).view(-1, 1, 1, 1)
    moved = x + torch.randn(x.shape, generator=generator) * torch.logspace(-8, 1, 64)
    for at in (ball.around(x, moved), ball.around(x, ball.around(x, moved)), ball.sample(x, Rng(0, ids=IDS))):
        assert at.dtype == torch.float32
        assert float(ball.size(at.double() - x.double()).max()) <= radius


@pytest.mark.parametrize("cls", BALLS)
def test_ascend_is_the_steepest_unit_step(cls: type[Ball], edges: Tensor) -> None:
    ball, generator = cls(0.3), torch.Generator().manual_seed(0)
    gradient = torch.randn(edges.shape, generator=generator)
    step = ball.ascend(gradient)
    torch.testing.assert_close(ball.size(step), torch.ones(8))
    gain = (step * gradient).flatten(1).sum(1)
    for _ in range(50):
        other = torch.randn(edges.shape, generator=generator)
        other = other / ball.size(other).view(-1, 1, 1, 1)
        assert ((other * gradient).flatten(1).sum(1) <= gain + 1e-4).all()
    assert torch.equal(ball.ascend(torch.zeros_like(edges)), torch.zeros_like(edges))


@pytest.mark.parametrize("cls", BALLS)
@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_radii_are_refused(cls: type[Ball], radius: float) -> None:
    with pytest.raises(BadValue, match="radius"):
        cls(radius)
