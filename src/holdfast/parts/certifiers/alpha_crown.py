"""α-CROWN: CROWN with the slopes below ReLUs chosen for each bound, inside the network as well as at its end."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import HoldfastError, Margin
from holdfast.numerics.bounds.activations import Box
from holdfast.numerics.bounds.backward import Region, standard_relaxations
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import AlphaBeta, Ascent, Problem, optimise
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.parts.certifiers.shared.certifier import Propagation, rows_of, start


@dataclass(frozen=True)
class AlphaCrown(Propagation):
    """max_α CROWN(α): any slope in [0, 1] is valid below a ReLU whose sign is open, and each row may choose its own.

    Layer by layer, every value whose sign is still open gets the slopes that make its own range smallest; what this
    gives serves all rows of the margin, each of which then chooses its slopes. (The usual α-CROWN instead moves the
    slopes of all layers together for the sake of one row: dearer, and looser when ended early.) Slopes are looked
    for in the encoder's precision; the bound is computed from them in float64.

    Attributes:
        inside: steps of ascent for each layer inside the network.
        steps: steps of ascent for the margin.

    Source: Xu et al. (2021), "Fast and complete: enabling complete verification with rapid and massively parallel
    incomplete verifiers".

    Example:
        >>> from holdfast.core import Encoder
        >>> from holdfast.parts.threats.linf import Linf
        >>> x, row = torch.full((1, 1, 1, 2), 0.5), Margin(torch.tensor([[[1.0, 1.0]]]), torch.zeros(1, 1))
        >>> bound = AlphaCrown(steps=2)(Encoder(torch.nn.Flatten(), mean=0, std=1), row, x, Linf(0.1))
        >>> round(bound.lower.item(), 4)  # of the sum of two pixels
        0.8
    """

    inside: int = 20
    steps: int = 100

    def __post_init__(self) -> None:
        if self.inside < 0 or self.steps < 0:
            raise HoldfastError(f"alpha_crown: expected steps >= 0, got inside={self.inside}, steps={self.steps}")

    def lower(
        self, network: Network, margin: Margin, region: Region, held: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds and ranges; images are treated one by one, for each has its own open signs."""
        results = []
        for i in range(len(region.x)):
            image, rows = region.part([i]), rows_of(margin, i)
            # intermediate bounds first, each with slopes of its own; then those of the margin
            ranges = ranges_inside(network, image, held, Ascent(self.inside, 0.5, 0.85))
            problem = Problem(network, *start(network, rows), image, ranges, standard_relaxations(network, ranges))
            results.append((best_bound(problem, Ascent(self.steps, 0.3, 0.97))[0] + rows.bias, ranges))
        return torch.cat([bound for bound, _ in results]), joined([ranges for _, ranges in results])


def best_bound(problem: Problem, ascent: Ascent) -> tuple[Tensor, AlphaBeta]:
    """Return the bounds of the best parameters that float32 finds, in the problem's own precision."""
    parameters = optimise(problem.single(), ascent)[1].to(problem.region.x.dtype)
    with torch.no_grad():
        return problem.bound(parameters), parameters


def joined(images: list[dict[int, Box]]) -> dict[int, Box]:
    """Return the ranges of single images as those of a batch."""
    ends = {k: list(zip(*(ranges[k] for ranges in images), strict=True)) for k in images[0]}
    return {k: (torch.cat(low), torch.cat(high)) for k, (low, high) in ends.items()}
