"""A certifier that does more never proves less: interval <= crown <= α-CROWN <= β-CROWN <= what an image reaches.

Up to rounding, on random networks of all operations, in both norms, at four radii each. Interval <= crown_ibp, too.
Plain ones, met with no intervals, are in the same order among themselves. Not ordered are crown_ibp and the others
above it (a tighter range may choose another line below an activation, which is worse for the margin at hand), plain
ones and those met with intervals, and β-CROWN with fewer steps before its splits than α-CROWN has.
"""

from collections.abc import Mapping

import pytest
import torch
from test_certificates_at_random import RADII, Fuzz
from torch import Tensor, nn

from holdfast.core import Certifier, Encoder, Margin
from holdfast.numerics.bounds.network import Network
from holdfast.parts.certifiers import alpha_crown
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.threats.linf import Linf

CERTIFIERS: dict[str, Certifier] = {
    "interval": Interval(), "crown_ibp": CrownIbp(), "crown": Crown(), "alpha_crown": AlphaCrown(inside=2, steps=3),
    "beta_crown": BetaCrown(splits=2, inside=2, steps=3, leaf_steps=2),
    "plain crown": Crown(intervals=False), "plain alpha": AlphaCrown(inside=2, steps=3, intervals=False),
    "plain beta": BetaCrown(splits=2, inside=2, steps=3, leaf_steps=2, intervals=False),
}  # fmt: skip

ORDER = (
    ("interval", "crown_ibp"), ("interval", "crown"), ("crown", "alpha_crown"), ("alpha_crown", "beta_crown"),
    ("plain crown", "plain alpha"), ("plain alpha", "plain beta"),
)  # fmt: skip
FEW = 3
"""Rows of each image."""

ROUNDING = 1e-11
"""Share of the size of the terms: bounds and the attack round in float64, in different orders."""


def few(problem: Fuzz) -> Margin:
    """Return some rows of a problem's margin."""
    return Margin(problem.margin.weights[:, :FEW], problem.margin.bias[:, :FEW])


def bounds_of(problem: Fuzz) -> dict[str, Tensor]:
    """Return the bounds of all certifiers, [B, R] each."""
    return {
        name: certifier(problem.encoder, few(problem), problem.x, problem.ball, problem.radii).lower
        for name, certifier in CERTIFIERS.items()
    }


def out_of_order(seeds: tuple[int, ...]) -> list[str]:
    """Return what is not in order on the networks of some seeds."""
    found = []
    for seed in seeds:
        for problem in Fuzz.both(seed):
            bounds = bounds_of(problem)
            reached, size, _ = (part[:, :FEW] for part in problem.attacked())
            pairs = [(a, bounds[a], b, bounds[b]) for a, b in ORDER]
            pairs += [(name, bound, "an image", reached) for name, bound in bounds.items()]
            for less, lower, more, upper in pairs:
                room = ROUNDING * torch.maximum(size, lower.abs().nan_to_num(posinf=0, neginf=0)).clamp_min(1)
                if bool((lower > upper + room).any()):
                    found.append(
                        f"{seed}, {type(problem.ball).__name__}: {less} > {more} by {(lower - upper).max():.3g}"
                    )
    return found


def test_bounds_of_random_networks_are_in_order() -> None:
    assert not out_of_order((1,))


@pytest.mark.slow(minutes=20)
def test_bounds_of_many_random_networks_are_in_order() -> None:
    assert not out_of_order(tuple(range(40)))


def wide_elus() -> tuple[Encoder, Margin, Tensor]:
    """Return a network whose lines prove much less than its ranges do at large radii."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Linear(9, 8), nn.SELU()]
        for _ in range(3):
            layers += [nn.Linear(8, 8), nn.ELU()]
        layers += [nn.Linear(8, 3)]
        for layer in layers[::2]:
            layer.weight.data *= 2
        encoder = Encoder(nn.Sequential(nn.Flatten(), *layers).eval(), mean=0.5, std=0.1)
        x = torch.rand(len(RADII), 1, 3, 3)
        return encoder, Margin(torch.randn(len(RADII), 4, 3).double(), torch.zeros(len(RADII), 4).double()), x


def below_crown() -> Mapping[str, float]:
    """Return by how much bounds are below those they should not be, on `wide_elus`."""
    encoder, margin, x = wide_elus()
    radii = torch.full((len(x),), 0.4).double()
    lower = {name: certifier(encoder, margin, x, Linf(1.0), radii).lower for name, certifier in CERTIFIERS.items()}
    return {f"{a} > {b}": float((lower[a] - lower[b]).max()) for a, b in ORDER}


@pytest.mark.slow
def test_wide_ranges_of_elus() -> None:
    assert max(below_crown().values()) <= ROUNDING


@pytest.mark.slow
def test_a_last_step_that_is_not_met_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(bound: Tensor, network: Network, *_: object) -> Tensor:
        return bound

    monkeypatch.setattr(alpha_crown, "not_below_intervals", alone)
    assert below_crown()["crown > alpha_crown"] > 0.1
