"""Certificate <= exact optimum <= attack, on hundreds of margins of tiny random networks, thousands in long runs.

A certificate above the margin that the network itself reaches, in float64, at the image which the mixed-integer
program found, is a false proof: no tolerance of a solver enters.
"""

from itertools import pairwise

import pytest
import torch
from certified_problems import Setting, budgeted, solved
from tiny_networks import OTHER_PIECEWISE_LINEAR, RELU_NETWORKS, SMOOTH
from torch import Tensor

from holdfast.core import Margin, registry
from holdfast.numerics.bounds import activations
from holdfast.numerics.bounds.activations import Curved, Relu
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.certifiers.crown import Crown

CURVES = {"ReLU": Relu(), **{name: value for name, value in vars(activations).items() if isinstance(value, Curved)}}

CERTIFIED, SEARCHED = 1e-9, 1e-6
"""Shares of the size of the numbers that a margin adds; attacks leave the ball by their rounding in float32."""

CERTIFIERS = registry.names("certifiers")
PIECEWISE_LINEAR = [*RELU_NETWORKS, *OTHER_PIECEWISE_LINEAR]


def cases(names: list[str], slow: int = 10, every: int = 1) -> list:
    """Seeds for each network: a few margins of one (even and odd in turn), all of `slow` seeds in long runs.

    The few are always asked of every `every`-th network, of the others in long runs.
    """
    few = [(name, number % 2, True) for number, name in enumerate(names)]
    first = [pytest.param(*case, marks=[pytest.mark.slow] * (number % every > 0)) for number, case in enumerate(few)]
    rest = [(name, seed, False) for name in names for seed in range(slow)]
    return [*first, *(pytest.param(*case, marks=pytest.mark.slow) for case in rest)]


def all_below(values: Tensor, limit: Tensor, scale: Tensor, tolerance: float, what: str) -> None:
    over = ((values - limit) / scale).flatten().tolist()
    false = [value for value in over if not value <= tolerance]
    assert not false, f"{what}: {len(false)} of {len(over)} by {max(over)}"


def certificate_optimum_attack(name: str, norm: str, seed: int, few: bool) -> None:
    problem = solved(name, norm, seed, few)
    setting, scale = problem.setting, problem.setting.scale
    attack = setting.attacked()
    all_below(problem.reached, attack, scale, SEARCHED, "the optimum above an attack")
    all_below(problem.bound, problem.reached, scale, SEARCHED, "the program above its optimum")
    for certifier in CERTIFIERS:
        bound = setting.certified(budgeted(certifier))
        all_below(bound.lower, problem.reached, scale, CERTIFIED, f"{certifier} above the optimum")
        assert bool((bound.slack >= 0).all())


class TestLinf:
    """24 programs a case, 8 where they are few."""

    @pytest.mark.parametrize(("name", "seed", "few"), cases(PIECEWISE_LINEAR, every=4))
    def test_certificate_optimum_attack(self, name: str, seed: int, few: bool) -> None:
        certificate_optimum_attack(name, "linf", seed, few)


class TestL2:
    """12 programs a case, 8 where they are few."""

    @pytest.mark.parametrize(("name", "seed", "few"), cases(PIECEWISE_LINEAR, every=7))
    def test_certificate_optimum_attack(self, name: str, seed: int, few: bool) -> None:
        certificate_optimum_attack(name, "l2", seed, few)


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        pytest.param("padded", "l2", marks=pytest.mark.slow),
        pytest.param("dilated", "linf", marks=pytest.mark.slow),
        *(pytest.param(n, b, marks=pytest.mark.slow) for n in ("dense", "residual", "relu6") for b in ("linf", "l2")),
    ],
)
def test_each_method_is_at_least_as_tight_as_the_one_before(name: str, norm: str) -> None:
    problem = solved(name, norm, 1)
    setting, scale = problem.setting, problem.setting.scale
    found = [setting.certified(c).lower for c in (Crown(), AlphaCrown(), BetaCrown(splits=30, until="tight"))]
    for looser, tighter in pairwise(found):
        all_below(looser, tighter, scale, SEARCHED, "the looser method")
    gaps = [float((problem.reached - lower).mean()) for lower in found]
    assert gaps[1] < 0.95 * gaps[0]
    assert gaps[2] < 0.95 * gaps[1]


@pytest.mark.parametrize(
    ("name", "norm", "seed"),
    [
        pytest.param("deep_conv", "linf", 0, marks=pytest.mark.slow),
        pytest.param("dilated", "l2", 1, marks=pytest.mark.slow),
        *(pytest.param(n, b, s, marks=pytest.mark.slow) for n in RELU_NETWORKS for b, s in (("linf", 1), ("l2", 0))),
    ],
)
def test_branch_and_bound_closes_the_gap(name: str, norm: str, seed: int) -> None:
    """To 1e-4, on the first margin of each image, from tiny radii to vacuous ones."""
    problem = solved(name, norm, seed)
    setting = problem.setting
    first = Margin(setting.margin.weights[:, :1], setting.margin.bias[:, :1])
    certifier = BetaCrown(splits=5000, until="tight")
    lower = certifier(setting.encoder, first, setting.x, setting.ball, setting.radii).lower
    all_below(problem.reached[:, :1], lower, setting.scale[:, :1], 1e-4, "the optimum above branch and bound")


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize(("name", "seed", "few"), cases(list(SMOOTH), every=2))
def test_no_image_beats_a_certificate_on_smooth_networks(name: str, seed: int, few: bool, norm: str) -> None:
    """Against 5,000 images of each ball, and an attack on each row."""
    setting = Setting.draw(name, norm, seed, few)
    least = torch.minimum(setting.sampled(5000), setting.attacked(steps=40))
    for certifier in CERTIFIERS:
        bound = setting.certified(budgeted(certifier))
        all_below(bound.lower, least, setting.scale, SEARCHED, f"{certifier} above an image")


def grid(low: Tensor, high: Tensor, points: int) -> Tensor:
    """Points of each interval, evenly and, where it is wide, densely around zero."""
    even = low + (high - low) * torch.linspace(0, 1, points, dtype=torch.float64)[:, None]
    middle = torch.linspace(-8, 8, points, dtype=torch.float64)[:, None]
    return torch.cat([even, torch.minimum(torch.maximum(middle, low), high)])


def intervals(seed: int, count: int = 1000) -> tuple[Tensor, Tensor]:
    """Intervals of every width from 1e-9 to 1e3, around centres from 1e-3 to 1e3 and on both sides of zero; points."""
    generator = torch.Generator().manual_seed(seed)
    kind = {"generator": generator, "dtype": torch.float64}
    centre = torch.randn(count, **kind).sign() * 10 ** (torch.rand(count, **kind) * 6 - 3)
    width = 10 ** (torch.rand(count, **kind) * 12 - 9)
    width[:20] = 0
    width[20:40], centre[20:40] = centre[20:40].abs(), centre[20:40] / 2  # one end is zero, exactly
    return centre - width, centre + width


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", CURVES)
def test_activations_stay_between_their_lines_and_in_their_range(name: str, dtype: torch.dtype) -> None:
    curve = CURVES[name]
    low, high = (end.to(dtype) for end in intervals(0))
    lines, (lowest, highest) = curve.relax((low, high)), curve.box((low, high))
    z = grid(low.double(), high.double(), 401)
    value = curve(z)
    below = lines.below_slope.double() * z + (0 if lines.below is None else lines.below.double())
    above = lines.above_slope.double() * z + lines.above.double()
    rounding = (2e-13 if dtype == torch.float64 else 2e-6) * (1 + z.abs() + value.abs())
    for what, gap in {
        "the line below": value - below,
        "the line above": above - value,
        "the least value": value - lowest.double(),
        "the largest value": highest.double() - value,
    }.items():
        at = ((gap + rounding) / (gap + rounding).abs().clamp_min(1e-300)).amin(0).argmin()
        assert bool((gap >= -rounding).all()), f"{what} on [{low[at]}, {high[at]}]: {gap[:, at].min()}"


@pytest.mark.parametrize("name", CURVES)
def test_lines_are_tight_on_narrow_intervals(name: str) -> None:
    """The gap between the lines shrinks with the width: a relaxation that is merely safe proves nothing."""
    low, high = intervals(1)
    some = (high - low < 1e-2) & (high - low > 1e-4) & (low.abs() < 5)
    low, high = low[some], high[some]
    lines = CURVES[name].relax((low, high))
    z = grid(low, high, 21)
    gap = (lines.above_slope - lines.below_slope) * z + lines.above - (0 if lines.below is None else lines.below)
    assert bool((gap.amax(0) <= 1.01 * (high - low)).all())


def test_every_slope_that_may_be_searched_lies_below() -> None:
    low, high = intervals(2)
    z = grid(low, high, 401)
    for name, curve in CURVES.items():
        free = curve.relax((low, high)).free
        for slope in (0.0, 0.3, 1.0) if free is not None else ():
            assert bool((slope * z <= curve(z) + 1e-12 * z.abs())[:, free].all()), name
    assert bool((Relu().relax((low, high)).free == (low < 0) & (high > 0)).all())
