"""The best linear relaxation by gradient ascent: α, the lines of activations, and β, multipliers of splits."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from holdfast.numerics.bounds.backward import Region, backward, in_precision
from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.forms import Form
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.relaxation import LinearRelaxation


@dataclass(frozen=True)
class Ascent:
    """How to look for the best relaxation: Adam steps, each projected to what is valid.

    Attributes:
        steps: how many.
        rate: length of the first step, in units of α, which lies in [0, 1].
        decay: by which the rate is multiplied after each step.
    """

    steps: int
    rate: float = 0.3
    decay: float = 0.95


@dataclass(frozen=True, eq=False)
class AlphaBeta:
    """What α,β-CROWN chooses for each row: any choice gives a valid bound.

    Attributes:
        alphas: which of the lines below and above activations, in [0, 1], [B, R, *shape] for each node and side.
        betas: multipliers >= 0 of the ends at which ranges were cut, [B, R, *shape] for each node.
    """

    alphas: dict[tuple[int, str], Tensor] = field(default_factory=dict)
    betas: dict[int, Tensor] = field(default_factory=dict)

    def to(self, dtype: torch.dtype) -> "AlphaBeta":
        """Return it in another precision."""
        alphas = {k: t.to(dtype) for k, t in self.alphas.items()}
        return AlphaBeta(alphas, {k: t.to(dtype) for k, t in self.betas.items()})


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to be bounded, with everything that is fixed.

    Attributes:
        network: the network.
        start: the node that the rows read.
        form: the rows.
        region: where the image may be.
        ranges: of the inputs of curved nodes.
        relaxations: of curved nodes.
        signs: of values whose ranges were cut: positive where the constraint is that z is not below its range, negative
            where it is that z is not above it, 0 elsewhere, [B, 1, *shape]; their size is the unit of β.
    """

    network: Network
    start: int
    form: Form
    region: Region
    ranges: Mapping[int, Box]
    relaxations: Mapping[int, LinearRelaxation]
    signs: Mapping[int, Tensor] = field(default_factory=dict)

    def single(self) -> "Problem":
        """Return the problem in float32, to look for parameters."""
        kind = torch.float32
        return Problem(
            self.network.single,
            self.start,
            self.form.to(kind),
            self.region.to(kind),
            in_precision(self.ranges, kind),
            {k: relaxation.to(kind) for k, relaxation in self.relaxations.items()},
            {k: sign.to(kind) for k, sign in self.signs.items()},
        )

    def part(self, images: slice) -> "Problem":
        """Return the problem of some images; rows and signs are those of all."""
        ranges = {k: (low[images], high[images]) for k, (low, high) in self.ranges.items()}
        relaxations = {k: relaxation.part(images) for k, relaxation in self.relaxations.items()}
        return replace(self, region=self.region.part(images), ranges=ranges, relaxations=relaxations)

    def bound(self, parameters: AlphaBeta | None, trail: MutableMapping[int, Tensor] | None = None) -> Tensor:
        """Return lower bounds [B, R]; α that are missing are entered as they are usual; see `backward`.

        Args:
            parameters: α and β; None for the usual lines, which are then not kept.
            trail: see `backward`.
        """
        ends = {}
        for k, sign in self.signs.items():
            # z₀ is the end at which a range was cut: the lower one where the constraint is that
            # z is not below it
            low, high = (end[:, None] for end in self.ranges[k])
            ends[k] = torch.where(sign > 0, low, torch.where(sign < 0, high, 0.0))
        # γ (z - z₀) <= 0 with γ = -sign · β; where nothing was cut the sign is 0, whatever β is
        betas = None if parameters is None else {k: (-self.signs[k] * p, ends[k]) for k, p in parameters.betas.items()}
        return backward(
            self.network,
            self.start,
            self.form,
            self.region,
            self.ranges,
            self.relaxations,
            None if parameters is None else parameters.alphas,
            betas,
            trail=trail,
        )


def optimise(problem: Problem, ascent: Ascent, begin: AlphaBeta | None = None) -> tuple[Tensor, AlphaBeta]:
    """Return the best bounds [B, R] and, for each row, the parameters that give them.

    For ReLU the bound is concave in α and β where the ranges are fixed, so ascent finds its maximum; for other
    activations it finds one nearby. Rows do not influence each other.

    Args:
        problem: what to bound.
        ascent: how to look.
        begin: where to begin: the usual lines and β = 0 by default.

    Source: Xu et al. (2021), "Fast and complete" (α-CROWN); Wang et al. (2021), "β-CROWN", Eq. 8.

    Example:
        >>> from holdfast.numerics.bounds.activations import Relu
        >>> from holdfast.numerics.bounds.affine import Scale
        >>> from holdfast.numerics.bounds.backward import boxes, standard_relaxations
        >>> from holdfast.numerics.bounds.forms import Dense
        >>> from holdfast.numerics.bounds.network import Node
        >>> from holdfast.parts.threats.linf import Linf
        >>> one, shape = torch.ones(1, 1, 1).double(), (1, 1, 1)
        >>> shift = Node(Scale(one, -one / 2), (0,), shape, "x - ½")
        >>> network = Network((Node(None, (), shape, "x"), shift, Node(Relu(), (1,), shape, "relu")))
        >>> region = Region.around(Linf(0.25), torch.full((1, 1, 1, 1), 0.5625), torch.tensor([0.25]).double())
        >>> ranges, row = boxes(network, region), Dense(one[None, None])
        >>> problem = Problem(network, 2, row, region, ranges, standard_relaxations(network, ranges))
        >>> best, parameters = optimise(problem, Ascent(steps=10))
        >>> [round(float(bound), 4) + 0.0 for bound in (problem.bound(None), best)]
        [-0.1875, 0.0]
    """
    # The bound to begin with, which no step may lose
    at = begin or AlphaBeta()
    with torch.no_grad():
        best = problem.bound(at)
    # a first bound enters the usual α; `kept` holds the best of each row so far
    kept = AlphaBeta({k: t.clone() for k, t in at.alphas.items()}, {k: t.clone() for k, t in at.betas.items()})
    leaves = [t.detach().clone().requires_grad_() for t in (*at.alphas.values(), *at.betas.values())]
    if not leaves or not ascent.steps:
        return best, kept
    # The same leaves, by name and in one list
    alphas, betas = leaves[: len(at.alphas)], leaves[len(at.alphas) :]
    moving = AlphaBeta(dict(zip(at.alphas, alphas, strict=True)), dict(zip(at.betas, betas, strict=True)))
    adam = torch.optim.Adam(leaves, lr=ascent.rate)
    schedule = torch.optim.lr_scheduler.ExponentialLR(adam, ascent.decay)
    for _ in range(ascent.steps):
        with torch.enable_grad():
            bounds = problem.bound(moving)
            # Rows do not influence each other, so the gradient of the sum is that of each row for its own
            gradients = torch.autograd.grad(bounds.sum(), leaves)
        with torch.no_grad():
            _keep(kept, moving, best, bounds)
            best = torch.maximum(best, bounds.detach())
            for leaf, gradient in zip(leaves, gradients, strict=True):
                leaf.grad = -gradient  # Adam descends
            adam.step()
            schedule.step()
            # projection: 0 <= α <= 1, β >= 0
            for alpha in alphas:
                alpha.clamp_(0, 1)
            for beta in betas:
                beta.clamp_(min=0)
    with torch.no_grad():
        # The last step has not been looked at yet
        bounds = problem.bound(moving)
        _keep(kept, moving, best, bounds)
    return torch.maximum(best, bounds), kept


def _keep(kept: AlphaBeta, moving: AlphaBeta, best: Tensor, bounds: Tensor) -> None:
    """Copy the parameters of the rows that have become better."""
    better = bounds > best
    pairs: list[tuple[dict[Any, Tensor], dict[Any, Tensor]]]
    pairs = [(kept.alphas, moving.alphas), (kept.betas, moving.betas)]
    for old, new in pairs:
        for key, value in new.items():
            # [B, R] of dense forms, [B, L, O] of patches, whose bounds are [B, L · O]; then an
            # axis of length 1 for each other
            rows = better.view(*value.shape[: _row_axes(value, better)], *[1] * (value.ndim - _row_axes(value, better)))
            old[key] = torch.where(rows, value.detach(), old[key])


def _row_axes(value: Tensor, rows: Tensor) -> int:
    """Number of axes of a value that count rows: [B, R] for dense forms, [B, L, O] for patches."""
    # With one row a position both are the same
    return 2 if value.shape[:2] == rows.shape else 3
