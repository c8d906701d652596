"""β-CROWN with branch and bound: split ranges inside until the margin is proved, or its minimum is known."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.bounds.activations import Box
from holdfast.numerics.bounds.backward import Region, in_precision, standard_relaxations
from holdfast.numerics.bounds.branch import Tree
from holdfast.numerics.bounds.choice import splittable
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import AlphaBeta, Ascent, Problem
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.numerics.bounds.rounding import rounding
from holdfast.parts.certifiers.alpha_crown import best_bound, concatenate_ranges
from holdfast.parts.certifiers.shared.by_layers import ByLayers
from holdfast.parts.certifiers.shared.certifier import rows_of, start
from holdfast.runtime.checked import Positive
from holdfast.runtime.errors import BadValue

AT_ONCE = 64
"""Leaves that are split together."""


@dataclass(frozen=True)
class BetaCrown(ByLayers):
    """min over leaves of max_{α, β >= 0} CROWN(α, β): a complete verifier of ReLU networks, given enough splits.

    First α-CROWN. For rows that it leaves open, the leaf with the lowest bound is split at the value that promises
    most, again and again: at 0 before a ReLU, before other activations where they bend or in the middle of the range,
    and so for the factors of products. The narrower range enters the relaxation, and the end that was cut enters as a
    constraint with a multiplier β. A row ends when all its leaves are proved, when an image of the ball is found that
    its margin cannot exceed (with `until="positive"`: whose margin is not positive), or when its splits are spent; the
    lowest bound of its leaves is then still a proof. Every leaf is bounded in float64. Over a box, a leaf
    without anything left to split has the multipliers of a linear program. Without `intervals` the root is α-CROWN met
    with no interval arithmetic, as in β-CROWN as published; leaves never meet any.

    Attributes:
        splits: at most, for each row.
        until: "positive" stops at the sign of the margin, "tight" at its minimum to within `gap`.
        gap: relative to the margin of the clean image.
        inside: steps of ascent for each layer inside the network, see `AlphaCrown`.
        steps: steps of ascent for the margin, before it is split; as many as in `AlphaCrown`.
        leaf_steps: steps of ascent for each leaf; None: 5 where signs decide, 100 where minima do.
        seconds: time after which an image's splitting ends; it makes the result depend on the machine.
        minutes: what the ranges inside may take, see `ByLayers`.
        beyond: what happens where that is too little: "refuse" or "intervals".
        intervals: whether all ranges and the root's bound are met with those of interval arithmetic.

    Source: Wang et al. (2021); splits as in Bunel et al. (2020), and De Palma et al. (2021) (FSB).

    Example:
        >>> from holdfast.core import Encoder
        >>> from holdfast.parts.threats.linf import Linf
        >>> x, row = torch.full((1, 1, 1, 2), 0.5), Margin(torch.tensor([[[1.0, 1.0]]]), torch.zeros(1, 1))
        >>> bound = BetaCrown(splits=2)(Encoder(torch.nn.Flatten(), mean=0, std=1), row, x, Linf(0.1))
        >>> round(bound.lower.item(), 4)  # of the sum of two pixels
        0.8
    """

    splits: int = 200
    until: Literal["positive", "tight"] = "positive"
    gap: float = 1e-5
    inside: int = 20
    steps: int = 100
    leaf_steps: int | None = None
    seconds: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.splits, self.inside, self.steps, self.leaf_steps or 0) < 0 or self.until not in (
            "positive",
            "tight",
        ):
            raise BadValue(
                f"beta_crown: expected splits and steps >= 0 and until = positive or tight, got splits={self.splits}, "
                f"inside={self.inside}, steps={self.steps}, leaf_steps={self.leaf_steps}, until={self.until!r}"
            )

    def lower(
        self, network: Network, margin: Margin, region: Region, held: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds and ranges; images are treated one by one."""
        results = []
        for i in range(len(region.x)):
            results.append(self._image(network.double, rows_of(margin, i), region.part([i]).to(torch.float64), held))
        # All of it in float64, also for probes in float32; what comes back is in the precision that came in
        kind = region.x.dtype
        ranges = concatenate_ranges([in_precision(ranges, kind) for _, ranges in results])
        return torch.stack([bound for bound, _ in results]).to(kind), ranges

    def _image(
        self, network: Network, margin: Margin, region: Region, held: Mapping[int, Box] | None
    ) -> tuple[Tensor, dict[int, Box]]:
        # α-CROWN over the whole ball bounds every row; a clean image gives the first upper bound
        began = time.monotonic()
        margin = margin.to(torch.float64)
        held = None if held is None else in_precision(held, torch.float64)
        usual: dict[int, Box] = {}
        inside = Ascent(self.inside, 0.5, 0.85)
        ranges = ranges_inside(network, region, held, inside, self.intervals, self.limit, usual=usual)
        problem = Problem(network, *start(network, margin), region, ranges, standard_relaxations(network, ranges))
        bound, parameters = best_bound(problem, margin, Ascent(self.steps, 0.3, 0.97), usual, self.intervals)
        # what decides is kept on the host, which would else wait for every number
        lower = bound[0].cpu()
        upper = margin(network(region.x))[0].cpu()
        slack = rounding(network, margin, region, ranges)[0].cpu()
        # A lower bound counts as positive beyond what rounding may have made of it
        enough = slack if self.until == "positive" else None
        scale = upper.abs().clamp_min(1e-12)

        # A function, because `upper` falls while leaves are split
        def threshold() -> Tensor:
            return enough if enough is not None else upper - self.gap * scale

        # branch: one leaf for each row that is still open
        spent = torch.zeros(len(lower), dtype=torch.long)
        tree = Tree(network, margin, region, ranges, _scales(problem, parameters))
        open_rows = [row for row in range(len(lower)) if lower[row] <= threshold()[row] and self.splits]
        roots = tree.roots(open_rows, parameters, lower) if open_rows else []
        leaves = [leaf for leaf in roots if leaf.split is not None]
        few = {"positive": 5, "tight": 100}[self.until]
        ascent = Ascent(few if self.leaf_steps is None else self.leaf_steps, 0.2, 0.9)
        proved = torch.full_like(lower, torch.inf)  # the lowest leaf that is not split any more
        # bound: split the worst leaves; images met on the way lower the upper bound; drop what is decided
        while leaves:
            leaves.sort(key=lambda leaf: leaf.lower)
            now, leaves = leaves[:AT_ONCE], leaves[AT_ONCE:]
            halves, rows, reached = tree.split(now, ascent)
            upper = upper.scatter_reduce(0, rows, reached.cpu(), "amin")
            # Halves come in pairs, so every other row counts a split
            spent.index_add_(0, rows[::2], torch.ones_like(rows[::2]))
            late = self.seconds is not None and time.monotonic() - began > self.seconds
            over = {row for row in open_rows if spent[row] >= self.splits or late or self._is_refuted(upper, row)}
            kept = []
            # A leaf ends where nothing is left to split, its row is over, or it is proved; else it waits
            for leaf in [*halves, *leaves]:
                if leaf.split is None or leaf.row in over or leaf.lower > threshold()[leaf.row]:
                    # The leaves of a row cover the ball together, so the row is bounded by its worst one
                    proved[leaf.row] = min(proved[leaf.row], leaf.lower)
                else:
                    kept.append(leaf)
            leaves = kept
        # Splitting takes nothing away from what α-CROWN proved; rows without leaves keep that
        lower = torch.where(torch.isfinite(proved), torch.maximum(lower, proved), lower)
        return lower.to(region.x.device), ranges

    def _is_refuted(self, upper: Tensor, row: int) -> bool:
        """Whether an image of the ball shows that the row's margin is not positive."""
        return self.until == "positive" and bool(upper[row] <= 0)


def _scales(problem: Problem, parameters: AlphaBeta) -> dict[int, Tensor]:
    """Return the mean size of the coefficients of what reads each node that may be split, the largest of them, [R]."""
    trail: dict[int, Tensor] = {}
    with torch.no_grad():
        problem.bound(parameters, trail)
    # β is added to these coefficients, so their size as its unit suits one step size to all nodes
    network, sizes = problem.network, dict.fromkeys(splittable(problem.network), torch.zeros(1))
    for index in trail.keys() - {0}:
        for source in network.nodes[index].inputs:
            if source in sizes:
                # of each row by itself: no row depends on those it is bounded with
                mean = trail[index][0].abs().reshape(len(trail[index][0]), -1).mean(1)
                sizes[source] = torch.maximum(sizes[source].to(mean), mean)
    return {node: size for node, size in sizes.items() if bool((size > 0).any())}
