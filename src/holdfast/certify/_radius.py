"""The certified radius: the largest ε at which a certifier still proves a margin positive."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.certify._certifier import Propagation, on_all_images, prepare
from holdfast.certify._curved import Box
from holdfast.certify._network import Network
from holdfast.certify._propagate import Region
from holdfast.core import Ball, Encoder, Images, Margin, Passes

FIRST = tuple(4.0**-k for k in (5, 4, 3, 2))
"""First probes, in units of the largest radius; where all of them are certified, larger ones follow."""

ROUNDS = 100
"""Rounds after which a search ends with what is certified by then; a handful is usual."""


def certified_radii(
    certifier: Propagation,
    encoder: Encoder,
    margin: Margin,
    x: Images,
    ball: Ball,
    tolerance: float = 1e-6,
    largest: float | None = None,
) -> Float[Tensor, "batch rows"]:
    """Return, for every row of a margin, the largest radius that was probed and certified; 0 where there is none.

    The lower bound as a function of ε is nearly linear over short distances, falls, but may jump: so a root is
    bracketed, approached by interpolation, and only probed radii whose bound is positive in float64 are returned.
    One probe bounds all rows of an image (they share the ranges inside the network), the probes of a round are one
    batch, and ranges at a larger radius hold at the smaller ones: what is decided there is not computed again.

    Args:
        certifier: how to bound.
        encoder: the encoder.
        margin: rows for each image.
        x: clean images, [B, C, H, W].
        ball: the norm; its own radius is not read.
        tolerance: how far below the next uncertified radius, by interpolation, to stop; in pixels.
        largest: where to end: by default the largest distance between two images, 1 for ℓ∞, √n for ℓ2.

    Raises:
        HoldfastError: see `Certifier`.

    Source: RVCL, Algorithm 1 (CERTIFY), which bisects pair by pair and returns the last radius probed.
    """
    network, region, margin = prepare(encoder, margin, x, ball, x.new_zeros(len(x)))
    end = largest if largest is not None else float(ball.size(torch.ones_like(x[:1])))
    rows = [Margin(margin.weights[i : i + 1], margin.bias[i : i + 1]) for i in range(len(x))]
    found = []
    for i in range(len(x)):
        search = _Search(certifier, network, region.part([i]), rows[i], end)
        found.append(search.run(tolerance))
        encoder.count(Passes(bounds=search.probes))
    return torch.stack(found) if found else margin.bias.clone()


class _Search:
    """The search for one image: every probe is a radius at which all rows are bounded."""

    def __init__(self, certifier: Propagation, network: Network, region: Region, margin: Margin, end: float):
        self._certifier, self._network, self._region, self._margin, self._end = certifier, network, region, margin, end
        clean = margin(network.double(region.x))[0]
        self._slack = on_all_images(network.double, margin, region)[1][0]
        self._radii, self._bounds = torch.zeros(1, dtype=torch.float64), clean[None]
        self._proved = torch.zeros_like(clean)
        self.probes = 0
        self._open = clean > self._slack
        self._before = torch.full_like(clean, -1)
        self._known: dict[tuple[torch.dtype, float], Mapping[int, Box]] = {}

    def run(self, tolerance: float) -> Float[Tensor, "rows"]:
        """Return the largest certified radius of each row."""
        if self._open.any():
            self._probe([self._end * first for first in FIRST], exact=False)
        for count in range(ROUNDS):
            if self._open.any():
                self._round(tolerance, halve=count % 4 == 3)
        for row in self._open.nonzero().flatten().tolist():
            self._probe([self._bracket(row)[0]], exact=True)
        return self._proved

    def _round(self, tolerance: float, halve: bool) -> None:
        """Probe once for every row that is open: roughly while its root still moves, then exactly just below it."""
        rough, exact = [], []
        for row in self._open.nonzero().flatten().tolist():
            low, high, root = self._bracket(row)
            settled = abs(root - float(self._before[row])) <= SETTLED * tolerance
            self._before[row] = root
            if low >= self._end:
                exact.append(low)
            elif high is None:
                rough.append(min(4 * low, self._end))
            elif min(root, high) - float(self._proved[row]) <= tolerance:
                self._open[row] = False
            elif settled or high - low <= tolerance:
                exact.append(max(root - tolerance / 2, low) if low > self._proved[row] else (low + root) / 2)
            else:
                rough.append((low + high) / 2 if halve else root)
        self._probe(rough, exact=False)
        self._probe(exact, exact=True)
        self._open &= self._proved < self._end

    def _bracket(self, row: int) -> tuple[float, float | None, float]:
        """Return the largest certified probe, the next one above it, and the root between them by interpolation."""
        values = self._bounds[:, row]
        below = int((values > 0).nonzero()[-1])
        low, above = float(self._radii[below]), below + 1
        if above == len(values):
            return low, None, low
        beside = [i for i in (below - 1, above + 1) if 0 <= i < len(values)]
        nearest = sorted(beside, key=lambda i: abs(float(values[i])))[:1]
        points = [(float(self._radii[i]), float(values[i])) for i in (below, above, *nearest)]
        return low, float(self._radii[above]), _root(points)

    def _probe(self, radii: list[float], exact: bool) -> None:
        """Bound all rows at some radii, as one batch; the first exact ones begin with the largest, alone."""
        probes = torch.tensor(sorted(set(radii)), dtype=torch.float64)
        if not len(probes):
            return
        network = self._network.double if exact else self._network.single
        dtype = network.dtype
        larger = [key for key in self._known if key[0] == dtype and key[1] >= float(probes[-1])]
        if exact and not larger and len(probes) > 1:
            self._probe([float(probes[-1])], exact)
            self._probe(probes[:-1].tolist(), exact)
            return
        self.probes += len(probes)
        x = self._region.x.to(dtype).expand(len(probes), -1, -1, -1)
        margin = Margin(self._margin.weights.to(dtype), self._margin.bias.to(dtype))
        known = self._known[min(larger, key=lambda key: key[1])] if larger else None
        bounds, ranges = self._certifier.lower(
            network, margin, Region.around(self._region.ball, x, probes.to(dtype)), known
        )
        bounds = bounds.double() - self._slack
        self._known[dtype, float(probes[-1])] = {k: (low[-1:], high[-1:]) for k, (low, high) in ranges.items()}
        if exact:
            proved = torch.where(bounds > 0, probes[:, None], 0.0).amax(0)
            self._proved = torch.maximum(self._proved, proved)
        stale = torch.isin(self._radii, probes)  # where float32 and float64 disagree, the later probe counts
        order = torch.cat([self._radii[~stale], probes]).argsort(stable=True)
        self._radii = torch.cat([self._radii[~stale], probes])[order]
        self._bounds = torch.cat([self._bounds[~stale], bounds])[order]


SETTLED = 32
"""A root that moves by less than this many tolerances is probed exactly."""


def _root(points: list[tuple[float, float]]) -> float:
    """Return where the line (or parabola, ε as a function of the bound) through some points crosses zero.

    The first two points bracket the root; where the parabola leaves the bracket, the line is taken.
    """
    (low, a), (high, b) = points[:2]
    line = low + (high - low) * a / (a - b)
    if len(points) == 3 and len({value for _, value in points}) == 3:
        (x, u), (y, v), (z, w) = points
        curve = x * v * w / ((u - v) * (u - w)) + y * u * w / ((v - u) * (v - w)) + z * u * v / ((w - u) * (w - v))
        if low < curve < high:
            return curve
    return line
