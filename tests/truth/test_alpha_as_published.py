"""α- and β-CROWN without interval arithmetic, against linear programs of the same ranges.

Whatever slopes are chosen below a ReLU, the bound is a dual of the linear program that has a triangle in the place of
each ReLU whose sign is open (Salman et al., 2019), so the best slopes reach its value and none are above it.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from test_branch_and_bound import MARGIN, X, least_on_a_grid, two_layers
from test_crown_as_published import RADII, lemma, problem
from torch import nn

from holdfast.core import registry
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Conflict

Maps = list[tuple[np.ndarray, np.ndarray]]
Ranges = list[tuple[np.ndarray, np.ndarray]]


def triangles(maps: Maps, ranges: Ranges, rows: np.ndarray, box: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The least of rows of the last map, with a triangle in the place of every ReLU before it."""
    sizes = [len(box[0]), *(len(bias) for _, bias in maps[: len(ranges)])]
    starts = np.cumsum([0, *sizes])  # the image, and what comes after each ReLU
    above, most, limits = [], [], list(zip(*box, strict=True))
    for k, (low, high) in enumerate(ranges):
        weights, bias = maps[k]
        before, after = slice(starts[k], starts[k + 1]), starts[k + 1]
        for i in range(len(low)):
            z, a = np.zeros((2, starts[-1]))
            z[before], a[after + i] = weights[i], 1
            if low[i] >= 0:  # a = z, as two inequalities
                above += [a - z, z - a]
                most += [bias[i], -bias[i]]
            elif high[i] > 0:  # a >= z, and a <= the chord
                slope = high[i] / (high[i] - low[i])
                above += [z - a, a - slope * z]
                most += [-bias[i], slope * (bias[i] - low[i])]
            limits.append((0, 0 if high[i] <= 0 else None))
    weights, bias = maps[len(ranges)]
    least = []
    for row in rows:
        cost = np.zeros(starts[-1])
        cost[starts[-2] :] = row @ weights
        found = linprog(cost, np.array(above) if above else None, most or None, bounds=limits)
        least.append(found.fun + row @ bias)
    return np.array(least)


def ranges_of(maps: Maps, box: tuple[np.ndarray, np.ndarray], by_programs: bool) -> Ranges:
    """The ranges before each ReLU, from those before it: by the lemma, or by programs of its kind."""
    ranges: Ranges = []
    for k in range(len(maps) - 1):
        eye = np.eye(len(maps[k][1]))
        both = np.concatenate([eye, -eye])
        least = triangles(maps, ranges, both, box) if by_programs else lemma(maps[: k + 1], both, *box)
        ranges.append((least[: len(eye)], -least[len(eye) :]))
    return ranges


@pytest.mark.parametrize(
    ("seed", "radius", "inside"),
    [
        (0, RADII[3], 0),
        pytest.param(0, RADII[1], 40, marks=pytest.mark.slow),
        *(pytest.param(s, r, i, marks=pytest.mark.slow) for s in (1, 2) for r in (RADII[1], RADII[3]) for i in (0, 40)),
    ],
)
def test_the_best_slopes_reach_the_value_of_the_linear_program(seed: int, radius: float, inside: int) -> None:
    encoder, x, margin, maps = problem(seed)
    pixels, rows = x.double().flatten().numpy(), margin.weights[0].double().numpy()
    box = np.clip(pixels - radius, 0, 1), np.clip(pixels + radius, 0, 1)
    best = triangles(maps, ranges_of(maps, box, by_programs=inside > 0), rows, box)
    crown = lemma(maps, rows, *box)
    certifiers = AlphaCrown(inside, 200, intervals=False), BetaCrown(0, inside=inside, steps=200, intervals=False)
    for certifier in certifiers:
        lower = certifier(encoder, margin, x, Linf(radius)).lower[0].numpy()
        assert (lower <= best + 1e-6).all(), "tighter than any slopes can be"
        assert (lower >= crown - 1e-6).all()
        assert (best - lower).max() < 0.05 * (best - crown).max()


def test_without_steps_they_are_crown_as_published() -> None:
    for seed in range(4):
        encoder, x, margin, maps = problem(seed)
        pixels, rows = x.double().flatten().numpy(), margin.weights[0].double().numpy()
        for radius in RADII:
            box = np.clip(pixels - radius, 0, 1), np.clip(pixels + radius, 0, 1)
            for certifier in (AlphaCrown(0, 0, intervals=False), BetaCrown(0, inside=0, steps=0, intervals=False)):
                plain = certifier(encoder, margin, x, Linf(radius)).lower[0]
                np.testing.assert_allclose(plain.numpy(), lemma(maps, rows, *box), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "certifier",
    [AlphaCrown(0, 20), pytest.param(BetaCrown(0, inside=0, steps=20), marks=pytest.mark.slow)],
    ids=lambda c: type(c).__name__,
)
def test_intervals_prove_more_where_ranges_inside_have_no_slopes(certifier: AlphaCrown | BetaCrown) -> None:
    """At their best slopes prove by themselves what intervals do: that of 0 is the lower end of an open ReLU."""
    gains, at_best = [], []
    for seed in range(3):
        encoder, x, margin, _ = problem(seed)
        alone = replace(certifier, intervals=False)
        plain, met = (each(encoder, margin, x, Linf(0.6)).lower[0] for each in (alone, certifier))
        gains.append((met - plain) / plain.std())
        plain, met = (replace(each, inside=30)(encoder, margin, x, Linf(0.6)).lower[0] for each in (alone, certifier))
        at_best.append((met - plain).abs() / plain.std())
    assert float(torch.cat(gains).min()) > -0.01
    assert float(torch.cat(gains).mean()) > 0.01
    assert float(torch.cat(at_best).max()) < 0.01


@pytest.mark.slow
def test_a_radius_is_one_that_slopes_certify() -> None:
    encoder, x, margin, maps = problem(5)
    with torch.no_grad():
        sign = margin(encoder(x)).sign()
    own = type(margin)((margin.weights * sign[..., None]).double(), margin.bias.double())
    radius = certify_radii(AlphaCrown(0, 20, intervals=False), encoder, own, x, Linf(), 1e-4)[0].numpy()
    pixels, rows = x.double().flatten().numpy(), own.weights[0].numpy()
    for row, at in enumerate(radius):
        box = np.clip(pixels - at, 0, 1), np.clip(pixels + at, 0, 1)
        assert triangles(maps, ranges_of(maps, box, by_programs=True), rows, box)[row] > 0
        box = np.clip(pixels - 1.05 * at, 0, 1), np.clip(pixels + 1.05 * at, 0, 1)
        assert lemma(maps, rows, *box)[row] < 0


@pytest.mark.slow
def test_splits_close_the_gap_without_intervals() -> None:
    encoder = two_layers(nn.ReLU())
    least = least_on_a_grid(encoder, 801)
    certifier = BetaCrown(until="tight", gap=1e-6, inside=5, steps=20, intervals=False)
    root, lower = (replace(certifier, splits=splits)(encoder, MARGIN, X, Linf(0.2)).lower.item() for splits in (0, 300))
    assert root < lower <= least + 1e-9
    assert least - lower < 0.1 * (least - root)


@pytest.mark.parametrize("name", ["alpha_crown", "beta_crown"])
def test_the_spec_of_a_record_without_the_option_means_met_with_intervals(name: str) -> None:
    older = {k: v for k, v in registry.spec(registry.find("certifiers", name)()).items() if k != "intervals"}
    assert registry.build(older).intervals
    with pytest.raises(Conflict) as error:
        registry.build({**older, "intervals": False, "beyond": "intervals"})
    assert f"{name}: expected beyond = refuse" in str(error.value)
