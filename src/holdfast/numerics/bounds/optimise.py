"""The best relaxation: slopes below ReLUs (α-CROWN) and prices of splits (β-CROWN) found by gradient ascent."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from holdfast.numerics.bounds.curved import Box, Lines
from holdfast.numerics.bounds.forms import Form
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.propagate import Region, backward, in_precision


@dataclass(frozen=True)
class Ascent:
    """How to look for the best relaxation: Adam steps, each projected to what is valid.

    Attributes:
        steps: how many.
        rate: length of the first step, in units of a slope, which lies in [0, 1].
        decay: by which the rate is multiplied after each step.
    """

    steps: int
    rate: float = 0.3
    decay: float = 0.95


@dataclass(frozen=True, eq=False)
class Relaxation:
    """What may be chosen freely, for each row: any choice gives a valid bound.

    Attributes:
        slopes: of the lines below ReLUs whose sign is open, in [0, 1], [B, R, *shape] for each node.
        prices: multipliers >= 0 of the constraints ±z >= 0 of split ReLUs, [B, R, *shape] for each node.
    """

    slopes: dict[int, Tensor] = field(default_factory=dict)
    prices: dict[int, Tensor] = field(default_factory=dict)

    def to(self, dtype: torch.dtype) -> "Relaxation":
        """Return it in another precision."""
        return Relaxation(*({k: t.to(dtype) for k, t in part.items()} for part in (self.slopes, self.prices)))


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to be bounded, with everything that is fixed.

    Attributes:
        network: the network.
        start: the node that the rows read.
        form: the rows.
        region: where the image may be.
        ranges: of the inputs of curved nodes.
        lines: of curved nodes.
        signs: of split ReLUs: positive where z >= 0 is assumed, negative where z <= 0, 0 elsewhere, [B, 1, *shape];
            their size is the unit of the prices.
    """

    network: Network
    start: int
    form: Form
    region: Region
    ranges: Mapping[int, Box]
    lines: Mapping[int, Lines]
    signs: Mapping[int, Tensor] = field(default_factory=dict)

    def single(self) -> "Problem":
        """Return the problem in float32, to look for relaxations."""
        kind = torch.float32
        return Problem(
            self.network.single,
            self.start,
            self.form.to(kind),
            self.region.to(kind),
            in_precision(self.ranges, kind),
            {k: lines.to(kind) for k, lines in self.lines.items()},
            {k: sign.to(kind) for k, sign in self.signs.items()},
        )

    def part(self, images: slice) -> "Problem":
        """Return the problem of some images; rows and signs are those of all."""
        ranges = {k: (low[images], high[images]) for k, (low, high) in self.ranges.items()}
        lines = {k: lines.part(images) for k, lines in self.lines.items()}
        return replace(self, region=self.region.part(images), ranges=ranges, lines=lines)

    def bound(self, relaxation: Relaxation | None, trail: MutableMapping[int, Tensor] | None = None) -> Tensor:
        """Return lower bounds [B, R]; slopes that are missing are entered as they are usual; see `backward`.

        Args:
            relaxation: slopes and prices; None for the usual slopes, which are then not kept.
            trail: see `backward`.
        """
        prices = None if relaxation is None else {k: -self.signs[k] * p for k, p in relaxation.prices.items()}
        return backward(
            self.network,
            self.start,
            self.form,
            self.region,
            self.ranges,
            self.lines,
            None if relaxation is None else relaxation.slopes,
            prices,
            trail=trail,
        )


def optimise(problem: Problem, ascent: Ascent, begin: Relaxation | None = None) -> tuple[Tensor, Relaxation]:
    """Return the best bounds [B, R] and, for each row, the relaxation that gives them.

    The bound is concave in slopes and prices where the ranges are fixed, so ascent finds its maximum; rows do not
    influence each other.

    Args:
        problem: what to bound.
        ascent: how to look.
        begin: where to begin: the usual slopes and no prices by default.

    Source: Xu et al. (2021), "Fast and complete" (α-CROWN); Wang et al. (2021), "β-CROWN", Eq. 8.
    """
    at = begin or Relaxation()
    with torch.no_grad():
        best = problem.bound(at)
    kept = Relaxation({k: t.clone() for k, t in at.slopes.items()}, {k: t.clone() for k, t in at.prices.items()})
    leaves = [t.detach().clone().requires_grad_() for t in (*at.slopes.values(), *at.prices.values())]
    if not leaves or not ascent.steps:
        return best, kept
    slopes, prices = leaves[: len(at.slopes)], leaves[len(at.slopes) :]
    moving = Relaxation(dict(zip(at.slopes, slopes, strict=True)), dict(zip(at.prices, prices, strict=True)))
    adam = torch.optim.Adam(leaves, lr=ascent.rate)
    schedule = torch.optim.lr_scheduler.ExponentialLR(adam, ascent.decay)
    for _ in range(ascent.steps):
        with torch.enable_grad():
            bounds = problem.bound(moving)
            gradients = torch.autograd.grad(bounds.sum(), leaves)
        with torch.no_grad():
            _keep(kept, moving, best, bounds)
            best = torch.maximum(best, bounds.detach())
            for leaf, gradient in zip(leaves, gradients, strict=True):
                leaf.grad = -gradient
            adam.step()
            schedule.step()
            for slope in slopes:
                slope.clamp_(0, 1)
            for price in prices:
                price.clamp_(min=0)
    with torch.no_grad():
        bounds = problem.bound(moving)
        _keep(kept, moving, best, bounds)
    return torch.maximum(best, bounds), kept


def _keep(kept: Relaxation, moving: Relaxation, best: Tensor, bounds: Tensor) -> None:
    """Copy the relaxation of the rows that have become better."""
    better = bounds > best
    for old, new in ((kept.slopes, moving.slopes), (kept.prices, moving.prices)):
        for key, value in new.items():
            rows = better.view(*value.shape[: _row_axes(value, better)], *[1] * (value.ndim - _row_axes(value, better)))
            old[key] = torch.where(rows, value.detach(), old[key])


def _row_axes(value: Tensor, rows: Tensor) -> int:
    """Return how many axes of a value count rows: [B, R] for dense forms, [B, L, O] for patches."""
    return 2 if value.shape[:2] == rows.shape else 3
