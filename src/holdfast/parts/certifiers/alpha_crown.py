"""α-CROWN: CROWN with the lines of activations chosen for each bound, inside the network as well as at its end."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.bounds.activations import Box
from holdfast.numerics.bounds.backward import Region, standard_relaxations
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import AlphaBeta, Ascent, Problem, optimise
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.numerics.bounds.slopes import Slopes
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.by_layers import ByLayers
from holdfast.parts.certifiers.shared.certifier import (
    Propagation,
    not_below_intervals,
    propagate_backward,
    rows_of,
    start,
)
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class AlphaCrown(ByLayers):
    """max_α CROWN(α): each row may choose its own line below each ReLU whose sign is open: any slope in [0, 1].

    Of other activations it chooses points of tangency, below and above.

    Layer by layer, every value whose sign is still open gets the slopes that make its own range smallest; what this
    gives serves all rows of the margin, each of which then chooses its slopes. (The usual α-CROWN instead moves the
    slopes of all layers together for the sake of one row: dearer, and looser when ended early.) Slopes are looked
    for in the encoder's precision; the bound is computed from them in float64. Where an ascent ends below what CROWN or
    interval arithmetic proves, their bound counts. Without `intervals` nothing is met with interval arithmetic, as in
    α-CROWN as published, which proves less at large radii, and at most in a few rows a little more: a tighter range may
    choose another line.

    Attributes:
        inside: steps of ascent for each layer inside the network.
        steps: steps of ascent for the margin.
        minutes: what the ranges inside may take, see `ByLayers`.
        beyond: what happens where that is too little: "refuse" or "intervals".
        intervals: whether all ranges and the bound are met with those of interval arithmetic.

    Source: Xu et al. (2021).

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
        super().__post_init__()
        if self.inside < 0 or self.steps < 0:
            raise BadValue(f"alpha_crown: expected steps >= 0, got inside={self.inside}, steps={self.steps}")

    def lower(
        self, network: Network, margin: Margin, region: Region, held: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds and ranges; images are treated one by one, for each has its own open signs."""
        # For the ranges inside and for the margin. At the default steps both rates end at about a
        # twentieth of their first value.
        effort = (Ascent(self.inside, 0.5, 0.85), Ascent(self.steps, 0.3, 0.97))
        images = [(rows_of(margin, i), region.part([i])) for i in range(len(region.x))]
        results = [_image(self, network, rows, image, held, effort) for rows, image in images]
        return torch.cat([bound for bound, _ in results]), concatenate_ranges([ranges for _, ranges in results])

    def searching(self) -> "_Searching":
        """Return α-CROWN for many radii around one image: each search for slopes begins where the last one ended."""
        return _Searching(self)

    def beginning(self) -> Crown:
        """Return CROWN, whose radii are not far below."""
        return Crown(minutes=self.minutes, beyond=self.beyond, intervals=self.intervals)


class _Searching(Propagation):
    """α-CROWN around one image, which remembers slopes.

    A whole ascent at the first radius; at radii that are only approached (in float32) none inside and a short one for
    the margin; short ones at those that are to be proved.
    """

    def __init__(self, certifier: AlphaCrown):
        self._certifier, self._slopes, self._of_margin = certifier, Slopes(), AlphaBeta()

    def lower(
        self, network: Network, margin: Margin, region: Region, held: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds and ranges, radius by radius."""
        results: dict[int, tuple[Tensor, dict[int, Box]]] = {}
        for i in region.radii.argsort(descending=True).tolist():  # from each radius to the next one below
            # The first radius of this image begins from the usual slopes, with a whole ascent
            if not self._of_margin.alphas:
                effort = (Ascent(self._certifier.inside, 0.5, 0.85), Ascent(self._certifier.steps, 0.3, 0.97))
            # Only approached: the slopes inside stay those of the radius before
            elif network.dtype == torch.float32:
                effort = (Ascent(0), Ascent(self._certifier.steps // SHORTER, 0.1, 0.8))
            else:
                inside, steps = self._certifier.inside // SHORTER, self._certifier.steps // SHORTER
                effort = (Ascent(inside, 0.1, 0.8), Ascent(steps, 0.1, 0.9))
            known = (self._slopes, self._of_margin)
            results[i] = _image(self._certifier, network, margin, region.part([i]), held, effort, known)
        # Back in the order of the radii that came in
        ordered = [results[i] for i in range(len(results))]
        return torch.cat([bound for bound, _ in ordered]), concatenate_ranges([ranges for _, ranges in ordered])


SHORTER = 4
"""How many times fewer steps an ascent has that begins where one for a radius nearby ended."""


def _image(
    certifier: AlphaCrown,
    network: Network,
    margin: Margin,
    region: Region,
    held: Mapping[int, Box] | None,
    effort: tuple[Ascent, Ascent],
    known: tuple[Slopes, AlphaBeta] | None = None,
) -> tuple[Tensor, dict[int, Box]]:
    """Return lower bounds and ranges of one image; what is known of slopes is where ascents begin, and is renewed."""
    # intermediate bounds first, each with slopes of its own; then those of the margin
    slopes, begin = known or (None, None)
    usual: dict[int, Box] = {}
    ranges = ranges_inside(network, region, held, effort[0], certifier.intervals, certifier.limit, slopes, usual)
    problem = Problem(network, *start(network, margin), region, ranges, standard_relaxations(network, ranges))
    bound, parameters = best_bound(problem, margin, effort[1], usual, certifier.intervals, begin)
    if known:
        # In float32, in which ascents run
        known[1].alphas.update({k: t.float() for k, t in parameters.alphas.items()})
    return bound, ranges


def best_bound(
    problem: Problem,
    margin: Margin,
    ascent: Ascent,
    usual: Mapping[int, Box],
    intervals: bool,
    begin: AlphaBeta | None = None,
) -> tuple[Tensor, AlphaBeta]:
    """Return the best bounds of a margin that are known, and the best parameters that float32 finds.

    The bounds are those of the parameters, in the problem's own precision, or, row by row, what interval arithmetic
    proves or CROWN from its own ranges: an ascent that ends early may end below either.

    Args:
        problem: the margin's rows and the ranges inside.
        margin: of one image.
        ascent: how to look.
        usual: the ranges of CROWN alone; empty where they are not known.
        intervals: whether interval arithmetic is asked.
        begin: where to begin.
    """
    network, region = problem.network, problem.region
    single = problem.single()
    begin = begin if begin is not None and begin.alphas else None
    # float32 only chooses α. Any α in [0, 1] gives a valid bound, and that is computed in the problem's
    # own precision, so rounding in the ascent costs tightness at most.
    parameters = optimise(single, ascent, begin)[1].to(region.x.dtype)
    with torch.no_grad():
        bound = problem.bound(parameters) + margin.bias
        if intervals:
            bound = not_below_intervals(bound, network, margin, region, problem.ranges)
        # Tighter ranges may have worse usual lines, so CROWN from its own ranges is asked too
        if usual:
            lines = standard_relaxations(network, usual)
            # fmax: a bound that is NaN says nothing, and does not silence the other one
            bound = torch.fmax(bound, propagate_backward(network, margin, region, usual, lines))
    return bound, parameters


def concatenate_ranges(images: list[dict[int, Box]]) -> dict[int, Box]:
    """Return the ranges of single images as those of a batch."""
    ends = {k: list(zip(*(ranges[k] for ranges in images), strict=True)) for k in images[0]}
    return {k: (torch.cat(low), torch.cat(high)) for k, (low, high) in ends.items()}
