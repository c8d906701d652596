"""Every noise: its draws stay where they may be, depend on their image alone, and have gradients."""

import pytest
import torch
from torch import Tensor

from holdfast.core import Ball, Noise, Rng, registry
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Unsupported

IDS = tuple("abcdefgh")
NEEDS_A_FILE = {"mixture"}  # read from a file that has to be learned first; it has tests of its own
KINDS = [registry.find("threats", name) for name in registry.names("threats") if name not in NEEDS_A_FILE]
KINDS = [cls for cls in KINDS if issubclass(cls, Noise)]
BALLS = (Linf(0.1), Linf(1.0), L2(0.5), L2(30.0))
NOISES = [cls() for cls in KINDS if cls.ball is None]
NOISES += [cls(ball=ball) for cls in KINDS if cls.ball is not None for ball in BALLS]
NOISES += [
    registry.find("threats", "truncated_gaussian")(ball, scale, clamped)
    for ball in BALLS
    for scale, clamped in ((0.01, False), (0.1, False), (20.0, False), (1.0, True))
]
NOISES += [registry.find("threats", "laplace")(ball, scale) for ball in BALLS for scale in (0.01, 20.0)]


@pytest.fixture
def colours(edges: Tensor) -> Tensor:
    """Eight 3x8x6 images, several of them on the edges of the pixel box; not square."""
    more = torch.rand(8, 2, 8, 8, generator=torch.Generator().manual_seed(2))
    more[:3] = more[:3].round()
    return torch.cat([edges, more], 1)[..., :6].contiguous()


def numbers(noise: Noise, x: Tensor, draws: int = 5) -> Tensor:
    return Rng(5, ids=IDS[: len(x)]).normal(draws, noise.numbers(x))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("size", [1.0, 6.0, 40.0])
def test_draws_stay_inside(noise: Noise, size: float, colours: Tensor) -> None:
    z = size * numbers(noise, colours)
    z[:, 0] = z[:, 0].sign() * size
    out = noise.push(colours, z)
    assert out.shape == (8, 5, *colours.shape[1:])
    assert out.isfinite().all()
    assert out.min() >= 0
    assert out.max() <= 1
    assert not torch.equal(out[:, 0], colours)
    ball: Ball | None = noise.ball
    if ball is not None:
        away = (out - colours[:, None]).flatten(0, 1)
        assert float(ball.size(away).max()) <= ball.radius * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_draws_depend_on_seed_and_id_alone(noise: Noise, colours: Tensor) -> None:
    rng, order = Rng(3, ids=IDS), [5, 2, 7]
    whole = noise.sample(colours, rng)
    some = noise.sample(colours[order], rng.at([IDS[i] for i in order]))
    torch.testing.assert_close(some, whole[order], rtol=0, atol=1e-6)
    assert not torch.equal(noise.sample(colours, Rng(4, ids=IDS)), whole)
    z = numbers(noise, colours)
    alone = torch.stack([noise.push(colours[:1], z[:1, [s]])[0, 0] for s in range(5)])
    torch.testing.assert_close(alone, noise.push(colours, z)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_no_numbers_no_disturbance(noise: Noise, colours: Tensor) -> None:
    out = noise.push(colours, torch.zeros(8, 1, noise.numbers(colours)))
    torch.testing.assert_close(out[:, 0], colours, rtol=0, atol=2e-6)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("size", [0.0, 1.0, 40.0])
def test_gradients_are_finite(noise: Noise, size: float, colours: Tensor) -> None:
    z = (size * numbers(noise, colours)).requires_grad_()
    weights = torch.randn(colours.shape, generator=torch.Generator().manual_seed(0))
    inside = 0.2 + 0.6 * colours  # at the edge of the box there is nothing to follow
    (gradient,) = torch.autograd.grad((noise.push(inside, z) * weights[:, None]).sum(), z)
    assert gradient.isfinite().all()
    if size == 1:
        assert (gradient.flatten(1).abs().amax(1) > 0).all()


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_gradients_are_those_of_the_draws(noise: Noise, colours: Tensor) -> None:
    if getattr(noise, "scale", 1) <= 0.1 or isinstance(noise.ball, L2):
        pytest.skip("a table's gradient is that of its lines; nearly all of a narrow noise is its middle")
    inside = (0.3 + 0.4 * colours[3:]).double()
    z = numbers(noise, inside, 1).double().requires_grad_()
    weights = torch.randn(inside.shape, generator=torch.Generator().manual_seed(0)).double()
    way = torch.randn(z.shape, generator=torch.Generator().manual_seed(1)).double()
    (gradient,) = torch.autograd.grad((noise.push(inside, z) * weights[:, None]).sum(), z)
    step = 1e-6
    with torch.no_grad():
        ends = [(noise.push(inside, z + sign * step * way) * weights[:, None]).sum() for sign in (1, -1)]
    torch.testing.assert_close((gradient * way).sum(), (ends[0] - ends[1]) / (2 * step), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_parameters_are_refused(cls: type[Noise], wrong: float) -> None:
    ranges = [name for name, kind in cls.__annotations__.items() if kind is float]
    assert ranges or cls.ball is not None
    for name in ranges:
        with pytest.raises(BadValue, match=name):
            cls(**{name: wrong})


@pytest.mark.parametrize("cls", [cls for cls in KINDS if cls.ball is not None])
def test_unknown_balls_are_refused(cls: type[Noise], colours: Tensor) -> None:
    class Strange(Ball):
        radius = 0.1
        sample = project = ascend = squash = size = least = Linf.sample

    with pytest.raises(Unsupported, match="Strange"):
        cls(ball=Strange()).numbers(colours)


def test_hue_needs_colours(edges: Tensor) -> None:
    hue = registry.find("threats", "hue")()
    with pytest.raises(Unsupported, match="hue"):
        hue.numbers(edges)
    with pytest.raises(Unsupported, match="hue"):
        hue.push(edges, torch.zeros(8, 1, 1))
