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
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.certifiers.crown import Crown

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

    @pytest.mark.parametrize(("name", "seed", "few"), cases(PIECEWISE_LINEAR, every=14))
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


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["linf", pytest.param("l2", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "seed", "few"), cases(list(SMOOTH), every=4))
def test_no_image_beats_a_certificate_on_smooth_networks(name: str, seed: int, few: bool, norm: str) -> None:
    """Against 5,000 images of each ball, and an attack on each row."""
    setting = Setting.draw(name, norm, seed, few)
    least = torch.minimum(setting.sampled(5000), setting.attacked(steps=40))
    for certifier in CERTIFIERS:
        bound = setting.certified(budgeted(certifier))
        all_below(bound.lower, least, setting.scale, SEARCHED, f"{certifier} above an image")
