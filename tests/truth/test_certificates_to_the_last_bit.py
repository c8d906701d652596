"""Certificates against the ball of the real number that a user wrote: never above the exact minimum, by no rounding.

Attacks here search in float64, so what they reach is the margin of an image of the ball but for 1e-15.
"""

import copy
from collections.abc import Iterable
from fractions import Fraction

import pytest
import torch
from certified_problems import budgeted
from random_networks import DIM, random_encoder
from torch import Tensor, nn

from holdfast.core import Ball, Encoder, Margin, Rng, registry
from holdfast.numerics.bounds.backward import Region
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue

CERTIFIERS = registry.names("certifiers")
ROUNDS_DOWN = ("0.7", "0.03", "0.3", "1e-3", "0.0123")
"""Radii, some of which are smaller in float32, and in float64, than the numbers that are written here."""

TOLERANCE = 1e-12
"""Share of the terms of a margin: what an attack's own float64 may be wrong by (some 10³ roundings of 1e-16)."""

IMAGES, ROWS = 4, 3


def sum_of_pixels(weight: float) -> Encoder:
    layer = nn.Linear(4, 1, bias=False)
    nn.init.constant_(layer.weight, weight)
    return Encoder(nn.Sequential(nn.Flatten(), layer), mean=0, std=1)


CASES = [(name, radius, "ball") for name in CERTIFIERS for radius in ("0.7", "0.03")]
CASES += [("crown", radius, given) for radius in ROUNDS_DOWN for given in ("float64", "float32")]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("name", "radius", "given"), CASES)
def test_affine_networks_in_fractions(name: str, radius: str, given: str) -> None:
    """Four pixels at 1/4, weights -1: the minimum over all |δ| <= ε is -Σ min(1/4 + ε, 1), in rational numbers."""
    exact = -4 * min(Fraction(1, 4) + Fraction(radius), Fraction(1))
    x, margin = torch.full((1, 1, 2, 2), 0.25), Margin(torch.ones(1, 1, 1), torch.zeros(1, 1))
    radii = None if given == "ball" else torch.tensor([float(radius)], dtype=getattr(torch, given))
    bound = budgeted(name)(sum_of_pixels(-1.0), margin, x, Linf(float(radius)), radii).lower
    assert bound.dtype == torch.float64
    assert Fraction(float(bound)) <= exact
    assert float(bound) == pytest.approx(float(exact), abs=1e-6 if given == "float32" else 1e-8)


@pytest.mark.parametrize("radius", ROUNDS_DOWN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_box_holds_the_ball_of_the_real_number(radius: str, dtype: torch.dtype) -> None:
    x = torch.cat([torch.rand(98, generator=torch.Generator().manual_seed(0)), torch.tensor([0.0, 1.0])])
    x = torch.cat([x, x * 1e-7]).view(1, 1, 10, 20)
    region = Region.around(Linf(), x, torch.tensor([float(radius)], dtype=dtype))
    reach = Fraction(radius)
    assert Fraction(float(region.radii)) >= reach
    for pixel, low, high in zip(x.flatten().tolist(), *(end.flatten().tolist() for end in region.box), strict=True):
        assert Fraction(low) <= max(Fraction(pixel) - reach, 0)
        assert Fraction(high) >= min(Fraction(pixel) + reach, 1)
        assert 0 <= low <= high <= 1
    with pytest.raises(BadValue, match="float64"):
        Region.around(Linf(), x, torch.tensor([0.5], dtype=torch.float16))


def test_certified_radii_are_below_the_exact_ones() -> None:
    """m(x') = Σ x' - 0.88 with pixels at 1/4 is positive for all ε < 0.03, and not at 0.03."""
    margin = Margin(torch.ones(1, 1, 1, dtype=torch.float64), torch.tensor([[-0.88]], dtype=torch.float64))
    for ball, exact in ((Linf(), 0.03), (L2(), 0.06)):
        found = certify_radii(Crown(), sum_of_pixels(1.0), margin, torch.full((1, 1, 2, 2), 0.25), ball)
        assert found.dtype == torch.float64
        assert exact - 2e-6 <= float(found) < exact


def fuzzed(seed: int, name: str, ball: Ball) -> tuple[int, list[float]]:
    """Return how many bounds were compared with attacks in float64, and by how much each of them was above."""
    encoder, shape = random_encoder(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(IMAGES, *shape, generator=generator)
    x[1] = (x[1] * 1.6 - 0.3).clamp(0, 1)
    margin = Margin(
        torch.randn(IMAGES, ROWS, DIM, generator=generator).double(),
        torch.randn(IMAGES, ROWS, generator=generator).double(),
    )
    radii = torch.full((IMAGES,), ball.radius) if seed % 3 == 2 else None  # float32, rounded from what is meant
    bound = budgeted(name)(encoder, margin, x, ball, radii)
    reached, scale = least(encoder, margin, x, ball)
    over = ((bound.lower - reached) / scale).flatten().tolist()
    return len(over), over


_least: dict[tuple[int, Ball], tuple[Tensor, Tensor]] = {}


def least(encoder: Encoder, margin: Margin, x: Tensor, ball: Ball) -> tuple[Tensor, Tensor]:
    """Return the lowest margins that PGD finds in float64, from both ends of a few steps, and their terms' size."""
    key = (int(encoder.name.split()[-1]), ball)
    if key not in _least:
        double = copy.deepcopy(encoder).double()
        start = x.double().repeat_interleave(ROWS, 0)
        weights, bias = margin.weights.flatten(0, 1), margin.bias.flatten()

        def goal(at: Tensor) -> tuple[Tensor, Tensor]:
            reps = double(at)
            return -((weights * reps).sum(1) + bias), reps

        rng = Rng(0, ids=tuple(str(i) for i in range(len(start))))
        found = Pgd(30)(goal, start, ball, rng).images[30]
        delta = found - start  # the search stays in the ball, and so must this
        size = delta.abs().flatten(1).amax(1) if isinstance(ball, Linf) else delta.flatten(1).norm(dim=1)
        assert bool((size <= ball.radius * (1 + 1e-15)).all())
        value, reps = goal(found)
        terms = (weights * reps).abs().sum(1) + bias.abs()
        _least[key] = (-value.detach()).view(IMAGES, ROWS), terms.detach().view(IMAGES, ROWS).clamp_min(1)
    return _least[key]


def balls(seed: int) -> tuple[Ball, Ball]:
    radius = float(ROUNDS_DOWN[seed % len(ROUNDS_DOWN)]) * (1 if seed % 2 else 0.1)
    return Linf(radius), L2(3 * radius)


def compare(seeds: Iterable[int], first: int = 2) -> int:
    """Compare bounds in the first balls of each seed, and return how many."""
    count = 0
    for seed in seeds:
        for ball in balls(seed)[:first]:
            for name in CERTIFIERS:
                compared, over = fuzzed(seed, name, ball)
                count += compared
                assert max(over) <= TOLERANCE, f"{name}, network {seed}, {ball}: {max(over):.3g} above an image"
        _least.clear()
    return count


def test_no_image_beats_a_certificate_in_float64() -> None:
    """A network that is curved; of affine ones see above."""
    assert compare((4,), 1) == len(CERTIFIERS) * IMAGES * ROWS


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 45, 5))
def test_no_image_beats_five_thousand_certificates_in_float64(first: int, capsys: pytest.CaptureFixture[str]) -> None:
    """All nine together compare 5,400 bounds."""
    count = compare(range(first, first + 5))
    with capsys.disabled():
        print(f"\n{count:,} bounds, none above an image of its ball")
    assert count == 5 * 2 * len(CERTIFIERS) * IMAGES * ROWS
