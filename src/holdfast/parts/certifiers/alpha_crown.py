"""α-CROWN: CROWN with the lines below ReLUs chosen for each bound, inside the network as well as at its end."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import HoldfastError, Margin
from holdfast.numerics.bounds.curved import Box
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import Ascent, Problem, Relaxation, optimise
from holdfast.numerics.bounds.propagate import Region, standard_lines
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
    """

    inside: int = 20
    steps: int = 100

    def __post_init__(self) -> None:
        if self.inside < 0 or self.steps < 0:
            raise HoldfastError(f"alpha_crown: expected steps >= 0, got inside={self.inside}, steps={self.steps}")

    def lower(
        self, network: Network, margin: Margin, region: Region, known: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds and ranges; images are treated one by one, for each has its own open signs."""
        results = []
        for i in range(len(region.x)):
            here, rows = region.part([i]), rows_of(margin, i)
            ranges = ranges_inside(network, here, known, Ascent(self.inside, 0.5, 0.85))
            problem = Problem(network, *start(network, rows), here, ranges, standard_lines(network, ranges))
            results.append((best_bound(problem, Ascent(self.steps, 0.3, 0.97))[0] + rows.bias, ranges))
        return torch.cat([bound for bound, _ in results]), joined([found for _, found in results])


def best_bound(problem: Problem, ascent: Ascent) -> tuple[Tensor, Relaxation]:
    """Return the bounds of the best relaxation that float32 finds, in the problem's own precision."""
    relaxation = optimise(problem.single(), ascent)[1].to(problem.region.x.dtype)
    with torch.no_grad():
        return problem.bound(relaxation), relaxation


def joined(found: list[dict[int, Box]]) -> dict[int, Box]:
    """Return the ranges of single images as those of a batch."""
    ends = {k: list(zip(*(ranges[k] for ranges in found), strict=True)) for k in found[0]}
    return {k: (torch.cat(low), torch.cat(high)) for k, (low, high) in ends.items()}
