"""CROWN without interval arithmetic, against the lemma written out in numpy with whole matrices."""

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.core import Encoder, Margin
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.threats.linf import Linf

SIDE = 6
RADII = (0.01, 0.1, 0.3, 0.6)


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    convs = [nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 3, stride=2), nn.ReLU()]
    return nn.Sequential(*convs, nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 5))


def matrices(net: nn.Sequential) -> list[tuple[np.ndarray, np.ndarray]]:
    """The affine maps between ReLUs as (W, b), each column of W from an image of one pixel."""
    maps, shape = [], (1, SIDE, SIDE)
    parts: list[list[nn.Module]] = [[]]
    for layer in net:
        parts.append([]) if isinstance(layer, nn.ReLU) else parts[-1].append(layer)
    for part in parts:
        affine = nn.Sequential(*part).double()
        with torch.no_grad():
            zero = affine(torch.zeros(1, *shape).double())
            units = torch.eye(int(np.prod(shape))).double().view(-1, *shape)
            maps.append(((affine(units) - zero).flatten(1).T.numpy(), zero.flatten().numpy()))
        shape = tuple(zero.shape[1:])
    return maps


def lemma(maps: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Lower bounds of rows of the last map over a box of images; ranges inside come from the lemma itself."""
    lines = []
    for k in range(1, len(maps)):
        eye = np.eye(len(maps[k - 1][1]))
        least = linear(maps[:k], lines, np.concatenate([eye, -eye]), low, high)
        lower, upper = least[: len(eye)], -least[len(eye) :]
        chord = np.where(upper <= 0, 0.0, 1.0)
        is_open = (lower < 0) & (upper > 0)
        chord[is_open] = upper[is_open] / (upper - lower)[is_open]
        below = np.where(is_open, (upper > -lower).astype(float), chord)
        lines.append((below, chord, np.where(is_open, -chord * lower, 0.0)))
    return linear(maps, lines, rows, low, high)


def linear(maps: list, lines: list, rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Push rows back through the maps and the lines between them, and take the least over the box."""
    coefs, constant = rows, np.zeros(len(rows))
    for k in range(len(maps) - 1, -1, -1):
        weights, bias = maps[k]
        constant = constant + coefs @ bias
        coefs = coefs @ weights
        if k:
            below, chord, shift = lines[k - 1]
            negative = np.minimum(coefs, 0)
            constant = constant + negative @ shift
            coefs = np.maximum(coefs, 0) * below + negative * chord
    return constant + np.maximum(coefs, 0) @ low + np.minimum(coefs, 0) @ high


def problem(seed: int) -> tuple[Encoder, torch.Tensor, Margin, list[tuple[np.ndarray, np.ndarray]]]:
    net = network(seed)
    x = torch.rand(1, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
    rows = torch.randn(1, 4, 5, generator=torch.Generator().manual_seed(seed + 100))
    maps = matrices(net)
    return Encoder(net.float(), mean=0, std=1), x, Margin(rows, torch.zeros(1, 4)), maps


@pytest.mark.sweep(2)
@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_those_of_the_lemma(seed: int) -> None:
    encoder, x, margin, maps = problem(seed)
    for radius in RADII:
        pixels = x.double().flatten().numpy()
        box = np.clip(pixels - radius, 0, 1), np.clip(pixels + radius, 0, 1)
        known = lemma(maps, margin.weights[0].double().numpy(), *box)
        plain = Crown(intervals=False)(encoder, margin, x, Linf(radius)).lower[0]
        np.testing.assert_allclose(plain.numpy(), known, rtol=1e-6, atol=1e-6)


def test_interval_arithmetic_helps_more_than_it_may_cost() -> None:
    """A tighter range may choose the other line below a ReLU, which may be worse for a row, but hardly."""
    gains = []
    for seed in range(12):
        encoder, x, margin, _ = problem(seed)
        met, plain = (Crown(intervals=intervals)(encoder, margin, x, Linf(0.5)).lower[0] for intervals in (True, False))
        gains.append((met - plain) / plain.std())
    assert float(torch.cat(gains).min()) > -0.05
    assert float(torch.cat(gains).mean()) > 0.01


def test_a_radius_is_the_largest_that_the_lemma_certifies() -> None:
    encoder, x, margin, maps = problem(5)
    with torch.no_grad():
        sign = margin(encoder(x)).sign()
    own = Margin((margin.weights * sign[..., None]).double(), margin.bias.double())  # positive at the image
    rows = own.weights[0].numpy()
    radius = certify_radii(Crown(intervals=False), encoder, own, x, Linf(), 1e-6)[0].numpy()
    assert ((radius > 0.1) & (radius < 0.5)).all()
    for off, side in ((-1e-5, 1), (1e-5, -1)):
        pixels = x.double().flatten().numpy()
        for row, at in enumerate(radius + off):
            box = np.clip(pixels - at, 0, 1), np.clip(pixels + at, 0, 1)
            assert side * lemma(maps, rows, *box)[row] > 0
