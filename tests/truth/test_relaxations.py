"""Every activation stays between its lines and in its range; the lines leave no more area than any others would.

What is held against the lines is the activation itself on dense grids, and the convex hull of its graph there.
"""

from dataclasses import replace
from math import inf

import pytest
import torch
from torch import Tensor

from holdfast.numerics.bounds import activations
from holdfast.numerics.bounds.activations import Box, Curved, LinearRelaxation, Relu, Smooth, elu, power

CURVES = {
    "ReLU": Relu(),
    **{name: value for name, value in vars(activations).items() if isinstance(value, Curved)},
    "cube": power(3), "fourth power": power(4), "power 1.5": power(1.5), "power -0.5": power(-0.5),
    "ELU of ½": elu(0.5), "ELU of 3": elu(3.0, 0.7), "CELU of 2": elu(2.0, 1.0, 0.5),
}  # fmt: skip

DOMAINS = {
    "LOG": (1e-9, inf), "SQRT": (0, inf), "RSQRT": (1e-9, inf), "RECIPROCAL": (1e-9, inf), "power 1.5": (0, inf),
    "power -0.5": (1e-9, inf), "EXP": (-inf, 300),
}  # fmt: skip
"""Where a curve is defined, and a float64 holds its values, if not everywhere."""


def grid(low: Tensor, high: Tensor, points: int) -> Tensor:
    """Points of each interval: evenly, where it is wide densely around zero, and at all kinks and bends."""
    even = torch.minimum(low + (high - low) * torch.linspace(0, 1, points, dtype=torch.float64)[:, None], high)
    middle = torch.linspace(-8, 8, points, dtype=torch.float64)[:, None]
    bends = torch.tensor([-3, -(2**0.5), -1.5, -1.278465, -1.192431, -0.752, 0, 2**0.5, 3], dtype=torch.float64)[
        :, None
    ]
    inside = [torch.minimum(torch.maximum(some, low), high) for some in (middle, bends)]
    return torch.cat([even, *inside])


def intervals(seed: int, count: int = 1000, domain: tuple[float, float] = (-inf, inf)) -> Box:
    """Intervals of every width from 1e-9 to 1e3, around centres from 1e-3 to 1e3 and on both sides of zero; points.

    Some end at zero or at other kinks, exactly.
    """
    generator = torch.Generator().manual_seed(seed)
    kind = {"generator": generator, "dtype": torch.float64}
    centre = torch.randn(count, **kind).sign() * 10 ** (torch.rand(count, **kind) * 6 - 3)
    width = 10 ** (torch.rand(count, **kind) * 12 - 9)
    width[:20] = 0
    width[20:40], centre[20:40] = centre[20:40].abs(), centre[20:40] / 2
    low, high = centre - width, centre + width
    low[40:60], high[60:80] = (
        torch.minimum(high[40:60], low.new_tensor(-3.0)),
        torch.maximum(low[60:80], low.new_tensor(3.0)),
    )
    low[80:300] = torch.rand(220, **kind) * 12 - 6
    high[80:300] = low[80:300] + 10 ** (torch.rand(220, **kind) * 3 - 2)
    low, high = low.clamp(*domain), high.clamp(*domain)
    return low, high


def at(lines: LinearRelaxation, z: Tensor) -> Box:
    """Return the values of both lines."""
    below = lines.below_slope * z + (0 if lines.below is None else lines.below)
    return below, lines.above_slope * z + lines.above


def of(name: str, seed: int, count: int = 1000) -> tuple[Curved, Box]:
    return CURVES[name], intervals(seed, count, DOMAINS.get(name, (-inf, inf)))


def check(curve: Curved, box: Box, lines: LinearRelaxation, points: int = 401) -> None:
    """The activation is between the lines, up to rounding."""
    low, high = box
    dtype = low.dtype
    z = grid(low.double(), high.double(), points)
    value = curve(z)
    below = lines.below_slope.double() * z + (0 if lines.below is None else lines.below.double())
    above = lines.above_slope.double() * z + lines.above.double()
    size = z.abs() + value.abs() + (lines.below_slope.abs() + lines.above_slope.abs()) * z.abs()
    rounding = (2e-13 if dtype == torch.float64 else 2e-6) * (1 + size)
    for what, gap in {"the line below": value - below, "the line above": above - value}.items():
        at = (gap / rounding).amin(0).argmin()
        assert bool((gap >= -rounding).all()), f"{what} on [{low[at]}, {high[at]}]: {gap[:, at].min()}"


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", CURVES)
def test_activations_stay_between_their_lines_and_in_their_range(name: str, dtype: torch.dtype) -> None:
    curve, box = of(name, 0)
    box = (box[0].to(dtype), box[1].to(dtype))
    if dtype == torch.float32:  # the largest numbers are too large for it
        some = torch.isfinite(curve(box[0])) & torch.isfinite(curve(box[1])) & (box[1] < 80)
        box = (box[0][some], box[1][some])
    check(curve, box, curve.relax(box))
    lowest, highest = (end.double() for end in curve.box(box))
    value = curve(grid(box[0].double(), box[1].double(), 401))
    rounding = (1e-14 if dtype == torch.float64 else 2e-6) * (1 + value.abs())
    assert bool((value >= lowest - rounding).all() & (value <= highest + rounding).all())


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_activations_stay_between_their_lines_on_ten_thousand_points(name: str) -> None:
    curve, box = of(name, 1)
    for low, high in zip(box[0].split(100), box[1].split(100), strict=True):
        check(curve, (low, high), curve.relax((low, high)), points=5000)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", CURVES)
def test_the_range_is_reached(name: str) -> None:
    curve, box = of(name, 2, 400)
    lowest, highest = curve.box(box)
    value = curve(grid(*box, 2001))
    size = 1e-6 * (1 + value.abs().amax(0))
    assert bool((value.amin(0) - lowest <= size).all() & (highest - value.amax(0) <= size).all())


@pytest.mark.parametrize("position", [0.3, *(pytest.param(end, marks=pytest.mark.slow) for end in (0.0, 1.0))])
@pytest.mark.parametrize("name", CURVES)
def test_every_line_that_may_be_chosen_is_valid(name: str, position: float) -> None:
    curve, box = of(name, 3)
    alpha = torch.full_like(box[0], position)
    lines = curve.relax(box)
    check(curve, box, lines.over(lambda values: values, alpha, alpha))
    for choice in (lines.lower, lines.upper):
        if choice is not None:  # the usual line is among them
            usual = curve.relax(box).over(lambda values: values, choice.usual, choice.usual)
            check(curve, box, usual)


@pytest.mark.parametrize("name", CURVES)
def test_the_usual_choice_is_the_usual_line(name: str) -> None:
    curve, box = of(name, 4)
    some = (box[1] - box[0] < 20) & (box[1].abs() < 50)
    box = (box[0][some], box[1][some])
    lines = curve.relax(box)
    middle = (box[0] + box[1]) / 2
    size = torch.maximum(curve(box[0]).abs(), curve(box[1]).abs())
    chosen = lines.over(
        lambda values: values,
        None if lines.lower is None else lines.lower.usual,
        None if lines.upper is None else lines.upper.usual,
    )
    for before, after in zip(at(lines, middle), at(chosen, middle), strict=True):
        assert bool(((before - after).abs() <= 1e-7 * (1 + size)).all())


def highest_line(z: Tensor, value: Tensor) -> Tensor:
    """Return how high a line below a graph can be over the middle of its interval, by ternary search of its slope."""
    middle = (z[0] + z[-1]) / 2
    rise = value.diff(dim=0) / z.diff(dim=0)
    rise = torch.where(torch.isfinite(rise), rise, 0.0)
    low, high = rise.amin(0), rise.amax(0)
    for _ in range(100):
        first, second = (2 * low + high) / 3, (low + 2 * high) / 3
        better = (value - first * (z - middle)).amin(0) > (value - second * (z - middle)).amin(0)
        low, high = torch.where(better, low, first), torch.where(better, second, high)
    return (value - (low + high) / 2 * (z - middle)).amin(0)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", [name for name in CURVES if name != "ReLU"])
def test_no_other_lines_leave_less_area(name: str) -> None:
    """A line's height over the middle is its area by the width; it is held against all lines around a dense grid."""
    curve, (low, high) = of(name, 5, 700)
    some = (high - low > 1e-2) & (high - low < 100) & (low.abs() < 50)
    low, high = low[some][-200:], high[some][-200:]
    below, above = at(curve.relax((low, high)), (low + high) / 2)
    z = low + (high - low) * torch.linspace(0, 1, 1001, dtype=torch.float64)[:, None]
    value = curve(z)
    best = -highest_line(z, -value) - highest_line(z, value)
    rounding = 1e-8 * (1 + value.abs().amax(0))
    assert bool((above - below >= best - rounding).all())
    assert bool((above - below <= 1.01 * best + rounding).all())


@pytest.mark.parametrize("name", ["TANH", "GELU", "SOFTPLUS", "HARDSWISH"])
def test_no_more_area_than_between_parallel_lines(name: str) -> None:
    curve, (low, high) = of(name, 6)
    assert isinstance(curve, Smooth)
    some = (high - low > 1e-3) & (high - low < 100)
    low, high = low[some], high[some]
    z = grid(low, high, 401)
    chord = (curve(high) - curve(low)) / (high - low)
    gaps = curve(z) - chord * z
    below, above = at(curve.relax((low, high)), (low + high) / 2)
    parallel = gaps.amax(0) - gaps.amin(0)
    assert bool((above - below <= parallel + 1e-11 * (1 + z.abs().amax(0)) + 2 * curve.departs).all())
    assert float(((above - below) / parallel)[parallel > 1e-3].mean()) < 0.97


@pytest.mark.parametrize(
    ("name", "low", "high"), [("LOG", -0.1, 1.0), ("SQRT", -1e-9, 1.0), ("RECIPROCAL", -1.0, 1.0), ("RSQRT", -1.0, 2.0)]
)
def test_where_an_activation_is_not_defined_nothing_is_said(name: str, low: float, high: float) -> None:
    box = (torch.tensor([low], dtype=torch.float64), torch.tensor([high], dtype=torch.float64))
    lines = CURVES[name].relax(box)
    assert lines.below is not None
    assert bool(lines.below.isnan() & lines.above.isnan())
    assert any(bool(end.isnan()) for end in CURVES[name].box(box))


def test_the_reciprocal_of_negative_numbers() -> None:
    low, high = intervals(7, domain=(1e-3, 1e3))
    check(CURVES["RECIPROCAL"], (-high, -low), CURVES["RECIPROCAL"].relax((-high, -low)))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["TANH", "GELU", "HARDSWISH", "SELU", "EXP", "SQRT", "cube"])
def test_a_wrong_bend_or_slope_is_noticed(name: str) -> None:
    curve, box = of(name, 8)
    assert isinstance(curve, Smooth)
    bugs = [replace(curve, slope=lambda z: 1.05 * curve.slope(z) + 0.01), replace(curve, convex=not curve.convex)]
    bugs += [replace(curve, bends=tuple(bend + 0.3 for bend in curve.bends))] * bool(curve.bends)
    alpha = torch.full_like(box[0], 0.5)
    for bug in bugs:
        lines = bug.relax(box)
        with pytest.raises(AssertionError):
            check_all(curve, box, [lines, lines.over(lambda values: values, alpha, alpha)])


def check_all(curve: Curved, box: Box, relaxations: list[LinearRelaxation]) -> None:
    for lines in relaxations:
        check(curve, box, lines)
