"""Branch and bound over the signs of ReLUs: subproblems, how they are bounded together, and where they are split."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.bounds.backward import Region, in_precision, standard_relaxations
from holdfast.numerics.bounds.forms import Dense
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import AlphaBeta, Ascent, Problem, optimise
from holdfast.numerics.bounds.relaxation import Box

Key = TypeVar("Key")

CANDIDATES = 6
"""ReLUs per subproblem whose split is tried before one is chosen."""

LONGER = 25
"""How many times more steps of ascent a leaf gets in which no sign is open."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """The part of the ball in which some ReLUs have a given sign.

    Attributes:
        row: of the margin.
        signs: +1 (z >= 0), -1 (z <= 0) or 0 (open) for each ReLU node, [*shape].
        parameters: the best so far, [*shape] for each node.
        lower: a proved lower bound of the row.
        split: the node and flat index of the ReLU that is worth splitting; None where no sign is open.
    """

    row: int
    signs: dict[int, Tensor]
    parameters: AlphaBeta
    lower: float
    split: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Tree:
    """What all leaves of one image share.

    Attributes:
        network: in float64.
        margin: rows of the image, a batch of one.
        region: of the image, a batch of one.
        ranges: of the inputs of curved nodes over the whole ball.
        scales: the usual size of the coefficients of each ReLU's output, the unit of β.
    """

    network: Network
    margin: Margin
    region: Region
    ranges: dict[int, Box]
    scales: dict[int, float]

    @cached_property
    def single(self) -> "Tree":
        """The tree in float32, to look for parameters and splits."""
        kind = torch.float32
        ranges = in_precision(self.ranges, kind)
        return Tree(self.network.single, self.margin.to(kind), self.region.to(kind), ranges, self.scales)

    def roots(self, rows: list[int], parameters: AlphaBeta, lower: Tensor) -> list[Leaf]:
        """Return the leaves without a split: one for each row, with the slopes that α-CROWN chose."""
        signs = {i: torch.zeros(self.network.nodes[i].shape, device=self.region.x.device) for i in self.scales}
        leaves = []
        for row in rows:
            alphas = {k: t[0, row].float() for k, t in parameters.alphas.items()}
            betas = {k: torch.zeros_like(s) for k, s in signs.items()}
            leaves.append(Leaf(row, signs, AlphaBeta(alphas, betas), float(lower[row])))
        return self._chosen(leaves)

    def split(self, leaves: list[Leaf], ascent: Ascent) -> tuple[list[Leaf], Tensor, Tensor]:
        """Return both halves of every leaf, bounded, the row of each, and the row's value at an image of the ball."""
        halves, coefs = self._bounded([half for leaf in leaves for half in self._halves(leaf, leaf.split)], ascent)
        ends = [i for i, half in enumerate(halves) if half.split is None]
        if ends:  # no sign is open: what is left is a linear program, whose multipliers deserve more steps
            many = LONGER * ascent.steps
            longer = Ascent(many, ascent.rate, 1e-3 ** (1 / max(1, many)))
            for i, half in zip(ends, self._bounded([halves[i] for i in ends], longer)[0], strict=True):
                halves[i] = half
        rows = torch.tensor([half.row for half in halves])
        return halves, rows, self._reached(rows, coefs)

    def _bounded(self, leaves: list[Leaf], ascent: Ascent) -> tuple[list[Leaf], Tensor]:
        """Return the leaves with their best parameters, bounds and next split, and their coefficients on the image."""
        # the best α and β of every leaf in float32, and the bound they give in float64
        best = optimise(self.single._problem(leaves), ascent, _stacked(leaves))[1]
        trail: dict[int, Tensor] = {}
        with torch.no_grad():
            lower = self._problem(leaves).bound(best.to(torch.float64), trail)[:, 0]
            lower = lower + self.margin.bias[0, [leaf.row for leaf in leaves]]
        bounded = []
        for i, leaf in enumerate(leaves):
            alphas = {k: t[i, 0] for k, t in best.alphas.items()}
            betas = {k: t[i, 0] for k, t in best.betas.items()}
            lowest = max(leaf.lower, float(lower[i]))  # a part is never worse than the whole
            bounded.append(replace(leaf, parameters=AlphaBeta(alphas, betas), lower=lowest))
        return self._chosen(bounded, trail), trail[0][:, 0]

    def _inner(self, index: int) -> Box:
        return self.ranges[self.network.nodes[index].inputs[0]]

    def _halves(self, leaf: Leaf, split: tuple[int, int] | None) -> list[Leaf]:
        assert split is not None
        node, index = split
        halves = []
        for sign in (1.0, -1.0):
            signs = leaf.signs[node].clone(memory_format=torch.contiguous_format)
            signs.view(-1)[index] = sign
            halves.append(replace(leaf, signs={**leaf.signs, node: signs}, split=None))
        return halves

    def _problem(self, leaves: list[Leaf]) -> Problem:
        """Return the bound of every leaf's row as one batch: the ranges end at zero where a sign is given."""
        many, kind = len(leaves), self.region.x.dtype
        # a split sign cuts the range of its ReLU at zero
        signs = {k: torch.stack([leaf.signs[k] for leaf in leaves])[:, None].to(kind) for k in self.scales}
        ranges = {k: (a.expand(many, *a.shape[1:]), b.expand(many, *b.shape[1:])) for k, (a, b) in self.ranges.items()}
        for index, sign in signs.items():
            source = self.network.nodes[index].inputs[0]
            low, high = ranges[source]
            low = torch.where(sign[:, 0] > 0, low.clamp_min(0), low)
            high = torch.where(sign[:, 0] < 0, high.clamp_max(0), high)
            ranges[source] = (torch.minimum(low, high), torch.maximum(low, high))
        # one row per leaf, all around the same image; β multiplies sign · scale
        form = Dense(self.margin.weights[0, [leaf.row for leaf in leaves]][:, None])
        region = self.region.part([0] * many)
        relaxations = standard_relaxations(self.network, ranges)
        scaled = {k: sign * self.scales[k] for k, sign in signs.items()}
        return Problem(self.network, len(self.network.nodes) - 1, form, region, ranges, relaxations, scaled)

    def _chosen(self, leaves: list[Leaf], trail: dict[int, Tensor] | None = None) -> list[Leaf]:
        """Return the leaves with the ReLU whose split helps most: some are short-listed by score, then tried.

        The score is what the relaxation of a ReLU can cost at most: |a| times the largest distance from σ, for the
        coefficient a of its output. Each on the list is split with the parameters of the leaf as they are, and that
        whose weaker half is best is chosen.
        """
        if not self.scales:  # a network without ReLU: its bound is final
            return leaves
        if trail is None:
            trail = {}
            with torch.no_grad():
                self.single._problem(leaves).bound(_stacked(leaves), trail)
        # short-list: the ReLUs whose relaxation may cost most (the scores of BaBSR)
        scores, places = [], []
        for index in self.scales:
            low, high = self._inner(index)
            coefs = trail[index][:, 0]
            over = coefs.clamp_max(0).abs() * (-low * high / (high - low).clamp_min(1e-30))
            under = coefs.clamp_min(0) * torch.minimum(-low, high)
            decided = torch.stack([leaf.signs[index] for leaf in leaves]) != 0
            score = torch.where(decided | (low >= 0) | (high <= 0), -1.0, over + under).flatten(1)
            scores.append(score)
            places += [(index, i) for i in range(score.shape[1])]
        best = torch.cat(scores, 1).topk(min(CANDIDATES, len(places)), 1)
        tried = [
            (number, places[int(place)])
            for number, (values, order) in enumerate(zip(best.values, best.indices, strict=True))
            for value, place in zip(values, order, strict=True)
            if value >= 0
        ]
        if not tried:
            return leaves
        # try each of them (FSB): bound both halves and take the split whose weaker half is best
        halves = [half for number, place in tried for half in self._halves(leaves[number], place)]
        with torch.no_grad():
            bounds = self.single._problem(halves).bound(_stacked(halves)).view(-1, 2)
        weaker = (bounds.amin(1) + 1e-3 * bounds.amax(1)).tolist()
        pick: dict[int, tuple[float, tuple[int, int]]] = {}
        for (number, place), value in zip(tried, weaker, strict=True):
            if number not in pick or value > pick[number][0]:
                pick[number] = (value, place)
        return [replace(leaf, split=pick[i][1]) if i in pick else leaf for i, leaf in enumerate(leaves)]

    def _reached(self, rows: Tensor, coefs: Tensor) -> Tensor:
        """Return each row's value at the image of the ball where the linear bound is lowest: an upper bound."""
        ball, x = self.region.ball, self.region.x
        with torch.no_grad():
            step = ball.ascend(-coefs) * self.region.radii[0]
            reps = self.network((x + step).clamp(0, 1))
            return (self.margin.weights[0, rows] * reps).sum(1) + self.margin.bias[0, rows]


def _stacked(leaves: list[Leaf]) -> AlphaBeta:
    """Return the parameters of some leaves as a batch, one row each."""

    def stack(parts: list[dict[Key, Tensor]]) -> dict[Key, Tensor]:
        return {k: torch.stack([part[k] for part in parts])[:, None] for k in parts[0]}

    return AlphaBeta(stack([x.parameters.alphas for x in leaves]), stack([x.parameters.betas for x in leaves]))
