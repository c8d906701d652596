"""The certified radius: the largest ε at which a certifier still proves a margin positive."""

import math
from collections.abc import Mapping
from statistics import median

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Encoder, Images, Margin, Passes
from holdfast.core.threat import image_shape
from holdfast.numerics.bounds.activations import Box
from holdfast.numerics.bounds.backward import Region, boxes
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.rounding import rounding
from holdfast.parts.certifiers.shared.certifier import Propagation, prepare

FIRST = (1 / 64, 1 / 16)
"""First probes, in units of the largest radius; where all of them are certified, larger ones follow."""

FURTHER = 1.1
"""How much larger radii are than those of a cheaper certifier, about."""

CLOSE = 2e-4
"""How near to a cheaper certifier's radii to begin, in units of the largest radius."""

ROUNDS = 100
"""Rounds after which a search ends with what is certified by then; a handful is usual."""


def certify_radii(
    certifier: Propagation,
    encoder: Encoder,
    margin: Margin,
    x: Images,
    ball: Ball,
    tolerance: float = 1e-6,
    largest: float | None = None,
    together: bool = False,
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
        together: whether to return one radius for each image, [B, 1], at which all its rows are certified; searching
            for that alone takes fewer probes.

    Raises:
        HoldfastError: see `Certifier`.

    Source: Wang & Liu (2023), Algorithm 1 (CERTIFY), which bisects pair by pair and returns the last radius probed.
    """
    # At radius 0: every probe makes a region of its own around the same images
    network, region, margin = prepare(encoder, margin, x, ball, torch.zeros(len(x), dtype=torch.float64))
    end = largest if largest is not None else ball.even(image_shape(x))
    radii = []
    for i in range(len(x)):
        search = _Search(certifier, network, region.part([i]), margin.part(slice(i, i + 1)), end, together)
        radii.append(search.run(tolerance))
        encoder.count(Passes(bounds=search.probes))
    return torch.stack(radii) if radii else margin.bias[:, : 1 if together else None].clone()


class _Search:
    """The search for one image: every probe is a radius at which all rows are bounded."""

    def __init__(
        self, certifier: Propagation, network: Network, region: Region, margin: Margin, end: float, together: bool
    ):
        self._together = together
        self._certifier, self._cheaper = certifier.searching(), certifier.beginning()
        self._network, self._region, self._margin, self._end = network, region, margin, end
        # what is known of radii stays on the CPU: a few numbers, which the search reads one by one
        # A margin that is not above rounding on the image itself has no radius, and is not searched for
        clean = _rows_at(network.double, margin, region.x)[0].cpu()
        possible = clean > rounding(network.double, margin, region, boxes(network.double, region))[0].cpu()
        if together:  # one row, the smallest of them
            clean, possible = clean.amin(0, keepdim=True), possible.all(0, keepdim=True)
        self._radii, self._bounds = torch.zeros(1, dtype=torch.float64), clean[None]
        self._ranges: dict[tuple[torch.dtype, float], Mapping[int, Box]] = {}
        self._possible = possible
        self._proved = torch.zeros_like(clean)
        self._failed = torch.full_like(clean, torch.inf)
        self.probes = 0

    def run(self, tolerance: float) -> Float[Tensor, "rows"]:
        """Return the largest certified radius of each row."""
        rows = self._possible.nonzero().flatten().tolist()
        # Approach in float32, then prove in float64
        if rows:
            self._finish(self._roots(rows, tolerance), tolerance)
        return self._proved

    def _roots(self, rows: list[int], tolerance: float) -> dict[int, tuple[float, float]]:
        """Return where float32 sees the bound of each row fall to zero, and how steeply: (radius, slope)."""
        if self._cheaper is None:
            self._probe([self._end * first for first in FIRST], exact=False)
        else:  # slopes are best where they are found: in the middle of the radii that matter
            search = _Search(self._cheaper, self._network, self._region, self._margin, self._end, self._together)
            near = [root for root, _ in search._roots(rows, CLOSE * self._end / SETTLED).values()]
            self.probes += search.probes
            for first in (median(near), min(near), max(near)) if near else FIRST:
                self._probe([min(FURTHER * first, self._end)], exact=False)
        return self._approach(rows, SETTLED * tolerance)

    def _approach(self, rows: list[int], enough: float) -> dict[int, tuple[float, float]]:
        """Return, for each row, where float32 sees its bound fall to zero, and how steeply: (radius, slope)."""
        settled: dict[int, tuple[float, float]] = {}
        before: dict[int, float] = {}
        for count in range(ROUNDS):
            probes = []
            for row in rows:
                if row in settled:
                    continue
                # the next probe: beyond the bracket, at the interpolated root, or, every fourth time, in the middle
                low, high, root = self._bracket(row)
                if high is None and low < self._end:
                    # By the factor of the first probes
                    probes.append(min(4 * low, self._end))
                elif high is None or high - low <= enough or abs(root - before.get(row, torch.inf)) <= enough:
                    settled[row] = (root, self._slope(row, root, enough))
                else:
                    probes.append((low + high) / 2 if count % 4 == 3 else root)
                    before[row] = root
            # All rows have settled
            if not probes:
                break
            # One probe bounds all rows, so at first a few radii serve many of them
            self._probe(_subsample_radii(probes) if count == 0 else probes, exact=False)
        return settled

    def _finish(self, roots: dict[int, tuple[float, float]], tolerance: float) -> None:
        """Probe just below each root in float64, each time at the root that the last bound and the slope foretell."""
        for count in range(ROUNDS):
            probes = {}
            for row, (root, _) in roots.items():
                # just below the root; after some rounds by bisection, which always ends
                proved, failed = float(self._proved[row]), min(float(self._failed[row]), self._end * 2)
                if min(root, failed) - proved > tolerance and proved < self._end:
                    aim = root - tolerance / 2 if count < PATIENCE else (proved + failed) / 2
                    inside = proved < aim < failed
                    probes[row] = min(aim if inside else (proved + min(failed, root)) / 2, self._end)
            if not probes:
                return
            self._probe(list(probes.values()), exact=True)
            for row, probe in probes.items():
                bound = float(self._bounds[torch.isin(self._radii, probe), row])
                # A Newton step in float64, with the slope that float32 saw
                roots[row] = (probe - bound / roots[row][1], roots[row][1])

    def _slope(self, row: int, root: float, enough: float) -> float:
        """Slope of a row's bound around a radius, from probes that are not too close to each other."""
        below, above = self._radii < root - enough, self._radii > root + enough
        left = int(below.nonzero()[-1]) if below.any() else 0
        right = int(above.nonzero()[0]) if above.any() else len(self._radii) - 1
        # Bounds fall with the radius; a slope that does not is noise, and a Newton step would go astray
        rise = float(self._bounds[right, row] - self._bounds[left, row])
        return min(rise / float(self._radii[right] - self._radii[left]), -1e-12)

    def _bracket(self, row: int) -> tuple[float, float | None, float]:
        """Return the largest certified probe, the next one above it, and the root between them by interpolation."""
        values = self._bounds[:, row]
        # The last positive one, not the one before the first that fails: bounds may jump up again
        below = int((values > 0).nonzero()[-1])
        low, above = float(self._radii[below]), below + 1
        if above == len(values):
            return low, None, low
        beside = [i for i in (below - 1, above + 1, below - 2, above + 2) if 0 <= i < len(values)]
        # Two more points beside the bracket, the nearest to zero, bend the curve
        nearest = sorted(beside, key=lambda i: abs(float(values[i])))[:2]
        points = [(float(self._radii[i]), float(values[i])) for i in (below, above, *nearest)]
        return low, float(self._radii[above]), _root(points)

    def _probe(self, radii: list[float], exact: bool) -> None:
        """Bound all rows at some radii, as one batch; the first exact ones begin with the largest, alone."""
        probes = torch.tensor(sorted(set(radii)), dtype=torch.float64)
        if not len(probes):
            return
        network = self._network.double if exact else self._network.single
        dtype = network.dtype
        largest = float(probes[-1])
        larger = [key for key in self._ranges if key[0] == dtype and key[1] >= largest]
        if len(probes) > 2 and not any(key[1] <= NEAR * largest for key in larger):
            self._probe([largest], exact)  # what it decides need not be computed for the others
            self._probe(probes[:-1].tolist(), exact)
            return
        # bound all probes at once; ranges at a larger radius hold at these
        self.probes += len(probes)
        x = self._region.x.expand(len(probes), -1, -1, -1)
        held = self._ranges[min(larger, key=lambda key: key[1])] if larger else None
        region = Region.around(self._region.ball, x, probes.to(x.device)).to(dtype)
        margin = self._margin.to(dtype)
        bounds, ranges = self._certifier.bound_rows(network, margin, region, held)
        bounds = (bounds.double() - rounding(network, margin, region, ranges)).cpu()
        if self._together:
            bounds = bounds.amin(1, keepdim=True)
        # The probes ascend, so the last one has the largest radius, whose ranges hold at all smaller ones
        self._ranges[dtype, largest] = {k: (low[-1:], high[-1:]) for k, (low, high) in ranges.items()}
        # only float64 proves or fails a radius
        if exact:
            self._proved = torch.maximum(self._proved, torch.where(bounds > 0, probes[:, None], 0.0).amax(0))
            failed = (bounds <= 0) & (probes[:, None] > self._proved)
            self._failed = torch.minimum(self._failed, torch.where(failed, probes[:, None], torch.inf).amin(0))
        # the curve of bounds against radii
        stale = torch.isin(self._radii, probes)  # where float32 and float64 disagree, the later probe counts
        order = torch.cat([self._radii[~stale], probes]).argsort(stable=True)
        self._radii = torch.cat([self._radii[~stale], probes])[order]
        self._bounds = torch.cat([self._bounds[~stale], bounds])[order]


def _rows_at(network: Network, margin: Margin, x: Tensor) -> Float[Tensor, "images rows"]:
    """Return the rows of a margin at some images; of an encoder that normalises, times the norm of its output."""
    reps = network(x)
    times = 1.0 if network.normalised is None else reps.norm(dim=1, keepdim=True)
    return (margin.weights @ reps[..., None]).squeeze(-1) + margin.bias * times


SETTLED = 10
"""A root that moves by less than this many tolerances is probed exactly."""

NEAR = 1.2
"""Ranges at a radius this many times larger still decide enough to be worth using."""

AHEAD = 4
"""Probes with which rows that have not been probed near their roots begin together."""

PATIENCE = 4
"""Exact probes that follow the slope; where they do not end the search, it goes on by bisection."""


def _subsample_radii(radii: list[float]) -> list[float]:
    """Return a few of many radii, evenly through their order, the largest included."""
    ordered = sorted(set(radii))
    return [ordered[(i + 1) * len(ordered) // AHEAD - 1] for i in range(AHEAD)] if len(ordered) > AHEAD else ordered


def _root(points: list[tuple[float, float]]) -> float:
    """The place where the curve through some points (the radius as a polynomial of the bound) crosses zero.

    The first two points bracket the root; where a curve leaves the bracket, the last point is left out.
    """
    low, high = points[0][0], points[1][0]
    values = [value for _, value in points]
    # Two equal bounds would divide by zero
    if len(set(values)) < len(values):
        return _root(points[:-1])
    # Lagrange's formula at bound 0
    root = 0.0
    for i, (radius, value) in enumerate(points):
        differing = values[:i] + values[i + 1 :]
        root += radius * math.prod(apart / (apart - value) for apart in differing)
    return root if low < root < high or len(points) == 2 else _root(points[:-1])
